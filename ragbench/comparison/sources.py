"""Read scored systems from wherever they are: what comparisons and gates read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from ragbench.comparison.evaluate import Evaluation, PairCounts, evaluate_run_file, refuse_unjudged
from ragbench.data.runs.baseline import read_baseline
from ragbench.data.runs.run_folder import LATEST
from ragbench.data.runs.run_scores import read_run_scores
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.files import names_in
from ragbench.records.score import Kind
from ragbench.registry import nearest
from ragbench.types import Qrels


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


# Of run files, where nobody names others.
DEFAULT_MEASURES = ("ndcg@10", "recall@10", "mrr@10", "map")


@runtime_checkable
class HasRunFolder(Protocol):
    """A finished experiment."""

    path: Path


# What can be compared.
Source = str | Path | Evaluation | HasRunFolder | ScoredSystems


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
        return read_run_scores(path, shown)
    if not os.path.exists(path):
        siblings = names_in(path.parent)
        raise DataError(
            "no such file or folder",
            file=path,
            allowed="a run folder, the folder of an experiment, a baseline file, a TREC run",
            nearest=nearest(path.name, siblings),
        )
    if not needs_qrels(path):
        return read_baseline(path, shown)
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
