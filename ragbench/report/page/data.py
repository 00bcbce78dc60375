"""Data of the queries on the page of a run: JSON in gzip, which the browser unpacks.

The page has the queries that its results name, then those on which the systems differ most, as many
as the limits below allow, and shows the number of the others. Each passage is stored once and
referred to by its number; a passage without stored text and title is referred to by its id.
"""

from __future__ import annotations

import gzip
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from ragbench.comparison.signatures import unlike_parts
from ragbench.data.runs.hit_list import (
    Hit,
    StoredRanking,
    gold_names,
    join_contexts,
    list_hits,
)
from ragbench.data.runs.query_view import QueryView, QueryViews
from ragbench.records.cause_texts import CAUSE_CHANGES, CAUSE_SAYS, OUTSIDE_POOL, part_to_change
from ragbench.records.causes import CAUSES
from ragbench.records.codec import to_json, to_line
from ragbench.records.manifest import AnswerRow, FailedPrediction, TextRow, VerdictRow
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report.causes import judged_scores
from ragbench.signature import Signature
from ragbench.text.languages import load as load_stopwords
from ragbench.types import Document
from ragbench.types.conversation import Json
from ragbench.types.lookups import index_by_id, index_positions

MOST_QUERIES = 2_000  # queries on a page
# Characters of JSON about queries on a page; compressed, some 12 MB, which can still be mailed.
MOST_CHARACTERS = 30_000_000
SHOWN_HITS = 10  # of each ranking; passages below them that a generator read are shown, too
# Characters of documents behind a click: documents of later queries are left out, not queries.
MOST_DOCUMENTS = 6_000_000
_MOST_RELEVANT = 30  # relevant documents of a query
_MOST_CLAIMS = 100  # of a verdict
_MOST_SLICES = 60  # values of a metadata field; a field with more has no filter
# characters of each kind of text; a longer text is cut, with the number of missing characters
_LONGEST: Mapping[str, int] = {
    "question": 4_000,
    "passage": 2_000,
    "document": 8_000,
    "answer": 12_000,
    "reason": 4_000,
    "prompt": 12_000,
    "word": 300,
}


# key of a text in an answer or a verdict -> its kind
_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("reasoning", "raw"), "reason"),
    **dict.fromkeys(("text", "queries"), "question"),
    "texts": "passage",
    "prompt": "prompt",
}


class PageData(NamedTuple):
    """Data of the queries of a page; `pack_queries` returns it.

    Attributes:
        packed: JSON object in gzip, as UTF-8; the same run folder gives the same bytes.
        queries: Number of queries on the page.
        left_out: Number of further queries of the run.
        ids: Ids of the queries on the page, to which links may lead; a cut id is not among them.
    """

    packed: bytes
    queries: int
    left_out: int
    ids: frozenset[str]


def pack_queries(
    views: QueryViews,
    result_ids: Iterable[str] = (),
    *,
    queries: int = MOST_QUERIES,
    characters: int = MOST_CHARACTERS,
) -> PageData:
    """Return some queries and those on which systems differ most, in the order of the data.

    Verdicts, answers and passages are cut at the limits of this module.

    Args:
        views: The run.
        result_ids: Ids of queries that come first; ids of no query of the run are left out.
        queries: Largest number of queries.
        characters: Largest number of characters of their JSON; at least one query is included.

    Raises:
        DataError: A file of the run is damaged.
    """
    ids, summary, packer = views.ids, views.summary, _Packer(views)
    texts, size = dict[int, str](), 0
    metadata: dict[int, Mapping[str, object]] = {}
    row_of = index_positions(ids)
    first = []
    for query in result_ids:
        if query in row_of:
            first.append(row_of[query])
    for row in [*dict.fromkeys([*first, *_by_difference(views)])][:queries]:
        view = views[ids[row]]
        text = to_line(packer.query(view))
        size += len(text)
        if texts and size + packer.size > characters:
            break
        texts[row], metadata[row] = text, view.metadata
    rows = sorted(texts)
    scores = {}
    for system in summary.systems:
        for name, score in system.scores.items():
            is_lower = score.direction == "lower"
            scores[name] = {"name": name, "kind": score.kind, "lower": is_lower}
    ranking_of: dict[str, int] = {}
    for place, owners in enumerate(packer.rankings.values()):
        ranking_of |= dict.fromkeys(owners, place)
    index = {
        "systems": list(map(_system_entry, summary.systems)),
        "scores": list(scores.values()),
        "unlike": _unlike_groups(summary),
        "values": _values(views, rows),
        "facts": _slice_values([metadata[row] for row in rows]),
        "causeWords": {name: CAUSE_SAYS[name].partition(": ")[2] for name in CAUSES},
        "causeChanges": CAUSE_CHANGES,
        "outsidePool": (OUTSIDE_POOL, part_to_change("not_in_corpus", OUTSIDE_POOL)),
        "stopwords": sorted(load_stopwords("english")),
        "prompts": _prompts(views),
        "rankings": list(packer.rankings),
        "rankingOf": ranking_of,
        "passages": list(packer.passages),
    }
    packed = io.BytesIO()
    # level 4: level 6 takes twice the time and saves only 5 %
    with gzip.GzipFile("", "wb", 4, packed, mtime=0) as stream:
        # query by query, and removed with `pop`: the JSON is never in memory twice
        for place, row in enumerate(rows):
            stream.write(_encoded(("," if place else '{"queries":[') + texts.pop(row)))
        stream.write(_encoded(("]," if rows else '{"queries":[],') + to_line(index)[1:]))
    on_page = set()
    for row in rows:
        if _shortened(ids[row], "word") == ids[row]:
            on_page.add(ids[row])
    return PageData(packed.getvalue(), len(rows), len(ids) - len(rows), frozenset(on_page))


def _prompts(views: QueryViews) -> dict[str, tuple[str, str]]:
    """Return form -> the texts of its prompt for the system and for the user, cut."""
    prompts = {}
    for form, prompt in views.prompts.items():
        prompts[form] = _shortened(prompt.system, "prompt"), _shortened(prompt.user, "prompt")
    return prompts


def _encoded(text: str) -> bytes:
    r"""Return a text as UTF-8; a half surrogate pair becomes an escape such as `\ud800`."""
    # half surrogate pairs, which a model may send, become escapes: UTF-8 has none
    return text.encode("utf-8", "backslashreplace")


def _by_difference(views: QueryViews) -> list[int]:
    """Return the rows of the queries, those with the largest differences over all scores first."""
    spread = np.zeros(len(views.ids))
    for score in dict.fromkeys(chain.from_iterable(views.columns.values())):
        values = np.array([scores[score] for scores in views.columns.values() if score in scores])
        has_value = ~np.isnan(values)
        highest = np.where(has_value, values, -np.inf).max(axis=0)
        lowest = np.where(has_value, values, np.inf).min(axis=0)
        several = has_value.sum(axis=0) > 1
        spread[several] += np.minimum(highest[several] - lowest[several], 1.0)
    return np.argsort(-spread, kind="stable").tolist()  # type: ignore[no-any-return]


def _unlike_groups(summary: Summary) -> dict[str, dict[str, int]]:
    """Return score -> system -> number of its group; scores of two groups are not compared."""
    signatures: dict[str, dict[str, Signature]] = {}
    for system in summary.systems:
        for name, score in system.scores.items():
            if score.mean is not None:
                of_score = signatures.setdefault(name, {})
                of_score[system.name] = Signature.parse(score.signature)
    unlike = {}
    for name, of_score in signatures.items():
        groups = _group(of_score)
        if any(groups.values()):
            unlike[name] = groups
    return unlike


def _group(signatures: Mapping[str, Signature]) -> dict[str, int]:
    """Return system -> number of the first group whose scores its scores may be compared with."""
    firsts: list[Signature] = []
    groups = {}
    for system, signature in signatures.items():
        groups[system] = len(firsts)  # a new group, unless its scores are like those of one
        for number, first in enumerate(firsts):
            if not unlike_parts(first, signature):
                groups[system] = number
                break
        else:
            firsts.append(signature)
    return groups


def _system_entry(system: SystemSummary) -> dict[str, object]:
    """Return the entry of a system in the index of the page."""
    return {
        "name": system.name,
        "role": system.role,
        "baseline": system.baseline,
        "retriever": system.retriever,
        "answers": any(score.kind != "retrieval" for score in system.scores.values()),
    }


def _values(views: QueryViews, rows: Sequence[int]) -> dict[str, dict[str, list[float | None]]]:
    """Return system -> score -> value of each query; None for a missing value."""
    values: dict[str, dict[str, list[float | None]]] = {}
    for system in views.summary.systems:
        columns = views.columns.get(system.name)
        if columns is None:
            continue
        of_system: dict[str, list[float | None]] = {}
        for name in system.scores:
            of_system[name] = [None] * len(rows)
            if name in columns:
                of_system[name] = list(map(_rounded, columns[name][list(rows)].tolist()))
        values[system.name] = of_system
    return values


def _slice_values(metadata: Sequence[Mapping[str, object]]) -> dict[str, list[list[str]]]:
    """Return metadata field -> values of each query as texts, for fields that filter queries."""
    columns = defaultdict[str, list[list[str]]](lambda: [[] for _ in metadata])
    for row, facts in enumerate(metadata):
        for name, value in facts.items():
            values = value if isinstance(value, list) else [value]
            if all(isinstance(value, (str, bool, int, float)) for value in values):
                texts = dict.fromkeys(map(str, values))
                columns[name][row] = [_shortened(text, "word") for text in texts]
    slices = {}
    for name, column in columns.items():
        if 1 < len(set(chain.from_iterable(column))) <= _MOST_SLICES:
            slices[name] = column
    return slices


class _Packer:
    """Converter of queries to JSON objects; stores each passage once."""

    def __init__(self, views: QueryViews) -> None:
        self.views = views
        # name of a ranking -> systems that have it, the retriever itself first
        self.rankings: dict[str, list[str]] = {}
        self._times: dict[str, Mapping[str, float]] = {}
        for system in views.summary.systems:
            self._times[system.name] = views.ranking_ms(system)
            if system.ranking_of is not None and system.name in views.rankings:
                self.rankings.setdefault(system.ranking_of, []).append(system.name)
        # id, title and text of a passage -> its number on the page
        self.passages: dict[tuple[str, str, str | None], int] = {}
        self._has_texts = views.has_texts
        # nothing but the judge tells which answers of these are right
        self._judged = judged_scores(views.summary.systems)
        # characters of all passages, and of documents behind a click
        self.size = self.documents = 0

    def number(self, passage: Document | TextRow | Hit, kind: str = "passage") -> int | str:
        """Return the number of a passage; its id if neither text nor title is stored.

        The text is cut at the limit of its kind. Numbers are from 0.
        """
        name, text = _shortened(passage.id, "word"), passage.text
        if text is None and not passage.title:
            return name
        if text is not None:
            is_cut = isinstance(passage, (TextRow, Hit)) and passage.cut
            text = _shortened(text, kind, is_cut=is_cut)
        row = name, _shortened(passage.title or "", "word"), text
        if row not in self.passages:
            self.passages[row] = len(self.passages)
            self.size += sum(len(part or "") for part in row)
        return self.passages[row]

    def query(self, view: QueryView) -> dict[str, object]:
        """Return the JSON object of a query.

        Keys are `id`, `text`, `gold`, `relevant`, `hits`, `systems`, and `row`, `pairs`, `graded`
        and `spans` if there are any.
        """
        rankings = {}
        for name, owners in self.rankings.items():
            ranking = self.views.ranking(owners[0], view.id)
            if ranking is not None:
                rankings[name] = ranking
        graded = []
        for verdict in view.graded:
            name = verdict.document_id or ""
            passage = self.views.passage(view.id, name) or TextRow(id=name)
            graded.append([self.number(passage), _verdict(verdict)])
        spans = []
        for span in view.spans[:_MOST_RELEVANT]:
            spans.append((span.label, _shortened(span.quote, "answer")))
        # gold documents get their numbers first, then hits
        relevant = self._gold(view, list(rankings.values()))
        hits, cells = dict[str, list[Hit]](), dict[str, list[tuple[object, ...]]]()
        for name, ranking in rankings.items():
            if self._are_documents(view, ranking):
                cells[name] = self._document_cells(view, ranking)
            else:
                hits[name] = self._list_hits(view, ranking)
                cells[name] = self._hit_cells(view, hits[name])
        return {
            "id": _shortened(view.id, "word"),
            "text": _shortened(view.question, "question"),
            "gold": [_shortened(text, "answer") for text in view.answers],
            "relevant": relevant,
            "hits": [cells[name] for name in self.rankings],
            "systems": self._systems(view, hits),
        } | _filled(
            row=view.row,
            pairs=list(map(_verdict, view.pairs)),
            graded=graded,
            spans=spans,
        )

    def _gold(
        self, view: QueryView, rankings: Sequence[StoredRanking]
    ) -> list[tuple[int | str, int, list[int]]]:
        """Return (document, or name of a span; grade; rank in each ranking, 0 without one)."""
        documents = index_by_id(view.gold)
        names = gold_names(view.judged, view.spans, rankings)
        ranks = [ranking.gold_ranks(names) for ranking in rankings]
        rows = []
        for name in list(names)[:_MOST_RELEVANT]:
            number: int | str = _shortened(name, "word")
            if name in documents:
                gold = documents[name]
                row = TextRow(id=gold.id, title=gold.title, text=gold.text, cut=gold.cut)
                number = self.number(row)
            rows.append((number, names[name], [of_gold[name] for of_gold in ranks]))
        return rows

    def _list_hits(self, view: QueryView, ranking: StoredRanking) -> list[Hit]:
        """Return the first hits of a ranking, and those below them that a system read."""
        read = set()
        for system in view.systems:
            if system.summary.ranking_of == ranking.source:
                for answer in system.answers:
                    for passage in answer.contexts or ():
                        read.add(passage.id)
        return list_hits(
            ranking,
            view.judged,
            view.spans,
            self.views.texts_of(view.id),
            SHOWN_HITS,
            read,
        )

    def _are_documents(self, view: QueryView, ranking: StoredRanking) -> bool:
        """Return True if hits are documents without texts that no system read."""
        # most hits, in pages of thousands of queries: their cells take a third of the time
        return ranking.row is None and not self._has_texts and not view.systems

    def _document_cells(self, view: QueryView, ranking: StoredRanking) -> list[tuple[object, ...]]:
        """Return (rank, id, score, grade) of each of the first hits."""
        grade_of, longest = view.judged.get, _LONGEST["word"]
        cells = list[tuple[object, ...]]()
        for rank, (name, score) in enumerate(ranking.first(SHOWN_HITS), start=1):
            # most hits of all pages come by here, and few ids are cut
            word = name if len(name) <= longest else _shortened(name, "word")
            cells.append((rank, word, _rounded(score), grade_of(name)))
        return cells

    def _hit_cells(self, view: QueryView, hits: Sequence[Hit]) -> list[tuple[object, ...]]:
        """Return (rank, passage, score, grade) of each hit, and its facts if it is a passage."""
        rows: list[tuple[object, ...]] = []
        for hit in hits:
            facts = self._facts(view, hit)
            cells = hit.rank, self.number(hit), _rounded(hit.score), hit.grade
            rows.append((*cells, facts) if facts else cells)
        return rows

    def _facts(self, view: QueryView, hit: Hit) -> dict[str, object]:
        """Return document, place and mark of a passage; empty for a document as a whole."""
        is_whole = hit.start is None and hit.document in (None, hit.id)
        # most hits, in pages of thousands of queries
        is_marked = hit.is_beside or hit.is_forbidden
        if is_whole and hit.gold in ((), (hit.document,)) and not is_marked:
            return {}
        document = None if is_whole else hit.document
        place = None if hit.start is None else (hit.start, hit.end)
        return _filled(
            document=None if document is None else self._document(view, document),
            place=place,
            mark=_shortened(hit.mark, "word"),
            beside=hit.is_beside or None,
            forbidden=hit.is_forbidden or None,
        )

    def _document(self, view: QueryView, name: str) -> int | str:
        """Return the number of a document, or its id if its text is not stored or not shown."""
        row = self.views.texts_of(view.id)(None, name)
        if row is None or self.documents >= MOST_DOCUMENTS:
            return _shortened(name, "word")
        size = self.size
        number = self.number(row, "document")
        self.documents += self.size - size
        return number

    def _systems(
        self, view: QueryView, hits: Mapping[str, Sequence[Hit]]
    ) -> dict[str, dict[str, object]]:
        """Return system -> its JSON object for a query; a system without content is absent."""
        failures: dict[str, str] = {}
        for row in self.views.unscored(view.id):
            if row.sample is None and row.status == "failed":
                failures.setdefault(row.system, f"{row.measure}: {row.cause}")
        systems = dict[str, dict[str, object]]()
        for system in self.views.summary.systems:
            name, answering = system.name, view.system(system.name)
            entry = self._cause(name, view.id)
            if name in failures:
                entry["failed"] = failures[name]
            if answering is not None:
                ranked = hits.get(system.ranking_of or "", ())
                entry |= _filled(
                    answers=[self._answer(row, ranked) for row in answering.answers],
                    verdicts=[_verdict(row) for row in answering.verdicts],
                )
            if (ms := _rounded(self._times[name].get(view.id))) is not None:
                entry["ms"] = ms
            if entry:
                systems[name] = entry
        return systems

    def _cause(self, system: str, query: str) -> dict[str, object]:
        """Return the keys `cause`, `why`, `causes` and `shown` of a system, if not empty."""
        cause = self.views.causes.get(system, {}).get(query)
        if cause is None or system in self._judged:
            return {}
        entry: dict[str, object] = {"cause": cause.cause}
        if cause.why:
            entry["why"] = _shortened(cause.why, "reason")
        rows = self.views.cause_rows[system][query]
        if len(rows) > 1:
            entry["causes"] = [row.cause for row in rows]
        if cause.sample is not None:
            entry["shown"] = cause.sample
        return entry

    def _answer(self, row: AnswerRow, hits: Sequence[Hit]) -> dict[str, object]:
        """Return the JSON object of an answer: `text`, and other keys of its file if not empty."""
        if isinstance(row, FailedPrediction):
            return {"cause": row.cause, "detail": _shortened(row.detail, "reason")}
        contexts = row.contexts or ()
        read = [self.number(passage) for passage in contexts]
        places = join_contexts(hits, contexts)
        ranks = [0 if place is None else hits[place].rank for place in places]
        short = structs.replace(row, query_id="", answer=None, contexts=None, tool_calls=None)
        text = None if row.answer is None else _shortened(row.answer, "answer")
        return {"text": text} | _filled(read=read, ranks=ranks, **_cut(to_json(short)))


def _filled(**values: object) -> dict[str, object]:
    """Return the values but None, '', [] and (); most are empty, and would take space."""
    return {name: value for name, value in values.items() if value not in (None, "", [], ())}


def _verdict(row: VerdictRow) -> dict[str, object]:
    """Return the JSON object of a verdict: that of its file, cut and without empty values."""
    is_scored = row.status == "scored"
    short = structs.replace(row, query_id="", document_id=None, claims=row.claims[:_MOST_CLAIMS])
    short = structs.replace(short, status="", cause="") if is_scored else short
    return _filled(**_cut(to_json(short)), more=len(row.claims[_MOST_CLAIMS:]) or None)


def _cut(value: Any, key: str = "") -> Any:
    """Return a JSON value with its texts cut by their keys, and its numbers rounded."""
    if isinstance(value, dict):
        return _filled(**{name: _cut(part, name) for name, part in value.items()})
    if isinstance(value, list):
        return [_cut(part, key) for part in value]
    if isinstance(value, str):
        return _shortened(value, _KINDS.get(key, "word"))
    return _rounded(value) if isinstance(value, float) else value


@lru_cache(maxsize=1 << 16)  # a run has many equal scores
def _rounded(value: float | None) -> Json:
    """Return a number with the four digits that a reader needs; None if it is not finite."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.4g}")
    short = short if math.isfinite(short) else value  # the largest doubles round up to infinity
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _shortened(text: str, kind: str, is_cut: bool = False) -> str:
    """Return a text cut to the limit of its kind, as `the start… (1,200 more characters)`."""
    most = _LONGEST[kind]
    if len(text) <= most:
        return f"{text}…" if is_cut else text
    more = f"{len(text) - most:,} more characters"
    return f"{text[:most]}… ({more}{', and more' if is_cut else ''})"
