"""The interval of one mean: t with two pseudo-queries, Wilson for binary values, or a bootstrap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.arguments import cluster_codes, cluster_units
from ragbench.stats.bootstrap import RESAMPLES, bca_bootstrap, percentile_bootstrap
from ragbench.stats.student import t_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

MeanMethod = Literal["default", "percentile", "bca"]
MeanRule = Literal["wilson", "plus_two", "t", "percentile", "bca", "undefined"]


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over queries and how far the mean of all such queries may be from it."""

    mean: float
    """Mean of the values; NaN where there are none."""
    lower: float
    """NaN, as `upper`, where the rule is `undefined`."""
    upper: float
    n: int
    rule: MeanRule
    """How the limits were found."""


def mean_interval(
    values: ArrayLike,
    *,
    range: tuple[float, float] = (0.0, 1.0),
    confidence: float = 0.95,
    method: MeanMethod = "default",
    clusters: ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> MeanInterval:
    """Give the mean of one score per query with its interval.

    By default: Wilson's interval where every value is one of the two ends of the range; else
    Student's t after adding one pseudo-query at each end (`plus_two`); plain t where an end is
    infinite. With a bounded range and a value, the width is never zero: equal values show no
    spread, yet the next query may differ, so a bootstrap of them falls back to the default.

    With clusters these are the unit: the limits come from one value per cluster, and Wilson's
    interval, which counts queries, gives way to `plus_two`.

    Args:
        values: n finite scores inside the range. Leave failed and unscored queries out.
        range: Smallest and largest possible score; an infinite end means no bound.
        confidence: Coverage that is aimed at.
        method: `default`, `percentile` or `bca`.
        clusters: n labels; queries with equal ones belong together.
        resamples: Resamples of the two bootstraps.
        seed: Equal seeds give equal bootstrap intervals.

    Returns:
        The mean and its limits, inside the range. The limits are NaN (`undefined`) where there
        is no value, or where the range is unbounded and no two values differ.

    Example:
        Three hits of three do not make certain: 3 / (3 + 1.96^2) is the lower limit.

        >>> interval = mean_interval([1.0, 1.0, 1.0])
        >>> round(interval.lower, 3), interval.upper, interval.rule
        (0.439, 1.0, 'wilson')

    References:
        Wilson (1927), Probable inference, the law of succession, and statistical inference.
        Agresti and Coull (1998), Approximate is better than "exact", for the pseudo-queries.
    """
    owner = "mean_interval"
    low, high = arguments.value_range(owner, range)
    arguments.probability(owner, "confidence", confidence)
    if method not in ("default", "percentile", "bca"):
        raise OptionError(owner, "method", method, "default, percentile or bca")
    sample = arguments.sample(owner, "values", values)
    arguments.within(owner, "values", sample, low, high)

    bounded = math.isfinite(low) and math.isfinite(high)
    units = _units(owner, sample, clusters)
    constant = len(units) == 0 or bool(units.min() == units.max())
    if len(sample) == 0 or (constant and not bounded):
        mean = float(sample[0]) if len(sample) else math.nan
        return MeanInterval(mean, math.nan, math.nan, len(sample), "undefined")

    rule: MeanRule
    if method != "default" and not constant:
        bootstrap = percentile_bootstrap if method == "percentile" else bca_bootstrap
        limits = bootstrap(units, confidence=confidence, resamples=resamples, seed=seed)
        rule = method
    elif not bounded:
        limits, rule = _student(units, confidence), "t"
    elif clusters is None and bool(np.all((sample == low) | (sample == high))):
        limits, rule = _wilson(sample == high, low, high, confidence), "wilson"
    else:
        limits, rule = _student(np.concatenate((units, [low, high])), confidence), "plus_two"
    mean = _mean(sample)
    return MeanInterval(
        mean=mean,
        lower=max(min(limits[0], mean), low),
        upper=min(max(limits[1], mean), high),
        n=len(sample),
        rule=rule,
    )


def _units(owner: str, sample: FloatArray, clusters: ArrayLike | None) -> FloatArray:
    if clusters is None:
        return sample
    codes, n_clusters = cluster_codes(owner, clusters, len(sample))
    return cluster_units(sample, codes, n_clusters) if len(sample) else sample


def _mean(sample: FloatArray) -> float:
    """Give the mean, between the smallest and the largest value in spite of rounding."""
    scale = float(np.abs(sample).max())
    if scale < np.finfo(np.float64).tiny:  # nothing overflows; NumPy 1.26 warns of dividing by it
        scale = 1.0
    return min(
        max(scale * float((sample / scale).mean()), float(sample.min())), float(sample.max())
    )


def _student(sample: FloatArray, confidence: float) -> tuple[float, float]:
    n, mean = len(sample), _mean(sample)
    centred = sample - mean
    # In units of the largest deviation, so that no square overflows or vanishes.
    unit = float(np.abs(centred).max())
    sd = unit * float((centred / unit).std(ddof=1))
    half = t_quantile((1 + confidence) / 2, n - 1) * sd / math.sqrt(n)
    return mean - half, mean + half


def _wilson(
    hits: np.ndarray[tuple[int], np.dtype[np.bool_]], low: float, high: float, confidence: float
) -> tuple[float, float]:
    """Give the limits of a share of hits, stretched from 0..1 to low..high."""
    n, share = len(hits), float(hits.mean())
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return low + (high - low) * (centre - half), low + (high - low) * (centre + half)
