"""The Wilcoxon signed-rank test: do gains outweigh losses, by the ranks of their sizes?"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ragbench.stats import arguments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

EXACT_UP_TO = 50
"""With at most this many changed queries the distribution of the rank sum is computed."""

_TIE = 1e-12


def wilcoxon_p_values(differences: ArrayLike) -> FloatArray:
    """Test each column of paired differences for a distribution symmetric about 0, by ranks.

    Two-sided. Unchanged queries are left out; equal sizes share their mean rank, and so do sizes
    that differ by rounding alone. Exact up to 50 changed queries, ties included; beyond, the
    normal approximation with the variance that the ties leave. One huge difference counts no
    more than the largest rank, so this is no test of the mean.

    Args:
        differences: Table (n queries, m pairs of systems); NaN where a pair is not scored.

    Returns:
        Array of shape (m,), values in (0, 1]. 1 where no query changed; NaN where none is scored.

    Raises:
        OptionError: differences is no table or holds an infinity.

    Example:
        All of five queries won: the rank sum is as large as can be, 2 / 2^5.

        >>> wilcoxon_p_values([[0.1], [0.2], [0.3], [0.4], [0.5]]).tolist()
        [0.0625]

    References:
        Wilcoxon (1945), Individual comparisons by ranking methods.
    """
    table = arguments.matrix("wilcoxon_p_values", "differences", differences)
    columns = [column[~np.isnan(column)] for column in table.T]
    return np.array([_p_value(d) for d in columns], dtype=np.float64)


def _p_value(d: FloatArray) -> float:
    if not len(d):
        return math.nan
    changed = d[d != 0]
    if not len(changed):
        return 1.0
    doubled = _doubled_ranks(np.abs(changed))
    won, total = int(doubled[changed > 0].sum()), int(doubled.sum())
    if len(changed) <= EXACT_UP_TO:
        return _exact(doubled, min(won, total - won))
    sd = math.sqrt(float((doubled.astype(np.float64) ** 2).sum())) / 2
    return min(2 * NormalDist().cdf((min(won, total - won) - total / 2) / sd), 1.0)


def _doubled_ranks(sizes: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Give twice the mean rank of each size: a whole number, whatever the ties."""
    order = np.argsort(sizes, kind="stable")
    ascending = sizes[order]
    starts_anew = np.diff(ascending, prepend=-math.inf) > _TIE * ascending
    first = np.flatnonzero(starts_anew)
    last = np.append(first[1:], len(sizes)) - 1
    ranks = np.empty(len(sizes), dtype=np.int64)
    ranks[order] = (first + last + 2)[np.cumsum(starts_anew) - 1]
    return ranks


def _exact(doubled: np.ndarray[tuple[int], np.dtype[np.int64]], smaller: int) -> float:
    """Give twice the probability of a rank sum up to `smaller` if all signs are equally likely."""
    probability = np.zeros(int(doubled.sum()) + 1)
    probability[0] = 1.0
    for rank in doubled.tolist():
        with_rank = np.zeros_like(probability)
        with_rank[rank:] = probability[: len(probability) - rank]
        probability = (probability + with_rank) / 2
    return min(2 * float(probability[: smaller + 1].sum()), 1.0)
