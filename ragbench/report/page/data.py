"""Collect the queries of a run for its page: one JSON text in gzip, which the browser unpacks.

A page holds the queries on which the systems differ most, as many as the limits below allow; the
page says how many queries are left out. Each passage is stored once and referred to by its number;
a passage of which the run folder keeps neither text nor title is referred to by its id.
"""

from __future__ import annotations

import gzip
import io
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ragbench.data.runs.query_view import QueryView, QueryViews
from ragbench.data.runs.run_lines import AnswerView
from ragbench.records.causes import CAUSE_CHANGES, CAUSE_SAYS, CAUSES
from ragbench.records.manifest import Passage, TextRow, VerdictRow
from ragbench.records.summary import Summary
from ragbench.text.languages import load as load_stopwords
from ragbench.types import JudgedClaim, Usage
from ragbench.types.conversation import Json

MOST_QUERIES = 2_000
"""Queries that a page holds."""
MOST_CHARACTERS = 30_000_000
"""Characters of JSON about queries that a page holds; compressed, some 12 MB: it can be mailed."""
SHOWN_HITS = 10
"""Hits of each ranking; passages that a generator read beyond them are shown, too."""
_MOST_RELEVANT = 30
_MOST_CLAIMS = 100
_MOST_SLICES = 60  # values of a field of the metadata; a field with more makes no slices
# characters of each kind of text; a longer text is cut, and says how long it was
_LONGEST: Mapping[str, int] = {
    "question": 4_000,
    "passage": 2_000,
    "answer": 12_000,
    "reason": 4_000,
    "prompt": 12_000,
    "word": 300,
}


class PageData(NamedTuple):
    """The queries of a page."""

    packed: bytes
    """JSON in gzip, the same bytes for the same run folder."""
    queries: int
    left_out: int
    """Queries of the run that the page does not hold."""


def pack_queries(
    views: QueryViews, *, queries: int = MOST_QUERIES, characters: int = MOST_CHARACTERS
) -> PageData:
    """Pack the queries on which systems differ most, at most so many, in the order of the data."""
    ids, summary = views.ids, views.summary
    rankings = _rankings(views)
    passages, texts, size = _Passages(), dict[int, str](), 0
    metadata: dict[int, Mapping[str, object]] = {}
    for row in _by_difference(views)[:queries]:
        view = views[ids[row]]
        text = _as_json(_query(view, views, rankings, passages))
        size += len(text)
        if texts and size + passages.size > characters:
            break
        texts[row], metadata[row] = text, view.metadata
    rows = sorted(texts)
    ranking_of = {name: place for place, owners in enumerate(rankings.values()) for name in owners}
    index = {
        **_systems_and_scores(summary),
        "values": _values(views, rows),
        "facts": _facts([metadata[row] for row in rows]),
        "causeWords": {name: CAUSE_SAYS[name].partition(": ")[2] for name in CAUSES},
        "causeChanges": CAUSE_CHANGES,
        "stopwords": sorted(load_stopwords("english")),
        "prompts": {
            form: [_shortened(prompt.system, "prompt"), _shortened(prompt.user, "prompt")]
            for form, prompt in views.prompts.items()
        },
        "rankings": list(rankings),
        "rankingOf": ranking_of,
        "passages": list(passages.numbers),
    }
    packed = io.BytesIO()
    # level 6 takes twice the time to save a twentieth
    with gzip.GzipFile("", "wb", 4, packed, mtime=0) as stream:
        # query by query, so that the JSON is not in memory twice
        for place, row in enumerate(rows):
            stream.write(_encoded(("," if place else '{"queries":[') + texts.pop(row)))
        stream.write(_encoded(("]," if rows else '{"queries":[],') + _as_json(index)[1:]))
    return PageData(packed.getvalue(), len(rows), len(ids) - len(rows))


_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _encoded(text: str) -> bytes:
    # half characters, as a model may send them, as escapes: UTF-8 has none
    return text.encode("utf-8", "backslashreplace")


def _by_difference(views: QueryViews) -> list[int]:
    """Sort the rows of queries by how far the systems lie apart, over all scores."""
    spread = np.zeros(len(views.ids))
    for score in dict.fromkeys(name for scores in views.columns.values() for name in scores):
        values = np.array([scores[score] for scores in views.columns.values() if score in scores])
        has_value = ~np.isnan(values)
        highest = np.where(has_value, values, -np.inf).max(axis=0)
        lowest = np.where(has_value, values, np.inf).min(axis=0)
        several = has_value.sum(axis=0) > 1
        spread[several] += np.minimum(highest[several] - lowest[several], 1.0)
    return np.argsort(-spread, kind="stable").tolist()  # type: ignore[no-any-return]


def _rankings(views: QueryViews) -> dict[str, list[str]]:
    """Return ranking -> the systems that have it, its own system first."""
    rankings: dict[str, list[str]] = {}
    for system in views.summary.systems:
        if system.ranking_of is not None and system.name in views.rankings:
            rankings.setdefault(system.ranking_of, []).append(system.name)
    return rankings


def _systems_and_scores(summary: Summary) -> dict[str, object]:
    scores = {name: score for system in summary.systems for name, score in system.scores.items()}
    return {
        "systems": [
            {
                "name": system.name,
                "role": system.role,
                "baseline": system.baseline,
                "retriever": system.retriever,
                "answers": any(score.kind != "retrieval" for score in system.scores.values()),
            }
            for system in summary.systems
        ],
        "scores": [
            {"name": name, "kind": score.kind, "lower": score.direction == "lower"}
            for name, score in scores.items()
        ],
    }


def _values(views: QueryViews, rows: Sequence[int]) -> dict[str, dict[str, list[float | None]]]:
    """Return system -> score -> the value of each query; null where there is none."""
    return {
        system.name: {
            name: [_rounded(value) for value in columns[name][list(rows)].tolist()]
            if name in columns
            else [None] * len(rows)
            for name in system.scores
        }
        for system in views.summary.systems
        if (columns := views.columns.get(system.name)) is not None
    }


def _facts(metadata: Sequence[Mapping[str, object]]) -> dict[str, list[list[str]]]:
    """Return field of the metadata -> the values of each query, for fields that make slices."""
    columns = defaultdict[str, list[list[str]]](lambda: [[] for _ in metadata])
    for row, facts in enumerate(metadata):
        for name, value in facts.items():
            values = value if isinstance(value, list) else [value]
            if all(isinstance(value, (str, bool, int, float)) for value in values):
                columns[name][row] = [
                    _shortened(value, "word") for value in dict.fromkeys(map(str, values))
                ]
    return {
        name: column
        for name, column in columns.items()
        if 1 < len({value for values in column for value in values}) <= _MOST_SLICES
    }


@dataclass(slots=True)
class _Passages:
    """Number the passages of a page by their id, title and text."""

    numbers: dict[tuple[str, str, str | None], int] = field(default_factory=dict)
    size: int = 0
    """Characters of all passages."""

    def number(self, passage: Passage | TextRow) -> int | str:
        """Return the number of a passage; its id where neither text nor title is stored."""
        name = _shortened(passage.id, "word")
        if passage.text is None and not passage.title:
            return name
        text = passage.text
        if text is not None:
            is_cut = isinstance(passage, TextRow) and passage.cut
            text = _shortened(text, "passage", goes_on=is_cut)
        row = name, _shortened(passage.title or "", "word"), text
        if row not in self.numbers:
            self.numbers[row] = len(self.numbers)
            self.size += sum(len(part or "") for part in row)
        return self.numbers[row]


def _query(
    view: QueryView, views: QueryViews, rankings: Mapping[str, list[str]], passages: _Passages
) -> dict[str, object]:
    """Return what the page shows of one query."""
    hits = {name: views.hits(owners[0], view.id) for name, owners in rankings.items()}
    ranked = [[name for name, _ in of_ranking] for of_ranking in hits.values()]
    graded = []
    for verdict in view.graded:
        name = verdict.document_id or ""
        passage = views.passage(view.id, name) or Passage(id=name)
        graded.append([passages.number(passage), _verdict(verdict)])
    return {
        "id": _shortened(view.id, "word"),
        "text": _shortened(view.question, "question"),
        "gold": [_shortened(text, "answer") for text in view.answers],
        "relevant": [
            (
                passages.number(
                    TextRow(id=gold.id, title=gold.title, text=gold.text, cut=gold.cut)
                ),
                gold.grade,
                [names.index(gold.id) + 1 if gold.id in names else 0 for names in ranked],
            )
            for gold in view.gold[:_MOST_RELEVANT]
        ],
        "hits": [
            _hits(view, views, (name, owners[0]), hits[name][:SHOWN_HITS], passages)
            for name, owners in rankings.items()
        ],
        "systems": _systems(view, views, passages),
    } | _filled(pairs=[_verdict(row) for row in view.pairs], graded=graded)


def _hits(
    view: QueryView,
    views: QueryViews,
    ranking: tuple[str, str],
    hits: Iterable[tuple[str, float]],
    passages: _Passages,
) -> list[tuple[int | str, float | None, int | None]]:
    """Return passage, score and grade of each hit of a ranking and the system whose it is."""
    name_of_ranking, owner = ranking
    system, texts = view.system(owner), views.texts_of(view.id)
    has_texts = bool(texts)  # run files alone have none: there is nothing to look up
    answers = () if system is None else system.answers
    contexts = next((a.passages for a in answers if a.passages is not None), ())
    read = {passage.id: passage for passage in contexts}
    if not has_texts and not read:
        return [(_shortened(n, "word"), _rounded(s), view.judged.get(n)) for n, s in hits]
    rows = []
    for name, score in hits:
        passage = read.get(name) or texts(name_of_ranking, name)
        number = _shortened(name, "word") if passage is None else passages.number(passage)
        rows.append((number, _rounded(score), view.judged.get(name)))
    return rows


def _systems(
    view: QueryView, views: QueryViews, passages: _Passages
) -> dict[str, dict[str, object]]:
    """Return what the page shows of each system for one query; most have a cause and no more."""
    failures: dict[str, str] = {}
    for row in views.unscored(view.id):
        if row.sample is None and row.status == "failed":
            failures.setdefault(row.system, f"{row.measure}: {row.cause}")
    shown = {}
    for system in views.summary.systems:
        cause = views.causes().get(system.name, {}).get(view.id)
        answering = view.system(system.name)
        shown[system.name] = _filled(
            cause=cause and cause.cause,
            why=cause and _shortened(cause.why, "reason"),
            failed=failures.get(system.name),
            answers=answering and [_answer(answer, passages) for answer in answering.answers],
            verdicts=answering and [_verdict(row) for row in answering.verdicts],
            ms=_rounded(views.ranking_ms(system).get(view.id)),
        )
    return {name: entry for name, entry in shown.items() if entry}


def _filled(**values: object) -> dict[str, object]:
    """Return the values that are not empty: most are."""
    return {name: value for name, value in values.items() if value not in (None, "", [], ())}


def _answer(view: AnswerView, passages: _Passages) -> dict[str, object]:
    if view.prediction is None:
        return {"cause": view.cause, "detail": _shortened(view.detail, "reason")}
    row = view.prediction
    usage, contexts = row.usage or Usage(), row.contexts
    return {"text": None if row.answer is None else _shortened(row.answer, "answer")} | _filled(
        read=None if contexts is None else [passages.number(passage) for passage in contexts],
        ms=_rounded(row.latency_ms),
        queries=[_shortened(text, "question") for text in row.queries],
        prompt=_shortened(row.prompt or "", "prompt"),
        tokens=[usage.input_tokens, usage.output_tokens],
        usd=_rounded(usage.usd),
    )


def _verdict(row: VerdictRow) -> dict[str, object]:
    return _filled(
        rubric=row.rubric,
        pair=None if row.other is None else [row.system, row.other],
        winner=row.winner,
        orders=[_rounded(value) for value in row.orders],
        grade=row.grade if isinstance(row.grade, int) else None,
        judge=row.judge,
        model=row.model,
        score=_rounded(row.score),
        level=row.level,
        why=_shortened(row.reasoning, "reason"),
        claims=[_claim(claim) for claim in row.claims[:_MOST_CLAIMS]],
        more=len(row.claims[_MOST_CLAIMS:]) or None,
        raw=_shortened(row.raw, "reason"),
        cause="" if row.cause == "scored" else row.cause,
        failed=row.status == "failed" or None,
        sample=row.sample,
        samples=[_rounded(value) for value in row.samples] if len(row.samples) > 1 else None,
        usd=_rounded(row.usage.usd),
        prompts=[
            [sent.form, sent.fence, [_shortened(text, "passage") for text in sent.texts], sent.to]
            for sent in row.prompts
        ],
    )


def _claim(row: JudgedClaim) -> dict[str, object]:
    return _filled(
        text=_shortened(row.text, "question"),
        gold=row.whose == "reference" or None,
        ruling=row.ruling,
        supports=row.passages,
        against=row.against,
        other=row.other,
    )


@lru_cache(maxsize=1 << 16)  # scores of a run are few different numbers
def _rounded(value: float | None) -> Json:
    """Round a number to the four digits that are enough for a reader; None where not finite."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.4g}")
    short = short if math.isfinite(short) else value  # the largest numbers cannot be rounded up
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _shortened(text: str, kind: str, goes_on: bool = False) -> str:
    """Cut a text that is longer than its kind may be."""
    most = _LONGEST[kind]
    if len(text) <= most:
        return f"{text}…" if goes_on else text
    more = f"{len(text) - most:,} more characters"
    return f"{text[:most]}… ({more}{', and more' if goes_on else ''})"
