"""The tilting interval of a mean of differences: the score interval of graded ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.paired_proportions import TIE_BEYOND
from ragbench.stats.root import crossing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

_NORMAL = NormalDist()
_WITHIN = 1e-9
_DIGITS = 10  # beyond them a limit is chance, and another computer has others
_STEPS = 100
_SMALL = 1e-3  # a root below it is taken by its series


def tilting_interval(
    differences: ArrayLike, *, largest: float = 1.0, confidence: float = 0.95
) -> tuple[float, float]:
    """Give the interval of a mean of differences none of which can be larger than `largest`.

    A mean m lies within the limits if, drawn from the distribution that fits the differences best
    among those with mean m, a mean as far from m as the observed one is not too rare. Such a
    distribution weighs the differences anew ("tilts" them), and it may add one of a size that
    nobody has seen yet: 100 unchanged queries do not exclude that 3 in 100 lose everything. How
    rare the observed mean is, the saddlepoint approximation says, so that skew is in both limits.

    A limit that lies as far as 0 or beyond says that there is no larger difference, so it allows
    for unseen ones up to `largest`. A limit between 0 and the mean says that there is one; it
    allows for unseen ones as large as any that was seen, in either direction. Where all that
    change do so by `largest`, both are those of `score_interval`, but for the approximation.

    Args:
        differences: n numbers, from -largest to largest.
        largest: The largest possible difference, above 0.
        confidence: Coverage that is aimed at.

    Returns:
        Lower and upper limit; -largest and largest where n = 1, NaN where n = 0. Never of zero
        width. They mirror each other where the differences change sign.

    Example:
        Three of fifty queries lost something, so the interval reaches farther down than up.

        >>> low, high = tilting_interval([-0.5, -0.5, -0.3] + [0.0] * 47)
        >>> round(low, 3), round(high, 3)
        (-0.082, 0.032)

    References:
        Efron (1981), Nonparametric standard errors and confidence intervals. DiCiccio and Romano
        (1990), Nonparametric confidence limits by resampling methods and least favorable
        families. Daniels (1987), Tail probability approximations. Owen (2001), Empirical
        likelihood, for the weights.
    """
    owner = "tilting_interval"
    if not 0 < largest < math.inf:
        raise OptionError(owner, "largest", largest, "a finite number above 0")
    alpha = (1 - arguments.probability(owner, "confidence", confidence)) / 2
    given = arguments.sample(owner, "differences", differences)
    arguments.within(owner, "differences", given, -largest, largest)
    if len(given) < 2:
        return (-largest, largest) if len(given) else (math.nan, math.nan)
    d = given / largest
    return largest * _lower(d, alpha), -largest * _lower(-d, alpha)


def _lower(d: FloatArray, alpha: float) -> float:
    """Give the lower limit of the mean of differences in [-1, 1]."""
    seen = float(np.abs(d).max())
    if d.mean() > 0:
        above = 2 * _above((d / seen + 1) / 2, alpha) - 1
        if above > 0:
            return round(seen * above, _DIGITS)
    return round(2 * _above((d + 1) / 2, alpha) - 1, _DIGITS)


@dataclass(frozen=True, slots=True)
class Tilted:
    """A distribution on distinct values in [0, 1] with mean below that of the sample."""

    values: FloatArray
    """Distinct values, rising; the first is 0, which need not have been observed."""
    weights: FloatArray
    """The probability of each; they sum to 1."""

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.values @ self.weights)

    @property
    def sd(self) -> float:
        """The standard deviation."""
        return math.sqrt(float(self.weights @ (self.values - self.mean) ** 2))


def tilted(values: FloatArray, shares: FloatArray, place: float) -> Tilted:
    """Give a distribution that fits a sample best among all on [0, 1] with its mean.

    Those of all means lie on a path: first the values are weighed anew, proportional to
    1 / (1 + t value) with a rising t, then what is left goes to 0, if no value is there.

    Args:
        values: Distinct values in [0, 1], rising, the first of them 0.
        shares: How often each was observed, as shares of the sample; 0 for a first one that was
            not.
        place: Where on the path, from 0 (the sample itself) to 1 (everything at 0).

    Example:
        >>> found = tilted(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.5, 0.5]), 0.75)
        >>> found.weights.round(4).tolist(), round(found.mean, 4)
        ([0.5, 0.3333, 0.1667], 0.3333)
    """
    if shares[0] > 0:
        weights = shares * (1 - place) / (1 - place + place * values)
        if place >= 1:
            weights = (values == 0).astype(np.float64)
        return Tilted(values, weights / weights.sum())
    turn = min(2 * place, 1.0)
    weights = np.zeros_like(shares)
    weights[1:] = shares[1:] / (1 - turn + turn * values[1:])
    at_end = max(2 * place - 1, 0.0)
    weights *= (1 - at_end) / weights.sum()
    weights[0] = at_end
    return Tilted(values, weights)


def distinct_shares(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the distinct ones of values in [0, 1], led by 0, and how often each is there.

    Values that differ by rounding alone are one: between them there is nothing to weigh.
    """
    rounded = np.asarray(np.round(np.clip(values, 0.0, 1.0), _DIGITS), dtype=np.float64)
    distinct, counts = np.unique(rounded, return_counts=True)
    shares = counts / len(values)
    if distinct[0] > 0:
        distinct, shares = np.insert(distinct, 0, 0.0), np.insert(shares, 0, 0.0)
    return distinct, shares


def _above(values: FloatArray, alpha: float) -> float:
    """Give the lower limit of the mean of values in [0, 1]."""
    n = len(values)
    distinct, shares = distinct_shares(values)
    mean = float(distinct @ shares)
    if len(distinct) == 1:
        return 0.0
    if np.count_nonzero(shares) == 1:  # only samples without a value at 0 are as high
        return mean * float(min(alpha / TIE_BEYOND, 1.0) ** (1 / n))
    needed = -_NORMAL.inv_cdf(alpha)

    def rises(place: float) -> float:
        return needed - tail_distance(tilted(distinct, shares, 1 - place), mean, n)

    place = crossing(rises, 0.0, 1.0, guess=0.5, within=_WITHIN)
    return tilted(distinct, shares, 1 - place).mean


def tail_distance(null: Tilted, mean: float, n: int) -> float:
    """Say how far out in the upper tail a mean of n draws is, in standard normal deviates.

    Args:
        null: Where they are drawn from.
        mean: The mean, between that of null and its largest value.
        n: Number of draws.

    Example:
        A mean of .7 in 100 throws of a coin is about 4 standard deviations from .5.

        >>> coin = Tilted(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
        >>> round(tail_distance(coin, 0.7, 100), 2)
        4.05
    """
    x = null.values - mean
    slope = _saddlepoint(x, null.weights)
    tilt = null.weights * np.exp(slope * x)
    mass = float(tilt.sum())
    variance = float(tilt @ x**2) / mass  # about the mean, which is now at 0
    root = math.sqrt(max(-2 * n * math.log(mass), 0.0))
    if root < _SMALL:
        skew = float(null.weights @ x**3) / math.pow(max(variance, 1e-300), 1.5)
        return root + skew / (6 * math.sqrt(n))
    # Lugannani and Rice's tail, in the form of Barndorff-Nielsen
    factor = slope * math.sqrt(n * variance) / root
    distance = root + math.log(factor) / root if factor > 0 else -math.inf
    # Chernoff's bound, with the weight of a tie: better where the mean is all but the largest
    bound = max(TIE_BEYOND * math.exp(-root * root / 2), 1e-300)
    return max(distance, -float(_NORMAL.inv_cdf(bound)))


def _saddlepoint(x: FloatArray, weights: FloatArray) -> float:
    """Solve for the slope at which the values, weighed by exp(slope x), have mean 0."""
    low, high, slope = 0.0, math.inf, 1.0
    top = float(x[-1])  # so that no power overflows
    for _ in range(_STEPS):
        tilt = weights * np.exp(slope * (x - top))
        first, second = float(tilt @ x), float(tilt @ x**2)
        low, high = (slope, high) if first < 0 else (low, slope)
        variance = second - first * first / float(tilt.sum())
        following = slope - first / variance if variance > 0 else math.inf
        if not low <= following <= high or math.isinf(following):
            following = 2 * low + 1.0 if math.isinf(high) else (low + high) / 2
        if abs(following - slope) <= 1e-10 * max(slope, 1.0):
            return following
        slope = following
    return slope
