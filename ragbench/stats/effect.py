"""Effect size: a mean paired difference in units of the spread of the differences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ragbench.stats import arguments
from ragbench.stats.clusters import cluster_codes
from ragbench.stats.student import t_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray


def effect_size(differences: ArrayLike) -> float:
    """Give the mean paired difference in units of the standard deviation of the differences.

    Args:
        differences: Score of the system minus score of the baseline, for n queries.

    Returns:
        Cohen's d of paired samples; NaN where n < 2, or where all differences are equal.

    Raises:
        OptionError: A difference is not finite.

    Example:
        Mean 2, standard deviation 1.

        >>> round(effect_size([1.0, 2.0, 3.0]), 12)
        2.0

    References:
        Cohen (1988), Statistical power analysis for the behavioral sciences, 2.3.5.
    """
    d = arguments.sample("effect_size", "differences", differences)
    if len(d) < 2 or d.min() == d.max():
        return math.nan
    d = d / float(np.abs(d).max())
    return float(d.mean()) / float(d.std(ddof=1))


def effect_size_interval(
    differences: ArrayLike, *, confidence: float = 0.95, clusters: ArrayLike | None = None
) -> tuple[float, float]:
    """Give the interval of `effect_size`: how well n queries know mean and spread together.

    By the delta method, from what each query moves mean and standard deviation by, so that skew
    and long tails, the rule among score differences, are in the width. For normal differences
    the standard error is sqrt((1 + d^2 / 2) / n).

    Args:
        differences: Score of the system minus score of the baseline, for n queries.
        confidence: Coverage that is aimed at.
        clusters: n labels; queries with equal ones belong together.

    Returns:
        Lower and upper limit; NaN where there is no effect size, or a single cluster. Where few
        queries changed the limits say too little, as every bootstrap's do: read those of the
        mean difference.

    Raises:
        OptionError: A difference is not finite, or an option is not allowed.

    Example:
        >>> low, high = effect_size_interval([0.1, -0.1] * 50 + [0.1] * 20)
        >>> round(low, 2), round(high, 2)
        (-0.02, 0.36)

    References:
        Serfling (1980), Approximation theorems of mathematical statistics, 3.3.
    """
    owner = "effect_size_interval"
    d = arguments.sample(owner, "differences", differences)
    p = (1 + arguments.probability(owner, "confidence", confidence)) / 2
    units = np.arange(len(d)) if clusters is None else clusters
    codes, n_units = cluster_codes(owner, units, len(d))
    effect = effect_size(d)
    if math.isnan(effect) or n_units < 2:
        return math.nan, math.nan
    influence = np.bincount(codes, weights=_influence(d, effect), minlength=n_units)
    # the influences have mean 0 over the queries, so their sums over the clusters too
    error = math.sqrt(n_units / (n_units - 1) * float(influence @ influence)) / len(d)
    half = t_quantile(p, n_units - 1) * error
    return effect - half, effect + half


def _influence(d: FloatArray, effect: float) -> FloatArray:
    """Give what a small share more of each query would move the effect size by."""
    d = d / float(np.abs(d).max())
    z = (d - d.mean()) / d.std()
    influence: FloatArray = z - effect / 2 * (z * z - 1)
    return influence
