"""What a page's data is made of: rankings, and the index, which is written piece by piece.

Of a ranking it needs the first hits as columns, and where it has what is judged.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ragbench.data.files.trec_files import ScatteredQueriesError, open_run_stream
from ragbench.data.runs.query_view import QueryView, QueryViews
from ragbench.records.causes import CAUSE_CHANGES, CAUSE_SAYS, CAUSES
from ragbench.records.summary import SystemSummary
from ragbench.score.retrieval.ranking import BlockRanker
from ragbench.text.languages import load as load_stopwords
from ragbench.types import FloatArray, IntArray, Qrels, Run
from ragbench.types.byte_ids import TextIds, distinct, numbered, spans
from ragbench.types.checks import id_bytes
from ragbench.types.conversation import Json
from ragbench.types.rows import HitBlock, borders

SHOWN_HITS = 10
"""Hits of a ranking; what a generator read beyond them is shown, too."""

_EXACT = 22  # up to 10^22 doubles hold powers of ten exactly


@dataclass(frozen=True, eq=False)
class Judged:
    """The judged documents of all queries, a row each; those of a query the best first."""

    rows: Qrels
    relevant: IntArray
    """Query -> how many of its documents are relevant; these are its first rows."""
    places: IntArray
    """Row -> where the judgements of its query list it, from 0."""

    @classmethod
    def of(cls, views: QueryViews) -> Judged:
        """Gather what a run folder says is judged."""
        queries = [
            sorted((-grade, name, place) for place, (name, grade) in enumerate(own.items()))
            for own in views.judged()
        ]
        every = list(chain.from_iterable(queries))
        grades = np.fromiter((-low for low, _, _ in every), np.int64, len(every))
        relevant = [sum(low < 0 for low, _, _ in own) for own in queries]
        starts = borders(map(len, queries), len(queries))
        rows = Qrels(tuple(views.ids), starts, [name for _, name, _ in every], grades)
        places = np.fromiter((place for _, _, place in every), np.int64, len(every))
        return cls(rows, np.array(relevant, np.int64), places)

    def rows_in(self, qrels: Qrels | None) -> IntArray | None:
        """Return which row of judgements each row is; None where they are not the same."""
        if qrels is None:
            return None
        index = {query: number for number, query in enumerate(qrels.query_ids)}
        # a query that is not judged has no rows, as behind the last one
        found = [index.get(query, len(index)) for query in self.rows.query_ids]
        first, sizes = qrels.starts[found], np.diff(qrels.starts, append=len(qrels))[found]
        if (sizes != np.diff(self.rows.starts)).any():
            return None
        return np.repeat(first, sizes) + self.places


class AtHand(NamedTuple):
    """What is at hand of the rankings of a run, by the names of their files."""

    runs: Mapping[str, Callable[[], Run]] = MappingProxyType({})
    qrels: Qrels | None = None
    """What was judged, the documents of a query in the order in which the run folder has them."""
    ranks: Mapping[str, Callable[[], IntArray]] = MappingProxyType({})
    """The rank of each row of `qrels`, ties by id; 0 where a ranking does not have it."""


NOT_AT_HAND = AtHand()


@dataclass(frozen=True, slots=True)
class ShownHits:
    """The first hits of some queries by one ranking, as columns."""

    counts: list[int]
    """Query -> how many hits it has."""
    ids: str
    """A line each."""
    scores: str
    """As JSON has them, a comma between two."""
    judged: list[tuple[int, int]]
    """Place and grade of each hit that is judged."""
    longest: int
    """Bytes of the longest id of the ranking."""


@dataclass(frozen=True, eq=False)
class FirstHits:
    """What a ranking has first, and where it has what is judged."""

    owner: SystemSummary
    """The first system that it is of, in the order of the tables."""
    names: TextIds
    """The first hits of every query, those of a query together, best first."""
    scores: FloatArray
    starts: IntArray
    """Query -> its first row."""
    counts: IntArray
    """Query -> how many rows it has."""
    judged: IntArray
    """Judged row -> its rank; 0 where the ranking does not have it."""

    @classmethod
    def read(
        cls, source: Path | Run, judged: Judged, owner: SystemSummary, ranks: IntArray | None = None
    ) -> FirstHits:
        """Read a run, or a run file block by block; ties fall by id, as they were scored.

        `ranks` has the rank of each judged row, where it is known.
        """
        found: list[_Block] = []

        def passed(blocks: Iterable[HitBlock]) -> Iterator[HitBlock]:
            for block in blocks:
                found.append(_Block.of(block))
                yield block

        def ranked(blocks: Iterable[HitBlock]) -> IntArray:
            made = BlockRanker(judged.rows).rank(passed(blocks))
            rank_of = np.zeros(len(judged.rows), np.int64)
            rank_of[made.rows] = made.rank
            return rank_of

        if isinstance(source, Run) and ranks is not None:
            own, found = ranks, [*map(_Block.of, blocks_of(source))]
        elif isinstance(source, Run):
            own = ranked(blocks_of(source))
        elif not source.stat().st_size:
            own = ranked(())
        else:
            with open_run_stream(source) as stream:
                try:
                    own = ranked(stream.blocks())
                except ScatteredQueriesError:
                    found.clear()
                    own = ranked(stream.regrouped())
        row_of = {id_bytes(name): row for row, name in enumerate(judged.rows.query_ids)}
        rows = [row_of.get(name, len(row_of)) for block in found for name in block.query_ids]
        each = np.concatenate([np.zeros(0, np.int64), *(block.counts for block in found)])
        starts, counts = np.zeros((2, len(row_of) + 1), np.int64)
        starts[rows], counts[rows] = np.cumsum(each) - each, each
        names = TextIds.joined([block.names for block in found])
        scores = np.concatenate([np.zeros(0), *(block.scores for block in found)])
        return cls(owner, names, scores, starts, counts, own)

    def parts(self, order: IntArray, judged: Judged, size: int) -> Iterator[ShownHits]:
        """Yield the hits of so many queries at a time, in an order of all queries."""
        own, counts = order, self.counts[order]
        ends = np.cumsum(counts)
        rows = spans(self.starts[own], self.starts[own] + counts)
        names = TextIds.of(self.names.as_bytes.take(rows))
        scores = rounded(self.scores[rows])
        known = spans(judged.rows.starts[own], judged.rows.starts[own + 1])
        whose = np.repeat(np.arange(len(own)), np.diff(judged.rows.starts)[own])
        shown = (self.judged[known] > 0) & (self.judged[known] <= SHOWN_HITS)
        whose, known = whose[shown], known[shown]
        places = (ends - counts)[whose] + self.judged[known] - 1
        grades = judged.rows.grades[known]
        longest = int(names.as_bytes.lengths.max(initial=0))
        for first in range(0, len(own), size):
            start = int(ends[first] - counts[first])
            end = int(ends[min(first + size, len(own)) - 1])
            among = slice(*np.searchsorted(whose, (first, first + size)).tolist())
            yield ShownHits(
                counts[first : first + size].tolist(),
                names.text(start, end),
                ",".join(scores[start:end]),
                list(zip((places[among] - start).tolist(), grades[among].tolist(), strict=True)),
                longest,
            )


_ROWS_A_BLOCK = 1 << 16


def blocks_of(run: Run) -> Iterator[HitBlock]:
    """Give a run in memory in blocks of whole queries, as a file of it is read."""
    ids, starts = run.document_ids, run.starts
    first, n = 0, len(run.query_ids)
    while first < n:
        last = max(int(np.searchsorted(starts, starts[first] + _ROWS_A_BLOCK, "right")) - 1, 0)
        last = min(max(last, first + 1), n)
        rows = slice(int(starts[first]), int(starts[last]))
        has_hits = np.diff(starts[first : last + 1]) > 0
        names = (id_bytes(name) for name in run.query_ids[first:last])
        yield HitBlock(
            [name for name, has in zip(names, has_hits.tolist(), strict=True) if has],
            np.append(starts[first:last][has_hits], starts[last]) - starts[first],
            ids.take(rows),
            run.scores[rows],
        )
        first = last


@dataclass(frozen=True, eq=False)
class _Block:
    """The first hits of some queries."""

    query_ids: Sequence[bytes]
    counts: IntArray
    names: TextIds
    scores: FloatArray

    @classmethod
    def of(cls, block: HitBlock) -> _Block:
        sizes = np.diff(block.starts)
        query = np.repeat(np.arange(len(sizes)), sizes)
        order = np.arange(len(block))
        # a file of ours is in this order already, but for ties that were scored in that of a list
        if not ((block.scores[1:] < block.scores[:-1]) | (query[1:] != query[:-1])).all():
            tied = (query << 32) + numbered(-block.scores)
            order = block.documents.falling_order(numbered(tied))
        rows = order[np.arange(len(block)) - block.starts[query] < SHOWN_HITS]
        names = TextIds.of(block.documents.take(rows))
        return cls(block.query_ids, np.minimum(sizes, SHOWN_HITS), names, block.scores[rows])


def rounded_number(value: float | None) -> float | None:
    """Return what `rounded` writes of one number."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.4g}")
    return _whole(short if math.isfinite(short) else value)


def rounded(values: FloatArray) -> list[str]:
    """Round to the four digits that are enough for a list, as JSON has them.

    Each number is written once, however often it comes; what is not finite is null.
    """
    finite = np.isfinite(values)
    known = np.where(finite, values, 0.0)
    size = np.floor(np.log10(np.abs(known), where=known != 0, out=np.zeros(len(known))))
    far = np.flatnonzero(np.abs(size - 3) > _EXACT)
    # by whole powers of ten, which are exact: the result is the number with so few digits
    up, down = (10.0 ** np.clip(power, 0, _EXACT) for power in (3 - size, size - 3))
    short = np.rint(known / down * up) / up * down
    short[far] = [float(f"{value:.4g}") for value in known[far].tolist()]
    short = np.where(np.isfinite(short), short, known)  # the largest ones cannot be rounded up
    numbers, which = distinct(np.where(finite, short, np.nan))
    texts = ["null" if value != value else repr(_whole(value)) for value in numbers.tolist()]
    found: list[str] = np.array(texts, np.object_)[which].tolist()
    return found


def _whole(value: float) -> float:
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def read_rankings(
    views: QueryViews, at_hand: AtHand = NOT_AT_HAND
) -> tuple[Judged, dict[str, FirstHits], dict[str, str]]:
    """Read what is judged, the rankings of a run by their names, and system -> its ranking.

    A pair has that of its retriever, a control none.
    """
    judged, systems = Judged.of(views), views.summary.systems
    rows = judged.rows_in(at_hand.qrels)
    ranking_of = {
        each.name: each.ranking_of
        for each in systems
        if each.ranking_of is not None and each.name in views.rankings
    }
    first = {name: system for system, name in reversed(ranking_of.items())}
    owners = {system.name: system for system in systems}
    rankings = {}
    for name in dict.fromkeys(ranking_of.values()):
        path = views.rankings[first[name]]
        source = at_hand.runs[path.stem]() if path.stem in at_hand.runs else path
        known = at_hand.ranks.get(path.stem)
        ranks = None if known is None or rows is None else known()[rows]
        rankings[name] = FirstHits.read(source, judged, owners[first[name]], ranks)
    return judged, rankings, ranking_of


_ROWS_AT_ONCE = 4_000
_MOST_SLICES = 60  # values of a field; one with more sorts nothing
LONGEST: Mapping[str, int] = {
    "question": 4_000,
    "passage": 2_000,
    "answer": 12_000,
    "reason": 4_000,
    "prompt": 12_000,
    "word": 300,
}
"""Characters of each kind of text; what is longer is cut, and says how long it was."""


def index_of(
    views: QueryViews,
    rankings: Mapping[str, FirstHits],
    ranking_of: Mapping[str, str],
    seen: Seen,
) -> dict[str, object]:
    """What is known of every query at a glance, but for where its part is."""
    ids, n = views.ids, len(views.ids)
    names, lacking = list(rankings), np.full(n, np.nan)
    return {
        "ids": Column(lambda rows: [shortened(each, "word") for each in ids[rows]], n),
        "values": {
            system.name: {
                score: Column(partial(_rounded, own.get(score, lacking)), n)
                for score in system.scores
            }
            for system in views.summary.systems
            if (own := views.columns.get(system.name)) is not None
        },
        "texts": Column(
            lambda rows: [shortened(views.question(each), "word") for each in ids[rows]], n
        ),
        "facts": seen.index(),
        "causes": {
            system.name: _Words.of(({each.cause} if each else () for each in lost), n).index()
            for system in views.summary.systems
            if any(lost := views.lost.get(system.name, ()))
        },
        "causeWords": {name: CAUSE_SAYS[name].partition(": ")[2] for name in CAUSES},
        "causeChanges": CAUSE_CHANGES,
        "stopwords": sorted(load_stopwords("english")),
        "prompts": {
            form: [shortened(each.system, "prompt"), shortened(each.user, "prompt")]
            for form, each in views.prompts.items()
        },
        "rankings": names,
        "rankingOf": {system: names.index(name) for system, name in ranking_of.items()},
    }


as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""Returns a value as JSON without blanks."""


class Column(NamedTuple):
    """A list of the index, a row for each query, that is made when it is written; or its JSON."""

    make: Callable[[slice], list[Json] | str]
    n: int


def _rounded(values: FloatArray, rows: slice) -> str:
    return ",".join(rounded(values[rows]))


def pieces(value: object) -> Iterator[str]:
    """A value as JSON, some rows of its columns at a time."""
    if isinstance(value, Mapping):
        for place, (name, part) in enumerate(value.items()):
            yield f"{',' if place else '{'}{as_json(name)}:"
            yield from pieces(part)
        yield "}" if value else "{}"
    elif isinstance(value, Column):
        for first in range(0, value.n, _ROWS_AT_ONCE):
            rows = slice(first, min(first + _ROWS_AT_ONCE, value.n))
            made = value.make(rows)
            text = made if isinstance(made, str) else as_json(made)[1:-1]
            yield ("," if first else "[") + text
        yield "]" if value.n else "[]"
    else:
        yield as_json(value)


class _Words:
    """A column of few words: the number of each query's, which may be several; -1 for none."""

    def __init__(self, n: int) -> None:
        self._rows, self._sets = array("i", [-1]) * n, dict[tuple[str, ...], int]()
        self.names = set[str]()

    @classmethod
    def of(cls, words: Iterable[Iterable[str]], n: int) -> _Words:
        made = cls(n)
        for row, own in enumerate(words):
            if own:
                made[row] = own
        return made

    def __setitem__(self, row: int, words: Iterable[str]) -> None:
        if len(self.names) > _MOST_SLICES:  # no field that sorts anything
            return
        self._rows[row] = self._sets.setdefault(own := tuple(words), len(self._sets))
        self.names.update(own)

    def index(self) -> dict[str, object]:
        names = sorted(self.names)
        numbers = {name: number for number, name in enumerate(names)}
        each = [[numbers[name] for name in words] for words in self._sets]
        shown = [*(own[0] if len(own) == 1 else own for own in each), -1]
        rows = Column(lambda rows: [shown[own] for own in self._rows[rows]], len(self._rows))
        return {"names": [shortened(name, "word") for name in names], "rows": rows}


class Seen:
    """What the index says of the queries, gathered as they come by."""

    def __init__(self, n: int) -> None:
        self._facts = defaultdict[str, _Words](partial(_Words, n))

    def add(self, row: int, view: QueryView) -> None:
        """Look at the query in a row."""
        for name, value in view.metadata.items():
            each = value if isinstance(value, list) else [value]
            if each and all(isinstance(one, (str, bool, int, float)) for one in each):
                self._facts[name][row] = dict.fromkeys(map(str, each))

    def index(self) -> dict[str, object]:
        """Return what tells queries apart, by its name."""
        return {
            name: words.index()
            for name, words in self._facts.items()
            if 1 < len(words.names) <= _MOST_SLICES
        }


def shortened(text: str, kind: str, goes_on: bool = False) -> str:
    """Return a text, not longer than those of its kind may be."""
    most = LONGEST[kind]
    if len(text) <= most:
        return f"{text}…" if goes_on else text
    more = f"{len(text) - most:,} more characters"
    return f"{text[:most]}… ({more}{', and more' if goes_on else ''})"
