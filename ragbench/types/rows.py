"""Columns whose rows lie query by query: where each query begins, and what it has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
CauseArray = NDArray[np.uint8]


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
