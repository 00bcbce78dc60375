"""Looking early: bounds for a few planned looks, and the interval that each look may print.

`judge: {stop_when: decided}` reads these. For looks at any time see `betting_interval`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.bootstrap import RESAMPLES
from ragbench.stats.difference import DifferenceInterval, difference_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

LOOKS = 5
"""More looks save little, and each costs a little of the last one's width."""

_NORMAL = NormalDist()
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_HIGHEST = 8.0
"""A bound above it spends less than 1e-15: nothing that the others would miss."""


def look_sizes(n: int, *, looks: int = LOOKS) -> tuple[int, ...]:
    """Give after how many of n queries to look, in equal steps; the last look is at n.

    Args:
        n: Queries, or clusters, of the whole data set.
        looks: How many looks; fewer where n is smaller.

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
