"""`ragbench compare --format csv`: a row per measure and comparison, with all digits."""

from __future__ import annotations

from collections.abc import Mapping

from ragbench.data.runs.run_folder import to_csv
from ragbench.records.comparison import ComparedRuns, ComparedSystem, Difference, MeasureComparison
from ragbench.report.headline import outcome_of

COLUMNS = (
    *("measure", "system", "source", "baseline", "baseline_source", "mean", "baseline_mean"),
    *("difference", "low", "high", "p", "p_adjusted", "verdict", "n", "n_changed", "n_failed"),
    *("effect_size", "minimum_detectable", "direction"),
)
"""The header."""


def render_csv(comparison: ComparedRuns) -> str:
    """Write the differences as CSV; an empty cell where there is no value."""
    systems = {system.name: system for system in comparison.systems}
    return to_csv(
        COLUMNS,
        (
            _row(family, made, systems)
            for family in comparison.measures
            for made in family.comparisons
        ),
    )


def _row(
    family: MeasureComparison, made: Difference, systems: Mapping[str, ComparedSystem]
) -> list[str | float | None]:
    name = family.measure
    system, base = systems[made.system], systems[made.baseline]
    low, high = made.interval or (None, None)
    return [
        *(name, system.system, system.source, base.system, base.source),
        *(system.scores[name].mean, base.scores[name].mean),
        *(made.difference, low, high, made.p, made.p_adjusted),
        outcome_of(made, family.direction),
        *map(str, (made.n, made.n_changed, made.n_failed)),
        *(made.effect_size, made.minimum_detectable),
        family.direction,
    ]
