"""Krippendorff's alpha: agreement of several raters, ratings missing or not."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.agreement import NO_ITEMS, Agreement, Level, constant, mean_agreement
from ragbench.stats.resampling import LeftOut, undefined
from ragbench.types import FloatArray

_LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")


def krippendorff_alpha(
    ratings: ArrayLike,
    *,
    level: Level = "nominal",
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Give 1 - observed / expected disagreement of any number of raters.

    Ratings of one item are compared with each other, then with ratings of any items. The raters
    are interchangeable: unlike kappa it counts as disagreement that one is stricter.

    Args:
        ratings: Table (items, raters) of numbers; NaN where a rating is missing. Items with
            fewer than two ratings are left out.
        level: `nominal` (equal or not), `ordinal` (how many ratings lie between), or `interval`
            (squared distance).
        groups: What the items belong to, see `mean_agreement`.
        confidence: Coverage that is aimed at.

    Returns:
        At most 1; 0 is chance. NaN with the reason where all ratings are equal, which is no
        proof of agreement, or where no item has two.

    Example:
        Three of four items alike; of the 8 x 7 ordered pairs of ratings 2 x 3 x 5 differ, so
        1 - (2 / 8) / (30 / 56).

        >>> round(krippendorff_alpha([[1, 1], [1, 2], [2, 2], [2, 2]]).value, 4)
        0.5333

    References:
        Krippendorff (2011), Computing Krippendorff's alpha-reliability.
    """
    if level not in _LEVELS:
        raise OptionError("krippendorff_alpha", "level", level, ", ".join(_LEVELS))
    return mean_agreement(
        partial(alpha, level=level),
        [arguments.matrix("krippendorff_alpha", "ratings", ratings)],
        level=level,
        groups=groups,
        confidence=confidence,
    )


def alpha(table: FloatArray, level: Level = "nominal") -> LeftOut:
    """Give alpha of a table whose rows have two ratings or more, and without each row."""
    if len(table) == 0:
        return undefined(NO_ITEMS)
    rated = table[np.isfinite(table)]
    if constant(rated):
        return undefined(f"all {len(rated)} ratings are {rated[0]:g}")
    if level != "interval":
        return _by_coincidence(table, level)
    observed, total, left_total, left_n = _interval_parts(table)
    n = float(len(rated))
    value = 1 - (n - 1) * float(observed.sum()) / total
    with np.errstate(divide="ignore", invalid="ignore"):
        without = 1 - (left_n - 1) * (observed.sum() - observed) / left_total
    without[left_total <= 0] = np.nan
    return LeftOut(value, without)


def _interval_parts(table: FloatArray) -> tuple[FloatArray, float, FloatArray, FloatArray]:
    """Give disagreement within items, among all ratings, and the latter without each item."""
    centre = float(np.nanmean(table))
    centred = table - centre
    count = np.isfinite(table).sum(axis=1).astype(np.float64)
    first, second = np.nansum(centred, axis=1), np.nansum(centred**2, axis=1)
    # ordered pairs: sum of (a - b)^2 = 2 (m sum a^2 - (sum a)^2)
    observed = 2 * np.maximum(count * second - first**2, 0) / (count - 1)
    n, s, q = count.sum(), first.sum(), second.sum()
    total = float(2 * (n * q - s**2))
    left_n = n - count
    left = 2 * (left_n * (q - second) - (s - first) ** 2)
    left[left <= 1e-12 * total] = 0.0
    return observed, total, left, left_n


def _by_coincidence(table: FloatArray, level: Level) -> LeftOut:
    """Give alpha from the coincidences of levels; one row of counts per item."""
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
        left = frequency.copy()
        left[kind] -= 1
        alpha_left = _alpha_of(kinds, kinds.sum(axis=1), marginals - row, level, repeats=left)
        without[kind_of == kind] = alpha_left
    return LeftOut(value, without)


def _alpha_of(
    counts: FloatArray,
    size: FloatArray,
    marginals: FloatArray,
    level: Level,
    repeats: FloatArray | None = None,
) -> float:
    """Give alpha of items with these counts of levels, each repeated so many times."""
    apart = _distances(marginals, level)
    within = np.einsum("ui,ij,uj->u", counts, apart, counts) / (size - 1)
    observed = float(within.sum() if repeats is None else within @ repeats)
    expected = float(marginals @ apart @ marginals)
    if expected <= 0:
        return float("nan")
    return 1 - (float(marginals.sum()) - 1) * observed / expected


def _distances(marginals: FloatArray, level: Level) -> FloatArray:
    if level == "nominal":
        return 1.0 - np.eye(len(marginals))
    # ordinal: ratings from the one to the other, half of those at both ends
    middle = np.cumsum(marginals) - marginals / 2
    return (middle[:, np.newaxis] - middle[np.newaxis, :]) ** 2
