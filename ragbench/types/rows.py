"""Columns of rows sorted by query, hits of several queries, and search for repeated documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import methodcaller
from struct import error as struct_error
from struct import pack_into
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ragbench.types.byte_ids import ByteIds, HashArray
from ragbench.types.checks import checked_score

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
CauseArray = NDArray[np.uint8]
BoolArray = NDArray[np.bool_]
# Errors of `struct` and of the NaN check for a value that is no number or too large for a double.
NUMBER_ERRORS = (TypeError, ValueError, OverflowError, struct_error)

_ROWS_PER_BATCH = 1000
Item = TypeVar("Item")
Value = TypeVar("Value")
_values = methodcaller("values")


def borders(lengths: Iterable[int], n: int) -> IntArray:
    """Return the n + 1 borders of n queries with these numbers of rows, from 0 to their sum.

    Lengths after the first n are ignored.

    Raises:
        ValueError: There are fewer than n lengths.

    Example:
        >>> borders([2, 0, 3], 3)
        array([0, 2, 2, 5])
    """
    starts = np.zeros(n + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, n), out=starts[1:])
    return starts


class _HasValues(Protocol):
    @property
    def values(self) -> FloatArray: ...


def stack_values(columns: Iterable[_HasValues], axis: int = 0) -> FloatArray:
    """Return the values of columns over the same items, shape (columns, items).

    With `axis=1` the shape is (items, columns).
    """
    return np.stack([column.values for column in columns], axis)


def nested(
    query_ids: Sequence[str], starts: IntArray, documents: Sequence[str], values: NDArray[Any]
) -> dict[str, dict[str, Any]]:
    """Return {query id: {document id: value}} of columns, in the order of the rows.

    Args:
        query_ids: Ids of n queries.
        starts: Shape (n + 1,): first row of each query, then the number of rows.
        documents: Shape (rows,): document ids.
        values: Shape (rows,): scores or grades.
    """
    documents, numbers, borders = [*documents], values.tolist(), starts.tolist()
    by_query = {}
    for query_id, start, end in zip(query_ids, borders, borders[1:], strict=False):
        by_query[query_id] = dict(zip(documents[start:end], numbers[start:end], strict=True))
    return by_query


def freeze(*arrays: NDArray[Any]) -> None:
    """Make arrays read-only in place, so that a frozen record cannot change in its columns."""
    for array in arrays:
        array.setflags(write=False)


def score_column(run: Mapping[str, Mapping[str, float]], rows: int) -> FloatArray:
    """Return the scores of all queries, one query after the other, shape (rows,).

    Args:
        run: {query id: {document id: score}}.
        rows: Number of scores in the run, which the caller has counted.

    Raises:
        DataError: A score is NaN, no number, or too large for a double; names query and document.
    """
    try:
        return plain_scores(run.values(), len(run), rows)
    except NUMBER_ERRORS:
        return _checked_scores(run)


def plain_scores(rankings: Iterable[Mapping[str, float]], n_queries: int, rows: int) -> FloatArray:
    """Return the scores of all queries, one query after the other, shape (rows,).

    Args:
        rankings: {document id: score} of each query.
        n_queries: Number of rankings.
        rows: Number of scores in all rankings.

    Raises:
        ValueError: A score is NaN.
        Exception: One of `NUMBER_ERRORS`, if a score is no number or too large for a double.
    """
    scores, place = np.empty(rows, np.float64), 0
    target = memoryview(scores)  # type: ignore[arg-type]  # an array is a buffer since Python 3.12
    lists = iter(rankings)
    # Batches are large enough to save calls and small enough to stay in the processor's cache.
    batch_size = max(1, _ROWS_PER_BATCH * n_queries // max(rows, 1))
    while batch := [*islice(lists, batch_size)]:
        values = [*chain.from_iterable(map(_values, batch))]
        # NumPy would convert the text '0.5' to a number; struct refuses it.
        pack_into(f"{len(values)}d", target, 8 * place, *values)
        place += len(values)
    if np.isnan(scores).any():
        raise ValueError("NaN")
    return scores


def _checked_scores(run: Mapping[str, Mapping[str, float]]) -> FloatArray:
    """Return the scores of all queries, shape (rows,); a DataError names the first bad one."""
    # The slow path: it runs only after `plain_scores` failed without a place.
    scores = []
    for query_id, hits in run.items():
        for document, score in hits.items():
            scores.append(checked_score(score, query_id, document))
    return np.array(scores, np.float64)


class Mapped(Sequence[Value]):
    """Sequence that applies a function to an item of another sequence at each access.

    Results are not stored, so a sequence of millions costs no memory. A slice gives another such
    sequence; errors of the function pass through.
    """

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
    """Hits of several queries, a row per hit, the rows of a query together.

    A query may hold a document twice; ranking counts it once, at its best score. `first` returns
    the block of the first queries; raises IndexError if there are fewer.

    Attributes:
        query_ids: Query ids; the rows of query q are starts[q] to starts[q + 1] - 1.
        starts: Shape (n queries + 1,): first row of each query; no query is empty.
        documents: Shape (rows,): document ids as bytes.
        scores: Shape (rows,): never NaN.
    """

    query_ids: Sequence[bytes]
    starts: NDArray[np.int64]
    documents: ByteIds
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.scores)

    def first(self, n_queries: int) -> HitBlock:
        """Return the block of the first `n_queries` queries; arrays are shared, not copied.

        Raises:
            IndexError: The block has fewer queries.
        """
        rows = slice(0, int(self.starts[n_queries]))
        return HitBlock(
            self.query_ids[:n_queries],
            self.starts[: n_queries + 1],
            self.documents.take(rows),
            self.scores[rows],
        )


# Rows up to which a table of slots, of 16 MB at most, takes less time than a sort.
_MOST_IN_TABLE = 1 << 18
_MOST_IN_16_BITS = 1 << 16  # their table has more slots and still stays in the caches


def repeated_rows(keys: HashArray) -> IntArray:
    """Return the rows that share their key with another row, ascending; usually none.

    Rows count from 0; no keys give an empty array. It takes n log n steps for more than 262,144
    keys. Keys that differ in their highest bits, as hashes do, take the least time.

    Example:
        >>> repeated_rows(np.array([7, 5, 9, 7], np.uint64))
        array([0, 3])
    """
    if not 1 < len(keys) <= _MOST_IN_TABLE:
        return _repeats_by_sorting(keys)
    candidates = _rows_of_shared_slots(keys)
    return candidates[_repeats_by_sorting(keys[candidates])]


def _rows_of_shared_slots(keys: HashArray) -> IntArray:
    """Return the rows that share the highest bits of their key with another row, ascending."""
    # a quarter of the time of a sort: few rows share a slot, and they alone are sorted
    is_short = len(keys) <= _MOST_IN_16_BITS
    bits = (len(keys) * (16 if is_short else 8)).bit_length()
    slots = (keys >> np.uint64(64 - bits)).view(np.int64)
    rows = np.arange(len(keys), dtype=np.uint16 if is_short else np.int32)
    row_in_slot = np.empty(1 << bits, rows.dtype)
    row_in_slot[slots] = rows  # the last row of each slot stays
    last = row_in_slot[slots]
    is_shared = last != rows
    is_shared[last[is_shared]] = True
    return np.flatnonzero(is_shared)


def _repeats_by_sorting(keys: HashArray) -> IntArray:
    """Return the rows that share their key with another row, ascending, in n log n steps."""
    # NumPy sorts numbers several times as fast as it finds their order
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.zeros(0, np.int64)
    rows = np.argsort(keys)
    twice = keys[rows[1:]] == keys[rows[:-1]]
    shared = np.concatenate((twice, [False])) | np.concatenate(([False], twice))
    return np.sort(rows[shared])


def without_repeats(
    block: HitBlock, query: IntArray, suspects: IntArray
) -> tuple[HitBlock, IntArray]:
    """Return (block with each document once per query, rows kept, ascending).

    A repeated document keeps its first row and its best score.

    Args:
        block: Hits that may repeat a document.
        query: Shape (rows,): number of the query of each row.
        suspects: Rows that may share query and document with another row, ascending.
    """
    scores, keep = block.scores.copy(), np.ones(len(block), bool)
    first: dict[tuple[int, bytes], int] = {}
    for row, number in zip(suspects.tolist(), query[suspects].tolist(), strict=True):
        first_row = first.setdefault((number, block.documents[row]), row)
        if first_row != row:
            keep[row] = False
            scores[first_row] = max(scores[row], scores[first_row])
    rows = np.flatnonzero(keep)
    starts = np.concatenate(([0], np.cumsum(keep)))[block.starts]
    return HitBlock(block.query_ids, starts, block.documents.take(rows), scores[rows]), rows
