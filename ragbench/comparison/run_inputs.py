"""Runs and judgements as programs pass them: paths, mappings, data frames and lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from ragbench.data.files import trec_files
from ragbench.score.retrieval.judgements import as_qrels
from ragbench.types import Qrels, Run, tables
from ragbench.types.checks import checked_ids, text_keys, wrong_type_error

if TYPE_CHECKING:  # scoring a run needs no text metrics
    pass


# Query -> document -> number.
Nested = Mapping[str, Mapping[str, Any]]


# Run as a program passes it: a path, `Run`, a data frame, or query -> hits.
RunSource = str | Path | Run | Mapping[str, Mapping[str, float] | Iterable[str]] | tables.Frame


# Judgements as a program passes them: a path, `Qrels`, a data frame, or query -> documents.
QrelsSource = str | Path | Qrels | Mapping[str, Mapping[str, int] | Iterable[str]] | tables.Frame


def with_scores(run: object) -> Run | Nested:
    """Return a run in which ranked lists have scores that fall from rank to rank."""
    if not isinstance(run, (Run, Mapping)):
        raise wrong_type_error(run, "run")
    if not _has_lists(run):
        return cast("Run | Nested", run)
    run = text_keys(run, "run")
    lists: dict[str, list[str]] = {}
    for query, hits in run.items():
        if isinstance(hits, Mapping):
            continue
        # a set has no order, and would be ranked at random
        if isinstance(hits, (set, frozenset)):
            raise wrong_type_error(hits, "run", query)
        lists[query] = checked_ids(hits, "run", query)
    ranked = Run.from_rankings(lists)
    scores = ranked.to_dict()
    # queries with a mapping keep their own scores
    joined = {}
    for query, hits in run.items():
        joined[query] = scores.get(query, hits)
    return replace(Run.from_dict(cast("Nested", joined)), duplicates=ranked.duplicates)


def as_run(run: object) -> Run:
    """Return the run that a program passes: a path, a mapping, a data frame or a `Run`.

    Raises:
        DataError: It has another form, a file cannot be read, or an id or a score is wrong.
    """
    ranked = run_or_mapping(run)
    return ranked if isinstance(ranked, Run) else Run.from_dict(ranked)


def run_or_mapping(run: object) -> Run | Nested:
    """Return a run of a path, a data frame or lists; a mapping with scores stays one."""
    if isinstance(run, (str, Path)):
        return trec_files.read_run(run)
    return Run.from_frame(run) if tables.is_frame(run) else with_scores(run)


def as_judgements(qrels: object) -> Qrels:
    """Return the judgements that a program passes: a path, a mapping, a data frame or `Qrels`.

    Raises:
        DataError: They have another form, a file cannot be read, or an id or a grade is wrong.
    """
    if isinstance(qrels, (str, Path)):
        return trec_files.read_qrels(qrels)
    return as_qrels(Qrels.from_frame(qrels) if tables.is_frame(qrels) else _with_grades(qrels))


def _with_grades(qrels: object) -> Qrels | Nested:
    """Return qrels in which lists of relevant documents have become documents of grade 1."""
    if not isinstance(qrels, (Qrels, Mapping)):
        raise wrong_type_error(qrels, "qrels")
    if not _has_lists(qrels):
        return cast("Qrels | Nested", qrels)
    graded = dict(text_keys(qrels, "qrels"))
    for query, judged in graded.items():
        if not isinstance(judged, Mapping):
            graded[query] = dict.fromkeys(checked_ids(judged, "qrels", query), 1)
    return graded


def _has_lists(nested: object) -> TypeGuard[Mapping[str, object]]:
    """Return True if a mapping has a value that is no mapping itself: a list, a set, a text."""
    # types first: one check for each type, not for each of many queries
    kinds = {*map(type, nested.values())} if isinstance(nested, Mapping) else ()
    return not all(issubclass(kind, Mapping) for kind in kinds)
