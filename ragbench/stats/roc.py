"""The area under the ROC curve: how well a score tells the good from the bad."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats.agreement import Agreement, mean_agreement, pair_of
from ragbench.stats.jackknife import LeftOut, undefined

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray


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

    Raises:
        OptionError: The two are not of one length, or good holds something else than 0 and 1.

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
