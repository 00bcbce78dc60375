"""Slices of the queries: where a system that is fine on average got worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragbench.comparison.differences import describe
from ragbench.comparison.interim import Labels, look_confidence
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import Pair, pair_systems
from ragbench.comparison.summary import finite
from ragbench.comparison.systems import SystemScores
from ragbench.records.comparison import SliceDifference
from ragbench.stats import cluster_sums, max_t_p_values

ENOUGH_QUERIES = 20
"""A slice of fewer queries is listed and not tested: it could not tell a loss from chance."""


@dataclass(frozen=True, slots=True)
class Slicing:
    """A field that sorts the queries into slices, which may overlap."""

    field: str
    """`metadata.topic`, `query_length`."""
    names: tuple[str, ...]
    """The slices, in the order of tables."""
    labels: Sequence[tuple[str, ...]]
    """The slices of each query: one, or several where its metadata is a list."""

    def members(self) -> NDArray[np.bool_]:
        """Return which query is in which slice, shape (queries, slices).

        Example:
            >>> Slicing("metadata.tags", ("law", "tax"), [("tax",), ("law", "tax")]).members()
            array([[False,  True],
                   [ True,  True]])
        """
        places = {name: place for place, name in enumerate(self.names)}
        found = np.zeros((len(self.labels), len(self.names)), np.bool_)
        for row, own in enumerate(self.labels):
            found[row, [places[name] for name in own]] = True
        return found


def compare_slices(
    systems: Sequence[SystemScores],
    baseline: str | None,
    method: Method,
    slicings: Sequence[Slicing],
    clusters: Sequence[str] | None = None,
) -> tuple[SliceDifference, ...]:
    """Ask of every slice whether a system is worse there than its baseline.

    One-sided, and adjusted by studentized max-T over the tested slices of one field: the chance
    that any of them is called worse though none is stays below 1 - confidence. Fields, measures
    and systems are families of their own. `worse` is None where the slice was not tested.
    """
    labels = None if clusters is None else np.asarray(clusters)
    return tuple(
        row
        for slicing in slicings
        for pairs in pair_systems(systems, baseline).values()
        for pair in pairs
        for row in _compare(pair, slicing, method, labels)
    )


def _compare(
    pair: Pair, slicing: Slicing, method: Method, clusters: Labels | None
) -> list[SliceDifference]:
    table = np.where(slicing.members(), pair.differences[:, np.newaxis], np.nan)
    upwards = table if pair.column.direction == "higher" else -table
    units = upwards if clusters is None else cluster_sums(upwards, clusters)
    tested = np.count_nonzero(~np.isnan(units), axis=0) >= ENOUGH_QUERIES
    p_values, alpha = np.full(len(slicing.names), np.nan), 1 - method.confidence
    if pair.look is not None:
        alpha = 1 - look_confidence(pair.look, method.confidence)
    p_values[tested] = max_t_p_values(
        units[:, tested], side="lower", resamples=method.resamples, seed=method.seed
    )
    rows = []
    for place, name in enumerate(slicing.names):
        found = describe(replace(pair, differences=table[:, place]), method, clusters)
        rows.append(
            SliceDifference(
                field=slicing.field,
                slice=name,
                measure=pair.measure,
                system=pair.system,
                baseline=pair.baseline,
                direction=pair.column.direction,
                difference=found.difference,
                interval=found.interval,
                n=found.n,
                n_changed=found.n_changed,
                n_clusters=found.n_clusters,
                p_adjusted=finite(p_values[place]),
                worse=bool(p_values[place] <= alpha) if tested[place] else None,
            )
        )
    return rows
