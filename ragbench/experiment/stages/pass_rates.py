"""Columns of `pass^k` and `pass@k` from the repetitions of `right`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragbench.score.text.base import Metric
from ragbench.signature import Signature
from ragbench.stats import pass_all, pass_any
from ragbench.types import Cause, ScoreColumn
from ragbench.types.rows import stack_values


def pass_column(metric: Metric, right: Sequence[ScoreColumn]) -> ScoreColumn | None:
    """Return the column of `pass^k` or `pass@k`; None with fewer than k repetitions.

    A question with fewer than k scored repetitions has no value, and the cause of its first
    repetition without one. Values are exact for draws of k of the repetitions.

    Args:
        metric: Metric with the option k.
        right: Column `right` of each repetition.

    Example:
        Right, wrong, right: of the three pairs one has both, and all have one.

        >>> from ragbench.score.text.pass_rate import parse_pass
        >>> columns = [
        ...     ScoreColumn("right", np.array([value]), np.zeros(1, np.uint8), Signature("right"))
        ...     for value in (1.0, 0.0, 1.0)
        ... ]
        >>> [float(pass_column(parse_pass(name), columns).mean) for name in ("pass@2", "pass^3")]
        [1.0, 0.0]
    """
    k, first = int(metric.options["k"]), right[0]
    if k > len(right):
        return None
    rule = pass_all if metric.base.startswith("pass^") else pass_any
    table = stack_values(right, axis=1)
    values, causes, details = np.full(len(table), np.nan), first.causes.copy(), dict[int, str]()
    for row, repetitions in enumerate(table):
        scored = repetitions[~np.isnan(repetitions)]
        if len(scored) >= k:
            values[row] = rule(int((scored == 1).sum()), len(scored), k)
            causes[row] = Cause.SCORED
            continue
        first_failed = next(column for column in right if np.isnan(column.values[row]))
        causes[row] = first_failed.causes[row]
        if row in first_failed.details:
            details[row] = first_failed.details[row]
    signature = Signature(metric.canonical, first.signature.parts).with_parts(repeat=len(right))
    return ScoreColumn(metric.name, values, causes, signature, details=details)
