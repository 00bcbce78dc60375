"""Power and the number of queries: by the standard deviation, or by the interval itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError
from ragbench.stats import arguments, score_intervals
from ragbench.stats.student import t_quantile
from ragbench.types import FloatArray

# Standard deviations of paired differences of graded scores, such as ndcg, from query to query:
# between similar, and between different, systems
TYPICAL_SDS = (0.15, 0.3)
_NORMAL = NormalDist()
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_INDISTINCT = 0.1
_LARGE = 1e6
_WITHIN = 1e-10
_NEAR = 1e-9
_MOST = 10_000_000


def minimum_detectable_difference(
    sd: float, n: int, *, confidence: float = 0.95, power: float = 0.8
) -> float:
    """Return the true mean difference that n queries would show with the stated power.

    The power at the difference that was observed says nothing beyond its p-value, so there is no
    function for it.

    Args:
        sd: Standard deviation of the paired differences.
        n: Number of queries.
        confidence: Confidence of the two-sided interval that has to leave 0 out.
        power: Probability that it does.

    Returns:
        A difference in the unit of sd; NaN where n < 2 or sd is NaN.

    Raises:
        OptionError: sd is negative, n is no integer from 0, or a probability is outside (0, 1).

    Example:
        >>> round(minimum_detectable_difference(0.2, 225), 4)
        0.0375

    References:
        Bloom (1995), Minimum detectable effects.
    """
    owner = "minimum_detectable_difference"
    arguments.size(owner, "sd", sd)
    arguments.whole_number(owner, "n", n, least=0)
    arguments.probability(owner, "confidence", confidence)
    arguments.probability(owner, "power", power)
    if n < 2:
        return math.nan
    return (t_quantile((1 + confidence) / 2, n - 1) + t_quantile(power, n - 1)) * sd / math.sqrt(n)


def queries_needed(
    distance: float,
    sd: float,
    *,
    n_observed: int | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
) -> int | None:
    """Return the smallest number of queries whose interval leaves a point at that distance out.

    For a gate: `distance = max_drop` if the systems are equal, `abs(mean + max_drop)` if the true
    difference is the one that was observed.

    Args:
        distance: How far the true mean difference lies from the point.
        sd: Standard deviation of the paired differences.
        n_observed: Number of queries behind an OBSERVED distance: below a tenth of its standard
            error the distance is noise, and no plan can be built on it.
        confidence: Confidence of the two-sided interval, of which one limit is in question.
        power: Probability that this limit falls short of the point.

    Returns:
        A number of queries, at least 2. None for never: distance is 0, NaN or noise, or sd is NaN.

    Raises:
        OptionError: distance or sd is negative, n_observed is no integer from 1, or a probability
            is outside (0, 1).

    Example:
        To pass `max_drop: 0.05` when the systems are equal and differences vary by 0.2:

        >>> queries_needed(0.05, 0.2)
        128

    References:
        Cohen (1988), Statistical power analysis for the behavioral sciences, 2.4.
    """
    owner = "queries_needed"
    arguments.size(owner, "distance", distance)
    arguments.size(owner, "sd", sd)
    arguments.probability(owner, "power", power)
    alpha = (1 - arguments.probability(owner, "confidence", confidence)) / 2
    standard_error = 0.0
    if n_observed is not None:
        arguments.whole_number(owner, "n_observed", n_observed, least=1)
        standard_error = sd / math.sqrt(n_observed)
    if not (distance > 0 and distance >= _INDISTINCT * standard_error):
        return None

    z = _NORMAL.inv_cdf(1 - alpha)
    ratio = (max(z + _NORMAL.inv_cdf(power), 0.0)) * (sd / distance)
    rough = ratio * ratio
    if not math.isfinite(rough):
        return None
    if rough > _LARGE:
        # Within one query of the exact answer here, at a fraction of the cost.
        return math.ceil(rough + z * z / 2)

    def enough(n: int) -> bool:
        effect = distance / sd * math.sqrt(n) if sd > 0 else math.inf
        return noncentral_t_sf(t_quantile(1 - alpha, n - 1), n - 1, effect) >= power

    return smallest(enough, guess=max(2, math.ceil(rough)))


def noncentral_t_sf(t: float, df: float, noncentrality: float) -> float:
    """Return the probability that noncentral t exceeds t: the power of a t test with that limit.

    Integrates P(Z + noncentrality > t W) over the distribution of W = sqrt(chi2 / df), with an
    error below 1e-9. The degrees of freedom are 1 or more; `noncentrality`, the true difference in
    standard errors, may be infinite. The result lies in [0, 1].

    Raises:
        OptionError: t is not finite, df is below 1 or not finite, or noncentrality is NaN.

    Example:
        Without a difference the power is the error rate.

        >>> round(noncentral_t_sf(t_quantile(0.975, 9), 9, 0.0), 9)
        0.025

    References:
        Johnson, Kotz and Balakrishnan (1995), Continuous univariate distributions 2, 31.3.
    """
    if not math.isfinite(t):
        raise OptionError("noncentral_t_sf", "t", t, "a finite number")
    if not 1 <= df < math.inf:
        raise OptionError("noncentral_t_sf", "df", df, "a finite number >= 1")
    if math.isnan(noncentrality):
        raise OptionError("noncentral_t_sf", "noncentrality", noncentrality, "a number")
    if math.isinf(noncentrality):
        return 1.0 if noncentrality > 0 else 0.0

    mode, reach = math.sqrt((df - 1) / df), 12 / math.sqrt(2 * df)
    ends = [max(0.0, mode - reach), mode + reach]
    if t != 0:
        # The normal probability falls from 1 to 0 around this w: a sharp step where t is large.
        step, breadth = noncentrality / t, 8 / abs(t)
        ends += [w for w in (step - breadth, step, step + breadth) if ends[0] < w < ends[1]]
    ends.sort()
    total = mass = 0.0
    for start, end in pairwise(ends):
        w = start + (end - start) * (_NODES + 1) / 2
        # The density up to a constant, which the division by its mass makes needless.
        density = np.exp((df - 1) * np.log(w / max(mode, 0.5)) - df / 2 * (w**2 - mode**2))
        density *= _WEIGHTS * (end - start)
        exceeds = [_NORMAL.cdf(noncentrality - t * float(x)) for x in w]
        total += float(np.dot(density, exceeds))
        mass += float(density.sum())
    return total / mass


def smallest(enough: Callable[[int], bool], guess: int) -> int:
    """Return the smallest n >= 2 with enough(n), which stays true from there on.

    `guess` is the first n tried, 2 or more. Does not end if enough(n) is never true.
    """
    low, high = 1, guess  # enough(1) counts as false
    while not enough(high):
        low, high = high, 2 * high
    # down in growing steps, then by bisection: `enough` is expensive
    step = 1
    while high - step > low and enough(high - step):
        high, step = high - step, 2 * step
    low = max(low, high - step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def queries_to_exclude(
    differences: ArrayLike,
    point: float,
    *,
    largest: float = 1.0,
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
        largest: The largest possible difference.
        confidence: Confidence of the two-sided interval, of which one limit is in question.
        power: Probability that this limit falls short of the point.

    Returns:
        A number of queries, at least 2. None for never: `differences` is empty, the point is the
        mean itself, or it is so near to it that ten million would not do.

    Raises:
        OptionError: A difference is not finite or beyond largest, point is not between -largest
            and largest, largest is not finite and above 0, or a probability is outside (0, 1).

    Example:
        Each of ten queries gains or loses .2: equal systems, which `max_drop: 0.05` should pass.

        >>> queries_to_exclude([-0.2, 0.2] * 5, -0.05)
        122

    References:
        Connor (1987), Sample size for testing differences in proportions for the paired-sample
        design, of which this is the form for any differences.
    """
    owner = "queries_to_exclude"
    if not 0 < largest < math.inf:
        raise OptionError(owner, "largest", largest, "a finite number above 0")
    alpha = (1 - arguments.probability(owner, "confidence", confidence)) / 2
    arguments.probability(owner, "power", power)
    d = arguments.sample(owner, "differences", differences)
    arguments.within(owner, "differences", d, -largest, largest)
    if not -largest < point < largest:
        raise OptionError(owner, "point", point, f"a number between -{largest:g} and {largest:g}")
    if not len(d) or abs(float(d.mean()) - point) <= _NEAR * largest:
        return None
    if d.mean() < point:
        d, point = -d, -point
    # as `tilting_interval`: with differences that no query has shown, until that excludes 0
    n = _planned((d / largest + 1) / 2, (min(point, 0.0) / largest + 1) / 2, alpha, power)
    if n is None or point <= 0:
        return n
    end = float(np.abs(d).max())
    beyond_0 = _planned((d / end + 1) / 2, (point / end + 1) / 2, alpha, power)
    return None if beyond_0 is None else max(n, beyond_0)


def _planned(values: FloatArray, point: float, alpha: float, power: float) -> int | None:
    """Return the queries needed for values in [0, 1] with a mean above the point, at least 2.

    None if they would be more than ten million. `alpha` is the error on one side; a point of 0 or
    less gives 2.
    """
    if point <= 0:
        return 2
    distinct, shares = score_intervals.distinct_shares(values)
    mean = float(distinct @ shares)
    sd = math.sqrt(float(shares @ (distinct - mean) ** 2))
    if sd == 0:  # only samples without a value at 0 are as high
        return max(
            2, math.ceil(math.log(alpha / score_intervals.TIE_BEYOND) / math.log(point / mean))
        )
    needed, seldom = -_NORMAL.inv_cdf(alpha), _NORMAL.inv_cdf(power)
    skew = float(shares @ (distinct - mean) ** 3) / sd**3
    rough = ((needed + max(seldom, 0.0)) * sd / (mean - point)) ** 2
    if rough > _MOST:
        return None

    def enough(n: int) -> bool:
        # the mean that so many draws exceed with that power, by Cornish and Fisher
        down = seldom - skew / (6 * math.sqrt(n)) * (seldom**2 - 1)
        unlucky = mean - sd / math.sqrt(n) * down
        if not point < unlucky < distinct[-1]:
            return unlucky > point
        sample = _with_mean(distinct, shares, min(unlucky, mean))
        null = _with_mean(distinct, sample.weights, point)
        return score_intervals.tail_distance(null, min(unlucky, mean), n) >= needed

    return smallest(enough, guess=max(2, math.ceil(rough)))


def _with_mean(values: FloatArray, shares: FloatArray, mean: float) -> score_intervals.Tilted:
    """Return the distribution on the path from these shares that has the given mean.

    `mean` is at most that of the shares; values and shares are those of `distinct_shares`.
    """
    place = score_intervals.crossing(
        lambda x: mean - score_intervals.tilted(values, shares, x).mean,
        0.0,
        1.0,
        guess=0.2,
        within=_WITHIN,
    )
    return score_intervals.tilted(values, shares, place)
