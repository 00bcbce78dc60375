"""Cohen's kappa, plain and weighted, and the confusion table behind it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats.agreement import NO_ITEMS, Agreement, Level, constant, mean_agreement, pair_of
from ragbench.stats.jackknife import LeftOut, undefined

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

Weights = Literal["equal", "linear", "quadratic"]
"""How much a disagreement counts: all alike, its distance, or the square of its distance."""

KAPPA_LEVEL: dict[Weights, Level] = {
    "equal": "nominal",
    "linear": "interval",
    "quadratic": "interval",
}


def cohen_kappa(
    x: ArrayLike,
    y: ArrayLike,
    *,
    weights: Weights = "equal",
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Give how far two raters agree beyond what their habits alone would give.

    1 - (observed disagreement) / (disagreement if each kept his frequencies but rated blindly).

    Args:
        x: Levels that one rater gave to n items, as numbers; NaN where missing.
        y: Levels that another gave to the same items.
        weights: `equal`, `linear` or `quadratic` in the distance of the two numbers; levels that
            nobody used count as distance all the same.
        groups: What the items belong to, see `mean_agreement`.
        confidence: Coverage that is aimed at.

    Returns:
        A value in [-1, 1]; 0 is chance. NaN with the reason where a rater gave one level to all
        items: kappa would be 0 or 0 / 0, whatever the other one said.

    Example:
        Agreement .7; by chance .5 x .6 + .5 x .4 = .5: (.7 - .5) / (1 - .5).

        >>> x = [1] * 25 + [1] * 10 + [0] * 15
        >>> kappa = cohen_kappa([1] * 20 + [1] * 5 + [0] * 10 + [0] * 15,
        ...                     [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15)
        >>> round(kappa.value, 12), round(kappa.lower, 2), round(kappa.upper, 2)
        (0.4, 0.11, 0.63)

    References:
        Cohen (1960), A coefficient of agreement for nominal scales; (1968), Weighted kappa.
    """
    if weights not in KAPPA_LEVEL:
        raise OptionError("cohen_kappa", "weights", weights, ", ".join(KAPPA_LEVEL))
    return mean_agreement(
        partial(kappa, weights=weights),
        [pair_of("cohen_kappa", x, y)],
        level=KAPPA_LEVEL[weights],
        groups=groups,
        confidence=confidence,
    )


def kappa(table: FloatArray, weights: Weights = "equal") -> LeftOut:
    """Give kappa of the two columns of a table without gaps, and without each row."""
    n = len(table)
    if n == 0:
        return undefined(NO_ITEMS)
    x, y = table[:, 0], table[:, 1]
    for column in (x, y):
        if constant(column):
            return undefined(f"a rater gives {column[0]:g} to all {n} items")
    observed = _apart(x, y, weights)
    against_y, against_x = _sums_against(x, y, weights), _sums_against(y, x, weights)
    expected = float(against_y.sum())
    value = 1 - n * float(observed.sum()) / expected
    left = expected - against_y - against_x + observed
    with np.errstate(divide="ignore", invalid="ignore"):
        without = 1 - (n - 1) * (observed.sum() - observed) / left
    without[_last_of_two(x) | _last_of_two(y)] = np.nan
    return LeftOut(value, without)


def confusion_table(
    x: ArrayLike, y: ArrayLike, levels: ArrayLike
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Count the items by the level of one rater (row) and of the other (column).

    Args:
        x: Levels of n items, NaN where missing: such items are not counted.
        y: Levels that another gave to the same items.
        levels: All levels, in the order of rows and columns.

    Returns:
        Counts of shape (levels, levels).

    Example:
        >>> confusion_table([1, 1, 2], [1, 2, 2], [1, 2, 3]).tolist()
        [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    """
    table = pair_of("confusion_table", x, y)
    table = table[np.isfinite(table).all(axis=1)]
    known = np.asarray(levels, dtype=np.float64)
    order = np.argsort(known)
    places = np.searchsorted(known, table, sorter=order).clip(max=len(known) - 1)
    places = order[places]
    strange = table[known[places] != table]
    if strange.size:
        allowed = ", ".join(f"{level:g}" for level in known)
        raise OptionError("confusion_table", "levels", float(strange[0]), allowed)
    counts = np.zeros((len(known), len(known)), dtype=np.int64)
    np.add.at(counts, (places[:, 0], places[:, 1]), 1)
    return counts


def _last_of_two(column: FloatArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether a rater gives one level to all items but this one."""
    _, of_item, counts = np.unique(column, return_inverse=True, return_counts=True)
    alone: np.ndarray[Any, np.dtype[np.bool_]] = (counts[of_item] == 1) & (len(counts) == 2)
    return alone


def _apart(x: FloatArray, y: FloatArray, weights: Weights) -> FloatArray:
    distance = np.abs(x - y)
    if weights == "equal":
        return (distance > 0).astype(np.float64)
    return distance if weights == "linear" else distance**2


def _sums_against(x: FloatArray, y: FloatArray, weights: Weights) -> FloatArray:
    """Give for each x the sum of its disagreement with all y."""
    levels, of_row = np.unique(x, return_inverse=True)
    others, counts = np.unique(y, return_counts=True)
    sums = _apart(levels[:, np.newaxis], others[np.newaxis, :], weights) @ counts
    found: FloatArray = sums[of_row]
    return found
