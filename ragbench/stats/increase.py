"""By what share a cost rose: the total, or a quantile, of paired amounts without an upper end."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.arguments import cluster_codes
from ragbench.stats.difference import difference_interval
from ragbench.stats.resampling import RESAMPLES
from ragbench.types import FloatArray

# Fewer queries say nothing of an amount without an upper end: the next may cost anything.
FEW = 20
# So many queries, at least, lie beyond a quantile that resampling may be asked about.
IN_TAIL = 5
_BLOCK_BYTES = 8 * 2**20
_SAME = 1e-9  # of the amounts; what differs by less is rounding


class Increase(NamedTuple):
    """Share of the baseline's amount by which the system's is larger, with its interval.

    `increase_interval` creates it.

    Attributes:
        increase: 0.2 is a fifth more; negative is less. NaN where the baseline's amount is 0, but 0
            where all amounts are 0.
        lower: Lower limit as such a share; NaN if the rule is `undefined`.
        n: Number of queries.
        rule: `ratio`, `quantile`, `same_factor` (one factor on every query), or `undefined`.
        upper: Upper limit, likewise.
    """

    increase: float
    lower: float
    upper: float
    n: int
    rule: str


def queries_for(quantile: float | None) -> int:
    """Return the number of queries that a quantile needs; None is the total.

    At least 20, and at least 5 beyond the quantile. OptionError unless it lies between 0 and 1.

    Example:
        >>> queries_for(None), queries_for(0.5), queries_for(0.95)
        (20, 20, 100)
    """
    if quantile is None:
        return FEW
    beyond = min(quantile, 1 - arguments.probability("queries_for", "quantile", quantile))
    return max(FEW, math.ceil(IN_TAIL / beyond - _SAME))


def increase_interval(
    system: ArrayLike,
    baseline: ArrayLike,
    *,
    quantile: float | None = None,
    confidence: float = 0.95,
    clusters: ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Increase:
    """Return the relative increase of a cost over the same queries with its interval.

    - Totals: the ratio of the sums; its interval is that of the mean residual from this ratio, by
      `difference_interval`, over the baseline's mean.
    - Quantiles: resampled in pairs, so that a query that is slow in both counts in neither's
      favour. It covers in 95 to 99 % of samples of log-normal times, from the number of queries on
      that `queries_for` gives; fewer are `undefined`.

    An interval is about other queries on the same machine, under the same load: two runs at
    different times differ for reasons that no query knows.

    Args:
        system: n amounts, 0 or more.
        baseline: n amounts of the baseline, for the same queries.
        quantile: Quantile to compare, such as 0.95; None compares totals.
        confidence: Coverage that is aimed at.
        clusters: n labels; queries with equal ones are one unit; None: each is one.
        resamples: How many samples are drawn with replacement.
        seed: Equal seeds give equal intervals.

    Returns:
        The increase as a share of the baseline. `undefined`, with NaN, without queries and where
        the baseline's amount is 0; 0 with the rule `same_factor` where all amounts are 0. With this
        rule, also where one factor holds on every query, the limits are the increase itself. Limits
        are NaN, and the rule is `undefined`, where queries are too few, or where the baseline's
        quantile is 0 in too many resamples.

    Raises:
        OptionError: An amount is negative or not finite, the two have different lengths, or an
            option is not allowed.

    Example:
        Every other query takes half as much again.

        >>> before = np.linspace(10, 20, 40)
        >>> found = increase_interval(before * np.tile([1.0, 1.5], 20), before)
        >>> round(found.increase, 3), round(found.lower, 2), round(found.upper, 2)
        (0.252, 0.17, 0.34)

    References:
        Cochran (1977), Sampling techniques, 6.3, for the ratio of totals.
    """
    owner = "increase_interval"
    ours = arguments.sample(owner, "system", system)
    theirs = arguments.sample(owner, "baseline", baseline)
    if len(theirs) != len(ours):
        allowed = f"{len(ours)} amounts, one for each of the system"
        raise OptionError(owner, "baseline", len(theirs), allowed)
    if quantile is not None:
        arguments.probability(owner, "quantile", quantile)
    arguments.within(owner, "system", ours, 0.0, math.inf)
    arguments.within(owner, "baseline", theirs, 0.0, math.inf)
    arguments.resampling(owner, resamples, seed)
    tail = (1 - arguments.probability(owner, "confidence", confidence)) / 2
    point, n = _amount(theirs, quantile), len(ours)
    if not point > 0:
        is_free = bool(n) and not ours.any() and not theirs.any()
        ends = (0.0, 0.0, 0.0) if is_free else (math.nan, math.nan, math.nan)
        return Increase(*ends, n, "same_factor" if is_free else "undefined")
    ratio = _amount(ours, quantile) / point
    residuals = ours - ratio * theirs
    if (np.abs(residuals) <= _SAME * np.maximum(ours, ratio * theirs)).all():
        return Increase(ratio - 1, ratio - 1, ratio - 1, n, "same_factor")
    if quantile is None:
        interval = difference_interval(
            residuals, range=(-math.inf, math.inf), confidence=confidence, clusters=clusters,
            resamples=resamples, seed=seed,
        )  # fmt: skip
        low, high = ratio + interval.lower / point, ratio + interval.upper / point
    elif n < queries_for(quantile):
        low = high = math.nan
    else:
        drawn = _resampled_ratios(ours, theirs, quantile, clusters, resamples, seed)
        low, high = np.quantile(drawn, [tail, 1 - tail], method="inverted_cdf").tolist()
        low, high = min(low, ratio), max(high, ratio)
    if not math.isfinite(high - low):  # few queries, or resamples of which the baseline's is 0
        return Increase(ratio - 1, math.nan, math.nan, n, "undefined")
    rule = "ratio" if quantile is None else "quantile"
    return Increase(ratio - 1, low - 1, high - 1, n, rule)


def _amount(values: FloatArray, quantile: float | None) -> float:
    if not len(values):
        return math.nan
    return float(values.mean() if quantile is None else np.quantile(values, quantile))


def _resampled_ratios(
    ours: FloatArray,
    theirs: FloatArray,
    quantile: float,
    clusters: ArrayLike | None,
    resamples: int,
    seed: int,
) -> FloatArray:
    """Return the ratio of the quantiles in each resample, independent of the block size.

    `ours` are the amounts of the system, `theirs` those of the baseline; equal seeds give equal
    ratios. Shape (resamples,); NaN or infinite where the baseline's quantile is 0. OptionError
    unless `clusters` has a label per query.
    """
    codes, n_units = cluster_codes("increase_interval", clusters, len(ours))
    rng, rows = np.random.default_rng(seed), max(1, _BLOCK_BYTES // (8 * len(ours)))
    ratios = []
    for start in range(0, resamples, rows):
        drawn = rng.integers(0, n_units, size=(min(rows, resamples - start), n_units))
        counts = np.zeros((len(drawn), n_units))
        np.add.at(counts, (np.arange(len(drawn))[:, np.newaxis], drawn), 1.0)
        weights = counts[:, codes]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios.append(_weighted(ours, weights, quantile) / _weighted(theirs, weights, quantile))
    return np.concatenate(ratios)


def _weighted(values: FloatArray, weights: FloatArray, quantile: float) -> FloatArray:
    """Return the quantile of each row's resample: the first value that reaches the share.

    Shape (rows,). `weights` has a row per resample: how often each value is drawn.
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[:, order], axis=1)
    first = (reached >= quantile * reached[:, -1:] - _SAME).argmax(axis=1)
    quantiles: FloatArray = values[order][first]
    return quantiles
