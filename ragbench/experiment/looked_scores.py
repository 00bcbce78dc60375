"""Scores of several looks at one system: their means, their cost, and names of swept systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.types import FloatArray
from ragbench.types.lookups import index_positions, take_items


def with_choices_of(base: ScoredSystems, head: ScoredSystems) -> ScoredSystems:
    """Return the base with its choice of each sweep, and its pairs, under the names of the head."""
    # The winner of a sweep is compared with the winner in the base, whatever combinations they are.
    if base.summary is None or head.summary is None:
        return base
    chosen = {choice.sweep: choice.system for choice in head.summary.selected}
    names = {choice.system: chosen.get(choice.sweep) for choice in base.summary.selected}
    systems = {}
    for name, system in base.systems.items():
        retriever, slash, generator = name.partition("/")
        head_name = f"{names.get(retriever) or retriever}{slash}{generator}"
        systems[name if name in head.systems else head_name] = system
    return replace(base, systems=systems)


def cost_of(head: ScoredSystems) -> float:
    """Return the cost of all answers and of their verdicts in USD; 0 if it is not known."""
    costs = [system.costs.get("usd") for system in head.systems.values()]
    total = float(sum(np.nansum(values) for values in costs if values is not None))
    for system in () if head.summary is None else head.summary.systems:
        total += sum(judging.usd or 0.0 for judging in system.judging.values())
    return total


def merge_looks(first: ScoredSystems, later: Sequence[ScoredSystems]) -> ScoredSystems:
    """Return scores that are the means of all looks that have a value; NaN of the first stays."""
    row_of = index_positions(first.query_ids)
    systems = {}
    for name, system in first.systems.items():
        columns = {}
        for measure, column in system.columns.items():
            total, n_looks = np.array(column.values), np.ones(len(column.values))
            for look in later:
                _add_look(total, n_looks, look, name, measure, row_of)
            columns[measure] = replace(column, values=total / n_looks)
        systems[name] = replace(system, columns=columns)
    return replace(first, systems=systems)


def has_same_scores(first: ScoredSystems, look: ScoredSystems) -> bool:
    """Return True if a look at some questions has the scores of the first one, as stored ones."""
    row_of = index_positions(first.query_ids)
    rows = take_items(row_of, look.query_ids)
    for name, system in look.systems.items():
        # the default scores depend on the questions
        for measure in system.columns.keys() & first.systems[name].columns.keys():
            values = first.systems[name].columns[measure].values[rows]
            if not np.array_equal(values, system.columns[measure].values, equal_nan=True):
                return False
    return True


def _add_look(
    total: FloatArray,
    n_looks: FloatArray,
    look: ScoredSystems,
    system: str,
    measure: str,
    row_of: Mapping[str, int],
) -> None:
    """Add the values of a look to the sums of a column, and count them."""
    if system not in look.systems or measure not in look.systems[system].columns:
        return
    values = look.systems[system].columns[measure].values
    for query, value in zip(look.query_ids, values.tolist(), strict=True):
        if query in row_of and not np.isnan(value):
            total[row_of[query]] += value
            n_looks[row_of[query]] += 1
