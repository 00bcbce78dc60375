"""Plans by the interval of `difference_interval` itself: differences it shows, queries it needs."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError
from ragbench.stats import arguments, score_intervals
from ragbench.stats.difference import paired_units
from ragbench.stats.memory import remember
from ragbench.stats.power import smallest
from ragbench.types import FloatArray

# Standard deviations of paired differences of graded scores, such as ndcg, from query to query:
# between similar, and between different, systems
TYPICAL_SDS = (0.15, 0.3)
# Shares of queries whose hit (0 or 1) changes between such systems
TYPICAL_CHANGES = (0.05, 0.2)

_NORMAL = NormalDist()
_N_TYPICAL = 200
_NEAR = 1e-9
_MOST = 10_000_000
_DETECTED_WITHIN = 1e-3  # of a detectable difference: a plan is a rough number
_TOP = 1e-3
_POWER = 0.8
_FLIP_STEPS = 100


def queries_to_exclude(
    differences: ArrayLike,
    point: float,
    *,
    largest: float | tuple[float, float] = 1.0,
    confidence: float = 0.95,
    power: float = 0.8,
) -> int | None:
    """Return the smallest number of queries whose interval leaves the point out, if all are alike.

    All queries are taken to differ as these do, no more and no less. The interval is that of
    `difference_interval` for a bounded range: unlike `queries_needed`, which knows a standard
    deviation alone, this plans with the few large differences that such an interval allows for,
    and with skew. Hits come in whole numbers, so the power is some points off where few change.

    Args:
        differences: Differences of n queries, from -largest to largest.
        point: A mean difference, such as -max_drop; above or below their mean.
        largest: The largest possible difference; two numbers: the largest loss and gain.
        confidence: Confidence of the two-sided interval, of which one limit is in question.
        power: Probability that this limit falls short of the point.

    Returns:
        A number of queries, at least 2. The result is None for never: `differences` is empty, the
        point is the mean itself, or it is so near to it that ten million would not do.

    Raises:
        OptionError: A difference, `point`, `largest` or a probability is out of range.

    Example:
        Each of ten queries gains or loses .2: equal systems, which `max_drop: 0.05` should pass.

        >>> queries_to_exclude([-0.2, 0.2] * 5, -0.05)
        122

    References:
        Connor (1987), Sample size for testing differences in proportions for the paired-sample
        design, of which this is the form for any differences.
    """
    owner = "queries_to_exclude"
    loss, gain = arguments.largest_differences(owner, largest)
    alpha = (1 - arguments.probability(owner, "confidence", confidence)) / 2
    arguments.probability(owner, "power", power)
    d = arguments.sample(owner, "differences", differences)
    arguments.within(owner, "differences", d, -loss, gain)
    if not -loss < point < gain:
        raise OptionError(owner, "point", point, f"a number between -{loss:g} and {gain:g}")
    if not len(d) or abs(float(d.mean()) - point) <= _NEAR * max(loss, gain):
        return None
    if d.mean() < point:
        d, point, loss = -d, -point, gain
    spread = _Spread.of_sample(d)
    plan = _Plan(loss=loss, point=point, alpha=alpha, power=power)
    rough = (plan.distance * spread.sd / (spread.mean - point)) ** 2
    if rough > _MOST:
        return None
    return smallest(partial(plan.is_shown, spread), guess=max(2, math.ceil(rough)))


def detectable_difference(
    differences: ArrayLike,
    *,
    beyond: float | None = None,
    n: int | None = None,
    baseline: ArrayLike | None = None,
    range: tuple[float, float] = (0.0, 1.0),
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
    level: float | None = None,
) -> float:
    """Return the size of the smallest true difference that `difference_interval` shows in 4 of 5.

    Queries are taken to differ as these do, weighed anew so that their mean is larger or smaller:
    more of them change, or fewer. The difference lies on the side of the mean, or of `beyond`: if
    the mean lies on the other side of 0, as many differences are taken to be turned round as not.
    With `level` the paired test has to show the difference, too.

    Args:
        differences: Score of the system minus score of the baseline, for some queries.
        beyond: A mean difference that the interval has to leave out, together with 0: 0 or a
            negative number for losses, such as -max_drop, a positive one for gains; None: 0 alone,
            on the side of the mean.
        n: Number of queries, or clusters, to plan for; None: as many as there are.
        baseline: Scores of the baseline, as for `difference_interval`.
        range: Smallest and largest possible score of one system, as for `difference_interval`.
        clusters: Labels of the queries; queries with equal ones belong together.
        confidence: Confidence of the interval.
        level: P-value that the test of sign flips needs, such as .05 divided by the number of
            comparisons; None: no test.

    Returns:
        A size in the unit of the scores. The value is NaN if no differences like these are shown:
        nothing changed, or all differences are equal and too small; and for an unbounded range, or
        n < 2.

    Raises:
        OptionError: As `difference_interval`, and n is no integer from 1, or level is outside
            (0, 1).

    Example:
        >>> differences = [-0.2, 0.2, 0.0, 0.0, 0.1] * 20
        >>> round(detectable_difference(differences), 3)
        0.045

    References:
        Bloom (1995), Minimum detectable effects.
    """
    owner = "detectable_difference"
    if level is not None:
        arguments.probability(owner, "level", level)
    units = paired_units(owner, differences, baseline=baseline, ends=range, clusters=clusters)
    alpha = (1 - arguments.probability(owner, "confidence", confidence)) / 2
    n = len(units.values) if n is None else arguments.whole_number(owner, "n", n, least=1)
    if n < 2 or not units.is_bounded or not units.values.any():
        return math.nan
    d, (loss, gain) = units.values, units.largest
    down = float(d.mean()) < 0 if beyond is None else beyond <= 0
    if down:
        d, loss = -d, gain
    if d.mean() < 0:
        d = np.concatenate((d, -d))
    point = abs(beyond or 0.0) / units.unit
    plan = _Plan(loss=loss, point=point, alpha=alpha, power=_POWER, level=level)
    smallest_shown = _smallest_shown(d, plan, n)
    # the value of a large cluster may exceed the range, a mean never does
    return units.unit * smallest_shown if smallest_shown <= 1 else math.nan


@remember
def _smallest_shown(d: FloatArray, plan: _Plan, n: int) -> float:
    """Return the smallest mean that n queries show, whose differences vary as these do."""
    return plan.smallest_shown(_Spread.of_sample(d), n)


def typical_detectable(n: int, *, hits: bool = False) -> tuple[float, float]:
    """Return the differences that n queries show with power .8, where no scores are known yet.

    The first is that of systems that are alike, the second of systems that are not: the differences
    of graded scores from 0 to 1, such as ndcg, vary by `TYPICAL_SDS` from query to query, and hits
    change on `TYPICAL_CHANGES` of the queries. The value is NaN where no such difference is shown.
    Raises OptionError if n is no integer from 1.

    Example:
        >>> [round(difference, 2) for difference in typical_detectable(200)]
        [0.03, 0.06]
    """
    n = arguments.whole_number("typical_detectable", "n", n, least=1)
    alike, unlike = TYPICAL_CHANGES if hits else TYPICAL_SDS
    return _typical_detectable(n, alike, hits), _typical_detectable(n, unlike, hits)


@lru_cache(maxsize=256)
def _typical_detectable(n: int, level: float, hits: bool) -> float:
    """Return the difference that n queries show where their differences vary as usual."""
    return detectable_difference(_typical(level, hits=hits), n=n)


def _typical(level: float, *, hits: bool) -> FloatArray:
    """Return differences of mean 0: hits of which a share changes, or a normal distribution."""
    if hits:
        changed = round(level * _N_TYPICAL / 2)
        return np.repeat([-1.0, 0.0, 1.0], [changed, _N_TYPICAL - 2 * changed, changed])
    places = (np.arange(_N_TYPICAL) + 0.5) / _N_TYPICAL
    normal = np.array([_NORMAL.inv_cdf(place) for place in places])
    return np.asarray(level * normal / normal.std(), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Spread:
    """Distribution of the differences of all queries."""

    values: FloatArray  # distinct differences, rising
    shares: FloatArray  # the probability of each
    mean: float
    sd: float

    @classmethod
    def of_sample(cls, d: FloatArray) -> _Spread:
        """Return the distribution of a sample of differences, which is not empty."""
        values, counts = np.unique(np.round(d, 10), return_counts=True)
        return cls.of(values, np.asarray(counts / len(d), dtype=np.float64))

    @classmethod
    def of(cls, values: FloatArray, shares: FloatArray) -> _Spread:
        """Return the distribution of distinct differences with their probabilities."""
        mean = float(values @ shares)
        distances = values - mean
        sd = math.sqrt(float(shares @ (distances * distances)))
        return cls(values, shares, mean, sd)

    def weighed(self, mean: float) -> _Spread:
        """Return the differences weighed anew so that they have this mean."""
        # A mean below all differences takes further queries without a change.
        is_lower = mean < self.mean
        values = self.values if is_lower else -self.values[::-1]
        shares = self.shares if is_lower else self.shares[::-1]
        start = min(float(values[0]), 0.0) if is_lower else float(values[0])
        width = float(values[-1]) - start
        if width <= 0 or abs(mean - self.mean) <= _NEAR * width:
            return self
        if start < values[0]:
            values, shares = np.append(start, values), np.append(0.0, shares)
        target = ((mean if is_lower else -mean) - start) / width
        weights = score_intervals.tilt_to_mean((values - start) / width, shares, target).weights
        values, weights = (values, weights) if is_lower else (-values[::-1], weights[::-1])
        has_weight = weights > 0
        return _Spread.of(values[has_weight], weights[has_weight])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Interval, and test, that have to show a mean difference above a point."""

    loss: float  # largest loss of a query that no sample has shown
    point: float  # mean difference that the interval leaves out
    alpha: float  # error of the interval on one side
    power: float  # probability that the mean is shown
    level: float | None = None  # P-value that the test needs; None without a test

    @property
    def distance(self) -> float:
        """Roughly the distance of a mean that is shown from the point, in standard errors."""
        return -_NORMAL.inv_cdf(self.alpha) + max(_NORMAL.inv_cdf(self.power), 0.0)

    def smallest_shown(self, spread: _Spread, n: int) -> float:
        """Return the smallest mean above the point that n queries show; NaN if none is."""
        low, high = max(self.point, 0.0), float(spread.values[-1])
        # a mean at the end is that of equal differences, which a sample does not weigh anew
        top = high - _TOP * (high - low)

        def is_shown(mean: float) -> bool:
            """Return True if n queries show the mean."""
            return self.is_shown(spread.weighed(mean), n)

        if not low < top or not is_shown(top):
            return math.nan
        guess = min(low + max(self.distance * spread.sd / math.sqrt(n), _NEAR), top)
        high = top
        if not is_shown(guess):
            # equal differences start at a guess of nearly 0: bisection skips most of 200 steps
            means = _growing_means(guess, top)
            n_hidden = bisect_left(means, True, key=is_shown)
            low, high = means[n_hidden - 1], [*means, top][n_hidden]
            guess = (low + high) / 2
        while high - low > _DETECTED_WITHIN * high:
            if is_shown(guess):
                high = guess
                guess = max((low + high) / 2, 0.9 * guess)
            else:
                low = guess
                guess = min((low + high) / 2, 1.1 * guess)
        return high

    def is_shown(self, spread: _Spread, n: int) -> bool:
        """Return True if n queries show the mean of all queries with the power."""
        sample = spread.weighed(self._unlucky_mean(spread, n))
        if not sample.mean > self.point or not self._is_tested(sample, n):
            return False
        # as `tilting_interval`: with differences that no query has shown, until that excludes 0
        if not self._excludes(sample, min(self.point, 0.0), self.loss, n):
            return False
        largest = min(self.loss, float(np.abs(spread.values).max()))
        return self.point <= 0 or self._excludes(sample, self.point, largest, n)

    def _unlucky_mean(self, spread: _Spread, n: int) -> float:
        """Return the mean that samples exceed with the power, by Cornish and Fisher."""
        mean, sd = spread.mean, spread.sd
        if sd == 0:
            return mean
        seldom = _NORMAL.inv_cdf(self.power)
        distances = (spread.values - mean) / sd
        skew = float(spread.shares @ (distances * distances * distances))
        down = seldom - skew / (6 * math.sqrt(n)) * (seldom**2 - 1)
        return min(max(mean - sd / math.sqrt(n) * down, float(spread.values[0])), mean)

    def _excludes(self, sample: _Spread, point: float, loss: float, n: int) -> bool:
        """Return True if the interval of n such queries, with their mean, is above a point."""
        low, width = min(-loss, float(sample.values[0])), float(sample.values[-1])
        width -= low
        if point <= low or width <= 0:
            return True
        values, shares = (sample.values - low) / width, sample.shares
        if values[0] > _NEAR:
            values, shares = np.append(0.0, values), np.append(0.0, shares)
        values[0] = 0.0
        mean, target = float(values @ shares), (point - low) / width
        if shares[0] == 0:
            factor = score_intervals.unseen_factor(sample.sd, -low, n, self.alpha)
            if not mean * factor > target:
                return False
        if np.count_nonzero(shares) == 1:
            return True
        null = score_intervals.tilt_to_mean(values, shares, target)
        return score_intervals.tail_distance(null, mean, n) >= -_NORMAL.inv_cdf(self.alpha)

    def _is_tested(self, sample: _Spread, n: int) -> bool:
        """Return True if the test of sign flips has a p-value of at most `level`, or without it."""
        # The chance of so high a sum of n queries like these is that of a saddlepoint, and 2^-k
        # where all k that changed rise.
        if self.level is None:
            return True
        sizes, shares = np.abs(sample.values), sample.shares
        changed = n * float(shares[sizes > 0].sum())
        logs, slope, spread = changed * math.log(2), math.inf, 0.0
        if sample.values[0] < 0:
            slope, spread = _flip_slope(sizes, shares, sample.mean)
            cosh = np.logaddexp(slope * sizes, -slope * sizes) - math.log(2)
            logs = n * float(slope * sample.mean - shares @ cosh)
        if math.isinf(slope):
            return 2 * math.exp(-logs) <= self.level
        root = math.sqrt(max(2 * logs, 1e-300))
        distance = root + math.log(max(slope * math.sqrt(n * spread) / root, 1e-300)) / root
        return 2 * _NORMAL.cdf(-distance) <= self.level


def _growing_means(mean: float, top: float) -> list[float]:
    """Return means from a first one to the top, each at most a tenth larger than the last one."""
    means = [mean]
    while top - means[-1] > _DETECTED_WITHIN * top:
        means.append(min((means[-1] + top) / 2, 1.1 * means[-1]))
    return means


def _flip_slope(sizes: FloatArray, shares: FloatArray, mean: float) -> tuple[float, float]:
    """Return the slope of exp(slope) weights that give signed sizes this mean; their variance."""
    first = shares * sizes
    second = first * sizes
    total = float(second.sum())
    slope = mean / total  # the first step from 0
    for _ in range(_FLIP_STEPS):
        tanh = np.tanh(slope * sizes)
        missing = mean - float(first @ tanh)
        rise = total - float(second @ (tanh * tanh))
        if missing <= _NEAR * mean or rise <= 0:
            break
        slope += missing / rise  # the function is concave: no step goes too far
    return slope, rise
