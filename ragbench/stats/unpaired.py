"""Interval and p-value of a difference of two means over different queries."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from numpy.typing import ArrayLike

from ragbench.stats.mean import mean_interval
from ragbench.stats.resampling import RESAMPLES
from ragbench.stats.score_intervals import crossing

# -log10 of the smallest p-value, and the accuracy of this logarithm
_SMALLEST, _WITHIN = 12.0, 1e-3


class UnpairedInterval(NamedTuple):
    """Difference of two means over different queries with its confidence interval.

    `unpaired_interval` makes it, in the unit of the scores; all are NaN if a sample is empty.

    Attributes:
        mean: Mean of the system minus mean of the baseline.
        lower: Lower limit; NaN if the limits of one mean are unknown.
        upper: Upper limit; NaN as `lower`.
        p: Smallest error rate at which the interval excludes 0, at least 1e-12; 1 if the means are
            equal, NaN without limits.
    """

    mean: float
    lower: float
    upper: float
    p: float


def unpaired_interval(
    values: ArrayLike,
    baseline: ArrayLike,
    range: tuple[float, float] = (0.0, 1.0),
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> UnpairedInterval:
    """Return the difference of the means of two independent samples with its interval.

    The interval adds the squared distances of each mean from its own limits (`mean_interval`):
    Newcombe's hybrid score interval for hits and misses, and the same sum for graded scores. So
    two samples without any spread still have an interval with a width. p inverts the interval: the
    two always agree.

    Args:
        values: n finite scores of the system inside the range; leave unscored queries out.
        baseline: m finite scores of the baseline, over other queries.
        range: Smallest and largest possible score; an infinite end means no bound.
        confidence: Coverage that is aimed at.
        resamples: Resamples of a bootstrap, which only scores without bounds need.
        seed: Equal seeds give equal intervals.

    Returns:
        The difference, system minus baseline, with limits and p. All are NaN where a sample is
        empty; limits and p are NaN too where `mean_interval` has no limits for a sample.

    Raises:
        OptionError: As `mean_interval`: a value outside the range, or an option that is not
            allowed.

    Example:
        56 hits of 70 against 48 of 80, Newcombe's first example.

        >>> result = unpaired_interval([1.0] * 56 + [0.0] * 14, [1.0] * 48 + [0.0] * 32)
        >>> round(result.mean, 4), round(result.lower, 4), round(result.upper, 4)
        (0.2, 0.0524, 0.3339)

    References:
        Newcombe (1998), Interval estimation for the difference between independent proportions,
        method 10. Zou and Donner (2008), Construction of confidence limits about effect measures.
    """
    interval = partial(mean_interval, range=range, resamples=resamples, seed=seed)

    def limits(confidence: float) -> tuple[float, float, float]:
        """Return (lower limit, difference, upper limit) at a confidence."""
        first, second = (interval(sample, confidence=confidence) for sample in (values, baseline))
        mean = first.mean - second.mean
        below = math.hypot(first.mean - first.lower, second.upper - second.mean)
        above = math.hypot(first.upper - first.mean, second.mean - second.lower)
        return mean - below, mean, mean + above

    lower, mean, upper = limits(confidence)
    p = math.nan if math.isnan(lower) else 1.0
    if p == 1.0 and mean != 0:

        def rises(place: float) -> float:
            """Return the distance by which the interval at p = 10^-place reaches beyond 0.

            Negative if the interval excludes 0.
            """
            low, _, high = limits(1 - 10**-place)
            return -low if mean > 0 else high

        p = 10 ** -crossing(rises, 0.0, _SMALLEST, guess=2.0, within=_WITHIN)
    return UnpairedInterval(mean, lower, upper, p)
