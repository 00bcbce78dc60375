"""`evaluate_run`: scores of a run with intervals and counts, without a config."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np
from msgspec import structs

from ragbench.comparison.evaluation import Evaluation
from ragbench.comparison.method import Confidence
from ragbench.comparison.query_notes import ScoredRankings, reading_notes, relevance_notes
from ragbench.comparison.run_inputs import (
    Nested,
    QrelsSource,
    RunSource,
    as_judgements,
    run_or_mapping,
)
from ragbench.data.files import trec_files
from ragbench.data.files.lines import standard_input
from ragbench.errors import DataError, OptionError
from ragbench.records.score import RunCounts
from ragbench.score.retrieval import score_run
from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.retrieval.ranking import BlockRanker
from ragbench.types import Qrels, Run
from ragbench.types.lookups import index_by_name, index_positions

if TYPE_CHECKING:  # scoring a run needs no text metrics
    pass

# Part of a run whose hits are compared with gold ids in another spelling. It takes 5 to 10 ms, and
# the score of a million hits in memory 80 ms.
_FIRST_HITS = 5_000
_FIRST_BYTES = 500_000


@dataclass(frozen=True, slots=True)
class RankedFile:
    """Judged documents of a run file in rank order, with counts of what was read.

    `rank_run_file` returns it, and `evaluate_ranked_file` scores it.

    Attributes:
        evidence: Judged documents in rank order, in each form that the measures need, and the
            counts: `unknown` queries, `duplicates` and `judged_share`.
        tag: Run tag: the last column of the last line, as in trec_eval; `run` if it is empty.
    """

    evidence: score_run.Evidence
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
        on_bytes: Callback of each thread with the number of bytes of each piece that it reads. A
            file that is read a second time, as after a wrong line, counts twice.

    Returns:
        Judged documents of the queries of the qrels, with counts; a query that the run lacks has
        none. A repeated document of a query counts once, at its best score.

    Raises:
        DataError: The file is empty or cannot be read, a line is wrong, or the qrels lack subtopics
            that a measure reads.
        OptionError: `workers` is below 1, or a measure reads texts or cannot average over ties.
    """
    threads = usable_cores() if workers is None else workers
    if threads < 1:
        raise OptionError("rank_run_file", "workers", workers, "an integer >= 1")
    with_subtopics = score_run.reads_subtopics(measures, qrels, rules.ties)
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
    evidence = score_run.gather(
        ranked,
        qrels,
        with_subtopics=with_subtopics,
        judged_only=rules.judged_only,
        unknown=ranker.unknown,
        duplicates=ranker.duplicates,
        steps=ranker.steps,
    )
    return RankedFile(evidence, tag or "run")


def _rank_parts(
    ranker: BlockRanker, parts: Sequence[trec_files.RunPart], threads: int
) -> RankedGrades | None:
    """Rank the parts of a file in parallel; None if the file has to be read from its start."""
    # A mistake in a part has no line number in the message, and a query with lines in two parts
    # needs both: then the file is read from its start, which raises the error.
    try:
        ranked = ranker.rank_parts(parts, threads)
    except (DataError, trec_files.ScatteredQueriesError):
        return None
    queries = [part.yielded for part in parts]
    return ranked if len(set().union(*queries)) == sum(map(len, queries)) else None


def usable_cores() -> int:
    """Return the number of cores that this process may use, which `taskset` may limit.

    It is at least 1.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def evaluate_run(  # noqa: PLR0913  the public signature: a keyword per rule
    run: RunSource,
    qrels: QrelsSource,
    measures: Sequence[str],
    *,
    missing: Literal["zero", "skip"] = "zero",
    no_relevant: Literal["skip", "zero"] | None = None,
    ties: Literal["docid", "average", "stable"] = "docid",
    trec_eval: Literal[9, 10] = 10,
    judged_only: bool = False,
    confidence: float = 0.95,
) -> Evaluation:
    """Score a run against qrels.

    Args:
        run: Query -> document -> score, or query -> list of documents, best first, of which a
            repeated one counts at its first place; a `Run`; or a pandas, polars or Arrow table
            with the columns `query_id`, `doc_id`, `score`; or the path of a TREC run.
        qrels: Query -> document -> grade, or query -> the relevant documents, whose grade is 1; a
            `Qrels`; a table with `query_id`, `doc_id`, `relevance`; or the path of a file. For
            `alpha_ndcg`, `subtopic_recall` and `redundancy` query -> document -> subtopic -> grade;
            other measures then see the best grade of each document.
        measures: Names of measures: `ndcg@10`, `map`, `precision(rel=2)@5`. One text is one name;
            an empty list gives no scores.
        missing: Score of a judged query that the run lacks: 0, or none.
        no_relevant: Score of a query without a relevant document: none, or 0. None: 0 by
            measures with `rel=`, as in ir_measures, and nothing by others.
        ties: Order of documents with equal scores.
        trec_eval: The version of trec_eval whose rounding is followed.
        judged_only: Take the documents that are not judged out of the rankings first.
        confidence: Level of the intervals.

    Returns:
        Scores of the judged queries, in the order of the qrels; without any, means are NaN.

    Raises:
        DataError: The run or the qrels have another form, such as an id that is no text, or the
            qrels lack subtopics that a measure reads.
        OptionError: An unknown measure, an option that is not allowed, or confidence outside (0,
            1).
        AdapterError: A measure of the user fails.

    Example:
        >>> result = evaluate_run({"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": {"d2": 1}}, ["mrr"])
        >>> result.mean["mrr"], result.per_query["mrr"]["q1"], result.summary["mrr"].n
        (0.5, 0.5, 1)
        >>> evaluate_run({"q1": ["d1", "d2"]}, {"q1": {"d2"}}, ["mrr"]).mean["mrr"]
        0.5
    """
    ranked, judged = run_or_mapping(run), as_judgements(qrels)
    scored = score_run.score_run(
        ranked,
        judged,
        measures,
        missing=missing,
        no_relevant=no_relevant,
        ties=ties,
        trec_eval=trec_eval,
        judged_only=judged_only,
    )
    evaluation = _evaluation_of(scored, confidence, from_file=False)
    if scored.ranked is None or not _misses_gold(scored.ranked, judged):
        return evaluation
    notes = _id_notes(scored.ranked, _first_queries(ranked), judged)
    return replace(evaluation, notes=(*evaluation.notes, *notes))


def _misses_gold(ranked: RankedGrades, qrels: Qrels) -> bool:
    """Return True if a relevant document was not retrieved."""
    return int((ranked.grades > 0).sum()) < int((qrels.grades > 0).sum())


def _first_queries(run: Run | Nested) -> Run:
    """Return the first queries of a run, as many as have some 5,000 hits."""
    if isinstance(run, Run):
        n_queries = int(np.searchsorted(run.starts, _FIRST_HITS)) + 1
        return run.first(run.query_ids[:n_queries], len(run))
    first, n_hits = dict[str, Mapping[str, float]](), 0
    for query, hits in run.items():
        if n_hits >= _FIRST_HITS:
            break
        first[query] = hits
        n_hits += len(hits)
    return Run.from_dict(first)


def _id_notes(ranked: RankedGrades, run: Run | None, qrels: Qrels) -> list[str]:
    """Return a note if hits may be gold ids in another spelling, or none is judged; else []."""
    # without the run, its first queries cannot be read again
    notes = [] if run is None else _spelling_notes(run, qrels)
    if notes or len(ranked.grades) or not ranked.n_retrieved.any():
        return notes
    example = "" if run is None else _unjudged_hit(run, qrels)
    return [f"no hit is a judged document{example}: if they are the same, write each id in one way"]


def _unjudged_hit(run: Run, qrels: Qrels) -> str:
    """Return the first hit of a judged query beside its gold, in words; empty without one."""
    row_of = index_positions(qrels.query_ids)
    for query, start, end in zip(run.query_ids, run.starts, run.starts[1:], strict=False):
        row = row_of.get(query)
        # a query of a table may have no judgement
        n_judged = 0 if row is None else int(qrels.starts[row + 1] - qrels.starts[row])
        if row is not None and n_judged and end > start:
            gold = qrels.documents[int(qrels.starts[row])]
            return f", such as hit '{run.documents[int(start)]}' where '{gold}' is judged"
    return ""


def _spelling_notes(run: Run, qrels: Qrels) -> list[str]:
    """Return a note if the hits of a run may be gold ids in another spelling; else []."""
    # Scores of runs stay those of trec_eval, so that ids are compared as they are.
    # here: most of its time is that of the readers of tables, which runs do not need
    from ragbench.comparison.id_pairs import QuestionIds, pair_ids

    row_of, questions = index_positions(qrels.query_ids), []
    for query, start, end in zip(run.query_ids, run.starts, run.starts[1:], strict=False):
        if (row := row_of.get(query)) is not None:
            rows = slice(*qrels.starts[row : row + 2].tolist())
            grades = dict(zip(qrels.documents[rows], qrels.grades[rows].tolist(), strict=True))
            questions.append(QuestionIds(grades, run.documents[start:end]))
    return pair_ids(questions).told_alone().warnings()


def file_id_notes(run: str | Path | BinaryIO, ranked: RankedFile, qrels: Qrels) -> list[str]:
    """Return a note if hits at the start of a run file may be gold ids in another spelling.

    Or if no hit of the file is judged. The list is empty if no relevant document is missed. Hits of
    a pipe, which cannot be read again, are not quoted.
    """
    grades = ranked.evidence.grades
    if not _misses_gold(grades, qrels):
        return []
    is_file = isinstance(run, (str, Path)) and os.path.isfile(run)
    first = trec_files.first_queries(run, _FIRST_BYTES) if is_file else None
    return _id_notes(grades, first, qrels)


def evaluate_run_file(
    run: str | Path | BinaryIO,
    qrels: Qrels,
    measures: Sequence[str],
    rules: score_run.Rules | None = None,
    *,
    workers: int | None = None,
    _chunk_bytes: int = trec_files.CHUNK_BYTES,
) -> Evaluation:
    r"""Score a run file against qrels, without holding the whole run in memory.

    The scores are those of `evaluate_run`. Ids need not be UTF-8. Time grows with the rows of the
    run; memory with the qrels and the longest query, not with the run. A file whose queries are
    scattered is read a second time, into memory; so is a pipe, once.

    Args:
        run: Path, `-` for standard input, or a binary stream; plain or gzip. `stable` ties keep
            its order.
        qrels: Judgements.
        measures: Names of measures; an empty list gives no scores.
        rules: Rules for ties, missing queries, depth and more; None for the defaults.
        workers: Number of threads for a long file; None uses one per usable core.

    Returns:
        Scores of the queries of the qrels, in their order; `counts` has the `tag` of the run's
        last line too. A run without a judged query is no error here: see `refuse_unjudged`.

    Raises:
        DataError: The file is empty or cannot be read, a line is wrong, with the line, or the qrels
            lack subtopics that a measure reads.
        OptionError: An unknown measure, a measure that reads texts or cannot average over ties, or
            `workers` below 1.
        AdapterError: A measure of the user fails.

    Example:
        >>> from io import BytesIO
        >>> run = BytesIO(b"q1 Q0 d1 1 2.0 mine\nq1 Q0 d2 2 1.0 mine\n")
        >>> result = evaluate_run_file(run, Qrels.from_dict({"q1": {"d2": 1}}), ["mrr"])
        >>> result.mean["mrr"], result.counts["tag"]
        (0.5, 'mine')
    """
    rules = rules or score_run.Rules()
    parsed = parse_measures(measures, trec_eval_defaults=True, trec_eval=rules.trec_eval)
    ranked = rank_run_file(run, qrels, parsed, rules, workers=workers, _chunk_bytes=_chunk_bytes)
    evaluation = evaluate_ranked_file(ranked, parsed, rules, tag=ranked.tag)
    notes = (*evaluation.notes, *file_id_notes(run, ranked, qrels))
    return replace(evaluation, fingerprints=qrels.query_fingerprints(), notes=notes)


def evaluate_ranked_file(
    ranked: RankedFile, measures: Sequence[Measure], rules: score_run.Rules, tag: str | None = None
) -> Evaluation:
    """Score a ranked run file by the rules that ranked it, under the labels of the measures.

    `tag` goes into the counts; None leaves it out. The queries are those of the qrels, in their
    order. A run without a judged query is no error here: see `refuse_unjudged`. Measures are those
    that `rank_run_file` got: others may read records that the evidence lacks.

    Raises:
        AdapterError: A measure of the user fails.
        IndexError: A measure reads subtopics, and the file was ranked without them.
    """
    scored = score_run.score_ranked(ranked.evidence, measures, rules)
    scored = replace(scored, counts=structs.replace(scored.counts, tag=tag))
    return _evaluation_of(scored, from_file=True)


def _evaluation_of(
    scored: score_run.ScoredRun, confidence: Confidence = 0.95, *, from_file: bool
) -> Evaluation:
    """Return the scores of a run with notes on the queries that its means leave out, or count 0."""
    missing = reading_notes(scored.columns, scored.counts)
    notes = []
    for note, n in missing.items():
        notes.append(f"{note}: {n}")
    notes += relevance_notes({"": ScoredRankings(scored.columns, scored.counts)})
    return Evaluation(
        scored.query_ids,
        index_by_name(scored.columns),
        scored.counts,
        confidence,
        scored.fingerprints,
        notes=tuple(scored.steps.notes(from_file=from_file)),
        query_notes=tuple(notes),
    )


def refuse_unjudged(evaluation: Evaluation, run: object) -> None:
    """Refuse a run without a judged query: all its scores would be 0 or missing.

    `run` is the file of the message. An evaluation of texts passes.

    Raises:
        DataError: No query of the run is judged, also because the judgements have no query.
    """
    counts = evaluation.input_counts
    if isinstance(counts, RunCounts) and counts.missing == counts.queries:
        example = f", such as '{evaluation.query_ids[0]}'" if len(evaluation.query_ids) else ""
        allowed = f"queries of the judgements{example or ', which have none'}"
        raise DataError("no query of the run is judged", file=run, allowed=allowed)
