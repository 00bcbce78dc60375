"""Verdicts of rules over many evaluations at once: ours, and those of other tools.

Each takes a sample of evaluations and a margin, and returns which pass and which fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from worlds import Sample

from ragbench.stats import score_interval, t_quantile
from ragbench.stats.score_intervals import TIE_BEYOND, TIE_WITHIN
from ragbench.types import FloatArray

BoolArray = NDArray[np.bool_]
RESAMPLES = 1_000
ALPHA = 0.025


class Verdicts(NamedTuple):
    """Hold the rows that pass and the rows that fail; all others are undecided."""

    passed: BoolArray
    failed: BoolArray


def ours(sample: Sample, margin: float) -> Verdicts:
    """Hold the default interval of a difference against the margin; identical rows pass."""
    d, loss, gain = sample
    changed = d.any(axis=1)
    if np.isin(d, (-1.0, 0.0, 1.0)).all() and (loss == 1).all():
        limits = np.array([_hit_limits(row) for row in _counts(d)])
        return Verdicts((limits[:, 0] > -margin) | ~changed, limits[:, 1] < -margin)
    # rounding errors of the values of clusters
    loss, gain = np.maximum(loss, -d.min(axis=1)), np.maximum(gain, d.max(axis=1))
    largest = np.minimum(np.maximum(np.abs(d).max(axis=1), 1e-12), gain)
    worse = changed & _rejects(-d, 0.0, gain)
    failed = worse & (_rejects(-d, margin, largest) | _rejects(-d, margin, gain))
    return Verdicts(_rejects(d, -margin, loss) | ~changed, failed)


def show_differences(sample: Sample) -> tuple[BoolArray, BoolArray]:
    """Return the rows that are better, and the rows that are worse, by the interval alone."""
    d, loss, gain = sample
    return ours(Sample(-d, gain, loss), 0.0).failed, ours(sample, 0.0).failed


def _counts(d: FloatArray) -> list[tuple[int, int, int]]:
    n = d.shape[1]
    return [(int(b), int(c), n) for b, c in zip((d < 0).sum(1), (d > 0).sum(1), strict=True)]


@lru_cache(maxsize=100_000)
def _hit_limits(counts: tuple[int, int, int]) -> tuple[float, float]:
    return score_interval(*counts)


def _rejects(d: FloatArray, point: float, end: FloatArray) -> BoolArray:
    """Return True for rows whose mean is too far above the point, if no value is below -end."""
    n, mean = d.shape[1], d.mean(axis=1)
    error = np.maximum(d.std(axis=1, ddof=1), 1e-12) / math.sqrt(n)
    # the tail is never that far out where Student's t is not
    rows = np.flatnonzero((mean - point > 1.0 * error) & (-end < point))
    is_rejected = (mean > point) & (-end >= point)
    if len(rows):
        is_rejected[rows] = _tail(d[rows], point, end[rows]) < ALPHA
    # see `unseen_factor`: what samples without a loss of everything may hide
    precise = np.maximum(0.0, 1 - 2 * d.std(axis=1) * math.sqrt(n) / end)
    tie = TIE_WITHIN + (TIE_BEYOND - TIE_WITHIN) * precise
    hidden = 1 - np.minimum(ALPHA / tie, 1.0) ** (1 / n)
    has_end = d.min(axis=1) <= -end + 1e-9
    return is_rejected & (has_end | (mean - hidden * (mean + end) > point))


def _tail(d: FloatArray, point: float, end: FloatArray) -> FloatArray:
    """Give the chance of so high a mean, by bisection for all rows; see `tilting_interval`."""
    n, mean = d.shape[1], d.mean(axis=1)
    x = d - point
    weight = _bisect(
        lambda t: (x / (1 + t[:, np.newaxis] * x)).sum(axis=1), np.zeros(len(d)), 1 / (end + point)
    )
    p = 1 / (n * (1 + weight[:, np.newaxis] * x))
    remaining = np.maximum(1 - p.sum(axis=1), 0.0)
    x, low = d - mean[:, np.newaxis], -end - mean

    def moments(slope: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        tilt, tilt_end = p * np.exp(slope[:, np.newaxis] * x), remaining * np.exp(slope * low)
        return (
            tilt.sum(axis=1) + tilt_end,
            (tilt * x).sum(axis=1) + tilt_end * low,
            (tilt * x**2).sum(axis=1) + tilt_end * low**2,
        )

    slope = _bisect(lambda s: -moments(s)[1], np.zeros(len(d)), 80 / end)
    mass, _, square = moments(slope)
    root = np.sqrt(np.maximum(-2 * n * np.log(mass), 1e-12))
    with np.errstate(all="ignore"):
        distance = root + np.log(slope * np.sqrt(n * square / mass) / root) / root
    tail = np.array([0.5 * math.erfc(z / math.sqrt(2)) for z in np.nan_to_num(distance, nan=-9.0)])
    return np.minimum(tail, TIE_BEYOND * np.exp(-(root**2) / 2))


def _bisect(
    falls: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    for _ in range(40):
        middle = (low + high) / 2
        above = falls(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low


def paired_t(sample: Sample, margin: float) -> Verdicts:
    """Student's t interval against the margin."""
    d = sample.d
    n, mean = d.shape[1], d.mean(axis=1)
    half = t_quantile(1 - ALPHA, n - 1) * d.std(axis=1, ddof=1) / math.sqrt(n)
    return Verdicts(mean - half > -margin, mean + half < -margin)


def percentile(sample: Sample, margin: float) -> Verdicts:
    """Pass where the lower end of a percentile bootstrap is above the margin, else fail below."""
    d = sample.d
    n = d.shape[1]
    rng = np.random.default_rng(1)
    counts = rng.multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(np.float64)
    low, high = np.quantile(counts @ d.T / n, [ALPHA, 1 - ALPHA], axis=0)
    return Verdicts(low > -margin, high < -margin)


def significant_drop(sample: Sample, margin: float) -> Verdicts:
    """Fail where one-sided p < .05 and the mean is below the margin, else pass."""
    d = sample.d
    n, mean = d.shape[1], d.mean(axis=1)
    error = np.maximum(d.std(axis=1, ddof=1), 1e-12) / math.sqrt(n)
    failed = (mean / error < -t_quantile(0.95, n - 1)) & (mean < -margin)
    return Verdicts(~failed, failed)


RULES = {
    "ragbench": ours,
    "paired t": paired_t,
    "percentile": percentile,
    "p and effect": significant_drop,
}
