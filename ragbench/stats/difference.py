"""Interval of a mean paired difference, which gates use, and its effect size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.arguments import cluster_codes, cluster_units
from ragbench.stats.resampling import (
    ENOUGH_CHANGED,
    RESAMPLES,
    bca_bootstrap,
    percentile_bootstrap,
    studentized_bootstrap,
)
from ragbench.stats.score_intervals import score_interval, tilting_interval
from ragbench.stats.student import t_quantile
from ragbench.types import FloatArray

DifferenceMethod = Literal["default", "percentile", "bca"]
DifferenceRule = Literal[
    "identical", "score", "tilting", "studentized", "percentile", "bca", "undefined"
]

# Up to this many gained and lost hits, the exact distribution of the counts is summed. Beyond, the
# saddlepoint approximation gives limits within a hundredth of the width.
COUNTED_BELOW = 100

_UNCHANGED = 1e-12


@dataclass(frozen=True, slots=True)
class DifferenceInterval:
    """Mean paired difference with its confidence interval.

    `difference_interval` makes it, in the unit of the scores.

    Attributes:
        mean: Mean of the differences; NaN without any.
        lower: Lower limit; NaN for `undefined`, and for `identical` with an unbounded range.
        upper: Upper limit; NaN as `lower`.
        n: Number of queries that both systems scored.
        n_changed: Number of queries with a difference other than 0.
        sd: Standard deviation of the differences, from which further queries are planned; with
            about two pseudo-differences at each end of what is possible where fewer than 20
            changed, so that few changes do not look like none. With clusters that of one cluster.
            NaN without any, and for a single unit with an unbounded range.
        rule: Method that gave the limits, as `difference_interval` lists them.
        n_clusters: Number of clusters; None without clusters.
    """

    mean: float
    lower: float
    upper: float
    n: int
    n_changed: int
    sd: float
    rule: DifferenceRule
    n_clusters: int | None = None

    @property
    def n_units(self) -> int:
        """Number of units that `sd` is the spread of: clusters, or queries without clusters."""
        return self.n if self.n_clusters is None else self.n_clusters


def difference_interval(
    differences: ArrayLike,
    *,
    range: tuple[float, float] = (0.0, 1.0),
    confidence: float = 0.95,
    method: DifferenceMethod = "default",
    clusters: ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> DifferenceInterval:
    """Return the mean difference of two systems over the same queries with its interval.

    The intervals allow for losses and gains that no query has shown yet: a mean lies outside only
    if the observed one is too rare under the distribution with that mean that fits the differences
    best.

    - `score`: hits and misses; `score_interval`, the mid-p interval by Tango's statistic.
    - `tilting`: graded differences, and clusters of unequal size; `tilting_interval`, the same
      for values of any size.
    - `identical`: no query changed; the limits of both, +-3.4 / n of the range at 95 %, times the
      size of the largest cluster in clusters of mean size.
    - `studentized`: an unbounded range; the t interval joined with the studentized bootstrap, the
      wider limit on each side. It needs 20 queries that changed and 20 that differ from the median.
    - `undefined`: no query, or an unbounded range and too few changes: nothing can be said.

    Plain t misses a drop of few queries: where 4 in 100 lose a hit and n = 50, its 95 % interval
    covers in 87 % of samples. A difference smaller than 1e-12 of what is possible is rounding and
    counts as 0. Limits mirror each other where the differences change sign.

    With clusters these are the unit: the limits come from one value per cluster, with clusters - 1
    degrees of freedom where the rule is `studentized`, and whole clusters are drawn and counted as
    changed. Unseen losses and gains are those of whole clusters of the largest size in the sample.

    Args:
        differences: Score of the system minus score of the baseline, for n queries.
        range: Smallest and largest possible score of ONE system, as for `mean_interval`; a
            difference is at most as large as the range is wide. An infinite end: unbounded.
        confidence: Coverage that is aimed at.
        method: `percentile` or `bca` for that bootstrap alone: never safer, at times narrower.
            Where nothing changed, or it has no width, the default's limits are given.
        clusters: n labels; queries with equal ones belong together; None: each is a unit.
        resamples: Resamples of a bootstrap; `score` and `tilting` draw none.
        seed: Equal seeds give equal intervals.

    Returns:
        The mean and its limits. With a bounded range and a query they are never NaN, and the
        width is never zero. Where `identical` has an unbounded range, the limits are NaN.

    Raises:
        OptionError: A difference is not finite or too large for the range, or an option is not
            allowed, or `clusters` are not n labels.

    Example:
        Two of fifty queries lost their hit; that none is lost elsewhere remains possible.

        >>> interval = difference_interval([-1.0, -1.0] + [0.0] * 48)
        >>> interval.rule, interval.n_changed, round(interval.lower, 3), round(interval.upper, 3)
        ('score', 2, -0.132, 0.024)
    """
    owner = "difference_interval"
    low, high = arguments.value_range(owner, range)
    arguments.resampling(owner, resamples, seed)
    arguments.probability(owner, "confidence", confidence)
    if method not in ("default", "percentile", "bca"):
        raise OptionError(owner, "method", method, "default, percentile or bca")
    sample = arguments.sample(owner, "differences", differences)
    width = high - low
    if math.isfinite(width):
        arguments.within(owner, "differences", sample, -width, width)

    # In units of the largest possible difference, or of the largest one found.
    unit = width if math.isfinite(width) else float(np.abs(sample).max(initial=0.0)) or 1.0
    d = sample / unit
    d[np.abs(d) <= _UNCHANGED] = 0.0
    n, n_changed = len(d), int(np.count_nonzero(d))
    units, n_units_changed, largest = d, n_changed, 1.0
    codes, n_units = cluster_codes(owner, clusters, n)
    if n_units < n:
        largest = _largest_unit(codes, n_units, float(d.mean()))
        changed = np.bincount(codes, weights=d != 0, minlength=n_units)
        units, n_units_changed = cluster_units(d, codes, n_units), int(np.count_nonzero(changed))
    n_clusters = None if clusters is None else n_units
    if n == 0:
        nan = math.nan
        return DifferenceInterval(nan, nan, nan, 0, 0, nan, "undefined", n_clusters)

    resampling: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    bounded = math.isfinite(width)
    lower, upper, sd, rule = _limits(
        units, n_units_changed, largest if bounded else math.inf, resampling
    )
    if method != "default" and n_changed:
        bootstrap = percentile_bootstrap if method == "percentile" else bca_bootstrap
        limits = bootstrap(units, **resampling)
        if limits[0] < limits[1]:
            (lower, upper), rule = limits, method
    return DifferenceInterval(
        mean=unit * float(d.mean()),
        lower=max(unit * lower, -width),
        upper=min(unit * upper, width),
        n=n,
        n_changed=n_changed,
        sd=unit * sd,
        rule=rule,
        n_clusters=n_clusters,
    )


def paired_differences(system: ArrayLike, baseline: ArrayLike) -> FloatArray:
    """Return system minus baseline per query, with rounding errors set to 0.

    A difference below 1e-12 of the scores is rounding: 0.1 + 0.2 and 0.3 are the same score. A
    test that divides by the spread would take such differences for real, if they agree in sign.

    Args:
        system: Finite scores, one or more per query; NaN or None where not scored.
        baseline: Scores of the baseline, of the same shape or one that broadcasts to it.

    Returns:
        Array of the common shape; NaN where either is not scored.

    Raises:
        ValueError: The shapes do not broadcast, or a score is no number.

    Example:
        >>> paired_differences([0.1 + 0.2, 0.5], [0.3, 0.25]).tolist()
        [0.0, 0.25]
    """
    b, a = np.asarray(system, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    d = np.asarray(b - a, dtype=np.float64)
    d[np.abs(d) <= _UNCHANGED * np.maximum(np.abs(a), np.abs(b))] = 0.0
    return d


def _largest_unit(codes: NDArray[np.intp], n_clusters: int, mean: float) -> float:
    """Return the largest `cluster_units` value, up or down, of a cluster whose queries all change.

    An unseen cluster can be as large as the largest one in the sample. `mean` is that of all
    queries; the result is 1 where all clusters have one size. The unit is the range of a
    difference; there is at least one query.
    """
    # the size of the largest cluster in clusters of mean size
    size = float(np.bincount(codes).max()) * n_clusters / len(codes)
    return size + (size - 1) * abs(mean)


def _limits(
    d: FloatArray, n_changed: int, largest: float, resampling: dict[str, Any]
) -> tuple[float, float, float, DifferenceRule]:
    """Return lower and upper limit of the default method, standard deviation, and rule.

    `d` is in units of the largest possible difference, and not empty; `largest` is infinite for an
    unbounded range. The limits are NaN if that has too few changes. `n_changed` counts the units
    that changed; `resampling` has confidence, resamples and seed. The standard deviation is NaN for
    a single unit of an unbounded range.
    """
    confidence = resampling["confidence"]
    alpha, n = (1 - confidence) / 2, len(d)
    sd = float(d.std(ddof=1)) if n > 1 else math.nan
    bounded = math.isfinite(largest)
    if bounded and n_changed < ENOUGH_CHANGED:
        # z^2 / 2 more differences at each end of what is possible, since those that changed are few
        added = NormalDist().inv_cdf(1 - alpha) ** 2
        centre = float(d.sum()) / (n + added)
        squares = float(((d - centre) ** 2).sum()) + added * (largest**2 + centre**2)
        sd = math.sqrt(squares / (n + added - 1))
    if bounded:
        lost = int(np.count_nonzero(np.abs(d + 1) <= _UNCHANGED))
        gained = int(np.count_nonzero(np.abs(d - 1) <= _UNCHANGED))
        # clusters of unequal size are no hits and misses: the largest can lose more than 1
        is_hits = lost + gained == n_changed and largest == 1
        rule: DifferenceRule = "score" if is_hits else "tilting"
        if rule == "score" and n_changed <= COUNTED_BELOW:
            limits = score_interval(lost, gained, n, confidence=confidence)
        else:
            # of rounding errors in the values of clusters
            end = max(largest, float(np.abs(d).max()))
            limits = tilting_interval(d, largest=end, confidence=confidence)
        return *limits, sd, (rule if n_changed else "identical")
    n_unlike_the_median = int(np.count_nonzero(np.abs(d - np.median(d)) > _UNCHANGED))
    if min(n_changed, n_unlike_the_median) < ENOUGH_CHANGED:
        return math.nan, math.nan, sd, ("undefined" if n_changed else "identical")
    lower, upper = studentized_bootstrap(d, **resampling)
    mean, half = float(d.mean()), t_quantile(1 - alpha, n - 1) * sd / math.sqrt(n)
    return min(lower, mean - half), max(upper, mean + half), sd, "studentized"


def effect_size(differences: ArrayLike) -> float:
    """Return the mean paired difference over the standard deviation of the differences.

    Args:
        differences: Score of the system minus score of the baseline, for n queries.

    Returns:
        Cohen's d of paired samples; NaN where n < 2, or where all differences are equal.

    Raises:
        OptionError: A difference is not finite, or differences is no vector.

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
    """Return the confidence interval of `effect_size`.

    By the delta method, from the influence of each query on mean and standard deviation, so that
    skew and long tails, common in score differences, widen it. For normal differences the standard
    error is sqrt((1 + d^2 / 2) / n).

    Args:
        differences: Score of the system minus score of the baseline, for n queries.
        confidence: Coverage that is aimed at.
        clusters: n labels; queries with equal ones belong together; None: each is a unit.

    Returns:
        Lower and upper limit; NaN where there is no effect size, or a single cluster. Where few
        queries changed the limits say too little, as every bootstrap's do: read those of the
        mean difference.

    Raises:
        OptionError: A difference is not finite, confidence is outside (0, 1), or `clusters` are not
            n labels.

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
    codes, n_units = cluster_codes(owner, clusters, len(d))
    effect = effect_size(d)
    if math.isnan(effect) or n_units < 2:
        return math.nan, math.nan
    d = d / float(np.abs(d).max())
    z = (d - d.mean()) / d.std()
    # influence of each query: derivative of the effect size by its weight
    influence = np.bincount(codes, weights=z - effect / 2 * (z * z - 1), minlength=n_units)
    # the influences have mean 0 over the queries, so their sums over the clusters too
    error = math.sqrt(n_units / (n_units - 1) * float(influence @ influence)) / len(d)
    half = t_quantile(p, n_units - 1) * error
    return effect - half, effect + half
