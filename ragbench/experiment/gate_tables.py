"""`ragbench gate OLD NEW`: two tables of ids or answers, run files, baselines or run folders."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ragbench.comparison.evaluate_table import evaluate_collection
from ragbench.comparison.sources import DEFAULT_MEASURES, from_evaluation, needs_qrels, read_scored
from ragbench.comparison.systems import find_score
from ragbench.data.files.trec_files import read_qrels
from ragbench.data.loaders.python import collection_of
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.experiment.gate_run import comparable_scores, first_scores, review_scored
from ragbench.experiment.gates import without_controls
from ragbench.gates.drop import Drop, NotWorse
from ragbench.records.score import Kind
from ragbench.records.summary import Summary
from ragbench.report.gate import GateReview
from ragbench.types import Cause, Qrels
from ragbench.types.display import printable

_TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_BASELINE = b'"schema": "ragbench.baseline'


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

    A table whose ids are those of no gold document scores 0 if the base has other scores than 0. A
    table is incomplete if it lacks answers or retrieved documents that the base has.

    Args:
        old: Base of the comparison.
        new: Scores that are decided on.
        qrels: Judgements of run files.
        measures: Scores that decide; empty takes those of the default decision.
        max_drop: Margin of a gate on each score; None takes the default decision.

    Raises:
        DataError: A source cannot be read, or both have no score or question in common.
        OptionError: An unknown score.
        MissingExtra: A score or a file needs a package that is not installed.
    """
    judgements = None if qrels is None else read_qrels(qrels)
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        base, notes = _read(old, judgements, measures)
        kinds = next(iter(base.systems.values())).kinds if _is_table(old) else {}
        head, head_notes = _read(new, judgements, measures, base, kinds)
        texts = _questions(new)
    if len(base.systems) == len(head.systems) == 1:
        # systems are compared by name
        systems = dict(zip(head.systems, base.systems.values(), strict=True))
        base = replace(base, systems=systems)
    names = measures or first_scores(head, list(comparable_scores(base, head)))
    gates = [
        NotWorse(measure=name) if max_drop is None else Drop(measure=name, max_drop=max_drop)
        for name in (names if measures or max_drop is not None else ())
    ]
    lost = list(dict.fromkeys(_lost_parts(head, base, names))) if head.summary is None else []
    summary = head.summary or Summary(name=str(new), systems=(), complete=not lost)
    notes += [*head_notes, *(str(doubt.message) for doubt in doubts)]
    review = review_scored(head, base, gates, {}, summary, texts)
    return replace(review, facts=[*lost, *review.facts]), list(dict.fromkeys(notes))


def _read(
    path: Path,
    qrels: Qrels | None,
    measures: Sequence[str],
    base: ScoredSystems | None = None,
    kinds: Mapping[str, Kind] = MappingProxyType({}),
) -> tuple[ScoredSystems, list[str]]:
    """Return the scores of a table, or of another source as `read_scored` reads it, and notes."""
    # without named measures, a table has the scores of `kinds` for which it has gold
    if _is_table(path):
        collection = collection_of(path)
        gold = {"retrieval": bool(collection.qrels), "generation": bool(collection.answers)}
        names = measures or [name for name, kind in kinds.items() if gold.get(kind)]
        meets = base is not None and _has_hits(base)
        evaluation = evaluate_collection(collection, names or None, zero_unknown_ids=meets)
        return from_evaluation(path.name, evaluation), [*evaluation.notes]
    qrels = qrels if needs_qrels(path) else None
    scored = read_scored(path, qrels=qrels, measures=list(measures) or DEFAULT_MEASURES)
    return without_controls(scored), []


def _has_hits(base: ScoredSystems) -> bool:
    """Return True if a ranking of the base has a score above 0."""
    for system in base.systems.values():
        for name, column in system.columns.items():
            if system.kinds[name] == "retrieval" and (np.nan_to_num(column.values) > 0).any():
                return True
    return False


# Kind of a score -> part of a row that it needs.
_PARTS = {"retrieval": "retrieved documents", "generation": "answer", "judge": "answer"}


def _lost_parts(head: ScoredSystems, base: ScoredSystems, measures: Sequence[str]) -> Iterator[str]:
    """Yield lines on the questions without an answer or a ranking that the base has."""
    rows = {query: row for row, query in enumerate(base.query_ids)}
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


def _questions(path: Path) -> dict[str, str]:
    """Return query -> its text of a table; {} for another source."""
    if not _is_table(path):
        return {}
    return {query.id: query.text for query in collection_of(path).queries}


def _is_table(path: Path) -> bool:
    """Return True for a file of rows; False for a baseline file, a run file and a folder."""
    if path.suffix not in _TABLES or not path.is_file():
        return False
    with path.open("rb") as stream:
        return _BASELINE not in stream.read(200)
