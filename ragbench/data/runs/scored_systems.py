"""Scored systems: the columns of each system over the same queries, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # records are loaded by what reads files
    from ragbench.records.score import Kind, RunCounts
    from ragbench.records.summary import Role, Summary
    from ragbench.types import FloatArray, IntArray, ScoreColumn
    from ragbench.types.columnar import QueryFingerprints


@dataclass(frozen=True, slots=True)
class SystemParts:
    """What a system is made of, which decides what it is compared with."""

    name: str
    """`bm25`, `bm25/extractive`, `given`."""
    retriever: str | None
    """Whose passages it answers from, or the control's name; None where it sees to that itself."""
    generator: str | None
    """Who answers; None of a retriever alone, a whole app, and of answers that were recorded."""
    role: Role = field(default="system", kw_only=True)
    """Whether it is a whole app, or a control: what a generator answers from something else than
    what a retriever found, which no system competes with. A baseline file does not say."""


@dataclass(frozen=True, slots=True)
class SystemScores(SystemParts):
    """The scores of one system over the queries of an experiment."""

    columns: Mapping[str, ScoreColumn] = field(default_factory=dict)
    """Score name -> its column, in the order of the config."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """Score name -> what it looks at."""
    counts: RunCounts | None = None
    """How a run was read; None where no judgements were."""
    costs: Mapping[str, FloatArray] = field(default_factory=dict, repr=False)
    """`latency_ms`, `tokens.input`, `tokens.output`, `usd` -> of each query; NaN: not known."""


@dataclass(frozen=True)
class ScoredSystems:
    """The systems of one run, baseline file or evaluation, over the same queries."""

    source: str
    """Where they come from, as the user named it: messages and tables show it."""
    systems: Mapping[str, SystemScores] = field(repr=False)
    """System -> its columns, a value or a cause for each query."""
    query_ids: Sequence[str] = field(repr=False)
    """The queries, in the order of all columns."""
    baseline: str | None = None
    """The system that the experiment compared its others with; None where none is named."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Part of the data set -> fingerprint; empty where it is not known."""
    rankings: Mapping[str, Path] = field(default_factory=dict, repr=False)
    """System -> run file with its ranking, where that is at hand."""
    metadata: Path | None = field(default=None, repr=False)
    """The file with the metadata of the queries, where it is at hand."""
    summary: Summary | None = field(default=None, repr=False)
    """Where a run was read: latency, cost, skipped judges."""
    fingerprints: QueryFingerprints = field(default_factory=dict, repr=False)
    """What each query was asked and scored against, as far as it is known."""
    folder: Path | None = field(default=None, repr=False)
    """The run folder, where it is one."""
    name: str = ""
    """The experiment; empty where it is none."""

    def take(self, rows: IntArray) -> ScoredSystems:
        """Return the same systems over some of the queries, in the order of `rows`."""
        systems = {
            name: replace(
                system,
                columns={score: column.take(rows) for score, column in system.columns.items()},
                costs={cost: values[rows] for cost, values in system.costs.items()},
            )
            for name, system in self.systems.items()
        }
        return replace(self, query_ids=[self.query_ids[row] for row in rows], systems=systems)
