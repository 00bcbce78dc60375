"""What the functions of this package accept; an `OptionError` in one voice where it is none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray

_ROUNDING = 1e-6
"""A value this far outside its range, relative to the width of the range, is a rounding error:
cosines in single precision exceed 1 by 1e-7."""


def sample(owner: str, option: str, values: ArrayLike) -> FloatArray:
    """Give values as a vector of finite numbers, or refuse them."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise OptionError(owner, option, f"{vector.ndim} dimensions", "one dimension")
    lost = int(np.count_nonzero(~np.isfinite(vector)))
    if lost:
        raise OptionError(
            owner, option, f"{lost} of {len(vector)} not finite", "finite numbers: drop the others"
        )
    return vector


def matrix(owner: str, option: str, values: ArrayLike) -> FloatArray:
    """Give values as a table of finite numbers and NaN, or refuse them."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise OptionError(owner, option, f"{table.ndim} dimensions", "two: queries x columns")
    if np.isinf(table).any():
        raise OptionError(owner, option, "an infinity", "finite numbers, or NaN for no value")
    return table


def p_vector(owner: str, p_values: ArrayLike) -> FloatArray:
    """Give p-values as a vector of numbers from 0 to 1 and NaN, or refuse them."""
    vector = np.asarray(p_values, dtype=np.float64)
    if vector.ndim != 1:
        raise OptionError(owner, "p_values", f"{vector.ndim} dimensions", "one dimension")
    outside = vector[(vector < 0) | (vector > 1)]
    if outside.size:
        raise OptionError(owner, "p_values", float(outside[0]), "numbers from 0 to 1, or NaN")
    return vector


def probability(owner: str, option: str, value: float) -> float:
    """Give value if it lies strictly between 0 and 1, or refuse it."""
    if not 0 < value < 1:
        raise OptionError(owner, option, value, "a number between 0 and 1")
    return float(value)


def size(owner: str, option: str, value: float) -> float:
    """Give value if it is not negative, or refuse it; NaN, an unknown size, passes."""
    if value < 0:
        raise OptionError(owner, option, value, "a number >= 0")
    return float(value)


def whole_number(owner: str, option: str, value: int, *, least: int) -> int:
    """Give value if it is an integer not below least, or refuse it."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise OptionError(owner, option, value, f"an integer >= {least}")
    return int(value)


def value_range(owner: str, ends: tuple[float, float]) -> tuple[float, float]:
    """Give the two ends of a measure's range if they are in order, or refuse them."""
    low, high = ends
    if not low < high:
        raise OptionError(owner, "range", ends, "two numbers (low, high) with low < high")
    return float(low), float(high)


def within(owner: str, option: str, values: FloatArray, low: float, high: float) -> None:
    """Refuse values outside [low, high], rounding errors aside."""
    bounded = math.isfinite(low) and math.isfinite(high)
    slack = _ROUNDING * (high - low) if bounded else 0.0
    outside = values[(values < low - slack) | (values > high + slack)]
    if outside.size:
        raise OptionError(owner, option, float(outside[0]), f"numbers from {low:g} to {high:g}")
