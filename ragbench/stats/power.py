"""Power and the number of queries, by the standard deviation of the differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.student import t_quantile

_NORMAL = NormalDist()
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_INDISTINCT = 0.1
_LARGE = 1e6


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
        distance: Distance of the true mean difference from the point.
        sd: Standard deviation of the paired differences.
        n_observed: Number of queries behind an OBSERVED distance: below a tenth of its standard
            error the distance is noise, and no plan can be built on it.
        confidence: Confidence of the two-sided interval, of which one limit is in question.
        power: Probability that this limit falls short of the point.

    Returns:
        A number of queries, at least 2. The result is None for never: distance is 0, NaN or noise,
        or sd is NaN.

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

    The integral is that of P(Z + noncentrality > t W) over the distribution of W = sqrt(chi2 / df),
    with an error below 1e-9. The degrees of freedom are 1 or more; `noncentrality`, the true
    difference in standard errors, may be infinite. The result lies in [0, 1].

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
        exceeds = []
        for node in w:
            exceeds.append(_NORMAL.cdf(noncentrality - t * float(node)))
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
