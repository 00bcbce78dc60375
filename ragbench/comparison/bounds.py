"""How far failures leave a score open: values with what failed at one end of the range.

A query with several answers has a score where one of them has; those that failed leave it open
between the mean with all of them at the worst, and at the best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragbench.score.base import ScoreColumn
from ragbench.types import Cause, FloatArray

_FIRST_FAILURE = min(cause for cause in Cause if cause.failed)


def failed_share(column: ScoreColumn) -> FloatArray:
    """Return the share of each item that failed: 1 where all of it did, 0 where nothing did.

    What a score does not apply to is no part of it: of five answers, one of which failed and one
    makes no claim, a quarter of the score failed.

    Returns:
        Shape (n,), 0 to 1.

    Example:
        >>> from ragbench.signature import Signature
        >>> of_answers = np.array([[0, 0, 0], [0, Cause.TIMEOUT, 0]], np.uint8)
        >>> column = ScoreColumn("f1", np.array([1.0, 0.5]), np.zeros(2, np.uint8), Signature("f1"),
        ...     answer_causes=of_answers)
        >>> failed_share(column).round(2).tolist()
        [0.0, 0.33]
    """
    share: FloatArray = (column.causes >= _FIRST_FAILURE).astype(np.float64)
    if column.answer_causes is None:
        return share
    failed = (column.answer_causes >= _FIRST_FAILURE).sum(axis=1)
    counted = failed + (column.answer_causes == Cause.SCORED).sum(axis=1)
    is_scored = column.causes == Cause.SCORED
    share[is_scored] = (failed / np.maximum(counted, 1))[is_scored]
    return share


def with_failed_at(column: ScoreColumn, end: float) -> FloatArray:
    """Return the values with all that failed at `end`; NaN where the score does not apply.

    Returns:
        Shape (n,); infinite where something failed and `end` is.
    """
    share = failed_share(column)
    opened = share > 0
    values: FloatArray = column.values.copy()
    known = np.where(np.isnan(values), 0.0, values)[opened]
    values[opened] = (1 - share[opened]) * known + share[opened] * end
    return values


def is_open(column: ScoreColumn) -> NDArray[np.bool_]:
    """Whether a failure leaves each item open, in whole or in part; shape (n,)."""
    opened: NDArray[np.bool_] = failed_share(column) > 0
    return opened
