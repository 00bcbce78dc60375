"""Ranks of gold documents in fusions of stored rankings, without the fusions themselves.

The rank of a document is the number of documents with a higher fused score. Only documents that are
above it in one of the rankings can have one, so that few additions decide it. Where two scores are
so close that rounding, or the order of ties, decides, their parts are added as
`retrieve/fusion.py` adds them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ragbench.types import FloatArray, IntArray
from ragbench.types.byte_ids import ByteIds, HashArray, spans
from ragbench.types.rows import BoolArray

QUERIES = 1024  # of a table at most
_QUERY_BITS = 10  # of a key, for the position of the query
RRF_K = 60  # default of `type: fusion`
_ROUNDING = 1e-12  # of a sum of up to three parts of at most 1
_SINGLE_ROUNDING = 1e-6  # the same of scores that are compared as 32-bit floats


class FusionSetting(NamedTuple):
    """Options of a fusion of stored rankings.

    Attributes:
        sources: Names of two or three rankings.
        method: `rrf`, or `weighted` of scores that `min_max` scales.
        weights: Weight of each ranking, at least 0; rrf has 1 for each.
    """

    sources: tuple[str, ...]
    method: Literal["rrf", "weighted"]
    weights: tuple[float, ...]


class RankedRows(NamedTuple):
    """Hits of some queries in one ranking, the best of each query first.

    Attributes:
        starts: Shape (queries + 1,): first row of each query.
        scores: Row -> score; empty for gold documents.
        documents: Row -> id.
        hashes: Row -> hash of the id.
    """

    starts: IntArray
    scores: FloatArray
    documents: ByteIds
    hashes: HashArray

    @property
    def query(self) -> IntArray:
        """Position of the query of each row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def reciprocal_ranks(self) -> FloatArray:
        """Return 1 / (60 + rank) of each row."""
        # Ranks restart at each query: the first row of the query is subtracted.
        ranks = np.arange(1, len(self.scores) + 1) - self.starts[self.query]
        return 1 / (RRF_K + ranks)

    def scaled_scores(self) -> FloatArray:
        """Return the scores of each query from 0 to 1; equal scores become 0, as in a fusion."""
        query = self.query
        # Hits are best first, so the last hit has the lowest score and no search is needed.
        low = self.scores[self.starts[1:][query] - 1]
        unit = self.scores[self.starts[query]] - low
        return np.divide(self.scores - low, unit, out=np.zeros(len(low)), where=unit != 0)


@dataclass(frozen=True, eq=False)
class FusionTable:
    """Parts that rankings add to the score of each document, for some queries.

    Attributes:
        reciprocal: Shape (rankings, documents): 1 / (60 + rank); 0 if it is not ranked.
        scaled: Shape (rankings, documents): scaled score; 0 if it is not ranked.
        rankings: Hits of each ranking; the last entry has the gold documents.
        numbers: Row -> number of the document, for each entry of `rankings`.
    """

    reciprocal: FloatArray
    scaled: FloatArray
    rankings: Sequence[RankedRows]
    numbers: Sequence[IntArray]

    @classmethod
    def of(cls, rankings: Sequence[RankedRows], gold: RankedRows) -> FusionTable:
        """Return the table of rankings of the same queries, at most `QUERIES`."""
        # Gold takes part in the numbering, since gold that no ranking has needs a column of zeros.
        rows = [*rankings, gold]
        query = np.concatenate([ranking.query for ranking in rows])
        n, every = _number(query, np.concatenate([ranking.hashes for ranking in rows]))
        numbers = np.split(every, np.cumsum([len(ranking.hashes) for ranking in rankings]))
        reciprocal, scaled = np.zeros((2, len(rankings), n))
        for place, ranking in enumerate(rankings):
            reciprocal[place, numbers[place]] = ranking.reciprocal_ranks()
            scaled[place, numbers[place]] = ranking.scaled_scores()
        return cls(reciprocal, scaled, rows, numbers)

    def name(self, number: int) -> bytes:
        """Return the id of a document; IndexError for an unknown number."""
        for ranking, numbers in zip(self.rankings, self.numbers, strict=True):
            rows = np.flatnonzero(numbers == number)
            if len(rows):
                return ranking.documents[int(rows[0])]
        raise IndexError(number)


class Contest:
    """Documents of some queries that may get above the gold in fusions of some rankings.

    Attributes:
        is_open: True for each query whose gold is among the first k documents of some fusions only.
    """

    def __init__(
        self,
        table: FusionTable,
        places: Sequence[int],
        queries: IntArray,
        depths: IntArray,
        k: int,
        *,
        needs_all: bool,
        is_single: bool,
    ) -> None:
        """Find the documents.

        Args:
            table: Parts of the documents.
            places: Rankings of the fusions, as rows of the table.
            queries: Positions of the queries in the table, ascending; each has gold that is ranked.
            depths: Shape (rankings, queries): hits of a ranking that may get above the gold, from
                the first one on.
            k: Number of documents that are read.
            needs_all: True if all gold documents are needed, and are ranked.
            is_single: True if scores are compared as 32-bit floats.
        """
        self._table, self._places, self._k = table, places, k
        self._needs_all, self._is_single = needs_all, is_single
        gold = table.rankings[-1].starts
        counts = gold[queries + 1] - gold[queries]
        self._gold = table.numbers[-1][spans(gold[queries], gold[queries + 1])]
        self._gold_starts = np.cumsum(counts) - counts
        # inf where no hit is above
        self._limits = np.where(depths > 0, 1 / (RRF_K + depths), np.inf)
        # With several gold documents, the one that decides differs by fusion: counts of one do not
        # settle the query.
        self.is_open: BoolArray = (counts > 1) | (self._count_best(queries, depths) < k)
        self._rivals, self._query = self._find_rivals(queries, np.where(self.is_open, depths, 0))

    def _hits(self, place: int, queries: IntArray, depths: IntArray) -> tuple[IntArray, IntArray]:
        """Return the first hits of a ranking: their documents, and positions in `queries`."""
        first = self._table.rankings[place].starts[queries]
        rows = spans(first, first + depths)
        return self._table.numbers[place][rows], np.repeat(np.arange(len(queries)), depths)

    def _count_best(self, queries: IntArray, depths: IntArray) -> IntArray:
        """Return the number of documents above the gold in all rankings, so in every fusion."""
        # A document that all rankings have above the gold is also in the shortest of the lists
        # above it, so that list alone has to be read.
        shortest, total = depths.argmin(axis=0), np.zeros(len(queries), np.int64)
        for number, place in enumerate(self._places):
            rivals, query = self._hits(
                place, queries, np.where(shortest == number, depths[number], 0)
            )
            is_above = np.ones(len(rivals), bool)
            for other, limits in zip(self._places, self._limits, strict=True):
                if other != place:
                    is_above &= self._table.reciprocal[other, rivals] >= limits[query]
            total += np.bincount(query[is_above], minlength=len(queries))
        return total

    def _find_rivals(self, queries: IntArray, depths: IntArray) -> tuple[IntArray, IntArray]:
        """Return the documents above the gold in any ranking, each once, and their queries."""
        documents, positions = [], []
        for number, place in enumerate(self._places):
            rivals, query = self._hits(place, queries, depths[number])
            # A document above the gold in an earlier ranking is a rival already. Counted twice, it
            # would push the gold down by two ranks.
            for earlier in range(number):
                parts = self._table.reciprocal[self._places[earlier]]
                is_new = parts[rivals] < self._limits[earlier][query]
                rivals, query = rivals[is_new], query[is_new]
            documents.append(rivals)
            positions.append(query)
        return np.concatenate(documents), np.concatenate(positions)

    @functools.cached_property
    def _parts(self) -> Mapping[str, tuple[FloatArray, FloatArray]]:
        """Method -> parts of the rivals, and of the gold, shape (rankings, documents)."""
        tables = {"rrf": self._table.reciprocal, "weighted": self._table.scaled}
        return {
            method: (
                np.stack([table[place][self._rivals] for place in self._places]),
                np.stack([table[place][self._gold] for place in self._places]),
            )
            for method, table in tables.items()
        }

    def reads_gold(self, setting: FusionSetting) -> BoolArray:
        """Return for each query whether the first k documents of a fusion have its gold."""
        rivals, gold = (_sum(parts, setting.weights) for parts in self._parts[setting.method])
        # the lowest gold document decides if all are needed, else the highest
        reduce = np.minimum if self._needs_all else np.maximum
        limit = reduce.reduceat(gold, self._gold_starts)
        difference = rivals - limit[self._query]
        rounding = _SINGLE_ROUNDING if self._is_single else _ROUNDING
        n = len(limit)
        n_above = np.bincount(self._query[difference > rounding], minlength=n)
        is_close = np.abs(difference) <= rounding
        n_close = np.bincount(self._query[is_close], minlength=n)
        reads: BoolArray = self.is_open & (n_above < self._k)
        # Exact keys cost a Python loop: only queries whose close scores decide about rank k need
        # them.
        for query in np.flatnonzero(reads & (n_above + n_close >= self._k)).tolist():
            close = self._rivals[is_close & (self._query == query)].tolist()
            reads[query] = n_above[query] + self._count_above(setting, query, close) < self._k
        return reads

    def _count_above(self, setting: FusionSetting, query: int, rivals: Sequence[int]) -> int:
        """Return the number of rivals above the gold of a query, in the order of a fusion."""
        start = self._gold_starts[query]
        end = self._gold_starts[query + 1] if query + 1 < len(self._gold_starts) else None
        # Gold that no source ranks has no key: a fusion never returns it.
        keys = [
            key for number in self._gold[start:end].tolist() if (key := self._key(setting, number))
        ]
        last = min(keys) if self._needs_all else max(keys)
        return sum((self._key(setting, number) or last) > last for number in rivals)

    def _key(self, setting: FusionSetting, number: int) -> tuple[float, bytes] | None:
        """Return score and id of a document in a fusion; None if no ranking of it has it."""
        values = self._table.reciprocal if setting.method == "rrf" else self._table.scaled
        terms = [
            weight * float(values[place, number])
            for place, weight in zip(self._places, setting.weights, strict=True)
            # Not the scaled score, which is 0 for the last hit of a ranking as well as for a
            # missing one.
            if self._table.reciprocal[place, number] > 0
        ]
        # As in a fusion: a plain sum depends on the order of the retrievers and breaks ties by it.
        score = math.fsum(terms)
        score = float(np.float32(score)) if self._is_single else score
        return (score, self._table.name(number)) if terms else None


def _sum(parts: FloatArray, weights: Sequence[float]) -> FloatArray:
    """Return the weighted sum of the rows of an array."""
    total: FloatArray = parts[0] * weights[0]
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        total += part * weight
    return total


def _number(query: IntArray, hashes: HashArray) -> tuple[int, IntArray]:
    """Return the number of distinct pairs of query and document, and the number of each row's pair.

    Documents of one query with one hash (54 bits) count as one: below 1e-8 for 5,000 queries.
    """
    keys = query.astype(np.uint64) << np.uint64(64 - _QUERY_BITS)
    keys |= hashes >> np.uint64(_QUERY_BITS)
    # the lowest bits hold the row: NumPy sorts numbers several times as fast as it finds an order
    bits = np.uint64(len(keys).bit_length())
    rows = keys >> bits << bits | np.arange(len(keys), dtype=np.uint64)
    rows.sort()
    order = (rows & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    is_new = keys[order[1:]] != keys[order[:-1]]
    if (is_new & (rows[1:] >> bits == rows[:-1] >> bits)).any():
        # two pairs share the bits that are left beside the row
        order = np.argsort(keys, kind="stable")
        is_new = keys[order[1:]] != keys[order[:-1]]
    numbers = np.zeros(len(keys), np.int64)
    numbers[order[1:]] = np.cumsum(is_new)
    return int(numbers.max(initial=-1)) + 1, numbers
