"""A finished experiment: its summary, its scores per query, and where they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import (
    read_comparisons,
    read_per_query,
    read_summary,
    resolve_run_folder,
)
from ragbench.data.runs.run_lines import CAUSES_FILE, read_causes
from ragbench.errors import (
    EXIT_BAD_INPUT,
    EXIT_GATE_FAILED,
    EXIT_INCOMPLETE,
    EXIT_OK,
    EXIT_UNDECIDED,
)
from ragbench.records.causes import AnswerCause, CauseRow
from ragbench.records.codec import to_json
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report.pictures.draw import causes_picture
from ragbench.report.text import printable
from ragbench.types.tables import html_table, number

_RIGHT: AnswerCause = "right"
_FEW_SYSTEMS = 6
_FEW_SCORES = 3


@dataclass(frozen=True, repr=False)
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

    @cached_property
    def causes(self) -> Mapping[str, Mapping[str, CauseRow]]:
        """System -> query id -> where its answer is lost, and why."""
        return read_causes(self.path / CAUSES_FILE)

    @cached_property
    def queries(self) -> QueryViews:
        """Everything about single queries: `queries["q1"]`; iterates over all."""
        return QueryViews(self.path)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, a row per system and query, a column per score; needs pandas.

        `cause` is where the answer is lost; a score that there is not is NaN.
        """
        import pandas as pd

        scores = dict.fromkeys(name for system in self.per_query.values() for name in system)
        rows = [
            {
                "system": system,
                "query_id": query,
                "cause": lost.cause if (lost := self.causes.get(system, {}).get(query)) else None,
                **{name: columns.get(name, {}).get(query, math.nan) for name in scores},
            }
            for system, columns in self.per_query.items()
            for query in next(iter(columns.values()), {})
        ]
        columns = ["system", "query_id", "cause", *scores]
        return pd.DataFrame(rows, columns=columns).set_index(["system", "query_id"])

    def __repr__(self) -> str:
        systems = "; ".join(
            f"{system.name}: "
            + ", ".join(
                f"{n} {number(s.mean)}" for n, s in list(system.scores.items())[:_FEW_SCORES]
            )
            for system in self.record.systems[:_FEW_SYSTEMS]
        )
        left = len(self.record.systems) - _FEW_SYSTEMS
        more = f"; {left} more" if left > 0 else ""
        return printable(f"<Experiment {self.record.name} ({self.path}): {systems}{more}>")

    def _repr_html_(self) -> str:
        causes = causes_picture(self.record)  # where answers are lost is first
        name = f"{self.record.name} {self.record.run_id}".rstrip()
        tables = [self._table(f"{name}: {what}", what) for what in ("rankings", "answers")]
        return "".join(filter(None, [causes.image() if causes else "", *tables]))

    def _table(self, caption: str, what: str) -> str | None:
        """The means of a kind of scores; None where there are none."""
        found = [
            (system, {n: s for n, s in system.scores.items() if (s.kind == "retrieval") == of})
            for of in (what == "rankings",)
            for system in self.record.systems
        ]
        names = list(dict.fromkeys(name for _, scores in found for name in scores))
        rows = []
        for system, scores in found:
            if scores:
                right = str(system.causes[_RIGHT]) if system.causes else ""
                cells = (
                    ""
                    if (score := scores.get(name)) is None
                    # the interval below the mean, so that many scores have room
                    else number(score.mean, score.interval)
                    .replace(" [", "\n[")
                    .replace(", ", ",\N{NO-BREAK SPACE}")
                    for name in names
                )
                rows.append([system.name, right, *cells])
        return html_table(caption, ["system", "right", *names], rows) if rows else None

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
