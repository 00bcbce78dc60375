"""Ranks a run file against judgements, part by part at the same time where it is long."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ragbench.data.files import trec_files
from ragbench.data.files.lines import standard_input
from ragbench.errors import DataError, OptionError
from ragbench.score.retrieval.ranking import BlockRanker
from ragbench.score.retrieval.score_run import (
    Evidence,
    Rules,
    fingerprints_of,
    gather,
    subtopics_read_by,
)
from ragbench.types import Qrels

if TYPE_CHECKING:
    from ragbench.score.retrieval.base import RankedGrades, Reads
    from ragbench.score.retrieval.notation import Measure


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A run file in rank order, as far as it is judged, and what was noticed on the way.

    Attributes:
        evidence: The judged documents in rank order, in each form that the measures read.
        fingerprints: What judged them, for the signatures.
        unknown: Queries of the run that the qrels lack.
        duplicates: Hits that were dropped because their query had the document already.
        tag: The last column of its last line, as trec_eval takes it.
    """

    evidence: Evidence
    fingerprints: Mapping[Reads, Mapping[str, Any]]
    unknown: int
    duplicates: int
    tag: str


def rank_run_file(
    run: str | Path | BinaryIO,
    qrels: Qrels,
    measures: Sequence[Measure],
    rules: Rules,
    *,
    workers: int | None = None,
    told: Callable[[int], object] = int,
    _chunk_bytes: int = trec_files.CHUNK_BYTES,
    _least_part: int = trec_files.LEAST_PART,
) -> RankedFile:
    """Rank a run file block by block, in the forms that some measures read.

    A long one is read by `workers` threads, one for each usable core if None. `told` is called by
    each of them with the number of bytes that it has read.
    """
    threads = usable_cores() if workers is None else workers
    if threads < 1:
        raise OptionError("rank_run_file", "workers", workers, "an integer >= 1")
    subtopics = subtopics_read_by(measures, qrels, rules.ties)
    ranker = BlockRanker(qrels, ties=rules.ties, trec_eval=rules.trec_eval, depth=rules.depth)
    ranked, tag = None, ""
    if run != "-":
        parts = trec_files.split_run(run, threads, least=_least_part, chunk_bytes=_chunk_bytes)
        for part in parts:
            part.on_bytes = told
        if parts and (ranked := _rank_parts(ranker, parts, threads)) is not None:
            tag = next((part.tag for part in reversed(parts) if part.tag), "")
    if ranked is None:
        source = standard_input() if run == "-" else run
        with trec_files.open_run_stream(source, chunk_bytes=_chunk_bytes) as stream:
            stream.on_bytes = told
            try:
                ranked = ranker.rank(stream.blocks())
            except trec_files.ScatteredQueriesError:
                ranked = ranker.rank([stream.grouped()])
            tag = stream.tag
    return RankedFile(
        gather(ranked, subtopics, judged_only=rules.judged_only),
        fingerprints_of(qrels, subtopics),
        ranker.unknown,
        ranker.duplicates,
        tag or "run",
    )


def _rank_parts(
    ranker: BlockRanker, parts: Sequence[trec_files.RunPart], threads: int
) -> RankedGrades | None:
    """Rank the parts of a file at the same time; None where its start has to be read first.

    That is so where a part has a mistake, whose line is not known, or where a query has lines in
    two places.
    """
    try:
        ranked = ranker.rank_parts(parts, threads)
    except (DataError, trec_files.ScatteredQueriesError):
        return None
    queries = [part.yielded for part in parts]
    return ranked if len(set().union(*queries)) == sum(map(len, queries)) else None


def usable_cores() -> int:
    """Return how many cores this process may use: what `taskset` or a batch system allows."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
