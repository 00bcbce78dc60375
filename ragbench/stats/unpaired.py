"""Interval and p-value of a difference of two means over different queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ragbench.stats.barnard import barnard_p_value
from ragbench.stats.mean import mean_interval
from ragbench.stats.resampling import RESAMPLES
from ragbench.stats.score_intervals import crossing
from ragbench.types import FloatArray

# -log10 of the smallest p-value, and the accuracy of this logarithm
_SMALLEST, _WITHIN = 12.0, 1e-3

# Queries that a score without a bound needs on each side. With fewer, `mean_interval` has no
# bootstrap beside t, which misses equal means of skewed times in up to 25 % (5 and 100 queries).
FEWEST_WITHOUT_BOUND = 20


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
    two samples without any spread still have an interval with a width. Of hits and misses it ends
    at 0 where it would exclude 0 although `unpaired_hits_p_value` is above 1 - confidence: for few
    queries, Newcombe's interval alone excludes 0 in up to 12.5 % of samples of equal systems. p
    inverts the interval: the two always agree.

    Args:
        values: n finite scores of the system inside the range; leave unscored queries out.
        baseline: m finite scores of the baseline, over other queries.
        range: Smallest and largest possible score; an infinite end means no bound.
        confidence: Coverage that is aimed at.
        resamples: Resamples of a bootstrap, which only scores without bounds need.
        seed: Equal seeds give equal intervals.

    Returns:
        The difference, system minus baseline, with limits and p. All are NaN where a sample is
        empty; limits and p are NaN too where `mean_interval` has no limits for a sample, and for
        scores without a bound of fewer than 20 queries in a sample.

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
    first, second = (np.asarray(sample, dtype=np.float64) for sample in (values, baseline))
    if math.isnan(lower) or has_too_few(first, second, range):
        return UnpairedInterval(mean, math.nan, math.nan, math.nan)
    p = max(_inverted(limits, mean), _exact_p(first, second, range))
    if p > 1 - confidence:
        # an exact test that shows nothing widens the interval up to 0
        lower, upper = min(lower, 0.0), max(upper, 0.0)
    return UnpairedInterval(mean, lower, upper, p)


def has_too_few(values: FloatArray, baseline: FloatArray, range: tuple[float, float]) -> bool:
    """Return True for a score without a bound that has fewer than 20 values in a sample."""
    is_bounded = math.isfinite(range[0]) and math.isfinite(range[1])
    return not is_bounded and min(len(values), len(baseline)) < FEWEST_WITHOUT_BOUND


def _inverted(limits: Callable[[float], tuple[float, float, float]], mean: float) -> float:
    """Return the smallest error rate at which the limits exclude 0, at least 1e-12."""
    if mean == 0:
        return 1.0

    def rises(place: float) -> float:
        """Return the distance by which the interval at p = 10^-place reaches beyond 0."""
        low, _, high = limits(1 - 10**-place)
        return -low if mean > 0 else high

    return float(10 ** -crossing(rises, 0.0, _SMALLEST, guess=2.0, within=_WITHIN))


def _exact_p(values: FloatArray, baseline: FloatArray, range: tuple[float, float]) -> float:
    """Return the exact p-value of two samples of hits and misses; 0 for other scores."""
    low, high = range
    if not all(np.isin(sample, (low, high)).all() for sample in (values, baseline)):
        return 0.0
    hits, baseline_hits = (int(np.count_nonzero(s == high)) for s in (values, baseline))
    return barnard_p_value(hits, len(values), baseline_hits, len(baseline))
