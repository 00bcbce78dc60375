"""The scores of a run's nested dictionaries as one array: fast where all are plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from operator import methodcaller
from struct import error as struct_error
from struct import pack_into

import numpy as np

from ragbench.types.cells import checked_score
from ragbench.types.rows import FloatArray

NO_NUMBER = (TypeError, ValueError, OverflowError, struct_error)
"""What `struct` raises where it is given something else than a number that a double can hold."""

_AT_ONCE = 1000
_values = methodcaller("values")


def score_column(run: Mapping[str, Mapping[str, float]], rows: int) -> FloatArray:
    """Return the scores of all queries one after the other.

    Raises:
        DataError: A score that is NaN or no number; names query and document.
    """
    try:
        return plain_scores(run.values(), len(run), rows)
    except NO_NUMBER:
        return _checked_scores(run, rows)


def plain_scores(rankings: Iterable[Mapping[str, float]], n_queries: int, rows: int) -> FloatArray:
    """Return the scores of n queries with so many rows.

    Raises:
        ValueError: A score is NaN or no number; so say other errors of `NO_NUMBER`.
    """
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
