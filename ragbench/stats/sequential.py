"""Looking early: bounds for a few planned looks, and bets that hold whenever one looks.

`judge: {stop_when: decided}` reads them; with `always_valid: true` the bets, from about 500 queries
on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.difference import DifferenceInterval, difference_interval
from ragbench.stats.resampling import RESAMPLES
from ragbench.types import FloatArray

__all__ = ["betting_interval", "interim_interval", "look_sizes", "spending_bounds"]

LOOKS = 5
"""More looks save little, and each costs a little of the last one's width."""

_NORMAL = NormalDist()
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_HIGHEST = 8.0
"""A bound above it spends less than 1e-15: nothing that the others would miss."""

_MOST = 0.5
"""Share of the capital that may be lost on one query."""
_STEPS = 50


def look_sizes(n: int, *, looks: int = LOOKS) -> tuple[int, ...]:
    """Give after how many of n queries to look, in equal steps; the last look is at n.

    There are fewer looks where n is smaller.

    Raises:
        OptionError: n or looks is below 1.

    Example:
        >>> look_sizes(498)
        (100, 200, 299, 399, 498)
    """
    arguments.whole_number("look_sizes", "n", n, least=1)
    arguments.whole_number("look_sizes", "looks", looks, least=1)
    return tuple(dict.fromkeys(-(-n * look // looks) for look in range(1, looks + 1)))


def spending_bounds(sizes: Sequence[int], *, confidence: float = 0.95) -> tuple[float, ...]:
    """Give the bound of each look, in standard errors, that keeps the error of all together.

    Lan-DeMets spending of the O'Brien-Fleming kind: after a share t of the data, each side has
    spent 2 - 2 Phi(z / sqrt(t)) of its error, so the first looks need overwhelming evidence and
    the last one is hardly wider than a single look's. Found by recursive integration of the path
    between the bounds.

    Args:
        sizes: After how many queries each look is; the last is the whole.
        confidence: Probability that no look's interval misses the truth.

    Returns:
        A bound per look, none above 8.

    Raises:
        OptionError: sizes are none, not rising or below 1, or confidence is outside (0, 1).

    Example:
        >>> [round(bound, 3) for bound in spending_bounds([20, 40, 60, 80, 100])]
        [4.877, 3.357, 2.68, 2.29, 2.031]

    References:
        Lan and DeMets (1983), Discrete sequential boundaries for clinical trials. Armitage,
        McPherson and Rowe (1969), Repeated significance tests on accumulating data.
    """
    owner = "spending_bounds"
    alpha = 1 - arguments.probability(owner, "confidence", confidence)
    rising = all(low < high for low, high in zip((0, *sizes), sizes, strict=False))
    if not sizes or not rising:
        raise OptionError(owner, "sizes", list(sizes), "rising numbers of queries from 1 on")
    return _bounds(tuple(size / sizes[-1] for size in sizes), alpha)


def interim_interval(
    differences: ArrayLike,
    bound: float,
    *,
    range: tuple[float, float] = (0.0, 1.0),
    clusters: ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> DifferenceInterval:
    """Give the interval that a look with that bound may print and decide by.

    It is `difference_interval` at the confidence of the bound. The intervals of all looks hold
    together with the confidence that the bounds were made for, so whichever look decides, and
    whether or not one stops there, its interval is as good as a single one.

    Args:
        differences: Score of the system minus score of the baseline, for the queries so far.
        bound: Of this look, from `spending_bounds`.
        range: Smallest and largest possible score of one system.
        clusters: The cluster of each query so far.
        resamples: Resamples of the studentized bootstrap.
        seed: Equal seeds give equal intervals.

    Raises:
        OptionError: bound is not above 0 or above 8, or a value is not allowed.

    Example:
        The first of five looks: 20 queries that gained .2 on average do not decide.

        >>> found = interim_interval([0.1, 0.3] * 10, 4.877)
        >>> found.lower < 0 < found.mean
        True

    References:
        Jennison and Turnbull (1989), Interim analyses: the repeated confidence interval approach.
    """
    if not 0 < bound <= _HIGHEST:
        raise OptionError("interim_interval", "bound", bound, "a number above 0, at most 8")
    return difference_interval(
        differences,
        range=range,
        confidence=math.erf(bound / math.sqrt(2)),
        clusters=clusters,
        resamples=resamples,
        seed=seed,
    )


@lru_cache(maxsize=64)
def _bounds(shares: tuple[float, ...], alpha: float) -> tuple[float, ...]:
    """Find the bounds of looks at these shares of the information, one after the other."""
    z = _NORMAL.inv_cdf(1 - alpha / 4)
    bounds: list[float] = []
    spent = before = 0.0
    # The path of the score, a Brownian motion, at the nodes between the bounds of the last look.
    places, density = np.zeros(1), np.ones(1)
    for share in shares:
        # each side spends alpha / 2, of which hardly any early: as O'Brien and Fleming's bounds do
        error = 2 * (2 - 2 * _NORMAL.cdf(z / math.sqrt(share)))
        step = math.sqrt(share - before)
        height = _find_height(places, density, step, error - spent, _HIGHEST * math.sqrt(share))
        bounds.append(height / math.sqrt(share))
        nodes = height * _NODES
        kernel = np.exp(-(((nodes[:, np.newaxis] - places) / step) ** 2) / 2)
        density = kernel @ density / (step * math.sqrt(2 * math.pi)) * height * _WEIGHTS
        places, spent, before = nodes, error, share
    return tuple(bounds)


def _find_height(
    places: FloatArray, density: FloatArray, step: float, error: float, highest: float
) -> float:
    """Give the height that the next step of the path exceeds, up or down, with that chance."""
    low, high = 0.0, highest
    while high - low > 1e-12 * highest:
        middle = (low + high) / 2
        beyond = [_NORMAL.cdf((x - middle) / step) + _NORMAL.cdf((-x - middle) / step)
                  for x in places.tolist()]  # fmt: skip
        low, high = (middle, high) if float(np.dot(beyond, density)) > error else (low, middle)
    return high


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
    # the paper's running mean and variance, which start as if one query had 0.5 and 0.25
    means = (0.5 + np.cumsum(x)) / (t + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (t + 1)
    # a stake may not know its own query, or the interval would not hold
    before = np.concatenate(([0.25], variances))[: len(x)]
    return np.sqrt(2 * math.log(2 / alpha) / (before * t * np.log(t + 1)))


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
