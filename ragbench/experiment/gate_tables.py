"""`ragbench gate OLD NEW`: two tables of ids or answers, run files, baselines or run folders."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ragbench.comparison.evaluate_table import evaluate
from ragbench.comparison.sources import DEFAULT_MEASURES, from_evaluation, needs_qrels, read_scored
from ragbench.data.files.trec_files import read_qrels
from ragbench.data.loaders.python import collection_of
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.experiment.gate_run import comparable_scores, first_scores, review_scored
from ragbench.experiment.gates import without_controls
from ragbench.gates.drop import Drop, NotWorse
from ragbench.records.summary import Summary
from ragbench.report.gate import GateReview
from ragbench.types import Qrels

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
        base, head = (_read(path, judgements, measures) for path in (old, new))
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
    summary = head.summary or Summary(name=str(new), systems=())
    notes = list(dict.fromkeys(str(doubt.message) for doubt in doubts))
    return review_scored(head, base, gates, {}, summary, texts), notes


def _read(path: Path, qrels: Qrels | None, measures: Sequence[str]) -> ScoredSystems:
    """Return the scores of a table, or of another source as `read_scored` reads it."""
    if _is_table(path):
        evaluation = evaluate(path, list(measures) or None)
        return from_evaluation(path.name, evaluation)
    qrels = qrels if needs_qrels(path) else None
    scored = read_scored(path, qrels=qrels, measures=list(measures) or DEFAULT_MEASURES)
    return without_controls(scored)


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
