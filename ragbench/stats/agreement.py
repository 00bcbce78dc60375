"""Agreement of raters: raw, Cohen's kappa, Krippendorff's alpha; intervals by the jackknife."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragbench.errors import OptionError, Phrase
from ragbench.stats import arguments, resampling
from ragbench.stats.mean import MeanRule, finite
from ragbench.types import FloatArray, IntArray

# Level of measurement: ratings are equal or not, have an order, or have distances.
Level = Literal["nominal", "ordinal", "interval"]

# `mean`: the interval of a mean over groups is that of `mean_interval`; shares of labels of two
# levels have the rule of `mean_interval` itself, or `mover`.
AgreementRule = Literal["jackknife", "mean", "mover"] | MeanRule

# Fewest items for an interval.
FEWEST = 3


@dataclass(frozen=True, slots=True)
class Agreement:
    """Statistic of agreement between raters on n items, with its confidence interval.

    `mean_agreement` returns it. Limits are NaN below 3 items.

    Attributes:
        value: Value of the statistic; NaN if it is undefined.
        lower: Lower limit; NaN if the rule is `undefined`.
        upper: Upper limit; NaN if the rule is `undefined`.
        n: Number of items with two ratings or more; in `mean_correlation`, of groups.
        level: Level of measurement that the statistic assumes.
        rule: Method that gave the limits: `jackknife` or `plus_two`, see `mean_agreement`; `mean`
            of an interval over groups; `undefined` without limits.
        reason: Reason for a missing value or interval, or for tables left out; else empty.
    """

    value: float
    lower: float
    upper: float
    n: int
    level: Level
    rule: AgreementRule
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping: value, interval, n, level, rule, reason; null for NaN.

        `interval` is the list of the lower and the upper limit.
        """
        return {
            "value": finite(self.value),
            "interval": [finite(self.lower), finite(self.upper)],
            "n": self.n,
            "level": self.level,
            "rule": self.rule,
            "reason": self.reason,
        }


def mean_agreement(
    statistic: resampling.Statistic,
    tables: Sequence[FloatArray],
    level: Level,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
    *,
    span: tuple[float, float] = (-1.0, 1.0),
    rare: bool = True,
) -> Agreement:
    """Return the mean of a statistic over several tables of the same n items, with its interval.

    - `jackknife`: Student's t on Fisher's scale, atanh, with the jackknife's standard error.
    - `plus_two`: joined with the one after adding two items on which the raters differ as much as
      they ever did, one either way; the wider limit wins on each side. Used where the spread
      comes from fewer than six items, such as the few bad answers of a good system: jackknife
      alone then covers in as few as 40 % of samples, and takes perfect agreement for certain.

    Args:
        statistic: Function of one table of rows with two ratings or more. It returns a
            `resampling.LeftOut`: the value, and the value without each item.
        tables: One (n, raters) table for each pair of raters; NaN where a rating is missing. A
            row counts where it has two ratings or more.
        level: The level of measurement, for the record.
        span: Smallest and largest possible value.
        groups: n labels; items with equal ones vary together, so that the groups are the sample.
            None: each item is its own group.
        confidence: Coverage that is aimed at.
        rare: True if ratings have few levels, of which one may be rare. False uses `plus_two` only
            if leaving out items shows no spread: of means of many ratings, normal and correlated by
            0 to .95, the jackknife covers 93 % or more from 5 items on, and adding two to them
            makes the interval up to four times as wide.

    Returns:
        The mean over the tables in which the statistic is defined, with the number of items; NaN
        where it is defined in none. `reason` joins those of undefined tables by `; `, behind the
        number of these tables if others are defined. The limits, which include the value, are NaN
        below three items, and where too few items differ; `reason` then says that instead.

    Raises:
        OptionError: groups are not as many as items, or confidence is outside (0, 1).
        IndexError: There is no table.
    """
    arguments.probability("agreement", "confidence", confidence)
    labels = _group_numbers(groups, len(tables[0]))
    used = [np.count_nonzero(np.isfinite(table), axis=1) >= 2 for table in tables]
    n = int(np.count_nonzero(np.any(used, axis=0)))
    results, defined, reasons = [], [], dict[str, None]()
    for place, (table, rows) in enumerate(zip(tables, used, strict=True)):
        if rows.any():
            result = statistic(table[rows])
        else:
            result = resampling.undefined("no item has two ratings")
        if result.reason:
            reasons[result.reason] = None
        if not math.isnan(result.value):
            results.append(result)
            defined.append(place)
    reason = "; ".join(reasons)
    if not defined:
        return Agreement(math.nan, math.nan, math.nan, n, level, "undefined", reason)
    value = float(np.mean([result.value for result in results]))
    if reasons:
        reason = f"{len(tables) - len(defined)} of {len(tables)} left out: {reason}"
    if n < FEWEST:
        why = f"number of items: {n}; {FEWEST} are the fewest for an interval"
        return Agreement(value, math.nan, math.nan, n, level, "undefined", why)

    tables, used = [tables[place] for place in defined], [used[place] for place in defined]
    spread = resampling.JackknifeSpread.of(results, used, labels, span)
    rule: AgreementRule = "jackknife"
    ends, limits = [value], spread.limits(confidence)
    ends.extend(limits or ())
    if spread.carriers < resampling.CARRIERS and (rare or limits is None):
        rule = "plus_two"
        wider = resampling.plus_two(statistic, tables, used, labels, span).limits(confidence)
        # two added items shift the estimate, so that its limits may exclude the value
        ends.extend(wider or ())
    if len(ends) == 1:
        why = "too few items differ to see how it varies"
        return Agreement(value, math.nan, math.nan, n, level, "undefined", why)
    return Agreement(value, min(ends), max(ends), n, level, rule, reason)


def raw_agreement(table: FloatArray) -> resampling.LeftOut:
    """Return the share of items that two raters rate alike, also without each item.

    It is high by chance alone: two raters who always say 'good' agree fully. Kappa corrects that.

    Args:
        table: Ratings of n items by two raters, shape (n, 2), one row or more, without NaN.

    Returns:
        A share in [0, 1]. A rater who gives one level to all items is no special case. The value
        without the only item is NaN.

    Example:
        >>> raw_agreement(np.array([[1, 1], [1, 2], [2, 2], [2, 2]])).value
        0.75
    """
    n = len(table)
    same = (table[:, 0] == table[:, 1]).astype(np.float64)
    total = float(same.sum())
    without = (total - same) / (n - 1) if n > 1 else np.full(1, np.nan)
    return resampling.LeftOut(total / n, without)


def _group_numbers(groups: ArrayLike | None, n: int) -> IntArray:
    """Return the number of the group of each item."""
    if groups is None:
        return np.arange(n)
    labels = np.asarray(groups)
    if labels.shape != (n,):
        shape, allowed = Phrase(f"shape {labels.shape}"), f"a group for each of {n} items"
        raise OptionError("agreement", "groups", shape, allowed)
    return np.unique(labels, return_inverse=True)[1].reshape(n).astype(np.int64)


# Weight of a disagreement: equal, its distance, or the square of its distance.
Weights = Literal["equal", "linear", "quadratic"]


def cohen_kappa(table: FloatArray, weights: Weights = "equal") -> resampling.LeftOut:
    """Return the agreement of two raters beyond that by chance, also without each item.

    Alpha is 1 - (observed disagreement) / (disagreement of raters with the same frequencies at
    random).

    Args:
        table: Levels of n items by two raters, shape (n, 2), one row or more, without NaN.
        weights: `equal`, `linear` or `quadratic` in the distance of the two numbers; levels that
            no rater used count as distance all the same. The word is not checked.

    Returns:
        A value in [-1, 1]; 0 is chance. The value is NaN with the reason where a rater gives one
        level to all items: kappa would be 0 or 0 / 0, whatever the other one says. A value without
        an item is NaN where only one level of a rater would be left.

    Example:
        Agreement .7; by chance .5 x .6 + .5 x .4 = .5: (.7 - .5) / (1 - .5).

        >>> pairs = np.array([[1, 1], [1, 0], [0, 1], [0, 0]])
        >>> round(cohen_kappa(pairs.repeat([20, 5, 10, 15], axis=0)).value, 12)
        0.4

    References:
        Cohen (1960), A coefficient of agreement for nominal scales; (1968), Weighted kappa.
    """
    n = len(table)
    x, y = table[:, 0], table[:, 1]
    for column in (x, y):
        if arguments.constant(column):
            return resampling.undefined(f"a rater gives {column[0]:g} to all {n} items")
    observed = _apart(x, y, weights)
    against_y, against_x = _sums_against(x, y, weights), _sums_against(y, x, weights)
    expected = float(against_y.sum())
    value = 1 - n * float(observed.sum()) / expected
    # the pair of a row with itself is in both sums, and was subtracted twice
    reduced = expected - against_y - against_x + observed
    with np.errstate(divide="ignore", invalid="ignore"):
        without = 1 - (n - 1) * (observed.sum() - observed) / reduced
    # a rater with one level for all other items makes kappa undefined; the formula would give 0
    without[_last_of_two(x) | _last_of_two(y)] = np.nan
    return resampling.LeftOut(value, without)


def _last_of_two(column: FloatArray) -> NDArray[np.bool_]:
    """Return a mask: True for each item without which a rater has one level for all items."""
    _, of_item, counts = np.unique(column, return_inverse=True, return_counts=True)
    alone: NDArray[np.bool_] = (counts[of_item] == 1) & (len(counts) == 2)
    return alone


def _apart(x: FloatArray, y: FloatArray, weights: Weights) -> FloatArray:
    """Return the weighted distance of each pair of ratings."""
    distance = np.abs(x - y)
    if weights == "equal":
        return (distance > 0).astype(np.float64)
    return distance if weights == "linear" else distance**2


def _sums_against(x: FloatArray, y: FloatArray, weights: Weights) -> FloatArray:
    """Return for each x the sum of its disagreements with all y."""
    levels, of_row = np.unique(x, return_inverse=True)
    y_levels, counts = np.unique(y, return_counts=True)
    sums = _apart(levels[:, np.newaxis], y_levels[np.newaxis, :], weights) @ counts
    return sums[of_row]


def krippendorff_alpha(table: FloatArray, level: Level = "nominal") -> resampling.LeftOut:
    """Return 1 - observed / expected disagreement of any raters, also without each item.

    Ratings of one item are compared with each other, then with ratings of any items. The raters
    are interchangeable: unlike kappa it counts as disagreement that one is stricter.

    Args:
        table: Ratings of n items, shape (n, raters), one row or more; NaN marks a missing rating.
            Each row has two ratings or more.
        level: `nominal` (equal or not), `ordinal` (how many ratings lie between), or `interval`
            (squared distance). The word is not checked.

    Returns:
        The value is at most 1; 0 is chance. It is NaN with the reason where all ratings are equal,
        which is no proof of agreement. A value without an item is NaN where the other items have
        one level.

    Example:
        Three of four items alike; of the 8 x 7 ordered pairs of ratings 2 x 3 x 5 differ, so
        1 - (2 / 8) / (30 / 56).

        >>> round(krippendorff_alpha(np.array([[1, 1], [1, 2], [2, 2], [2, 2]])).value, 4)
        0.5333

    References:
        Krippendorff (2011), Computing Krippendorff's alpha-reliability.
    """
    rated = table[np.isfinite(table)]
    if arguments.constant(rated):
        return resampling.undefined(f"all {len(rated)} ratings are {rated[0]:g}")
    if level != "interval":
        return _by_coincidence(table, level)
    observed, total, left_total, left_n = _interval_parts(table)
    n = float(len(rated))
    value = 1 - (n - 1) * float(observed.sum()) / total
    with np.errstate(divide="ignore", invalid="ignore"):
        without = 1 - (left_n - 1) * (observed.sum() - observed) / left_total
    without[left_total <= 0] = np.nan
    return resampling.LeftOut(value, without)


def _interval_parts(table: FloatArray) -> tuple[FloatArray, float, FloatArray, FloatArray]:
    """Return the disagreement in each item, among all ratings, and without each item."""
    # The parts are squared distances per item over ordered pairs, divided by its ratings - 1; the
    # same sum over all ratings; this sum without each item; the number of ratings without each
    # item.
    centre = float(np.nanmean(table))
    centred = table - centre
    count = np.isfinite(table).sum(axis=1).astype(np.float64)
    first, second = np.nansum(centred, axis=1), np.nansum(centred**2, axis=1)
    # ordered pairs: sum of (a - b)^2 = 2 (m sum a^2 - (sum a)^2)
    observed = 2 * np.maximum(count * second - first**2, 0) / (count - 1)
    n, s, q = count.sum(), first.sum(), second.sum()
    total = float(2 * (n * q - s**2))
    left_n = n - count
    reduced = 2 * (left_n * (q - second) - (s - first) ** 2)
    # where all other ratings are equal, rounding leaves no exact 0, at times a negative number
    reduced[reduced <= 1e-12 * total] = 0.0
    return observed, total, reduced, left_n


def _by_coincidence(table: FloatArray, level: Level) -> resampling.LeftOut:
    """Return alpha from the coincidences of levels, also without each item."""
    levels = np.unique(table[np.isfinite(table)])
    counts = (table[:, :, np.newaxis] == levels).sum(axis=1).astype(np.float64)
    size = counts.sum(axis=1)
    marginals = counts.sum(axis=0)
    value = _alpha_of(counts, size, marginals, level)
    without = np.empty(len(table))
    # items with the same counts leave the same behind
    kinds, kind_of = np.unique(counts, axis=0, return_inverse=True)
    kind_of = kind_of.reshape(len(table))
    frequency = np.bincount(kind_of).astype(np.float64)
    for kind, row in enumerate(kinds):
        repeats = frequency.copy()
        repeats[kind] -= 1
        alpha_left = _alpha_of(kinds, kinds.sum(axis=1), marginals - row, level, repeats=repeats)
        without[kind_of == kind] = alpha_left
    return resampling.LeftOut(value, without)


def _alpha_of(
    counts: FloatArray,
    size: FloatArray,
    marginals: FloatArray,
    level: Level,
    repeats: FloatArray | None = None,
) -> float:
    """Return alpha of items with these counts of levels, each repeated so many times."""
    if level == "nominal":
        apart = 1.0 - np.eye(len(marginals))
    else:  # ordinal: ratings from the one to the other, half of those at both ends
        middle = np.cumsum(marginals) - marginals / 2
        apart = (middle[:, np.newaxis] - middle[np.newaxis, :]) ** 2
    within = np.einsum("ui,ij,uj->u", counts, apart, counts) / (size - 1)
    observed = float(within.sum() if repeats is None else within @ repeats)
    expected = float(marginals @ apart @ marginals)
    if expected <= 0:
        return float("nan")
    return 1 - (float(marginals.sum()) - 1) * observed / expected
