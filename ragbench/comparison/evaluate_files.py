"""`evaluate_run_file`: scores a run file in blocks of queries, whatever its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from ragbench.comparison.evaluate import Evaluation
from ragbench.data.files.lines import standard_input
from ragbench.data.trec.stream import CHUNK_BYTES, ScatteredQueriesError, open_run_stream
from ragbench.data.trec.trec_files import read_qrels
from ragbench.errors import DataError
from ragbench.score.retrieval.blocks import BlockRanker
from ragbench.score.retrieval.evidence import Evidence, gather, numbered, subtopics_read_by
from ragbench.score.retrieval.notation import parse_measures
from ragbench.score.retrieval.score_run import Rules, fingerprints_of, score_ranked
from ragbench.types import Qrels

if TYPE_CHECKING:
    from ragbench.score.retrieval.base import Reads
    from ragbench.score.retrieval.notation import Measure


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A run file in rank order, as far as it is judged, and what was noticed on the way."""

    evidence: Evidence
    """The judged documents in rank order, in each form that the measures read."""
    fingerprints: Mapping[Reads, Mapping[str, Any]]
    """What judged them, for the signatures."""
    unknown: int
    """Queries of the run that the qrels lack."""
    duplicates: int
    """Hits that were dropped because their query had the document already."""
    tag: str
    """The last column of its last line, as trec_eval takes it."""


def evaluate_run_file(
    run: str | Path | BinaryIO,
    qrels: Qrels | str | Path,
    measures: Sequence[str],
    *,
    missing: Literal["zero", "skip"] = "zero",
    no_relevant: Literal["skip", "zero"] = "skip",
    ties: Literal["docid", "average", "stable"] = "docid",
    trec_eval: Literal[9, 10] = 10,
    depth: int | None = None,
    judged_only: bool = False,
    confidence: float = 0.95,
    _chunk_bytes: int = CHUNK_BYTES,
) -> Evaluation:
    r"""Score a run file against qrels, without ever holding the whole run.

    The numbers are those of `evaluate_run` on what `read_run` reads. Time grows with the rows of
    the run; memory with the qrels and the longest query, not with the run. A file whose queries
    are scattered is read a second time, sorted through a temporary file of its size.

    Args:
        run: A TREC run, plain or gzip: its path, `-` for standard input, or a binary stream.
        qrels: The judgements, or their file.
        measures: Names of measures: `ndcg@10`, `map`, `precision(rel=2)@5`.
        missing: What a judged query that the run lacks scores: 0, or nothing.
        no_relevant: What a query without a relevant document scores: nothing, or 0.
        ties: How documents with equal scores are ordered; `stable` takes the order of the file.
        trec_eval: The version of trec_eval whose rounding is followed.
        depth: Look at the first so many retrieved documents of a query only; None at all.
        judged_only: Take the documents that are not judged out of the rankings first.
        confidence: Level of the intervals.

    Returns:
        The scores, the queries in the order of the qrels; `counts` has the run's `tag` too.

    Raises:
        DataError: What is wrong with a file, and in which line.
        OptionError: An unknown measure, or an option that is not allowed.

    Example:
        >>> from io import BytesIO
        >>> run = BytesIO(b"q1 Q0 d1 1 2.0 mine\nq1 Q0 d2 2 1.0 mine\n")
        >>> result = evaluate_run_file(run, Qrels.from_dict({"q1": {"d2": 1}}), ["mrr"])
        >>> result.mean["mrr"], result.counts["tag"]
        (0.5, 'mine')
    """
    rules = Rules(ties, trec_eval, missing, no_relevant, depth, judged_only)
    parsed = parse_measures(measures)
    judged = qrels if isinstance(qrels, Qrels) else read_qrels(qrels)
    found = rank_run_file(run, judged, parsed, rules, _chunk_bytes=_chunk_bytes)
    return evaluate_ranked_file(found, parsed, rules, confidence=confidence)


def rank_run_file(
    run: str | Path | BinaryIO,
    qrels: Qrels,
    measures: Sequence[Measure],
    rules: Rules,
    *,
    _chunk_bytes: int = CHUNK_BYTES,
) -> RankedFile:
    """Rank a run file block by block, for some measures.

    Raises:
        DataError: What is wrong with the file, and in which line.
        OptionError: A measure that a run and qrels are not enough for.
    """
    subtopics = subtopics_read_by(measures, qrels, rules.ties)
    against = qrels if subtopics is None else numbered(subtopics)
    source = standard_input() if run == "-" else run
    with open_run_stream(source, chunk_bytes=_chunk_bytes) as stream:
        ranker = _ranker(against, rules)
        try:
            ranked = ranker.rank(stream.blocks())
        except ScatteredQueriesError:
            ranker = _ranker(against, rules)
            ranked = ranker.rank(stream.regrouped())
        return RankedFile(
            gather(ranked, subtopics, judged_only=rules.judged_only),
            fingerprints_of(qrels, subtopics),
            ranker.unknown,
            ranker.duplicates,
            stream.tag or "run",
        )


def evaluate_ranked_file(
    found: RankedFile,
    measures: Sequence[Measure],
    rules: Rules,
    *,
    confidence: float = 0.95,
) -> Evaluation:
    """Score what was ranked by the same rules; the scores are named as the measures are."""
    scored = score_ranked(
        found.evidence,
        measures,
        rules,
        fingerprints=found.fingerprints,
        unknown=found.unknown,
        duplicates=found.duplicates,
    )
    columns = {column.name: column for column in scored.columns}
    counts = scored.counts.to_dict() | {"tag": found.tag}
    return Evaluation(scored.query_ids, columns, counts, confidence)


def refuse_unjudged(evaluation: Evaluation, run: object) -> None:
    """Refuse a run that shares no query with the judgements: its scores would be about nothing.

    Raises:
        DataError: It does not; names a query of the judgements.
    """
    if evaluation.counts["missing"] == evaluation.counts["queries"]:
        raise DataError(
            "no query of the run is judged",
            file=run,
            allowed=f"queries of the judgements, such as '{evaluation.query_ids[0]}'",
        )


def _ranker(qrels: Qrels, rules: Rules) -> BlockRanker:
    return BlockRanker(qrels, ties=rules.ties, trec_eval=rules.trec_eval, depth=rules.depth)
