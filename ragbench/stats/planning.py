"""Planning by the interval itself: how many such queries leave a point outside."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.paired_proportions import TIE_BEYOND
from ragbench.stats.power import smallest
from ragbench.stats.root import crossing
from ragbench.stats.tilting import Tilted, distinct_shares, tail_distance, tilted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

_NORMAL = NormalDist()
_WITHIN = 1e-10
_NEAR = 1e-9
_MOST = 10_000_000


def queries_to_exclude(
    differences: ArrayLike,
    point: float,
    *,
    largest: float = 1.0,
    confidence: float = 0.95,
    power: float = 0.8,
) -> int | None:
    """Give the smallest number of queries whose interval leaves the point out, if all are alike.

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
        A number of queries, at least 2. None for never: the point is the mean itself, or so near
        to it that ten million would not do.

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
    # as the limits do: beyond 0 for what nobody has seen, up to 0 for as much as was seen
    end = largest if point <= 0 else float(np.abs(d).max())
    return _planned((d / end + 1) / 2, (point / end + 1) / 2, alpha, power)


def _planned(values: FloatArray, point: float, alpha: float, power: float) -> int | None:
    """Plan for values in [0, 1] with a mean above the point."""
    if point <= 0:
        return 2
    distinct, shares = distinct_shares(values)
    mean = float(distinct @ shares)
    sd = math.sqrt(float(shares @ (distinct - mean) ** 2))
    if sd == 0:  # only samples without a value at 0 are as high
        return max(2, math.ceil(math.log(alpha / TIE_BEYOND) / math.log(point / mean)))
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
        return tail_distance(null, min(unlucky, mean), n) >= needed

    return smallest(enough, guess=max(2, math.ceil(rough)))


def _with_mean(values: FloatArray, shares: FloatArray, mean: float) -> Tilted:
    """Give the distribution on the path from these shares that has a mean below theirs."""
    place = crossing(
        lambda x: mean - tilted(values, shares, x).mean, 0.0, 1.0, guess=0.2, within=_WITHIN
    )
    return tilted(values, shares, place)
