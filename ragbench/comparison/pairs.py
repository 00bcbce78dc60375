"""Which systems are compared by which measure, and their differences query by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.comparison.systems import SystemScores, baseline_of
from ragbench.score.base import ScoreColumn
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


def _pairs(name: str, systems: Mapping[str, SystemScores], baseline: str | None) -> list[Pair]:
    found = []
    for system in systems.values():
        other, column = baseline_of(system, systems, baseline), system.columns[name]
        if other is not None and column.aggregate != "sum":
            d = paired_differences(column.values, other.columns[name].values)
            found.append(Pair(name, system.name, other.name, column, d))
    return found
