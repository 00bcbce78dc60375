"""A finished experiment: its summary, its scores per query, and where they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ragbench.data.runs.run_folder import (
    read_comparisons,
    read_per_query,
    read_summary,
    resolve_run_folder,
)
from ragbench.errors import (
    EXIT_BAD_INPUT,
    EXIT_GATE_FAILED,
    EXIT_INCOMPLETE,
    EXIT_OK,
    EXIT_UNDECIDED,
)
from ragbench.records.codec import to_json
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary


@dataclass(frozen=True)
class Experiment:
    """A run folder, read."""

    path: Path
    record: Summary
    compared: Comparisons = field(repr=False)

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """The mapping of `summary.json`."""
        return to_json(self.record)

    @cached_property
    def comparisons(self) -> Mapping[str, Any]:
        """The mapping of `comparisons.json`."""
        return to_json(self.compared)

    @property
    def exit_code(self) -> int:
        """What `ragbench run` exits with: 2 refused, 1 a gate failed, 3 incomplete, else 0."""
        return exit_code_of(self.record)

    @cached_property
    def per_query(self) -> dict[str, dict[str, dict[str, float]]]:
        """System -> score -> query id -> value; NaN where a query has none."""
        cells = read_per_query(self.path / "per_query.csv")
        return {
            system.name: {
                score: {
                    query: math.nan if (value := values[score]) is None else value
                    for query, values in cells.get(system.name, {}).items()
                }
                for score in system.scores
            }
            for system in self.record.systems
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the summary, JSON-ready."""
        return dict(self.summary)


def exit_code_of(summary: Summary, *, strict: bool = False) -> int:
    """Return the exit code of a run, the most urgent where several apply: 2, 1, 4, 3.

    With `strict`, a gate that is undecided counts, as 4.
    """
    verdicts = {gate.verdict for gate in summary.gates}
    if any(gate.refused for gate in summary.gates):
        return EXIT_BAD_INPUT
    if "fail" in verdicts:
        return EXIT_GATE_FAILED
    if strict and "undecided" in verdicts:
        return EXIT_UNDECIDED
    return EXIT_OK if summary.complete else EXIT_INCOMPLETE


def load_experiment(path: str | Path) -> Experiment:
    """Read a run folder, or the newest run in the folder of an experiment.

    Raises:
        DataError: There is no run, or its files are not what they should be.
    """
    folder = resolve_run_folder(Path(path))
    return Experiment(folder.resolve(), read_summary(folder), read_comparisons(folder))
