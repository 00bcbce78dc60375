"""Which systems are compared by which measure, and their differences query by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.comparison.looks import look_of
from ragbench.comparison.systems import SystemScores, baseline_of
from ragbench.score.base import Look, ScoreColumn
from ragbench.stats import paired_differences
from ragbench.types import FloatArray


@dataclass(frozen=True, slots=True)
class Pair:
    """A system and its baseline by one measure."""

    measure: str
    """The score's name."""
    system: str
    """Whose score may be better or worse."""
    baseline: str
    """What it is compared with."""
    column: ScoreColumn
    """The system's scores."""
    differences: FloatArray
    """Score of the system minus score of the baseline; NaN where either has none."""
    look: Look | None = None
    """When the judge of either stopped early, or could have."""


def pair_systems(
    systems: Sequence[SystemScores], baseline: str | None
) -> dict[str, tuple[Pair, ...]]:
    """Pair every system that has a measure with its baseline.

    Args:
        systems: All systems of one experiment, over the same queries in the same order.
        baseline: The retriever that the others are compared with.

    Returns:
        Measure -> its pairs in the order of the systems; none for a count over the queries.
    """
    names = dict.fromkeys(name for system in systems for name in system.columns)
    return {name: tuple(_pairs(name, having(name, systems), baseline)) for name in names}


def having(name: str, systems: Sequence[SystemScores]) -> dict[str, SystemScores]:
    """Return the systems that have a measure, by name."""
    return {system.name: system for system in systems if name in system.columns}


def pair_columns(name: str, system: SystemScores, other: SystemScores) -> Pair:
    """Pair a system with any other one that has the measure."""
    column, theirs = system.columns[name], other.columns[name]
    d = paired_differences(column.values, theirs.values)
    return Pair(name, system.name, other.name, column, d, look_of(column, theirs))


def _pairs(name: str, systems: Mapping[str, SystemScores], baseline: str | None) -> list[Pair]:
    found = []
    for system in systems.values():
        other = baseline_of(system, systems, baseline)
        if other is not None and system.columns[name].aggregate != "sum":
            found.append(pair_columns(name, system, other))
    return found
