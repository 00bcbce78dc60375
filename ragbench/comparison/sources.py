"""Sources of scored systems: run folders, baseline files, TREC run files, evaluations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol, TypeGuard, runtime_checkable

import numpy as np
from msgspec import structs

from ragbench.comparison.evaluate import evaluate_run, evaluate_run_file, refuse_unjudged
from ragbench.comparison.evaluation import Evaluation, load
from ragbench.data.runs.run_folder import LATEST
from ragbench.data.runs.run_scores import read_baseline, read_run_scores
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.files import names_in
from ragbench.records.evaluation import EVALUATION_SCHEMA
from ragbench.records.score import Kind, RunCounts
from ragbench.registry import nearest
from ragbench.score.retrieval.score_run import Rules
from ragbench.types import Cause, Qrels, Run
from ragbench.types.tables import Frame, is_frame


def from_evaluation(source: str, evaluation: Evaluation, run: Path | None = None) -> ScoredSystems:
    """Return an evaluation as a source with one system.

    The system has the tag of its run file as name, or the name of the source. `run` is the run
    file, if there is one: comparisons show its rankings. Its kind is `generation` for texts,
    without a retriever, and `retrieval` for a run, whose retriever has the name of the system. A
    result of `evaluate` has the kind of each score; with scores of rankings alone it counts as a
    run, else it has no retriever.
    """
    read = evaluation.input_counts
    counts = read if isinstance(read, RunCounts) else None
    name = (counts and counts.tag) or source
    kind: Kind = "generation" if counts is None else "retrieval"
    kinds = evaluation.kinds or dict.fromkeys(evaluation.columns, kind)
    retriever = None if counts is None else name
    system = SystemScores(name, retriever, None, evaluation.columns, kinds, counts)
    rankings, prints = {} if run is None else {name: run}, evaluation.fingerprints
    queries = evaluation.query_ids
    texts = evaluation.texts.get("question", ())
    return ScoredSystems(
        source,
        {name: system},
        queries,
        rankings=rankings,
        fingerprints=prints,
        questions=dict(zip(queries, texts, strict=bool(texts))),
        notes=evaluation.notes,
    )


# Measures of run files if neither the user nor another source names any.
DEFAULT_MEASURES = ("ndcg@10", "recall@10", "mrr@10", "map")


@runtime_checkable
class HasRunFolder(Protocol):
    """Finished experiment: its path is a run folder.

    A protocol, since this folder may not import `experiment`: any object with a `path` counts.

    Attributes:
        path: Run folder.
    """

    path: Path


# Suffixes of tables with a row per question
_TABLES = frozenset({".jsonl", ".csv", ".tsv", ".parquet"})
# Rankings in memory, as `evaluate_run` takes them.
Rankings = Run | Mapping[str, Mapping[str, float] | Iterable[str]] | Frame
# What happens to the judged queries that a run lacks.
MissingQueries = Literal["zero", "skip", "drop"]
# Source of scored systems, as users pass it.
Source = str | Path | Evaluation | HasRunFolder | ScoredSystems | Rankings


def is_rankings(source: object) -> TypeGuard[Rankings]:
    """Return True for a `Run`, a data frame, or a mapping of queries to hits.

    A mapping of names to sources is none: its values are no hits.
    """
    if isinstance(source, Mapping):
        return all(map(_is_hits, source.values()))
    return isinstance(source, Run) or is_frame(source)


def _is_hits(value: object) -> bool:
    """Return True for document -> score, or a list of document ids."""
    if isinstance(value, Mapping):
        # a run has hits of queries as its values
        return not any(isinstance(hits, (Mapping, list, tuple)) for hits in value.values())
    return isinstance(value, (list, tuple, set, frozenset))


def read_scored(
    source: Source,
    *,
    name: str | None = None,
    qrels: Qrels | None = None,
    measures: Sequence[str] = DEFAULT_MEASURES,
    missing: MissingQueries = "zero",
) -> ScoredSystems:
    """Read the scored systems of a source.

    Args:
        source: Run folder, folder of an experiment (its newest run), baseline file, TREC run file,
            rankings as `evaluate_run` takes them, or a result of `evaluate`, `evaluate_run`,
            `evaluate_texts` or `run_experiment`. Scored systems are returned as they are.
        name: Name of the source in messages and tables; None takes its path, and `evaluation` for
            an evaluation.
        qrels: Judgements for a run file or rankings, scored by the rules of an experiment: a
            query without a relevant document does not apply, or scores 0 by measures with `rel=`.
        measures: Measures for a TREC run file.
        missing: Judged queries that a run file or rankings lack: `zero` scores them 0, as an
            experiment does, `skip` leaves them without a score, `drop` takes them away.

    Raises:
        DataError: The file cannot be read, or a run file comes without judgements.
        OptionError: A measure for a TREC run file is unknown.
        OSError: The file may not be opened.
    """
    if isinstance(source, ScoredSystems):
        return source
    if isinstance(source, Evaluation):
        scored = from_evaluation(name or "evaluation", source)
        return _without_missing(scored) if missing == "drop" else scored
    if is_rankings(source):
        return _scored_rankings(name or "run", source, qrels, measures, missing)
    if isinstance(source, HasRunFolder):
        source = source.path
    if not isinstance(source, (str, Path)):
        raise DataError(
            f"found {type(source).__name__} in place of a run",
            allowed="a path, rankings, an experiment, or what evaluate returns",
        )
    path, source_name = Path(source), name or str(source)
    if os.path.isdir(path) or (path.name == LATEST and os.path.isfile(path)):
        return read_run_scores(path, source_name)
    if not os.path.exists(path):
        # a typing mistake is likelier than a missing run: the message names the nearest file
        siblings = names_in(path.parent)
        raise DataError(
            "no such file or folder",
            file=path,
            allowed="a run folder, the folder of an experiment, a baseline file, a TREC run",
            nearest=nearest(path.name, siblings),
        )
    if path.suffix.casefold() in _TABLES:
        allowed = "ragbench gate OLD NEW compares two tables; in Python, results of rb.evaluate"
        raise DataError("a table of questions, which is no run", file=path, allowed=allowed)
    if not needs_qrels(path):
        if _is_evaluation(path):
            return read_scored(load(path), name=source_name, missing=missing)
        return read_baseline(path, source_name)
    if qrels is None:
        raise DataError(
            "a run file has rankings alone, and no judgements to score them by",
            file=path,
            allowed="--qrels FILE (qrels= in Python); or a run folder, or a baseline file",
        )
    rules = Rules(missing="zero" if missing == "zero" else "skip")
    evaluation = evaluate_run_file(path, qrels, measures, rules)
    refuse_unjudged(evaluation, path)
    scored = replace(from_evaluation(source_name, evaluation, path), qrels=qrels)
    return _without_missing(scored) if missing == "drop" else scored


def _scored_rankings(
    name: str,
    rankings: Rankings,
    qrels: Qrels | None,
    measures: Sequence[str],
    missing: MissingQueries,
) -> ScoredSystems:
    """Return the scores of rankings in memory."""
    if qrels is None:
        allowed = "qrels= for rankings; or results: of evaluate for a table of answers"
        raise DataError("rankings without judgements", record=f"compare: {name}", allowed=allowed)
    evaluation = evaluate_run(
        rankings, qrels, measures, missing="zero" if missing == "zero" else "skip"
    )
    refuse_unjudged(evaluation, name)
    scored = from_evaluation(name, evaluation)
    return _without_missing(scored) if missing == "drop" else scored


def _without_missing(source: ScoredSystems) -> ScoredSystems:
    """Return a source without the judged queries that its only system lacks and does not score."""
    [system] = source.systems.values()
    # a source that scores them 0 stays as it is: the scores do not tell which they are
    if all(of.signature.part("missing") != "skip" for of in system.columns.values()):
        return source
    columns, is_missing = {}, np.zeros(len(source.query_ids), bool)
    for name, column in system.columns.items():
        is_missing |= column.causes == Cause.MISSING_QUERY
        # no query is left to which the rule applies: other sources may have either
        signature = column.signature.replacing(missing="zero")
        columns[name] = replace(column, signature=signature)
    counts = None if system.counts is None else structs.replace(system.counts, missing=0)
    system = replace(system, columns=columns, counts=counts)
    rows = np.flatnonzero(~is_missing)
    return replace(source, systems={system.name: system}).take(rows)


def _is_evaluation(path: Path) -> bool:
    """Return True for a file that `save` of an `Evaluation` wrote: its schema comes first."""
    with path.open("rb") as stream:
        return EVALUATION_SCHEMA.encode() in stream.read(64)


def needs_qrels(source: Source) -> bool:
    """Return True for rankings, and a file that starts neither as JSON nor as a conflict.

    Folders, missing files, results of scoring, and the file `latest`, which names a run folder,
    need none. An empty file counts as a TREC run file.

    Raises:
        OSError: The file cannot be opened.
    """
    if is_rankings(source):
        return True
    if not isinstance(source, (str, Path)):
        return False
    path = Path(source)
    if not os.path.isfile(path) or path.name == LATEST:
        return False
    with path.open("rb") as stream:
        start = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    # git marks a conflict in the first line of a baseline file: still no run file
    return not start.startswith((b"{", b"[", b"<<<<<<<"))
