"""Pearson's, Spearman's and Kendall's correlations, over all items or group by group; AUC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError, Phrase
from ragbench.stats import arguments
from ragbench.stats.agreement import FEWEST, Agreement, Level
from ragbench.stats.mean import mean_interval
from ragbench.stats.resampling import LeftOut, Statistic, undefined
from ragbench.types import FloatArray

_BLOCK_BYTES = 16 * 2**20
# Values of a column up to which pairs are counted value by value, in O(n log n).
_MOST_LEVELS = 200
_ROUNDING = 1e-13
_FAR = 1e-6


def mean_correlation(
    statistic: Statistic,
    table: FloatArray,
    groups: ArrayLike,
    level: Level = "ordinal",
    confidence: float = 0.95,
) -> GroupedCorrelation:
    """Return the mean over groups of the correlation inside each: the field's `summary level`.

    With a group for each question, the mean tells whether the scores order the answers to one
    question; that some questions are harder than others has no effect. A group in which all x or
    all y are equal has no correlation: it is left out of the mean and counted, as published
    evaluations on SummEval do.

    Args:
        statistic: `pearson`, `spearman` or `kendall_tau_b`, computed in each group.
        table: x and y of n items, shape (n, 2); NaN or infinite where missing.
        groups: n labels; items with equal ones are a group. Items without both numbers are left
            out first.
        level: Level of measurement, which the result states.
        confidence: Coverage of the interval of the mean over groups.

    Returns:
        The mean, NaN where no group has a correlation, with limits from three such groups on; and
        the number of groups left out by reason.

    Raises:
        OptionError: There is not one group per item, or, from three such groups on, confidence is
            outside (0, 1).

    Example:
        Group a in order, group b reversed, in c nothing can be ordered.

        >>> groups = ["a", "a", "b", "b", "c", "c"]
        >>> table = np.array([[1, 1], [2, 3], [1, 3], [2, 1], [1, 2], [2, 2]])
        >>> result = mean_correlation(spearman, table, groups)
        >>> result.mean.value, result.mean.n, result.constant_y
        (0.0, 2, 1)

    References:
        Fabbri et al. (2021), SummEval; Liu et al. (2023), G-Eval; Deutsch, Dror and Roth (2021), A
        statistical analysis of summarization evaluation metrics using resampling methods.
    """
    labels: np.ndarray[Any, Any] = np.asarray(groups)
    if labels.shape != (len(table),):
        shape, allowed = Phrase(f"shape {labels.shape}"), f"a group for each of {len(table)} rows"
        raise OptionError("mean_correlation", "groups", shape, allowed)
    both = np.isfinite(table).all(axis=1)
    _, codes, sizes = np.unique(labels[both], return_inverse=True, return_counts=True)
    rows = table[both][np.argsort(codes.reshape(-1), kind="stable")]
    parts = np.split(rows, np.cumsum(sizes)[:-1]) if len(rows) else []
    coefficients: list[float] = []
    constant_x = constant_y = single = 0
    for part in parts:
        if len(part) == 1:
            single += 1
        elif _flat(part[:, 0]):
            constant_x += 1
        elif _flat(part[:, 1]):
            constant_y += 1
        else:
            coefficients.append(statistic(part).value)
    return GroupedCorrelation(
        mean=_mean_over_groups(np.array(coefficients), level, confidence),
        constant_x=constant_x,
        constant_y=constant_y,
        single=single,
    )


@dataclass(frozen=True, slots=True)
class GroupedCorrelation:
    """The mean of the correlations inside groups, and the groups that have none.

    `mean_correlation` creates it.

    Attributes:
        mean: The mean with its interval; `n` is the number of its groups.
        constant_x: Groups left out since all their x are equal.
        constant_y: Groups left out since all their y are equal, and not all x.
        single: Groups left out since they have one item with both numbers.
    """

    mean: Agreement
    constant_x: int
    constant_y: int
    single: int


def _mean_over_groups(values: FloatArray, level: Level, confidence: float) -> Agreement:
    """Return the mean correlation of groups with its interval."""
    n = len(values)
    value = float(values.mean()) if n else math.nan
    if n < FEWEST:
        why = f"{n} groups with a correlation: {FEWEST} are the fewest for an interval"
        return Agreement(value, math.nan, math.nan, n, level, "undefined", why)
    interval = mean_interval(values.clip(-1.0, 1.0), range=(-1.0, 1.0), confidence=confidence)
    return Agreement(value, interval.lower, interval.upper, n, level, "mean")


def pearson(table: FloatArray) -> LeftOut:
    """Return Pearson's correlation of two columns, also without each row.

    It is the covariance over the product of the standard deviations. It measures the fit
    of a straight line: a judge that orders all items well on a bent scale has a lower value here
    than in a correlation of ranks. A single outlier can give a high value.

    Args:
        table: n pairs of numbers, shape (n, 2), one row or more, without NaN.

    Returns:
        A value in [-1, 1]. The value is NaN with the reason below two rows, or where a column is
        constant (but for rounding).

    Example:
        Deviations -1, 0, 1 and -4, -1, 5: 9 / sqrt(2 x 42).

        >>> round(pearson(np.array([[1, 1], [2, 4], [3, 10]])).value, 6)
        0.981981

    References:
        Pearson (1895), Notes on regression and inheritance in the case of two parents.
    """
    if reason := _no_order(table):
        return undefined(reason)
    n = len(table)
    if any(_flat(column) for column in table.T):
        return undefined(f"all {n} items have the same value but for rounding")
    d = _deviations(table)
    squares = (d**2).sum(axis=0)
    products = d[:, 0] * d[:, 1]
    value = _correlation(float(products.sum()), *map(float, squares))
    # without an item, the sum of squares about the new mean is less by n / (n - 1) of its square
    share = n / (n - 1)
    reduced = squares - share * d**2
    without = _ratio(products.sum() - share * products, reduced[:, 0], reduced[:, 1])
    # an outlier is nearly all of its sum, and the difference is rounding: sum the others instead
    for row in np.flatnonzero((reduced < _FAR * squares).any(axis=1)):
        without[row] = _without(np.delete(table, row, axis=0))
    # a correlation of 1 but for rounding becomes 1: rounding would pass for spread
    without = np.where(np.abs(without) > 1 - _ROUNDING, np.sign(without), without)
    return LeftOut(value, without)


def _flat(column: FloatArray) -> bool:
    """Return True if all values are equal but for rounding."""
    far = float(np.abs(column - column.mean()).max())
    return far <= _ROUNDING * float(np.abs(column).max())


def _without(table: FloatArray) -> float:
    """Return the correlation of a table; it is NaN without spread."""
    if len(table) < 2 or any(arguments.constant(column) for column in table.T):
        return math.nan
    d = _deviations(table)
    return _correlation(float(d[:, 0] @ d[:, 1]), *map(float, (d**2).sum(axis=0)))


def _deviations(table: FloatArray) -> FloatArray:
    """Return deviations from the means, scaled to at most 1 so that no square underflows."""
    d = table - table.mean(axis=0)
    scaled: FloatArray = d / np.abs(d).max(axis=0)
    return scaled


def _correlation(product: float, x_square: float, y_square: float) -> float:
    value = product / math.sqrt(x_square * y_square)
    return math.copysign(1.0, value) if abs(value) > 1 - _ROUNDING else value


def spearman(table: FloatArray) -> LeftOut:
    """Return Pearson's correlation of the ranks, also without each row.

    Tied values share the mean of their ranks. The time is O(n log n) if a column has few values, as
    labels do, else O(n^2): ten thousand items take seconds.

    Args:
        table: n pairs of numbers, shape (n, 2), one row or more, without NaN.

    Returns:
        A value in [-1, 1]. The value is NaN with the reason below two rows, or where a column is
        constant.

    Example:
        Squares of the differences of ranks: 0, 1, 1, 0; 1 - 6 x 2 / (4 x 15).

        >>> round(spearman(np.array([[1, 10], [2, 30], [3, 20], [4, 40]])).value, 12)
        0.8

    References:
        Spearman (1904), The proof and measurement of association between two things.
    """
    # a mean rank is (n + 1 + a) / 2 with a = the values below minus those above, so that rho is the
    # correlation of two such sums; leaving out item k takes its sign from each of them
    if reason := _no_order(table):
        return undefined(reason)
    (x, y), both, untied, by = _signs(table)
    product, x_square, y_square = x @ y, x @ x, y @ y
    value = _cosine(float(product), float(x_square), float(y_square))
    reduced = product - x * y + by[0, 1] + by[1, 0] + both
    x_left = x_square - x**2 + 2 * by[0, 0] + untied[0]
    y_left = y_square - y**2 + 2 * by[1, 1] + untied[1]
    return LeftOut(value, _ratio(reduced, x_left, y_left))


def kendall_tau_b(table: FloatArray) -> LeftOut:
    """Return the excess of pairs in the same order over pairs in the opposite one, as a share.

    A pair that is tied in a column is in neither; the divisor is the geometric mean of the pairs
    that are not tied in each column. The result has the value without each row as well. The time is
    that of `spearman`.

    Args:
        table: n pairs of numbers, shape (n, 2), one row or more, without NaN.

    Returns:
        A value in [-1, 1]. The value is NaN with the reason below two rows, or where a column is
        constant.

    Example:
        Five of six pairs in order, one reversed: (5 - 1) / 6.

        >>> round(kendall_tau_b(np.array([[1, 10], [2, 30], [3, 20], [4, 40]])).value, 4)
        0.6667

    References:
        Kendall (1945), The treatment of ties in ranking problems.
    """
    if reason := _no_order(table):
        return undefined(reason)
    _, both, (x_untied, y_untied), _ = _signs(table)
    agree, x_all, y_all = both.sum(), x_untied.sum(), y_untied.sum()
    value = _cosine(float(agree), float(x_all), float(y_all))
    without = _ratio(agree - 2 * both, x_all - 2 * x_untied, y_all - 2 * y_untied)
    return LeftOut(value, without)


def _signs(table: FloatArray) -> tuple[list[FloatArray], FloatArray, FloatArray, FloatArray]:
    """Return sums over j of s = sign(x_k - x_j) and t = sign(y_k - y_j) for each item k."""
    # The parts are the sums S of s and T of t; the sum of s t; the sums of s^2 and t^2, shape (2,
    # n); the sums of s and t, each times the S_j and the T_j of item j, shape (2, 2, n). All are
    # sums of whole numbers, which are exact in any order.
    ones = np.ones(len(table))
    sums = [_signed_sum(column, ones) for column in table.T]
    untied = np.array([len(table) - _ties(column) for column in table.T])
    by = np.array([[_signed_sum(column, of) for of in sums] for column in table.T])
    return sums, _both_signs(table), untied, by


def _signed_sum(column: FloatArray, weights: FloatArray) -> FloatArray:
    """Return for each item the weights of the items below it minus those of the items above."""
    order = np.argsort(column, kind="stable")
    ranked = column[order]
    totals = np.concatenate([[0.0], np.cumsum(weights[order])])
    below = totals[np.searchsorted(ranked, column, side="left")]
    above: FloatArray = totals[-1] - totals[np.searchsorted(ranked, column, side="right")]
    return below - above


def _ties(column: FloatArray) -> FloatArray:
    """Return for each item the number of items with its value, itself included."""
    _, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
    ties: FloatArray = counts[codes].astype(np.float64)
    return ties


def _both_signs(table: FloatArray) -> FloatArray:
    """Return the sum over j of sign(x_k - x_j) sign(y_k - y_j) for each item k."""
    levels = [np.unique(column) for column in table.T]
    few = int(np.argmin([len(of) for of in levels]))
    level_of, value_of = table[:, few], table[:, 1 - few]
    n = len(table)
    both = np.zeros(n)
    if len(levels[few]) <= _MOST_LEVELS:
        for level in levels[few]:
            inside = np.sort(value_of[level_of == level])
            below = np.searchsorted(inside, value_of, side="left")
            above = len(inside) - np.searchsorted(inside, value_of, side="right")
            both += np.sign(level_of - level) * (below - above)
        return both
    # many values on both sides: pairs are compared in blocks, so that memory stays bounded
    rows = max(1, _BLOCK_BYTES // (16 * n))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        signs = []
        for column in table.T:
            signs.append(np.sign(column[part, np.newaxis] - column[np.newaxis, :]))
        both[part] = np.einsum("ij,ij->i", *signs)
    return both


def _no_order(table: FloatArray) -> str:
    """Return the reason why items have no order; it is empty if they have one."""
    n = len(table)
    if n < 2:
        return "one item has no order"
    for column in table.T:
        if arguments.constant(column):
            return f"all {n} items have one value: they have no order"
    return ""


def _cosine(product: float, x_square: float, y_square: float) -> float:
    """Return the cosine of two vectors from their product and squares."""
    # beyond 1 by a rounding error is 1
    return min(max(product / math.sqrt(x_square * y_square), -1.0), 1.0)


def _ratio(products: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the ratio of the products to the square roots of `x * y`; NaN where a root is 0."""
    below = np.sqrt(np.maximum(x, 0) * np.maximum(y, 0))
    ratios = np.full(len(products), np.nan)
    np.divide(products, below, out=ratios, where=below > 0)
    return ratios


def roc_auc(table: FloatArray) -> LeftOut:
    """Return the probability that a good item has a higher score than a bad one; a tie is half.

    The result has the value without each item as well. No threshold is chosen. 0.5 is chance, below
    it the score points the wrong way.

    Args:
        table: Scores of n items beside 1 for good and 0 for bad ones, shape (n, 2), without NaN.

    Returns:
        A value in [0, 1]. The value is NaN with the reason where all items are good, or all bad. A
        constant score gives 0.5: it tells nothing apart.

    Example:
        Good: .9 and .4, bad: .4 and .1. Of four pairs three are in order, one is tied.

        >>> roc_auc(np.array([[0.9, 1], [0.4, 1], [0.4, 0], [0.1, 0]])).value
        0.875

    References:
        Hanley and McNeil (1982), The meaning and use of the area under a ROC curve.
    """
    scores, is_good = table[:, 0], table[:, 1] == 1
    n_good = int(is_good.sum())
    n_bad = len(table) - n_good
    if not n_good or not n_bad:
        which = "good" if n_good else "bad"
        return undefined(f"all {len(table)} items are {which}")
    # for each item, in how many pairs with the other kind it is on the right side
    right = np.where(
        is_good,
        _rivals_below(scores, scores[~is_good]),
        n_good - _rivals_below(scores, scores[is_good]),
    )
    total = float(right[is_good].sum())
    pairs_left = np.where(is_good, (n_good - 1) * n_bad, n_good * (n_bad - 1))
    without = np.full(len(table), np.nan)
    np.divide(total - right, pairs_left, out=without, where=pairs_left > 0)
    return LeftOut(total / (n_good * n_bad), without)


def _rivals_below(scores: FloatArray, rivals: FloatArray) -> FloatArray:
    """Return for each score the number of rivals below it; an equal rival counts half."""
    order = np.sort(rivals)
    below = np.searchsorted(order, scores, side="left")
    upto = np.searchsorted(order, scores, side="right")
    return (below + upto) / 2
