"""Rank a run file against qrels, in parallel parts if it is long."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ragbench.data.files import trec_files
from ragbench.data.files.lines import standard_input
from ragbench.errors import DataError, OptionError
from ragbench.score.retrieval import score_run
from ragbench.score.retrieval.ranking import BlockRanker
from ragbench.types import Qrels

if TYPE_CHECKING:
    from ragbench.score.retrieval.base import RankedGrades, Reads
    from ragbench.score.retrieval.notation import Measure


@dataclass(frozen=True, slots=True)
class RankedFile:
    """Judged documents of a run file in rank order, with counts of what was read.

    Attributes:
        evidence: Judged documents in rank order, in each form that the measures need.
        fingerprints: Fingerprints of the judgements, for signatures.
        unknown: Number of queries of the run that the qrels lack.
        duplicates: Number of hits that repeat a document of their query, and were dropped.
        tag: Run tag: the last column of the last line, as in trec_eval; `run` if it is empty.
    """

    evidence: score_run.Evidence
    fingerprints: Mapping[Reads, Mapping[str, Any]]
    unknown: int
    duplicates: int
    tag: str


def rank_run_file(
    run: str | Path | BinaryIO,
    qrels: Qrels,
    measures: Sequence[Measure],
    rules: score_run.Rules,
    *,
    workers: int | None = None,
    on_bytes: Callable[[int], object] = int,
    _chunk_bytes: int = trec_files.CHUNK_BYTES,
    _least_part: int = trec_files.LEAST_PART,
) -> RankedFile:
    """Rank a run file against qrels, block by block, in the forms that some measures need.

    Args:
        run: Path, `-` for standard input, or a binary stream; plain or gzip.
        qrels: Judgements.
        measures: Measures, which decide whether subtopics are read.
        rules: Rules for ties, rounding, depth and documents without judgements.
        workers: Number of threads for a long file; None uses one per usable core.
        on_bytes: Callback of each thread with the number of bytes that it has read.

    Returns:
        Judged documents of the queries of the qrels, with counts; a query that the run lacks has
        none.

    Raises:
        DataError: The file cannot be read, or a line is wrong.
        OptionError: `workers` is below 1.
    """
    threads = usable_cores() if workers is None else workers
    if threads < 1:
        raise OptionError("rank_run_file", "workers", workers, "an integer >= 1")
    subtopics = score_run.subtopics_read_by(measures, qrels, rules.ties)
    ranker = BlockRanker(qrels, ties=rules.ties, trec_eval=rules.trec_eval, depth=rules.depth)
    ranked, tag = None, ""
    # standard input cannot be read from several positions
    if run != "-":
        parts = trec_files.split_run(run, threads, least=_least_part, chunk_bytes=_chunk_bytes)
        for part in parts:
            part.on_bytes = on_bytes
        if parts and (ranked := _rank_parts(ranker, parts, threads)) is not None:
            # trec_eval takes the tag of the last line; an empty part has none
            tag = next((part.tag for part in reversed(parts) if part.tag), "")
    if ranked is None:
        source = standard_input() if run == "-" else run
        with trec_files.open_run_stream(source, chunk_bytes=_chunk_bytes) as stream:
            stream.on_bytes = on_bytes
            try:
                ranked = ranker.rank(stream.blocks())
            # lines of a query in several places: the whole run has to be in memory
            except trec_files.ScatteredQueriesError:
                ranked = ranker.rank([stream.grouped()])
            tag = stream.tag
    return RankedFile(
        score_run.gather(ranked, subtopics, judged_only=rules.judged_only),
        score_run.fingerprints_of(qrels, subtopics),
        ranker.unknown,
        ranker.duplicates,
        tag or "run",
    )


def _rank_parts(
    ranker: BlockRanker, parts: Sequence[trec_files.RunPart], threads: int
) -> RankedGrades | None:
    """Rank the parts of a file in parallel; None if the file has to be read from its start.

    A mistake in a part has no line number in the message, and a query with lines in two parts
    needs both. None too if a line of a part is wrong: reading from the start then raises the error.
    """
    try:
        ranked = ranker.rank_parts(parts, threads)
    except (DataError, trec_files.ScatteredQueriesError):
        return None
    queries = [part.yielded for part in parts]
    return ranked if len(set().union(*queries)) == sum(map(len, queries)) else None


def usable_cores() -> int:
    """Return the number of cores that this process may use, which `taskset` may limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
