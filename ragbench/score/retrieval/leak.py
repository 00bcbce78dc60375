"""Leak: whether a hit that must never come up for a query is among its first hits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragbench.score.retrieval.base import Cutoff, measure
from ragbench.types import Cause, CauseArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ForbiddenRanks:
    """Ranks at which the rankings of n queries have forbidden hits; all arrays have shape (n,).

    Ranks count hits as they were retrieved, from 1; 0 stands for no such hit.

    Attributes:
        ranks: Rank of the first forbidden hit.
        unclear: Rank of the first hit that may be forbidden: its place or its metadata are unknown.
        causes: `SCORED` for a query with forbidden documents, else the reason why it has no value.
    """

    ranks: IntArray
    unclear: IntArray
    causes: CauseArray

    @classmethod
    def of_no_queries(cls) -> ForbiddenRanks:
        """Return the ranks of no queries."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, np.zeros(0, np.uint8))


@measure(
    "leak",
    group="first hits",
    range=(0.0, 1.0),
    reads="forbidden",
    direction="lower",
    cutoff="required",
    nan_means=Cause.NO_FORBIDDEN,
    upper_limit=True,
)
def leak(forbidden: ForbiddenRanks, *, k: Cutoff | None = None) -> FloatArray:
    """Score each query 1 if its first k hits have a document that must never come up, else 0.

    Lower is better. Hits count as they were retrieved. The value is NaN for a query without
    forbidden documents, and if one of the first k hits may be forbidden and none surely is: it has
    no metadata, or no place in a document. Without k all hits count. The interval of the mean is
    one-sided: its upper end is the exact limit of Clopper and Pearson.

    Returns:
        Array of shape (n,).

    Example:
        The first forbidden hits are at ranks 2 and 6; the third query has none.

        >>> ranks = ForbiddenRanks(np.array([2, 6, 0]), np.zeros(3, int), np.zeros(3, np.uint8))
        >>> leak(ranks, k=5)
        array([1., 0., 0.])

    References:
        Clopper and Pearson (1934), The use of confidence or fiducial limits.
    """
    has_leak = _within(forbidden.ranks, k)
    values = has_leak.astype(np.float64)
    is_unclear = _within(forbidden.unclear, k) & ~has_leak
    values[(forbidden.causes != Cause.SCORED) | is_unclear] = np.nan
    return values


def _within(ranks: IntArray, k: int | None) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return True for each rank among the first k."""
    return ranks > 0 if k is None else (ranks > 0) & (ranks <= k)
