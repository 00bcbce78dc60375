"""Differences of systems from their baselines in slices of the queries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product

import numpy as np

from ragbench import stats
from ragbench.comparison.method import Method
from ragbench.comparison.pair_tests import describe
from ragbench.comparison.pairs import PairedScores, pair_systems
from ragbench.comparison.slices import Slicing
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.records.comparison import (
    SliceDifference,
)
from ragbench.stats.mean import finite

# A slice of fewer queries is listed but not tested: it cannot tell a loss from chance.
ENOUGH_QUERIES = 20


def compare_slices(
    systems: Sequence[SystemScores],
    baseline: str | None,
    method: Method,
    slicings: Sequence[Slicing],
    clusters: Sequence[str] | None = None,
) -> tuple[SliceDifference, ...]:
    """Test in every slice whether a system is worse than its baseline.

    The test is one-sided, adjusted by studentized max-T over the tested slices of one field: if no
    slice is worse, the chance that any is called worse is at most 1 - confidence. Fields, measures
    and systems are families of their own. `worse` is None for a slice of fewer than
    `ENOUGH_QUERIES` queries, or clusters, which is not tested. Rows are in the order of the
    slicings, then the measures, the systems, the slices; empty without slicings. A pair whose
    signatures differ has none. Of `method`, the confidence, the resamples and the seed count.
    Without `baseline`, or with an unknown name, the first system of each kind is the baseline.
    Raises OptionError if `clusters` are not one label per query, or a difference is larger than the
    range of its measure.
    """
    labels = None if clusters is None else np.asarray(clusters)
    pairs = [*chain.from_iterable(pair_systems(systems, baseline, labels).values())]
    differences: list[SliceDifference] = []
    for slicing, pair in product(slicings, pairs):
        if not pair.unlike:
            differences += _compare_slices(pair, slicing, method)
    return tuple(differences)


def _compare_slices(pair: PairedScores, slicing: Slicing, method: Method) -> list[SliceDifference]:
    """Return the difference of a pair in each slice of one field, with its one-sided test."""
    table = np.where(slicing.members(), pair.differences[:, np.newaxis], np.nan)
    # turned so that up is better: a decrease is worse
    units = pair.units(pair.sign * table)
    tested = np.count_nonzero(~np.isnan(units), axis=0) >= ENOUGH_QUERIES
    p_values, alpha = np.full(len(slicing.names), np.nan), 1 - method.confidence
    # slices that are not tested do not widen the correction of the others
    p_values[tested] = stats.max_t_p_values(
        units[:, tested], decrease=True, resamples=method.resamples, seed=method.seed
    )
    rows = []
    for place, name in enumerate(slicing.names):
        row = describe(pair, table[:, place], method)
        shared = ("system", "baseline", "difference", "interval", "n", "n_changed", "n_clusters")
        rows.append(
            SliceDifference(
                field=slicing.field,
                slice=name,
                measure=pair.measure,
                direction=pair.system.direction,
                p_adjusted=finite(p_values[place]),
                worse=bool(p_values[place] <= alpha) if tested[place] else None,
                **{key: getattr(row, key) for key in shared},
            )
        )
    return rows
