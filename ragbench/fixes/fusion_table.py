"""Counts of the documents above the gold in fusions of stored rankings, without the fusions.

Only documents that are above the gold in one of the rankings can be above it in a fusion, so that
few additions count them. They are done with 32-bit floats. Where two scores are so close that
rounding, or the order of ties, decides, their parts are added as `retrieve/fusion.py` adds them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragbench.types import FloatArray, IntArray
from ragbench.types.byte_ids import GOLDEN, ByteIds, HashArray, query_keys
from ragbench.types.lookups import index_positions
from ragbench.types.rows import BoolArray

RRF_K = 60  # default of `type: fusion`
_SLOT_BITS = 3  # eight slots for each key: few keys share a slot, and the table fits into a cache
# Error of a sum of up to three 32-bit parts from -1 to 1, and of scores compared as 32-bit floats.
_ROUNDING = 1e-6


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
    """Hits of some queries in one ranking, the best of each query first; or their gold documents.

    Attributes:
        starts: Shape (queries + 1,): first row of each query.
        scores: Row -> score; empty for gold documents.
        hashes: Row -> hash of the id.
        documents: Ids of the whole ranking.
        places: Row -> position of the id in `documents`.
    """

    starts: IntArray
    scores: FloatArray
    hashes: HashArray
    documents: ByteIds
    places: IntArray

    @property
    def query(self) -> IntArray:
        """Position of the query of each row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def parts(self, rows: IntArray, query: IntArray) -> FloatArray:
        """Return 1 / (60 + rank) and the score scaled to 0..1 within its query, in shape (2, n).

        Equal scores of a query are scaled to 0, as in a fusion. `rows` are hits, since gold
        documents have no scores here; `query` has the position of the query of each.
        """
        first = self.starts[query]
        # Hits are best first, so the last hit has the lowest score and no search is needed.
        low = self.scores[self.starts[query + 1] - 1]
        unit = self.scores[first] - low
        scaled = np.divide(self.scores[rows] - low, unit, out=np.zeros(len(rows)), where=unit != 0)
        return np.stack([1 / (RRF_K + 1 + rows - first), scaled])


class FusionTable:
    """Parts that rankings add to the scores of gold documents and their rivals, for some queries.

    A rival is above the gold in one of the rankings, or in a ranking without the gold. Documents
    are numbered query by query. `reads_gold` says for each query whether a fusion brings its gold
    into the first k ranks. Raises KeyError for a source that `rankings` lacks.
    """

    def __init__(
        self,
        rankings: Mapping[str, RankedRows],
        gold: RankedRows,
        reach: IntArray,
        *,
        needs_all: bool,
        is_single: bool,
    ) -> None:
        """Find the documents and their parts.

        Args:
            rankings: Name -> hits; the queries are those of `gold`.
            gold: Gold documents, at least one of each query.
            reach: Shape (rankings, queries): number of first hits that may get above the gold.
            needs_all: True if all gold documents are needed, False if any of them suffices.
            is_single: True if scores are compared as 32-bit floats.
        """
        self._needs_all, self._is_single = needs_all, is_single
        self._ids: dict[int, bytes] = {}
        self._places = index_positions(rankings)
        self._rankings = [*rankings.values(), gold]
        queries = [rows.query for rows in self._rankings]
        n_near = [*reach, np.diff(gold.starts)]
        is_near = []
        for ranking, query, n in zip(self._rankings, queries, n_near, strict=True):
            ends = ranking.starts[:-1] + n
            is_near.append(np.arange(len(query)) < ends[query])
        lengths, numbers = _number(
            np.concatenate([rows.hashes for rows in self._rankings]),
            np.concatenate(queries),
            np.concatenate(is_near),
        )
        self._numbers = np.split(numbers, np.cumsum([len(query) for query in queries[:-1]]))
        self._parts = np.zeros((2, len(rankings), int(lengths.sum())))
        for place, (hits, query) in enumerate(zip(rankings.values(), queries, strict=False)):
            rows = np.flatnonzero(self._numbers[place] >= 0)
            self._parts[:, place, self._numbers[place][rows]] = hits.parts(rows, query[rows])
        self._gold, self._gold_starts = self._numbers[-1], gold.starts[:-1]
        self._n_gold = np.diff(gold.starts)
        self._starts = np.cumsum(lengths) - lengths
        self._query = np.repeat(np.arange(len(lengths)), lengths)
        # A fused score is a sum, so what the first gold document has in each part is subtracted
        # once here, not for each fusion.
        first = self._parts[:, :, self._gold[self._gold_starts]]
        self._relative = (self._parts - np.repeat(first, lengths, axis=2)).astype(np.float32)

    def reads_gold(self, setting: FusionSetting, k: int, is_open: BoolArray) -> BoolArray:
        """Return for each query whether the first k documents of a fusion have its gold.

        `is_open` has the queries to look at, whose gold the fusion ranks; False for others.
        """
        parts = self._relative[int(setting.method == "weighted")]
        # one by one: a row is a number for each document of each query
        rows = (parts[self._places[source]] for source in setting.sources)
        terms = map(operator.mul, setting.weights, rows)
        lead: NDArray[np.float32] = reduce(operator.add, terms)
        if len(self._gold) > len(self._n_gold):
            # the lowest gold document decides if all are needed, else the highest
            decide = np.minimum if self._needs_all else np.maximum
            lead -= decide.reduceat(lead[self._gold], self._gold_starts)[self._query]
        is_above = lead > _ROUNDING
        n_above = np.add.reduceat(is_above.view(np.int8), self._starts, dtype=np.int32)
        close = np.flatnonzero((lead >= -_ROUNDING) != is_above)
        owner = self._query[close]
        # less the deciding gold document, which is close to itself
        n_close = np.bincount(owner, minlength=len(n_above)) - 1
        reads: BoolArray = is_open & (n_above < k)
        # Exact keys cost a Python loop: only queries whose close documents decide need them.
        for query in np.flatnonzero(reads & (n_above + n_close >= k)).tolist():
            rivals = close[owner == query].tolist()
            reads[query] = n_above[query] + self._count_above(setting, query, rivals) < k
        return reads

    def _count_above(self, setting: FusionSetting, query: int, rivals: Sequence[int]) -> int:
        """Return the number of rivals above the gold of a query, in the order of a fusion."""
        start = self._gold_starts[query]
        gold = self._gold[start : start + self._n_gold[query]].tolist()
        # Gold that no source ranks has no key: a fusion never returns it.
        keys = []
        for number in gold:
            if key := self._key(setting, number):
                keys.append(key)
        last = min(keys) if self._needs_all else max(keys)
        return sum((self._key(setting, number) or last) > last for number in rivals)

    def _key(self, setting: FusionSetting, number: int) -> tuple[float, bytes] | None:
        """Return score and id of a document in a fusion; None if none of its rankings has it."""
        reciprocal, scaled = self._parts[:, :, number].tolist()
        values = reciprocal if setting.method == "rrf" else scaled
        terms = []
        for source, weight in zip(setting.sources, setting.weights, strict=True):
            place = self._places[source]
            # Not the scaled score, which is 0 for the last hit of a ranking as well as for a
            # missing one.
            if reciprocal[place] > 0:
                terms.append(weight * values[place])
        # As in a fusion: a plain sum depends on the order of the retrievers and breaks ties by it.
        score = math.fsum(terms)
        score = float(np.float32(score)) if self._is_single else score
        return (score, self._id(number)) if terms else None

    def _id(self, number: int) -> bytes:
        """Return the id of a document; raise IndexError for an unknown number."""
        # many fusions compare the same documents
        if number not in self._ids:
            place, row = self._owners[:, number].tolist()
            ranking = self._rankings[place]
            self._ids[number] = ranking.documents[int(ranking.places[row])]
        return self._ids[number]

    @cached_property
    def _owners(self) -> IntArray:
        """Position of a ranking that has each document, and the row in it, shape (2, documents)."""
        owners = np.zeros((2, len(self._query)), np.int64)
        for place, numbers in enumerate(self._numbers):
            rows = np.flatnonzero(numbers >= 0)
            owners[:, numbers[rows]] = np.stack([np.full_like(rows, place), rows])
        return owners


def _number(hashes: HashArray, query: IntArray, is_near: BoolArray) -> tuple[IntArray, IntArray]:
    """Return (documents of each query, number of the document of each row)."""
    # Documents of one query with one hash of 64 bits count as one.
    keys, near = query_keys(hashes, query), np.flatnonzero(is_near)
    place = _find(keys[near], keys)
    is_first = np.zeros(len(near), bool)
    is_first[place[near]] = True
    firsts = np.flatnonzero(is_first)
    # NumPy sorts 16 bits in linear time
    owner = query[near[firsts]].astype(np.uint16)
    # the last entry is that of rows without a place
    numbers = np.full(len(near) + 1, -1)
    numbers[firsts[np.argsort(owner, kind="stable")]] = np.arange(len(firsts))
    return np.bincount(owner), numbers[place]


def _find(keys: HashArray, rows: HashArray) -> IntArray:
    """Return for each row the position of its key among `keys`; -1 if it is not there."""
    # Keys are put into the slots of a table by their upper bits, which takes linear time.
    shift = np.uint64(64 - _SLOT_BITS - len(keys).bit_length())
    slots = (keys >> shift).view(np.int64)
    table = np.full(1 << (_SLOT_BITS + len(keys).bit_length()), -1, np.int32)
    table[slots] = np.arange(len(keys))
    place: IntArray = table[(rows >> shift).view(np.int64)]
    is_missing = keys[place] != rows
    displaced = np.flatnonzero(keys[table[slots]] != keys)
    if len(displaced):
        # Two keys share a slot: the one that lost it is looked for by other bits.
        open_rows = np.flatnonzero(is_missing & (place >= 0))
        again = _find(keys[displaced] * GOLDEN, rows[open_rows] * GOLDEN)
        is_missing[open_rows] = again < 0
        place[open_rows] = displaced[again]
    place[is_missing] = -1
    return place
