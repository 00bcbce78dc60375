"""Scored systems in one form, wherever they come from: what comparisons and gates read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from ragbench.comparison.evaluate import Evaluation, PairCounts, evaluate_run_file, refuse_unjudged
from ragbench.comparison.systems import SystemScores
from ragbench.data.runs.baseline import read_baseline
from ragbench.data.runs.run_folder import LATEST, QUERIES_FILE, resolve_run_folder
from ragbench.data.runs.run_lines import ranking_files
from ragbench.data.runs.run_scores import StoredScore, StoredScores, read_run_scores
from ragbench.errors import DataError
from ragbench.files import names_in
from ragbench.records.score import Kind
from ragbench.records.summary import Summary
from ragbench.registry import nearest
from ragbench.score.base import ScoreColumn
from ragbench.signature import Signature
from ragbench.types import IntArray, Qrels
from ragbench.types.columnar import QueryFingerprints


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

    def take(self, rows: IntArray) -> ScoredSystems:
        """Return the same systems over some of the queries, in the order of `rows`.

        A score of a whole corpus is, over a part of it, the mean of what its queries moved the
        whole by; over all queries, in any order, it is what it was.
        """
        whole = len(rows) == len(self.query_ids)
        return replace(
            self,
            query_ids=[self.query_ids[row] for row in rows],
            systems={
                name: replace(
                    system,
                    columns={
                        score: _taken(column, rows, whole)
                        for score, column in system.columns.items()
                    },
                    costs={name: values[rows] for name, values in system.costs.items()},
                )
                for name, system in self.systems.items()
            },
        )


def from_stored(
    source: str,
    stored: StoredScores,
    rankings: Mapping[str, Path] | None = None,
    metadata: Path | None = None,
) -> ScoredSystems:
    """Return what a run folder or a baseline file holds."""
    systems = {
        system.name: SystemScores(
            system.name,
            system.retriever,
            system.generator,
            {name: _column(name, score) for name, score in system.scores.items()},
            {name: score.kind for name, score in system.scores.items()},
            costs=system.costs,
            role=system.role,
        )
        for system in stored.systems
    }
    return ScoredSystems(
        source,
        systems,
        stored.query_ids,
        stored.baseline,
        stored.data,
        rankings or {},
        metadata,
        stored.summary,
        stored.fingerprints,
    )


def from_evaluation(source: str, evaluation: Evaluation, run: Path | None = None) -> ScoredSystems:
    """Return the one system of an evaluation, under the tag of its run file or its source."""
    read = evaluation.read
    counts = None if isinstance(read, PairCounts) else read
    name = (counts and counts.tag) or source
    kind: Kind = "generation" if counts is None else "retrieval"
    kinds = dict.fromkeys(evaluation.columns, kind)
    retriever = None if counts is None else name
    system = SystemScores(name, retriever, None, evaluation.columns, kinds, counts)
    rankings = {} if run is None else {name: run}
    return ScoredSystems(
        source,
        {name: system},
        evaluation.query_ids,
        rankings=rankings,
        fingerprints=evaluation.fingerprints,
    )


def _column(name: str, score: StoredScore) -> ScoreColumn:
    return ScoreColumn(
        name,
        score.values,
        score.causes,
        Signature.parse(score.signature),
        score.direction,
        score.low,
        score.high,
        score.aggregate,
        # the only number that its values do not give
        score.mean if score.aggregate == "corpus" else None,
        answer_causes=score.answer_causes,
    )


def _taken(column: ScoreColumn, rows: IntArray, whole: bool) -> ScoreColumn:
    return replace(
        column,
        values=column.values[rows],
        causes=column.causes[rows],
        answer_causes=None if column.answer_causes is None else column.answer_causes[rows],
        total=column.total if whole else None,
        details={},
    )


DEFAULT_MEASURES = ("ndcg@10", "recall@10", "mrr@10", "map")
"""Of run files, where nobody names others."""


@runtime_checkable
class HasRunFolder(Protocol):
    """A finished experiment."""

    path: Path


Source = str | Path | Evaluation | HasRunFolder | ScoredSystems
"""What can be compared."""


def read_scored(
    source: Source,
    *,
    name: str | None = None,
    qrels: Qrels | None = None,
    measures: Sequence[str] = DEFAULT_MEASURES,
) -> ScoredSystems:
    """Read scored systems from wherever they are.

    A run folder or the folder of an experiment (its newest run), a baseline file, a TREC run file,
    or what `evaluate_run`, `evaluate_texts` and `run_experiment` return. Only a TREC run file needs
    `qrels` and `measures`: it is scored by the rules of an experiment, where a judged query that it
    lacks counts as 0, and one without a relevant document does not apply.
    """
    if isinstance(source, ScoredSystems):
        return source
    if isinstance(source, Evaluation):
        return from_evaluation(name or "evaluation", source)
    if isinstance(source, HasRunFolder):
        source = source.path
    if not isinstance(source, (str, Path)):
        raise DataError(
            f"found {type(source).__name__}",
            allowed="a path, an experiment, or what evaluate_run returns",
        )
    path, shown = Path(source), name or str(source)
    if os.path.isdir(path) or (path.name == LATEST and os.path.isfile(path)):
        return _read_run(path, shown)
    if not os.path.exists(path):
        siblings = names_in(path.parent)
        raise DataError(
            "no such file or folder",
            file=path,
            allowed="a run folder, the folder of an experiment, a baseline file, a TREC run",
            nearest=nearest(path.name, siblings),
        )
    if not needs_qrels(path):
        return from_stored(shown, read_baseline(path))
    if qrels is None:
        raise DataError(
            "a run file has no scores of its own",
            file=path,
            allowed="--qrels with its judgements, or a baseline file",
        )
    evaluation = evaluate_run_file(path, qrels, measures)
    refuse_unjudged(evaluation, path)
    return from_evaluation(shown, evaluation, path)


def needs_qrels(source: Source) -> bool:
    """Tell whether a source is a run file: a file that does not start as JSON does."""
    if not isinstance(source, (str, Path)):
        return False
    path = Path(source)
    if not os.path.isfile(path) or path.name == LATEST:
        return False
    with path.open("rb") as stream:
        start = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    # a merge may leave its mark in the first line of a baseline file
    return not start.startswith((b"{", b"[", b"<<<<<<<"))


def _read_run(path: Path, shown: str) -> ScoredSystems:
    folder = resolve_run_folder(path)
    stored = read_run_scores(folder)
    at_hand = {} if stored.summary is None else ranking_files(folder, stored.summary)
    metadata = folder / QUERIES_FILE
    read = from_stored(shown, stored, at_hand, metadata if metadata.is_file() else None)
    return replace(read, folder=folder)
