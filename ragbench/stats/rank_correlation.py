"""Spearman's and Kendall's rank correlations, with ties."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats.agreement import Agreement, constant, mean_agreement, pair_of
from ragbench.stats.jackknife import LeftOut, undefined

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray


_BLOCK_BYTES = 16 * 2**20


def spearman(
    x: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Give Pearson's correlation of the ranks; tied values share the mean of their ranks.

    The time is O(n^2): ten thousand items take seconds.

    Args:
        x: n numbers; NaN where missing.
        y: Numbers for the same items.
        groups: What the items belong to, see `mean_agreement`.
        confidence: Coverage that is aimed at.

    Returns:
        A value in [-1, 1]; NaN with the reason where all x or all y are equal, or n < 2.

    Example:
        Squares of the differences of ranks: 0, 1, 1, 0; 1 - 6 x 2 / (4 x 15).

        >>> round(spearman([1, 2, 3, 4], [10, 30, 20, 40]).value, 12)
        0.8

    References:
        Spearman (1904), The proof and measurement of association between two things.
    """
    return mean_agreement(
        rank_rho,
        [pair_of("spearman", x, y)],
        level="ordinal",
        groups=groups,
        confidence=confidence,
    )


def kendall_tau_b(
    x: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Give how many more pairs of items stand in the same order than in the opposite one.

    A pair that is tied in x or y is in neither; the divisor is the geometric mean of the pairs
    that are not tied in x, and in y. The time is O(n^2).

    Args:
        x: n numbers; NaN where missing.
        y: Numbers for the same items.
        groups: What the items belong to, see `mean_agreement`.
        confidence: Coverage that is aimed at.

    Returns:
        A value in [-1, 1]; NaN with the reason where all x or all y are equal, or n < 2.

    Example:
        Five of six pairs in order, one reversed: (5 - 1) / 6.

        >>> round(kendall_tau_b([1, 2, 3, 4], [10, 30, 20, 40]).value, 4)
        0.6667

    References:
        Kendall (1945), The treatment of ties in ranking problems.
    """
    return mean_agreement(
        rank_tau,
        [pair_of("kendall_tau_b", x, y)],
        level="ordinal",
        groups=groups,
        confidence=confidence,
    )


def rank_rho(table: FloatArray) -> LeftOut:
    """Give Spearman's rho of two columns without gaps, and without each row.

    A mean rank is (n + 1 + a) / 2 with a = the values below minus those above, so that rho is the
    correlation of two such sums; leaving out item k takes its sign from each of them.
    """
    if reason := _no_order(table):
        return undefined(reason)
    s = _signs(table)
    product, x_square, y_square = s.x @ s.y, s.x @ s.x, s.y @ s.y
    value = float(product) / math.sqrt(float(x_square) * float(y_square))
    left = product - s.x * s.y + s.x_by_y + s.y_by_x + s.both
    x_left = x_square - s.x**2 + 2 * s.x_by_x + s.x_untied
    y_left = y_square - s.y**2 + 2 * s.y_by_y + s.y_untied
    return LeftOut(_clipped(value), _ratio(left, x_left, y_left))


def rank_tau(table: FloatArray) -> LeftOut:
    """Give Kendall's tau-b of two columns without gaps, and without each row."""
    if reason := _no_order(table):
        return undefined(reason)
    s = _signs(table)
    agree, x_all, y_all = s.both.sum(), s.x_untied.sum(), s.y_untied.sum()
    value = float(agree) / math.sqrt(float(x_all) * float(y_all))
    without = _ratio(agree - 2 * s.both, x_all - 2 * s.x_untied, y_all - 2 * s.y_untied)
    return LeftOut(_clipped(value), without)


@dataclass(frozen=True, slots=True)
class _Signs:
    """Sums over j of s = sign(x_k - x_j) and t = sign(y_k - y_j), for each item k."""

    x: FloatArray
    y: FloatArray
    both: FloatArray
    """Sum of s t: pairs in the same order minus pairs in the opposite one."""
    x_untied: FloatArray
    y_untied: FloatArray
    x_by_x: FloatArray
    """Sum of s_kj x_j; `x` and `y` are the sums of s and t, those `untied` of their squares."""
    x_by_y: FloatArray
    y_by_x: FloatArray
    y_by_y: FloatArray


def _signs(table: FloatArray) -> _Signs:
    """Compute the sums, in blocks of rows so that memory stays bounded."""
    n = len(table)
    sums = [_below_minus_above(column) for column in table.T]
    both, untied = np.empty(n), np.empty((2, n))
    by = np.empty((2, 2, n))
    rows = max(1, _BLOCK_BYTES // (16 * n))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        signs = [np.sign(c[part, np.newaxis] - c[np.newaxis, :]) for c in table.T]
        both[part] = np.einsum("ij,ij->i", *signs)
        for place, sign in enumerate(signs):
            untied[place, part] = np.count_nonzero(sign, axis=1)
            by[place, 0, part], by[place, 1, part] = sign @ sums[0], sign @ sums[1]
    return _Signs(
        sums[0], sums[1], both, untied[0], untied[1], by[0, 0], by[0, 1], by[1, 0], by[1, 1]
    )


def _below_minus_above(column: FloatArray) -> FloatArray:
    order = np.sort(column)
    below = np.searchsorted(order, column, side="left")
    above = len(column) - np.searchsorted(order, column, side="right")
    return (below - above).astype(np.float64)


def _no_order(table: FloatArray) -> str:
    n = len(table)
    if n < 2:
        return f"{n} items have no order"
    for column in table.T:
        if constant(column):
            return f"all {n} items have the value {column[0]:g}: they have no order"
    return ""


def _ratio(left: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Divide by the geometric mean; NaN where nothing is left to be ordered."""
    below = np.sqrt(np.maximum(x, 0) * np.maximum(y, 0))
    found = np.full(len(left), np.nan)
    np.divide(left, below, out=found, where=below > 0)
    return found


def _clipped(value: float) -> float:
    """A correlation beyond 1 by a rounding error is 1."""
    return min(max(value, -1.0), 1.0)


def roc_auc(
    scores: ArrayLike,
    good: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Give the probability that a good item has a higher score than a bad one; a tie is half.

    No threshold is chosen. 0.5 is chance, below it the score points the wrong way.

    Args:
        scores: n numbers; NaN where missing.
        good: 1 or 0 for the same items; NaN where missing.
        groups: What the items belong to, see `mean_agreement`.
        confidence: Coverage that is aimed at.

    Returns:
        A value in [0, 1]; NaN with the reason where all items are good, or all bad. A constant
        score gives 0.5 without an interval: it tells nothing apart.

    Example:
        Good: .9 and .4, bad: .4 and .1. Of four pairs three are in order, one is tied.

        >>> roc_auc([0.9, 0.4, 0.4, 0.1], [1, 1, 0, 0]).value
        0.875

    References:
        Hanley and McNeil (1982), The meaning and use of the area under a ROC curve.
    """
    table = pair_of("roc_auc", scores, good)
    strange = table[~np.isin(table[:, 1], (0.0, 1.0)) & np.isfinite(table[:, 1]), 1]
    if strange.size:
        raise OptionError("roc_auc", "good", float(strange[0]), "0 and 1, or NaN")
    return mean_agreement(
        roc_area,
        [table],
        level="ordinal",
        span=(0.0, 1.0),
        groups=groups,
        confidence=confidence,
    )


def roc_area(table: FloatArray) -> LeftOut:
    """Give the area of scores (first column) against 0 or 1 (second), and without each row."""
    scores, is_good = table[:, 0], table[:, 1] == 1
    n_good = int(is_good.sum())
    n_bad = len(table) - n_good
    if not n_good or not n_bad:
        which = "good" if n_good else "bad"
        return undefined(f"all {len(table)} items are {which}" if len(table) else "no items")
    # for each item, in how many pairs with the other kind it is on the right side
    right = np.where(
        is_good,
        _higher_than(scores, scores[~is_good]),
        n_good - _higher_than(scores, scores[is_good]),
    )
    total = float(right[is_good].sum())
    pairs_left = np.where(is_good, (n_good - 1) * n_bad, n_good * (n_bad - 1))
    without = np.full(len(table), np.nan)
    np.divide(total - right, pairs_left, out=without, where=pairs_left > 0)
    return LeftOut(total / (n_good * n_bad), without)


def _higher_than(scores: FloatArray, others: FloatArray) -> FloatArray:
    """Count for each score the others below it, those equal to it as half."""
    order = np.sort(others)
    below = np.searchsorted(order, scores, side="left")
    upto = np.searchsorted(order, scores, side="right")
    return (below + upto) / 2
