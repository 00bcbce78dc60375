"""Looking at any time: the confidence sequence of bets against every possible mean.

`judge: {stop_when: decided, always_valid: true}` reads it, from about 500 queries on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

_MOST = 0.5
"""Share of the capital that may be lost on one query."""
_STEPS = 50


def betting_interval(
    differences: ArrayLike, *, range: tuple[float, float] = (0.0, 1.0), confidence: float = 0.95
) -> tuple[float, float]:
    """Give the interval of a mean difference that may be looked at after every query.

    For each possible mean a gambler bets query by query that the true one lies above it, another
    that it lies below. If the mean is the true one, neither's capital ever grows by 2 / alpha but
    with probability alpha / 2, so the means where a gambler got that rich can be left out, and
    they stay out. The intervals after 1, 2, ... queries lie within each other and all hold with
    the stated confidence, for any distribution within the range. The price is width: about half
    as much again as a single look's.

    Args:
        differences: Score of the system minus score of the baseline, for the queries so far, in
            an order that was drawn by chance before the first of them was looked at.
        range: Smallest and largest possible score of ONE system, both finite.
        confidence: Probability that the truth is never left out.

    Returns:
        Lower and upper limit; everything that is possible where there is no query.

    Raises:
        OptionError: A difference is not finite or too large for the range, the range is not
            bounded, or confidence is outside (0, 1).

    Example:
        Each of 100 queries gained: the mean is above 0, whenever one looks.

        >>> low, high = betting_interval([0.3, 0.5] * 50)
        >>> 0 < low < 0.4 < high
        True

    References:
        Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting:
        hedged capital with predictable plug-in bets.
    """
    owner = "betting_interval"
    low, high = arguments.value_range(owner, range)
    width = high - low
    if not math.isfinite(width):
        raise OptionError(owner, "range", range, "two finite ends: bets need a bound")
    alpha = 1 - arguments.probability(owner, "confidence", confidence)
    d = arguments.sample(owner, "differences", differences)
    arguments.within(owner, "differences", d, -width, width)
    shares = np.clip((d / width + 1) / 2, 0.0, 1.0)
    bets, needed = _bets(shares, alpha), math.log(2 / alpha)
    lower = _highest_beaten(shares, bets, needed)
    upper = 1 - _highest_beaten(1 - shares, bets, needed)
    return width * (2 * lower - 1), width * (2 * upper - 1)


def _bets(x: FloatArray, alpha: float) -> FloatArray:
    """Give the stake before each query, from what the queries before it varied by."""
    t = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (t + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (t + 1)
    before = np.concatenate(([0.25], variances))[: len(x)]
    bets: FloatArray = np.sqrt(2 * math.log(2 / alpha) / (before * t * np.log(t + 1)))
    return bets


def _highest_beaten(x: FloatArray, bets: FloatArray, needed: float) -> float:
    """Give the highest mean that a gambler on more got rich against; 0 where there is none.

    The capital falls as the mean rises, at every time, so bisection finds it.
    """

    def is_beaten(mean: float) -> bool:
        stakes = np.minimum(bets, _MOST / mean)
        return float(np.cumsum(np.log1p(stakes * (x - mean))).max(initial=0.0)) >= needed

    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_beaten(middle) else (low, middle)
    return low
