"""P-values adjusted for a family of comparisons: Holm's step-down and Benjamini-Hochberg."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ragbench.stats import arguments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray


def holm_p_values(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values so that the chance of ANY false rejection in the family stays below alpha.

    Valid under any dependence between the tests.

    Args:
        p_values: One p-value per comparison. NaN, a comparison that was not made, stays NaN and
            is not counted.

    Returns:
        Array of the same shape: reject where it is at most alpha.

    Example:
        0.01 x 3, 0.02 x 2, and 0.03 x 1, which may not fall below the one before it.

        >>> holm_p_values([0.03, 0.01, 0.02]).tolist()
        [0.04, 0.03, 0.04]

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    p = arguments.p_vector("holm_p_values", p_values)
    order, m = _ascending(p)
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(m, 0, -1)), 1.0)
    return adjusted


def benjamini_hochberg_p_values(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values so that the expected share of false among all rejections is below alpha.

    Weaker than `holm_p_values`: for screening many comparisons, not for a claim about one.

    Args:
        p_values: One p-value per comparison. NaN, a comparison that was not made, stays NaN and
            is not counted.

    Returns:
        Array of the same shape: reject where it is at most alpha.

    Example:
        0.04 x 3 / 3, 0.02 x 3 / 2, and 0.015 x 3 / 1, which may not exceed the one after it.

        >>> benjamini_hochberg_p_values([0.04, 0.015, 0.02]).tolist()
        [0.04, 0.03, 0.03]

    References:
        Benjamini and Hochberg (1995), Controlling the false discovery rate.
    """
    p = arguments.p_vector("benjamini_hochberg_p_values", p_values)
    order, m = _ascending(p)
    scaled = p[order] * (m / np.arange(1, m + 1))
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def resamples_needed(n_comparisons: int, *, alpha: float = 0.05) -> int:
    """Give the fewest random resamples with which one of a family can be rejected after Holm.

    The smallest p-value of B resamples is 1 / (B + 1); with n comparisons it has to be at most
    alpha / n. 10,000 resamples can never reject in a family above 500.

    Args:
        n_comparisons: Size of the family, 1 or more.
        alpha: Family-wise error rate.

    Example:
        >>> resamples_needed(500)
        9999
    """
    arguments.whole_number("resamples_needed", "n_comparisons", n_comparisons, least=1)
    arguments.probability("resamples_needed", "alpha", alpha)
    return max(1, math.ceil(n_comparisons / alpha) - 1)


def can_reject(resamples: int, n_comparisons: int, *, alpha: float = 0.05) -> bool:
    """Tell whether that many random resamples can ever reject one of a family after Holm.

    Example:
        >>> can_reject(10_000, 500), can_reject(10_000, 501)
        (True, False)
    """
    arguments.whole_number("can_reject", "resamples", resamples, least=1)
    return resamples >= resamples_needed(n_comparisons, alpha=alpha)


def _ascending(p: FloatArray) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], int]:
    """Give the places of the p-values from small to large, without NaN, and their number."""
    m = int(np.count_nonzero(~np.isnan(p)))
    return np.argsort(p, kind="stable")[:m], m
