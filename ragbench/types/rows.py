"""Columns whose rows lie query by query, and the hits of some queries.

A run file may name a document twice; such are found among millions of hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import methodcaller
from struct import error as struct_error
from struct import pack_into
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ragbench.types.byte_ids import ByteIds, HashArray
from ragbench.types.checks import checked_score

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
CauseArray = NDArray[np.uint8]
# What `struct` raises where it is given something else than a number that a double can hold.
NO_NUMBER = (TypeError, ValueError, OverflowError, struct_error)

_AT_ONCE = 1000
Item = TypeVar("Item")
Value = TypeVar("Value")
_values = methodcaller("values")

_FEWEST_SLOT_BITS, _MOST_SLOT_BITS = 17, 24
_MOST_ROUNDS = 32  # of looking for repeated keys; one or two are usual


def borders(lengths: Iterable[int], n: int) -> IntArray:
    """Turn n lengths into the n + 1 borders between the rows of the queries."""
    starts = np.zeros(n + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, n), out=starts[1:])
    return starts


def nested(
    query_ids: Sequence[str], starts: IntArray, documents: Sequence[str], values: NDArray[Any]
) -> dict[str, dict[str, Any]]:
    """Return the columns as one dictionary per query."""
    documents, numbers, borders = [*documents], values.tolist(), starts.tolist()
    return {
        query_id: dict(zip(documents[start:end], numbers[start:end], strict=True))
        for query_id, start, end in zip(query_ids, borders, borders[1:], strict=False)
    }


def freeze(*arrays: NDArray[Any]) -> None:
    """Make arrays read-only, so that a frozen record is frozen in its columns too."""
    for each in arrays:
        each.setflags(write=False)


def score_column(run: Mapping[str, Mapping[str, float]], rows: int) -> FloatArray:
    """Return the scores of all queries one after the other."""
    try:
        return plain_scores(run.values(), len(run), rows)
    except NO_NUMBER:
        return _checked_scores(run, rows)


def plain_scores(rankings: Iterable[Mapping[str, float]], n_queries: int, rows: int) -> FloatArray:
    """Return the scores of n queries with so many rows; else an error of `NO_NUMBER`."""
    scores, place = np.empty(rows, np.float64), 0
    target = memoryview(scores)  # type: ignore[arg-type]  # an array is a buffer since Python 3.12
    lists = iter(rankings)
    # so many at once that calls cost little, so few that they are still in the cache
    at_once = max(1, _AT_ONCE * n_queries // max(rows, 1))
    while batch := [*islice(lists, at_once)]:
        values = [*chain.from_iterable(map(_values, batch))]
        # unlike NumPy, struct refuses '0.5'
        pack_into(f"{len(values)}d", target, 8 * place, *values)
        place += len(values)
    if np.isnan(scores).any():
        raise ValueError("NaN")
    return scores


def _checked_scores(run: Mapping[str, Mapping[str, float]], rows: int) -> FloatArray:
    """Look at every score by itself: the slow way, which can say what is wrong where."""
    checked = (
        checked_score(score, query_id, document)
        for query_id, hits in run.items()
        for document, score in hits.items()
    )
    return np.fromiter(checked, np.float64, rows)


class Mapped(Sequence[Value]):
    """What a function makes of each item, made when somebody looks at it: nothing is held."""

    def __init__(self, function: Callable[[Item], Value], items: Sequence[Item]) -> None:
        self._function, self._items = function, items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, row: int) -> Value: ...

    @overload
    def __getitem__(self, row: slice) -> Mapped[Value]: ...

    def __getitem__(self, row: int | slice) -> Value | Mapped[Value]:
        if isinstance(row, slice):
            return Mapped(self._function, self._items[row])
        return self._function(self._items[row])


@dataclass(frozen=True, eq=False)
class HitBlock:
    """Whole queries, a row per hit, the rows of a query together.

    A document may be there twice: ranking counts it once, at its best score.

    Attributes:
        query_ids: The queries; row i of query q lies between starts[q] and starts[q + 1].
        starts: Shape (n queries + 1,): where each query's rows start; no query is empty.
        scores: The score of every row; never NaN.
    """

    query_ids: Sequence[bytes]
    starts: NDArray[np.int64]
    documents: ByteIds
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scores)

    def first(self, n_queries: int) -> HitBlock:
        """Return the first queries alone."""
        rows = slice(0, int(self.starts[n_queries]))
        return HitBlock(
            self.query_ids[:n_queries],
            self.starts[: n_queries + 1],
            self.documents.take(rows),
            self.scores[rows],
        )


class Repeats:
    """Looks for repeated keys in one table after another; the table is made once."""

    def __init__(self) -> None:
        self._slots = np.empty(1 << _FEWEST_SLOT_BITS, np.int32)

    def suspects(self, keys: HashArray) -> IntArray:
        """Return all rows that share their key with another; none is by far the usual case.

        Linear; n log n where a key is there twice.
        """
        bits = min(len(keys).bit_length() + 2, _MOST_SLOT_BITS)
        if len(self._slots) < 1 << bits:
            self._slots = np.empty(1 << bits, np.int32)
        if not may_repeat(keys, self._slots):
            return np.zeros(0, np.int64)
        rows = np.argsort(keys)
        twice = keys[rows[1:]] == keys[rows[:-1]]
        shared = np.concatenate((twice, [False])) | np.concatenate(([False], twice))
        return np.sort(rows[shared])


def may_repeat(keys: HashArray, slots: NDArray[np.int32]) -> bool:
    """Whether a key is there twice; now and then also where none is.

    Every row is written into the slot of its key, and the last one stays. The few others share a
    slot by chance, or because they share the key: either with the one that stayed, or with one that
    lost the slot too, which the next round over the losers finds. The number of slots is a power of
    two; anything may be in them.
    """
    shift = np.uint64(65 - len(slots).bit_length())
    for _ in range(_MOST_ROUNDS):
        if not len(keys):
            return False
        numbers = np.arange(len(keys), dtype=np.int32)
        slot = (keys >> shift).view(np.int64)
        slots[slot] = numbers
        winner = slots[slot]
        losers = np.flatnonzero(winner != numbers)
        if (keys[losers] == keys[winner[losers]]).any():
            return True
        keys = keys[losers]
    return True  # perhaps: so many ids share a slot that sorting is quicker


def without_repeats(
    block: HitBlock, query: IntArray, suspects: IntArray
) -> tuple[HitBlock, IntArray]:
    """Keep each document of a query once, where it came first, at its best score.

    `suspects` are the rows that may share query and document with another, ascending. Returned with
    the rows that were kept.
    """
    scores, keep = block.scores.copy(), np.ones(len(block), bool)
    first: dict[tuple[int, bytes], int] = {}
    for row, number in zip(suspects.tolist(), query[suspects].tolist(), strict=True):
        before = first.setdefault((number, block.documents[row]), row)
        if before != row:
            keep[row] = False
            scores[before] = max(scores[row], scores[before])
    kept = np.flatnonzero(keep)
    starts = np.concatenate(([0], np.cumsum(keep)))[block.starts]
    return HitBlock(block.query_ids, starts, block.documents.take(kept), scores[kept]), kept
