"""Queries as compressed parts: what a browser unpacks when somebody looks at it, and not before.

A part is JSON in gzip. One holds some queries, and their hits as columns; another some passages,
each once, however many rankings have it. A passage without a text is no more than its id. Queries
on which systems differ most come first: where a page would be too large to mail, it has the first
parts, and the file `report.data` has all.

That file is the parts, one after the other, the index, and 80 bytes that say where the index is.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from ragbench.data.runs.query_view import QueryView, QueryViews
from ragbench.data.runs.run_lines import AnswerView, Texts
from ragbench.files import written_whole
from ragbench.records.causes import Lost
from ragbench.records.manifest import ClaimRow, Passage, TextRow, UsageRow, VerdictRow
from ragbench.records.summary import SystemSummary
from ragbench.report.page.rankings import (
    LONGEST,
    NOT_AT_HAND,
    AtHand,
    Column,
    FirstHits,
    Judged,
    Seen,
    ShownHits,
    as_json,
    index_of,
    pieces,
    read_rankings,
    rounded_number,
    shortened,
)
from ragbench.report.pictures.charts import Curves
from ragbench.types.byte_ids import spans
from ragbench.types.rows import IntArray, Places, borders

SCHEMA = "ragbench.page/1"
_FOOTER = 80  # bytes
_QUERIES_A_PART = 32
_CHARACTERS_A_PART = 300_000
_MOST_GOLD = 30
_MOST_CLAIMS = 100


@dataclass(frozen=True, slots=True)
class Packed:
    """Where everything is in a file of queries."""

    sizes: Sequence[int]
    """Bytes of each part; the first one begins at 0."""
    index: tuple[int, int]
    """Where the index begins, and how many bytes it has: compressed, what is known of every query
    at a glance, and where the parts begin."""


def write_data(
    path: Path,
    views: QueryViews,
    head: Mapping[str, object],
    at_hand: AtHand = NOT_AT_HAND,
) -> tuple[Packed, Curves]:
    """Pack all queries of a run folder into a file; of their texts one part is in memory.

    `head` is what the index says of the run as a whole. Returned is where everything is, and where
    the rankings have what is relevant, which is known when all queries have come by.
    """
    curves, parts = Curves(), list[tuple[str, int, int]]()
    with written_whole(path) as stream:
        index = _write_parts(stream, views, curves, at_hand, parts)
        start = stream.tell()
        _write_compressed(stream, pieces({**head, **index}))
        place = start, stream.tell() - start
        footer = json.dumps({"schema": SCHEMA, "index": place})
        stream.write(footer.ljust(_FOOTER).encode())
    return Packed([size for _, _, size in parts], place), curves


def _write_parts(
    stream: IO[bytes],
    views: QueryViews,
    curves: Curves,
    at_hand: AtHand,
    parts: list[tuple[str, int, int]],
) -> dict[str, object]:
    """Write all parts; return the index of what was written.

    `parts` gets the kind of each, the number of its first query or passage, and its bytes.
    """
    ids, order = views.ids, telling_first(views)
    judged, rankings, ranking_of = read_rankings(views, at_hand)
    add_to_curves(curves, rankings, judged)
    passages, seen = _Passages(), Seen(len(ids))
    systems = [(s.name, views.lost.get(s.name), views.ranking_ms(s)) for s in views.summary.systems]

    def write(kind: str, first: int, text: str) -> None:
        start = stream.tell()
        _write_compressed(stream, [text])
        parts.append((kind, first, stream.tell() - start))

    none = np.zeros((len(judged.rows), 0), np.int64)
    ranks = np.column_stack([none, *(own.judged for own in rankings.values())])
    starts = judged.rows.starts
    ends = starts[:-1] + judged.relevant
    shown = [own.parts(order, judged, _QUERIES_A_PART) for own in rankings.values()]
    for first in range(0, len(order), _QUERIES_A_PART):
        rows = order[first : first + _QUERIES_A_PART].tolist()
        found = [views[ids[row]] for row in rows]
        for row, view in zip(rows, found, strict=True):
            seen.add(row, view)
        queries = [
            _query(view, ranks[starts[row] : ends[row]].tolist(), passages)
            | {"systems": _systems(view, row, systems, passages)}
            | _beside(view, views, passages)
            for row, view in zip(rows, found, strict=True)
        ]
        texts = [views.texts_of(view.id) for view in found]
        hits = [
            _hits(next(part), found, texts, own.owner, passages)
            for part, own in zip(shown, rankings.values(), strict=True)
        ]
        write("queries", first, f'{{"queries":{as_json(queries)},"hits":[{",".join(hits)}]}}')
        for number, waiting in passages.waiting(first + _QUERIES_A_PART >= len(order)):
            write("passages", number, as_json(waiting))
    index = {**index_of(views, rankings, ranking_of, seen), "failures": _failures(views, order)}
    listed = Column(lambda rows: order[rows].tolist(), len(order))
    return {**index, "order": listed, "parts": parts}


def add_to_curves(curves: Curves, rankings: Mapping[str, FirstHits], judged: Judged) -> None:
    """Add all queries that have something relevant to the curves, each ranking once."""
    starts = judged.rows.starts[:-1]
    rows = spans(starts, starts + judged.relevant)
    ends = borders(judged.relevant.tolist(), len(judged.relevant))
    for name, ranking in rankings.items():
        curves.add(name, ranking.judged[rows], judged.rows.grades[rows], ends)


def telling_first(views: QueryViews) -> IntArray:
    """Return rows in the order of what they tell: by how far systems lie apart."""
    apart = np.zeros(len(views.ids))
    for score in dict.fromkeys(name for own in views.columns.values() for name in own):
        values = np.array([own[score] for own in views.columns.values() if score in own])
        known = ~np.isnan(values)
        spread = np.where(known, values, -np.inf).max(axis=0)
        spread -= np.where(known, values, np.inf).min(axis=0)
        apart += np.where(known.sum(axis=0) > 1, np.minimum(spread, 1.0), 0.0)
    return np.argsort(-apart, kind="stable")


def _failures(views: QueryViews, order: IntArray) -> dict[str, dict[str, dict[str, str]]]:
    """System -> score -> the number of a query -> why it failed."""
    places = {system.name: place for place, system in enumerate(views.summary.systems)}
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in map(int, order):
        rows = [each for each in views.unscored(views.ids[row]) if each.system in places]
        for each in sorted(rows, key=lambda each: places[each.system]):
            if each.sample is None and each.status == "failed":
                own = found.setdefault(each.system, {}).setdefault(each.measure, {})
                own[str(row)] = each.cause
    return found


def _write_compressed(stream: IO[bytes], pieces: Iterable[str]) -> None:
    """Write JSON in gzip, the same bytes for the same text."""
    # level 6 takes twice the time, a tenth of a run over 10,000 queries, to save a twentieth
    with gzip.GzipFile("", "wb", 4, stream, mtime=0) as packed:
        for piece in pieces:
            packed.write(piece.encode("utf-8", "backslashreplace"))


@dataclass(slots=True)
class _Passages:
    """Numbers of passages, by what they say; their texts until they are written."""

    _numbers: Places = field(default_factory=Places)
    _first: int = 0
    _texts: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Id, title and text."""
    _size: int = 0

    def number(
        self, name: str, title: str | None = None, text: str | None = None, cut: bool = False
    ) -> int | str:
        """Return the number of a passage, a new one where it is not known yet.

        One of which no more than the id is known has none: it is its id.
        """
        if text is None and not title:
            return name if len(name) <= LONGEST["word"] else shortened(name, "word")
        number = self._numbers.setdefault((name, title or "", text), known := len(self._numbers))
        if number == known:
            shown = None if text is None else shortened(text, "passage", goes_on=cut)
            row = (shortened(name, "word"), shortened(title or "", "word"), shown)
            self._texts.append(row)
            self._size += sum(map(len, filter(None, row)))
        return number

    def waiting(self, last: bool) -> Iterator[tuple[int, list[tuple[str, str, str | None]]]]:
        """Give the texts that fill a part, or what is left."""
        if self._texts and (last or self._size >= _CHARACTERS_A_PART):
            yield self._first, self._texts
            self._first += len(self._texts)
            self._texts, self._size = [], 0


def _query(
    view: QueryView, ranks: Sequence[Sequence[int]], passages: _Passages
) -> dict[str, object]:
    """What the page shows of one query beside its hits; what is empty is left out.

    `ranks` has, for each document that is relevant, its rank in each ranking.
    """
    return {
        "text": shortened(view.question, "question"),
        "gold": [shortened(text, "answer") for text in view.answers],
        "relevant": [
            (passages.number(each.id, each.title, each.text, each.cut), each.grade, found)
            for each, found in list(zip(view.gold, ranks, strict=True))[:_MOST_GOLD]
        ],
    }


_Shown = tuple[str, Sequence[Lost | None] | None, Mapping[str, float]]
"""A system, where each query is lost, and query -> how long its ranking took."""


def _systems(
    view: QueryView, row: int, shown: Sequence[_Shown], passages: _Passages
) -> dict[str, dict[str, object]]:
    """What the page shows of each system for one query; most say no more than where it is lost."""
    answering, found = {each.name: each for each in view.systems}, {}
    for name, each, times in shown:
        lost, own = each[row] if each is not None else None, answering.get(name)
        why, ms = shortened(lost.why, "reason") if lost is not None else "", times.get(view.id)
        if own is not None and (own.answers or own.verdicts):
            found[name] = _filled(
                why=why,
                ms=rounded_number(ms),
                answers=[_answer(each, passages) for each in own.answers],
                verdicts=[_verdict(row) for row in own.verdicts],
            )
        elif ms is not None:
            found[name] = _filled(why=why, ms=rounded_number(ms))
        elif why:
            found[name] = {"why": why}
    return found


def _beside(view: QueryView, views: QueryViews, passages: _Passages) -> dict[str, object]:
    """What judges said of pairs of answers and of passages, if they did."""
    graded = []
    for row in view.graded:
        text = views.passage(view.id, name := row.document_id or "") or Passage(id=name)
        cut = isinstance(text, TextRow) and text.cut
        graded.append([passages.number(name, text.title, text.text, cut), _verdict(row)])
    return _filled(pairs=[_verdict(row) for row in view.pairs], graded=graded)


def _hits(
    found: ShownHits,
    views: Sequence[QueryView],
    texts: Sequence[Texts],
    owner: SystemSummary,
    passages: _Passages,
) -> str:
    """What the page shows of one ranking for the queries of a part, as columns, in JSON.

    `owner` is the system whose ranking it is, of which the passages may be, too.
    """
    ids: str | list[int | str] = found.ids
    if any(texts) or any(view.systems and _read_by(owner, view) for view in views):
        ids = _numbers(found, views, texts, owner, passages)
    elif found.longest > LONGEST["word"]:
        ids = [shortened(name, "word") for name in found.ids.split("\n")]
    # one text, a line each, is unpacked quickly, and no id holds a line end
    if not isinstance(ids, str) and all(isinstance(each, str) for each in ids):
        ids = "\n".join(map(str, ids))
    return (
        f'{{"counts":{as_json(found.counts)},"ids":{as_json(ids)},"scores":[{found.scores}],'
        f'"judged":{as_json(found.judged)}}}'
    )


def _numbers(
    found: ShownHits,
    views: Sequence[QueryView],
    texts: Sequence[Texts],
    owner: SystemSummary,
    passages: _Passages,
) -> list[int | str]:
    """The number of each passage, or its id where no more of it is known."""
    names, ids = iter(found.ids.split("\n")), list[int | str]()
    for view, text_of, count in zip(views, texts, found.counts, strict=True):
        own = {passage.id: passage for passage in _read_by(owner, view)}
        for name in islice(names, count):
            text = own.get(name) or (text_of(owner.ranking_of, name) if text_of else None)
            if text is None:
                ids.append(passages.number(name))
            else:
                cut = isinstance(text, TextRow) and text.cut
                ids.append(passages.number(name, text.title, text.text, cut))
    return ids


def _read_by(owner: SystemSummary, view: QueryView) -> Sequence[Passage]:
    """What the first answer of a system that tells was made from."""
    system = view.system(owner.name)
    answers = system.answers if system is not None else ()
    return next((each.passages for each in answers if each.passages is not None), ())


def _filled(**values: object) -> dict[str, object]:
    """The values that are not empty: there are many of them."""
    return {name: value for name, value in values.items() if value not in (None, "", [], ())}


def _answer(view: AnswerView, passages: _Passages) -> dict[str, object]:
    if view.prediction is None:
        return {"cause": view.cause, "detail": shortened(view.detail, "reason")}
    row, used = view.prediction, view.prediction.usage or UsageRow()
    read = row.contexts
    return {"text": None if row.answer is None else shortened(row.answer, "answer")} | _filled(
        read=None if read is None else [passages.number(p.id, p.title, p.text) for p in read],
        ms=rounded_number(row.latency_ms),
        queries=[shortened(text, "question") for text in row.queries],
        prompt=shortened(row.prompt or "", "prompt"),
        tokens=[used.input_tokens, used.output_tokens],
        usd=rounded_number(used.usd),
    )


def _verdict(row: VerdictRow) -> dict[str, object]:
    return _filled(
        rubric=row.rubric,
        pair=None if row.other is None else [row.system, row.other],
        winner=row.better,
        orders=[rounded_number(value) for value in row.orders],
        grade=row.grade if isinstance(row.grade, int) else None,
        judge=row.judge,
        model=row.model,
        score=rounded_number(row.score),
        level=row.level,
        why=shortened(row.reasoning, "reason"),
        claims=[_claim(claim) for claim in row.claims[:_MOST_CLAIMS]],
        more=len(row.claims[_MOST_CLAIMS:]) or None,
        raw=shortened(row.raw, "reason"),
        cause="" if row.cause == "scored" else row.cause,
        failed=row.status == "failed" or None,
        sample=row.sample,
        samples=[rounded_number(value) for value in row.samples] if len(row.samples) > 1 else None,
        usd=rounded_number(row.usage.usd),
        prompts=[
            [each.form, each.fence, [shortened(text, "passage") for text in each.texts], each.to]
            for each in row.prompts
        ],
    )


def _claim(row: ClaimRow) -> dict[str, object]:
    return _filled(
        text=shortened(row.text, "question"),
        gold=row.whose == "reference" or None,
        ruling=row.ruling,
        supports=row.passages,
        against=row.against,
        other=row.other,
    )
