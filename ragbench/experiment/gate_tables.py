"""`ragbench gate OLD NEW`: two tables of ids or answers, run files, baselines or run folders."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from ragbench.comparison.evaluate_table import DEFAULT_MEASURES as DEFAULT_TABLE_MEASURES
from ragbench.comparison.evaluate_table import evaluate_collection
from ragbench.comparison.matching import LEAST_COMMON
from ragbench.comparison.score_kinds import kind_of_score
from ragbench.comparison.sources import DEFAULT_MEASURES, from_evaluation, needs_qrels, read_scored
from ragbench.comparison.systems import find_score
from ragbench.data.files.columns import UnclearAnswer, UnclearColumns
from ragbench.data.files.trec_files import read_qrels
from ragbench.data.loaders.python import collection_of
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError, OptionError
from ragbench.experiment.gate_run import comparable_scores, first_scores, review_scored
from ragbench.experiment.gates import without_controls
from ragbench.gates.base import Gate
from ragbench.gates.drop import Drop, NotWorse
from ragbench.records.summary import Summary
from ragbench.registry import nearest
from ragbench.report.gate import GateReview
from ragbench.score.judge.rubric import built_in_rubrics
from ragbench.score.retrieval import MEASURES
from ragbench.score.text import DEFAULT_METRICS, METRICS
from ragbench.types import Cause, Collection, Qrels, Query
from ragbench.types.display import printable
from ragbench.types.lookups import index_by_id, index_positions

_TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_BASELINE = b'"schema": "ragbench.baseline'
_COLUMNS = "columns named question, answer, reference, retrieved and relevant, as far as needed"
_GOLD = "a column reference (gold answers) or relevant (ids of gold documents)"


def gate_tables(
    old: Path,
    new: Path,
    *,
    qrels: Path | None = None,
    measures: Sequence[str] = (),
    max_drop: float | None = None,
) -> tuple[GateReview, list[str]]:
    """Compare two tables with the questions of a system, decide, and return review and notes.

    A table has the ids of hits and of gold documents, or answers and references, in the columns
    that `evaluate` reads. A run folder, a baseline file, or a run file with judgements may stand
    for either.

    A head whose ids are those of no gold document scores 0 if the base has other scores than 0. A
    head is incomplete if it lacks answers, retrieved documents or more than a fifth of the
    questions of the base.

    Args:
        old: Base of the comparison.
        new: Scores that are decided on.
        qrels: Judgements of run files.
        measures: Scores that decide; empty takes those of the default decision.
        max_drop: Margin of a gate on each score; None takes the default decision.

    Raises:
        DataError: A source cannot be read or has no gold, a table repeats a question, the ids of
            the base are those of no gold document, both have no score or question in common, or
            there are judgements and no run file.
        OptionError: An unknown score.
        MissingExtra: A score or a file needs a package that is not installed.
    """
    if qrels is not None and not any(map(needs_qrels, (old, new))):
        raise DataError(f"--qrels is for run files; {new} is none", file=old, allowed="no --qrels")
    judgements = None if qrels is None else read_qrels(qrels)
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        base, notes = _read(old, judgements, measures)
        head, head_notes = _read(new, judgements, measures, base)
        texts = _questions(new)
    if len(base.systems) == len(head.systems) == 1:
        # systems are compared by name
        systems = dict(zip(head.systems, base.systems.values(), strict=True))
        base = replace(base, systems=systems)
    columns = [*chain.from_iterable(system.columns for system in head.systems.values())]
    missing = []
    for name in measures:
        if find_score(name, columns) is None:
            missing.append(name)
    _check_measures(missing)
    names = measures or first_scores(head, list(comparable_scores(base, head)))
    gates: list[Gate] = []
    if max_drop is not None:
        gates = []
        for name in names:
            gates.append(Drop(measure=name, max_drop=max_drop))
    elif measures:
        gates = [NotWorse(measure=name) for name in names]
    lost = list[str]()
    if head.summary is None:
        lost = list(dict.fromkeys([*_lost_questions(head, base), *_lost_parts(head, base, names)]))
    summary = head.summary or Summary(name=str(new), systems=(), complete=not lost)
    notes += [*head_notes, *(str(doubt.message) for doubt in doubts)]
    review = review_scored(
        head,
        base,
        gates,
        {},
        summary,
        questions=texts,
    )
    return replace(review, facts=[*lost, *review.facts]), list(dict.fromkeys(notes))


def _read(
    path: Path, qrels: Qrels | None, measures: Sequence[str], base: ScoredSystems | None = None
) -> tuple[ScoredSystems, list[str]]:
    """Return the scores of a table, or of another source as `read_scored` reads it, and notes."""
    if not _is_table(path):
        qrels = qrels if needs_qrels(path) else None
        scored = read_scored(path, qrels=qrels, measures=list(measures) or DEFAULT_MEASURES)
        return without_controls(scored), []
    collection = _read_table(path)
    _check_measures(measures)
    names = measures or _scores_of_base(base, collection)
    meets = base is not None and _has_hits(base)
    evaluation = evaluate_collection(collection, names or None, zero_unknown_ids=meets)
    strays = []
    for name, causes in evaluation.causes.items():
        if _are_strays(causes):
            strays.append(name)
    if base is None and strays:
        problem = f"{strays[0]} has no value: no retrieved id is that of a relevant document"
        raise DataError(problem, file=path, allowed="ids of one kind in both columns")
    return from_evaluation(path.name, evaluation), [*evaluation.notes]


def _read_table(path: Path) -> Collection:
    """Return the questions of a table, each in one row, with gold and the outputs of a system."""
    try:
        collection = collection_of(path)
    except UnclearAnswer as error:
        # answers of a system are decided on, and gold answers are needed beside them
        raise DataError("no gold beside the answers", file=path, allowed=_GOLD) from error
    except UnclearColumns as error:
        # there is no config that could name the columns
        raise DataError(error.problem.found, file=path, allowed=_COLUMNS) from error
    if not (collection.qrels or collection.answers or collection.gold_spans):
        raise DataError("no gold beside the outputs of the system", file=path, allowed=_GOLD)
    ids_by_text = dict[str, str]()
    for query in collection.queries:
        prefix = f"{ids_by_text.setdefault(query.text, query.id)}-"
        # rows without an id have that of their text, and a number from the second one on
        if query.id.startswith(prefix) and query.id.removeprefix(prefix).isdigit():
            problem = f"question '{query.text[:60]}' stands in several rows"
            allowed = "one row per question, or a column id that tells them apart"
            raise DataError(problem, file=path, allowed=allowed)
    return collection


def _check_measures(measures: Sequence[str]) -> None:
    """Raise an OptionError for a name that is no measure of rankings and no metric of answers."""
    names = {*MEASURES.names(), *METRICS.names()}
    for name in measures:
        if name in built_in_rubrics():
            allowed = "a measure or a metric; rubrics need a CONFIG with a judge and --base"
            raise OptionError("gate", "-m", name, allowed)
        try:
            kind_of_score(name, None, "gate", "-m")
        except OptionError as error:
            near = error.nearest or nearest(name, names)
            allowed = "a measure or metric of `ragbench list`"
            raise OptionError("gate", "-m", name, allowed, near) from error


def _scores_of_base(base: ScoredSystems | None, collection: Collection) -> list[str]:
    """Return the default scores of a base for which a table has gold, also if it has no outputs."""
    if base is None:
        return []
    gold = {"retrieval": bool(collection.qrels), "generation": bool(collection.answers)}
    kinds = next(iter(base.systems.values())).kinds
    defaults = (*DEFAULT_TABLE_MEASURES, *DEFAULT_METRICS)
    scores = []
    for name, kind in kinds.items():
        if name in defaults and gold.get(kind):
            scores.append(name)
    return scores


def _are_strays(causes: Mapping[str, str]) -> bool:
    """Return True if a cause is that no retrieved id is that of a judged document."""
    return "unknown_ids" in causes.values()


def _has_hits(base: ScoredSystems) -> bool:
    """Return True if a ranking of the base has a score above 0."""
    for system in base.systems.values():
        for name, column in system.columns.items():
            if system.kinds[name] == "retrieval" and (np.nan_to_num(column.values) > 0).any():
                return True
    return False


def _lost_questions(head: ScoredSystems, base: ScoredSystems) -> Iterator[str]:
    """Yield a line on the questions of the base that the head lacks, if it lacks too many."""
    rows = set(head.query_ids)
    n_lost = sum(query not in rows for query in base.query_ids)
    if len(base.query_ids) - n_lost < LEAST_COMMON * len(base.query_ids):
        n, source = len(base.query_ids), printable(base.source)
        yield f"{n_lost} of {n} questions of {source} are missing in {printable(head.source)}"


# Kind of a score -> part of a row that it needs.
_PARTS = {"retrieval": "retrieved documents", "generation": "answer", "judge": "answer"}


def _lost_parts(head: ScoredSystems, base: ScoredSystems, measures: Sequence[str]) -> Iterator[str]:
    """Yield lines on the questions without an answer or a ranking that the base has."""
    rows = index_positions(base.query_ids)
    for name in head.systems.keys() & base.systems.keys():
        columns, base_columns = head.systems[name].columns, base.systems[name].columns
        for measure in measures:
            score = find_score(measure, list(columns))
            if score is None or score not in base_columns:
                continue
            old, new = base_columns[score], columns[score]
            n_lost = 0
            for query, cause in zip(head.query_ids, new.causes.tolist(), strict=True):
                is_missing = cause in (Cause.MISSING_ANSWER, Cause.NO_CONTEXTS)
                if is_missing and query in rows and np.isfinite(old.values[rows[query]]):
                    n_lost += 1
            if n_lost:
                part = _PARTS[head.systems[name].kinds[score]]
                n, source = len(head.query_ids), printable(base.source)
                yield f"{n_lost} of {n} questions have no {part}, unlike in {source}"


def _questions(path: Path) -> dict[str, Query]:
    """Return id -> question of a table; {} for another source."""
    if not _is_table(path):
        return {}
    return index_by_id(collection_of(path).queries)


def _is_table(path: Path) -> bool:
    """Return True for a file of rows; False for a baseline file, a run file and a folder."""
    if path.suffix not in _TABLES or not path.is_file():
        return False
    with path.open("rb") as stream:
        return _BASELINE not in stream.read(200)
