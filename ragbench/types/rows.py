"""Columns whose rows lie query by query: where each query begins, and what it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from operator import methodcaller
from struct import error as struct_error
from struct import pack_into
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragbench.types.checks import checked_score

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
CauseArray = NDArray[np.uint8]
NO_NUMBER = (TypeError, ValueError, OverflowError, struct_error)
"""What `struct` raises where it is given something else than a number that a double can hold."""

_AT_ONCE = 1000
_values = methodcaller("values")


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
    for array in arrays:
        array.setflags(write=False)


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
