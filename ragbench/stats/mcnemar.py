"""McNemar's test: of the queries that only one system got right, how many are whose?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import OptionError
from ragbench.stats import arguments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ragbench.types import FloatArray


def mcnemar_p_values(differences: ArrayLike) -> FloatArray:
    """Test each column of paired differences of hits and misses; exact, two-sided.

    If the systems did not differ, a query that one of them alone gets right would be either's
    with equal chance, so the wins are binomial. The p-value is that of the sign-flip test.

    Args:
        differences: Table (n queries, m pairs of systems) of -1, 0 and 1; NaN where a pair is
            not scored.

    Returns:
        Array of shape (m,), values in (0, 1]. 1 where no query changed; NaN where none is scored.

    Raises:
        OptionError: A difference is none of -1, 0 and 1, or differences is no table.

    Example:
        Five won, one lost: 2 x (C(6,0) + C(6,1)) / 2^6.

        >>> mcnemar_p_values([[1.0]] * 5 + [[-1.0]] + [[0.0]] * 20).round(9).tolist()
        [0.21875]

    References:
        McNemar (1947), Note on the sampling error of the difference between correlated
        proportions or percentages.
    """
    table = arguments.matrix("mcnemar_p_values", "differences", differences)
    graded = table[~np.isin(table, (-1.0, 0.0, 1.0)) & ~np.isnan(table)]
    if graded.size:
        raise OptionError(
            "mcnemar_p_values", "differences", float(graded[0]), "-1, 0 or 1: hits and misses"
        )
    won, lost = (table == 1).sum(axis=0), (table == -1).sum(axis=0)
    unscored = np.isnan(table).all(axis=0)
    p_values = np.array([_binomial(int(w), int(x)) for w, x in zip(won, lost, strict=True)])
    return np.where(unscored, np.nan, p_values)


def _binomial(won: int, lost: int) -> float:
    """Give the chance of so uneven a split of fair coins."""
    n, smaller = won + lost, min(won, lost)
    k = np.arange(1, smaller + 1)
    # log C(n, k) - n log 2 for k = 0..smaller: the numbers themselves overflow
    logs = np.concatenate(([0.0], np.cumsum(np.log((n - k + 1) / k)))) - n * math.log(2)
    return min(2 * float(np.exp(logs).sum()), 1.0)
