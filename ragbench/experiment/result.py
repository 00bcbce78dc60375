"""A finished experiment: its summary, its scores per query, and where they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ragbench.data.run_folder import (
    SUMMARY_SCHEMA,
    read_json,
    read_per_query,
    resolve_run_folder,
)
from ragbench.errors import EXIT_INCOMPLETE, EXIT_OK


@dataclass(frozen=True)
class Experiment:
    """A run folder, read."""

    path: Path
    """The run folder."""
    summary: Mapping[str, Any]
    """The mapping of `summary.json`."""
    comparisons: Mapping[str, Any] = field(repr=False)
    """The mapping of `comparisons.json`."""

    @property
    def exit_code(self) -> int:
        """0, or 3 where too many items failed."""
        return EXIT_OK if self.summary["complete"] else EXIT_INCOMPLETE

    @cached_property
    def per_query(self) -> dict[str, dict[str, dict[str, float]]]:
        """System -> score -> query id -> value; NaN where a query has none."""
        cells = read_per_query(self.path / "per_query.csv")
        return {
            system["name"]: {
                score: {
                    query: math.nan if (value := values[score]) is None else value
                    for query, values in cells.get(system["name"], {}).items()
                }
                for score in system["scores"]
            }
            for system in self.summary["systems"]
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the summary, JSON-ready."""
        return dict(self.summary)


def load_experiment(path: str | Path) -> Experiment:
    """Read a run folder, or the newest run in the folder of an experiment.

    Raises:
        DataError: There is no run, or its files are not what they should be.
    """
    folder = resolve_run_folder(Path(path))
    return Experiment(
        folder.resolve(),
        read_json(folder / "summary.json", SUMMARY_SCHEMA),
        read_json(folder / "comparisons.json", "ragbench.comparison/1"),
    )
