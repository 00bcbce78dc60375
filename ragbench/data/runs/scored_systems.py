"""Scored systems: the score columns of each system over the same queries, from any source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.types.lookups import take_items

if TYPE_CHECKING:  # records are loaded by what reads files
    from ragbench.records.score import Kind, RunCounts
    from ragbench.records.summary import Role, Summary
    from ragbench.types import FloatArray, IntArray, Qrels, ScoreColumn
    from ragbench.types.columnar import QueryFingerprints


@dataclass(frozen=True, slots=True)
class SystemParts:
    """Retriever and generator of a system, which decide what it is compared with.

    Attributes:
        name: `bm25`, `bm25/extractive`, `given`.
        retriever: Retriever of its passages, or name of the control; None for an app that retrieves
            by itself.
        generator: Generator of its answers; None for a retriever alone, a whole app, and recorded
            answers.
        role: `system`, `app` (a whole app) or `control`: a generator that answers from other
            passages than those of a retriever, and competes with no system. A baseline file does
            not store it.
    """

    name: str
    retriever: str | None
    generator: str | None
    role: Role = field(default="system", kw_only=True)


@dataclass(frozen=True, slots=True)
class SystemScores(SystemParts):
    """Scores of one system over the queries of an experiment.

    The readers of runs and baselines, and the evaluation of run files, make it.

    Attributes:
        columns: Score name -> its column, in the order of the config.
        kinds: Score name -> retrieval, generation or judge.
        counts: Counts of how a run was read; None if it was not read with judgements.
        costs: `latency_ms`, `tokens.input`, `tokens.output`, `usd` -> value of each query, NaN
            where unknown; empty if the source has no costs.
    """

    columns: Mapping[str, ScoreColumn] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    counts: RunCounts | None = None
    costs: Mapping[str, FloatArray] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ScoredSystems:
    """Systems of one run, baseline file or evaluation, over the same queries.

    `read_run_scores` and `read_baseline` return it; `take(rows)` returns a part of its queries.

    Attributes:
        source: Name of the run or file as the user wrote it, for messages and tables.
        systems: System -> its columns, with a value or a cause for each query.
        query_ids: The queries, in the order of all columns.
        baseline: System that the others were compared with; None without one.
        data: Part of the data set -> fingerprint; empty if unknown.
        rankings: System -> run file with its ranking; absent without one.
        metadata: File with the metadata of the queries; None without one.
        summary: Summary of a run folder; None for other sources.
        fingerprints: Part -> query -> fingerprint of what the query was scored against; empty if
            unknown.
        folder: The run folder; None for other sources.
        name: Name of the experiment; empty without one.
        questions: Query -> its text, of an evaluation in memory; empty for a folder or a file.
        notes: Sentences on what makes the scores of an evaluation doubtful.
        looks: Scores of further looks of a gate at some questions.
        qrels: Judgements by which a run file was scored; None for other sources.
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
    questions: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    looks: tuple[ScoredSystems, ...] = field(default=(), repr=False)
    qrels: Qrels | None = field(default=None, repr=False)

    def take(self, rows: IntArray) -> ScoredSystems:
        """Return the same systems over the queries at `rows` (from 0), in the order of `rows`.

        Fingerprints, summary and rankings stay whole. Raises IndexError for a row beyond the
        queries.
        """
        systems = {}
        for name, system in self.systems.items():
            columns = {}
            for score, column in system.columns.items():
                columns[score] = column.take(rows)
            # costs are per query, like scores
            costs = {}
            for cost, values in system.costs.items():
                costs[cost] = values[rows]
            systems[name] = replace(system, columns=columns, costs=costs)
        return replace(self, query_ids=take_items(self.query_ids, rows), systems=systems)
