"""Which system is significantly better than which, over all pairs of one measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from ragbench.comparison.paired import Method
from ragbench.score.base import ScoreColumn
from ragbench.stats import cluster_sums, max_t_p_values, paired_differences


def better_than(
    columns: Mapping[str, ScoreColumn], method: Method, clusters: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Name, for each system, those that it is significantly better than.

    Tests all pairs of systems as one family by step-down max-T, as the marks in tables of
    papers do. `better` obeys the direction of the measure. A count that is summed is not tested.

    Args:
        columns: System -> its column of one measure, over the same queries in the same order.
        method: Confidence, resampling, seed.
        clusters: The cluster of each query, where queries belong together.

    Returns:
        System -> the others, in the order of `columns`; empty where none is worse.

    Example:
        >>> from ragbench.signature import Signature
        >>> column = lambda x: ScoreColumn(
        ...     "mrr", np.full(12, x), np.zeros(12, np.uint8), Signature("mrr"))
        >>> better_than({"bm25": column(0.5), "dense": column(0.75)}, Method())
        {'bm25': [], 'dense': ['bm25']}
    """
    names = list(columns)
    found: dict[str, list[str]] = {name: [] for name in names}
    pairs = list(combinations(names, 2))
    if not pairs or next(iter(columns.values())).aggregate == "sum":
        return found
    table = np.column_stack(
        [paired_differences(columns[x].values, columns[y].values) for x, y in pairs]
    )
    units = table if clusters is None else cluster_sums(table, np.asarray(clusters))
    p_values = max_t_p_values(units, resamples=method.resamples, seed=method.seed)
    up = columns[names[0]].direction == "higher"
    for (x, y), d, p in zip(pairs, table.T, p_values.tolist(), strict=True):
        if p <= 1 - method.confidence:
            winner, loser = (x, y) if (np.nansum(d) > 0) == up else (y, x)
            found[winner].append(loser)
    return {name: sorted(others, key=names.index) for name, others in found.items()}
