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
from ragbench.stats.clusters import cluster_codes, cluster_units
from ragbench.stats.resampling import (
    ENOUGH_CHANGED,
    RESAMPLES,
    bca_bootstrap,
    percentile_bootstrap,
    studentized_bootstrap,
)
from ragbench.stats.score_intervals import (
    score_interval,
    score_is_above_zero,
    tilting_interval,
    tilting_is_above_zero,
)
from ragbench.stats.student import t_quantile
from ragbench.types import FloatArray

DifferenceMethod = Literal["default", "percentile", "bca"]
DifferenceRule = Literal[
    "identical",
    "score",
    "tilting",
    "studentized",
    "near_constant",
    "percentile",
    "bca",
    "undefined",
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
        largest: Largest loss and gain that the limits allow for in unseen queries, or clusters;
            infinite for an unbounded range.
    """

    mean: float
    lower: float
    upper: float
    n: int
    n_changed: int
    sd: float
    rule: DifferenceRule
    n_clusters: int | None = None
    largest: tuple[float, float] = (math.inf, math.inf)

    @property
    def n_units(self) -> int:
        """Number of units that `sd` is the spread of: clusters, or queries without clusters."""
        return self.n if self.n_clusters is None else self.n_clusters


def difference_interval(
    differences: ArrayLike,
    *,
    baseline: ArrayLike | None = None,
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
    - `identical`: no query changed; the limits of both, 3.4 / n of the largest loss and gain at
      95 %, times the size of the largest cluster in clusters of mean size.
    - `studentized`: an unbounded range; the t interval joined with the studentized bootstrap, the
      wider limit on each side. It needs 20 queries that changed and 20 that differ from the median.
    - `near_constant`: an unbounded range and 20 queries that changed, most of them by the same
      amount; `tilting_interval` about the median, with unseen differences that lie up to twice the
      largest difference below and above it. 20 questions with one call, then with three: from 1.4
      to 2.6 further calls.
      No interval can be trusted there: one large difference in fifty is unseen in 13 % of samples
      of 100, and no rule can allow for it (Bahadur and Savage 1956).
    - `undefined`: no query, or an unbounded range and too few changes: nothing can be said.

    A query cannot lose more than its baseline has, nor gain more than the baseline lacks. So an
    unseen loss is at most as large as the highest score of the baseline, moved towards the end of
    the range as by 20 queries that have it, since a sample seldom has the highest score of all; a
    gain alike. With m the highest of n scores from 0 to 1, the largest loss is
    (n m + 20) / (n + 20). `benchmarks/worlds.py` has the simulations.

    Plain t misses a drop of few queries: where 4 in 100 lose a hit and n = 50, its 95 % interval
    covers in 87 % of samples. A difference smaller than 1e-12 of what is possible is rounding and
    counts as 0. Limits mirror each other where the differences change sign.

    With clusters these are the unit: the limits come from one value per cluster, with clusters - 1
    degrees of freedom where the rule is `studentized`, and whole clusters are drawn and counted as
    changed. Unseen losses and gains are those of whole clusters of the largest size in the sample.

    Args:
        differences: Score of the system minus score of the baseline, for n queries.
        baseline: Scores of the baseline for these queries, in `range`, NaN where it is unknown;
            None: each query could lose, and gain, the whole range.
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
        OptionError: A difference is not finite or beyond the range, lengths differ, or an option is
            not allowed.

    Example:
        Two of fifty queries lost their hit; that none is lost elsewhere remains possible.

        >>> interval = difference_interval([-1.0, -1.0] + [0.0] * 48)
        >>> interval.rule, interval.n_changed, round(interval.lower, 3), round(interval.upper, 3)
        ('score', 2, -0.132, 0.024)
    """
    owner = "difference_interval"
    arguments.resampling(owner, resamples, seed)
    arguments.probability(owner, "confidence", confidence)
    if method not in ("default", "percentile", "bca"):
        raise OptionError(owner, "method", method, "default, percentile or bca")
    units = paired_units(owner, differences, baseline=baseline, ends=range, clusters=clusters)
    n, n_clusters = units.n, None if clusters is None else len(units.values)
    largest = (units.unit * units.largest[0], units.unit * units.largest[1])
    if n == 0:
        nan = math.nan
        return DifferenceInterval(nan, nan, nan, 0, 0, nan, "undefined", n_clusters, largest)
    resampling: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    lower, upper, sd, rule = _limits(units, resampling)
    if method != "default" and units.n_changed:
        bootstrap = percentile_bootstrap if method == "percentile" else bca_bootstrap
        limits = bootstrap(units.values, **resampling)
        if limits[0] < limits[1]:
            (lower, upper), rule = limits, method
    width = range[1] - range[0]
    return DifferenceInterval(
        mean=units.unit * units.mean,
        lower=max(units.unit * lower, -width),
        upper=min(units.unit * upper, width),
        n=n,
        n_changed=units.n_changed,
        sd=units.unit * sd,
        rule=rule,
        largest=largest,
        n_clusters=n_clusters,
    )


def excludes_zero(
    differences: ArrayLike,
    *,
    baseline: ArrayLike | None = None,
    range: tuple[float, float] = (0.0, 1.0),
    confidence: float = 0.95,
    clusters: ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> bool:
    """Return True if the interval of `difference_interval` has limits and excludes 0.

    It looks only at the side of the interval that is nearer to 0, which takes a tenth of the time.

    Arguments and errors are those of `difference_interval`, by its default method.

    Example:
        >>> excludes_zero([1.0] * 8 + [0.0] * 20), excludes_zero([1.0] * 2 + [0.0] * 20)
        (True, False)
    """
    owner = "excludes_zero"
    arguments.resampling(owner, resamples, seed)
    arguments.probability(owner, "confidence", confidence)
    units = paired_units(owner, differences, baseline=baseline, ends=range, clusters=clusters)
    if not units.n:
        return False
    if not units.is_bounded:
        options: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
        lower, upper, *_ = _limits(units, options)
        return lower > 0 or upper < 0
    d, ends, hits = units.values, units.largest, _hits(units)
    if units.mean < 0:  # turned so that the lower limit is the one at 0
        d, ends, hits = -d, ends[::-1], None if hits is None else hits[::-1]
    if hits is not None and units.n_units_changed <= COUNTED_BELOW:
        return score_is_above_zero(*hits, len(d), confidence=confidence)
    ends = ends if hits is None else (1.0, 1.0)
    return tilting_is_above_zero(d, largest=ends, confidence=confidence)


def _hits(units: PairedUnits) -> tuple[int, int] | None:
    """Return the number of lost and gained hits; None for other differences, or no change."""
    lost = int(np.count_nonzero(np.abs(units.values + 1) <= _UNCHANGED))
    gained = int(np.count_nonzero(np.abs(units.values - 1) <= _UNCHANGED))
    are_hits = units.may_be_hits and 0 < lost + gained == units.n_units_changed
    return (lost, gained) if are_hits else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedUnits:
    """Differences of the units of an interval, queries or clusters, and what they may be at most.

    `paired_units` creates it.

    Attributes:
        values: Differences, divided by `unit`; those of clusters as `cluster_units` weighs them.
        unit: Width of the range of a score; without a bound the largest difference.
        mean: Mean of the queries, divided by `unit`.
        n: Number of queries.
        n_changed: Number of queries with a difference other than 0.
        n_units_changed: Number of units with such a query.
        largest: Largest loss and gain of a unit, divided by `unit`; infinite for an unbounded
            range.
        may_be_hits: True for queries, and for clusters of equal size.
    """

    values: FloatArray
    unit: float
    mean: float
    n: int
    n_changed: int
    n_units_changed: int
    largest: tuple[float, float]
    may_be_hits: bool

    @property
    def is_bounded(self) -> bool:
        """True if the range of the score has two finite ends."""
        return math.isfinite(self.largest[0])


def paired_units(
    owner: str,
    differences: ArrayLike,
    *,
    baseline: ArrayLike | None,
    ends: tuple[float, float],
    clusters: ArrayLike | None,
) -> PairedUnits:
    """Return the units of the differences of n queries, and how much they may lose and gain.

    The arguments are those of `difference_interval`, and so are the errors; `ends` is the range of
    a score. `owner` is the function that messages name.
    """
    low, high = arguments.value_range(owner, ends)
    sample, width = arguments.sample(owner, "differences", differences), high - low
    bounded = math.isfinite(width)
    if bounded:
        arguments.within(owner, "differences", sample, -width, width)
    unit = width if bounded else float(np.abs(sample).max(initial=0.0)) or 1.0
    d = sample / unit
    d[np.abs(d) <= _UNCHANGED] = 0.0
    n = len(d)
    codes, n_units = cluster_codes(owner, clusters, n)
    scores = arguments.baseline_scores(owner, baseline, n)
    values, n_units_changed = d, int(np.count_nonzero(d))
    if n_units < n:
        changed = np.bincount(codes, weights=d != 0, minlength=n_units)
        values, n_units_changed = cluster_units(d, codes, n_units), int(np.count_nonzero(changed))
    largest = (math.inf, math.inf)
    if bounded and n:
        # without a score of the baseline, a query could lose and gain all
        is_missing = np.isnan(scores)
        losses = np.maximum(np.where(is_missing, 1.0, (scores - low) / width), -d)
        gains = np.maximum(np.where(is_missing, 1.0, (high - scores) / width), d)
        largest = (_largest(-d, losses, codes, n_units), _largest(d, gains, codes, n_units))
        # the values of clusters have rounding errors
        largest = max(largest[0], -float(values.min())), max(largest[1], float(values.max()))
    return PairedUnits(
        values=values,
        unit=unit,
        mean=float(d.mean()) if n else math.nan,
        n=n,
        n_changed=int(np.count_nonzero(d)),
        n_units_changed=n_units_changed,
        largest=largest,
        may_be_hits=n_units == n or int(np.bincount(codes).max()) * n_units == n,
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


# Queries with the largest possible change, as which the range counts beside the n of a sample.
_UNSEEN_QUERIES = 20


def _largest(d: FloatArray, bounds: FloatArray, codes: NDArray[np.intp], n_units: int) -> float:
    """Return the largest rise of a unit that is allowed for, in units of the largest difference."""
    scale, mean = n_units / len(d), float(d.mean())
    # without clusters a query is a unit of its own
    sizes: NDArray[Any] = np.ones(1)
    sums: NDArray[Any] = bounds
    if n_units < len(d):
        sizes = scale * np.bincount(codes, minlength=n_units)
        sums = scale * np.bincount(codes, weights=bounds, minlength=n_units)
    # the value of a cluster whose queries all rise as far as they can, as `cluster_units` has it
    rises = mean + sums - mean * sizes
    # the largest cluster, if each of its queries could rise by the whole range
    end = float(sizes.max()) + (float(sizes.max()) - 1) * abs(mean)
    weight = _UNSEEN_QUERIES / (n_units + _UNSEEN_QUERIES)
    return (1 - weight) * float(rises.max()) + weight * end


def _limits(
    units: PairedUnits, resampling: dict[str, Any]
) -> tuple[float, float, float, DifferenceRule]:
    """Return lower and upper limit of the default method, standard deviation, and rule."""
    d, n, n_changed = units.values, len(units.values), units.n_units_changed
    confidence = resampling["confidence"]
    alpha = (1 - confidence) / 2
    sd = float(d.std(ddof=1)) if n > 1 else math.nan
    loss, gain = units.largest
    if units.is_bounded and n_changed < ENOUGH_CHANGED:
        sd = _careful_sd(d, loss, gain, confidence)
    if units.is_bounded:
        hits = _hits(units)
        rule: DifferenceRule = "tilting" if hits is None else "score"
        if hits is not None and n_changed <= COUNTED_BELOW:
            limits = score_interval(*hits, n, confidence=confidence)
        else:
            # hits have no score between the ends of the range
            ends = units.largest if hits is None else (1.0, 1.0)
            limits = tilting_interval(d, largest=ends, confidence=confidence)
        return *limits, sd, (rule if n_changed else "identical")
    n_unlike_the_median = int(np.count_nonzero(np.abs(d - np.median(d)) > _UNCHANGED))
    if n_changed < ENOUGH_CHANGED:
        return math.nan, math.nan, sd, ("undefined" if n_changed else "identical")
    if n_unlike_the_median < ENOUGH_CHANGED:
        return *_near_constant(d, confidence), "near_constant"
    lower, upper = studentized_bootstrap(d, **resampling)
    mean, half = float(d.mean()), t_quantile(1 - alpha, n - 1) * sd / math.sqrt(n)
    return min(lower, mean - half), max(upper, mean + half), sd, "studentized"


# Distance of unseen differences from the median, in units of the largest difference of the sample
_UNSEEN_DISTANCE = 2.0


def _near_constant(d: FloatArray, confidence: float) -> tuple[float, float, float]:
    """Return the limits and the standard deviation of differences that are mostly equal."""
    # t and every bootstrap know the spread of the sample alone: equal differences have none, and
    # their interval would have no width. Distances from the median are like unchanged queries.
    median = float(np.median(d))
    # the gains of a large cluster are beyond 1, in units of a cluster of mean size
    distance = _UNSEEN_DISTANCE * max(1.0, float(np.abs(d).max()))
    lower, upper = tilting_interval(d - median, largest=distance, confidence=confidence)
    sd = _careful_sd(d - median, distance, distance, confidence)
    return median + lower, median + upper, sd


def _careful_sd(d: FloatArray, loss: float, gain: float, confidence: float) -> float:
    """Return the standard deviation with z^2 / 2 more differences at each end of the possible."""
    added = NormalDist().inv_cdf((1 + confidence) / 2) ** 2 / 2
    values = np.append(d, (-loss, gain))
    weights = np.append(np.ones(len(d)), (added, added))
    centre = float((values * weights).sum() / weights.sum())
    return math.sqrt(float(weights @ (values - centre) ** 2) / (len(d) + 2 * added - 1))


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
