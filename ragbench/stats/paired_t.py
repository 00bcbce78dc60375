"""The paired t test: a mean difference in units of its standard error."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ragbench.stats import arguments
from ragbench.stats.student import t_sf

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray


def t_test_p_values(differences: ArrayLike) -> FloatArray:
    """Test each column of paired differences for a mean of 0, two-sided.

    Assumes that the mean of the differences is close to normal: doubtful where few queries
    changed, and there `randomization_p_values` is the better test.

    Args:
        differences: Table (n queries, m pairs of systems); NaN where a pair is not scored.

    Returns:
        Array of shape (m,), values in [0, 1]. 1 where no query changed; NaN where fewer than two
        are scored, or where all changed by the same amount: there is no spread to divide by.

    Raises:
        OptionError: differences is no table or holds an infinity.

    Example:
        Mean 2, standard error 1 / sqrt(3): t is 3.46 with two degrees of freedom.

        >>> t_test_p_values([[1.0], [2.0], [3.0]]).round(4).tolist()
        [0.0742]

    References:
        Student (1908), The probable error of a mean.
    """
    table = arguments.matrix("t_test_p_values", "differences", differences)
    columns = [column[~np.isnan(column)] for column in table.T]
    return np.array([_p_value(d) for d in columns], dtype=np.float64)


def _p_value(d: FloatArray) -> float:
    if not len(d):
        return math.nan
    if not d.any():
        return 1.0
    if len(d) < 2 or d.min() == d.max():
        return math.nan
    d = d / float(np.abs(d).max())  # so that no square overflows or vanishes
    t = float(d.mean()) / (float(d.std(ddof=1)) / math.sqrt(len(d)))
    return 2 * t_sf(abs(t), len(d) - 1)
