"""Checks of the arguments of this package: samples, tables, ranges and levels.

Each check returns the checked value, and raises an OptionError that names the function (`owner`)
and the argument (`option`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ragbench.errors import OptionError, Phrase
from ragbench.types import FloatArray

# A value this far outside its range, relative to the width of the range, is a rounding error:
# cosines in single precision exceed 1 by 1e-7.
_ROUNDING = 1e-6


def sample(owner: str, option: str, values: ArrayLike) -> FloatArray:
    """Return values as a vector; raise OptionError unless all are finite and in one dimension.

    An empty input gives an empty vector. NumPy raises ValueError for values that are no numbers.
    """
    vector = _vector(owner, option, values)
    lost = int(np.count_nonzero(~np.isfinite(vector)))
    if lost:
        problem = Phrase(f"{lost} of {len(vector)} not finite")
        raise OptionError(owner, option, problem, "finite numbers: drop the others")
    return vector


def _vector(owner: str, option: str, values: ArrayLike) -> FloatArray:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise OptionError(owner, option, Phrase(f"{vector.ndim} dimensions"), "one dimension")
    return vector


def matrix(owner: str, option: str, values: ArrayLike) -> FloatArray:
    """Return values as a table; NaN passes. Raises OptionError for an infinity or other dimensions.

    The table is (queries, columns) of float64, and may be empty. NumPy raises ValueError for values
    that are no numbers and for rows of unequal lengths.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        dimensions = Phrase(f"{table.ndim} dimensions")
        raise OptionError(owner, option, dimensions, "two: queries x columns")
    if np.isinf(table).any():
        infinity = Phrase("an infinity")
        raise OptionError(owner, option, infinity, "finite numbers, or NaN for no value")
    return table


def p_vector(owner: str, p_values: ArrayLike) -> FloatArray:
    """Return p-values as a vector; NaN passes. Raises OptionError for numbers outside 0..1.

    OptionError also for other than one dimension; an empty input gives an empty vector.
    """
    vector = _vector(owner, "p_values", p_values)
    outside = vector[(vector < 0) | (vector > 1)]
    if outside.size:
        raise OptionError(owner, "p_values", float(outside[0]), "numbers from 0 to 1, or NaN")
    return vector


def probability(owner: str, option: str, value: float) -> float:
    """Return the value; raise OptionError unless it lies strictly between 0 and 1."""
    if not 0 < value < 1:
        raise OptionError(owner, option, value, "a number between 0 and 1")
    return float(value)


def size(owner: str, option: str, value: float) -> float:
    """Return the value; raise OptionError if it is negative. NaN, an unknown size, passes."""
    if value < 0:
        raise OptionError(owner, option, value, "a number >= 0")
    return float(value)


def whole_number(owner: str, option: str, value: int, *, least: int) -> int:
    """Return the value; raise OptionError unless it is an integer of at least `least`.

    NumPy integers pass and become int; True and False raise.
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise OptionError(owner, option, value, f"an integer >= {least}")
    return int(value)


def resampling(owner: str, resamples: int, seed: int) -> None:
    """Raise OptionError unless `resamples` is an integer from 1, and `seed` one from 0."""
    whole_number(owner, "resamples", resamples, least=1)
    whole_number(owner, "seed", seed, least=0)


def value_range(owner: str, ends: tuple[float, float]) -> tuple[float, float]:
    """Return the two ends of a range; raise OptionError unless low < high. Ends may be infinite."""
    low, high = ends
    if not low < high:
        raise OptionError(owner, "range", ends, "two numbers (low, high) with low < high")
    return float(low), float(high)


def within(owner: str, option: str, values: FloatArray, low: float, high: float) -> None:
    """Raise OptionError for values outside [low, high] by more than a rounding error.

    A rounding error is 1e-6 of the width of the range, 0 if an end is infinite. NaN and empty
    arrays are allowed. The message names the first such value.
    """
    bounded = math.isfinite(low) and math.isfinite(high)
    slack = _ROUNDING * (high - low) if bounded else 0.0
    outside = values[(values < low - slack) | (values > high + slack)]
    if outside.size:
        raise OptionError(owner, option, float(outside[0]), f"numbers from {low:g} to {high:g}")


def largest_differences(owner: str, largest: float | tuple[float, float]) -> tuple[float, float]:
    """Return the largest loss and gain; raise OptionError unless both are finite and above 0."""
    loss, gain = largest if isinstance(largest, tuple) else (largest, largest)
    if not (0 < loss < math.inf and 0 < gain < math.inf):
        raise OptionError(owner, "largest", largest, "a finite number above 0, or two")
    return float(loss), float(gain)


def baseline_scores(owner: str, scores: ArrayLike | None, n: int) -> FloatArray:
    """Return the scores of the baseline for n queries; NaN for all without any.

    Raises OptionError for other than n scores.
    """
    if scores is None:
        return np.full(n, np.nan)
    vector = _vector(owner, "baseline", scores)
    if len(vector) != n:
        raise OptionError(owner, "baseline", Phrase(f"{len(vector)} scores"), f"{n}, one per query")
    return vector


def constant(column: FloatArray) -> bool:
    """Return True if all values of a non-empty column are equal."""
    return bool(column.min() == column.max())
