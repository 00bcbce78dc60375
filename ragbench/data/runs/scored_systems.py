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
    """What a system is made of, which decides what it is compared with.

    Attributes:
        name: `bm25`, `bm25/extractive`, `given`.
        retriever: Whose passages it answers from, or the control's name; None where it sees to that
            itself.
        generator: Who answers; None of a retriever alone, a whole app, and of answers that were
            recorded.
        role: Whether it is a whole app, or a control: what a generator answers from something else
            than what a retriever found, which no system competes with. A baseline file does not
            say.
    """

    name: str
    retriever: str | None
    generator: str | None
    role: Role = field(default="system", kw_only=True)


@dataclass(frozen=True, slots=True)
class SystemScores(SystemParts):
    """The scores of one system over the queries of an experiment.

    Attributes:
        columns: Score name -> its column, in the order of the config.
        kinds: Score name -> what it looks at.
        counts: How a run was read; None where no judgements were.
        costs: `latency_ms`, `tokens.input`, `tokens.output`, `usd` -> of each query; NaN: not
            known.
    """

    columns: Mapping[str, ScoreColumn] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    counts: RunCounts | None = None
    costs: Mapping[str, FloatArray] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ScoredSystems:
    """The systems of one run, baseline file or evaluation, over the same queries.

    Attributes:
        source: Where they come from, as the user named it: messages and tables show it.
        systems: System -> its columns, a value or a cause for each query.
        query_ids: The queries, in the order of all columns.
        baseline: The system that the experiment compared its others with; None where none is named.
        data: Part of the data set -> fingerprint; empty where it is not known.
        rankings: System -> run file with its ranking, where that is at hand.
        metadata: The file with the metadata of the queries, where it is at hand.
        summary: Where a run was read: latency, cost, skipped judges.
        fingerprints: What each query was asked and scored against, as far as it is known.
        folder: The run folder, where it is one.
        name: The experiment; empty where it is none.
    """

    source: str
    systems: Mapping[str, SystemScores] = field(repr=False)
    query_ids: Sequence[str] = field(repr=False)
    baseline: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    rankings: Mapping[str, Path] = field(default_factory=dict, repr=False)
    metadata: Path | None = field(default=None, repr=False)
    summary: Summary | None = field(default=None, repr=False)
    fingerprints: QueryFingerprints = field(default_factory=dict, repr=False)
    folder: Path | None = field(default=None, repr=False)
    name: str = ""

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
