"""Ranks a run against qrels, once for all measures: order, ties, and the join of the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, get_args

import numpy as np

from ragbench.errors import OptionError
from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.kernel.hits import Hits, find_hits
from ragbench.score.retrieval.kernel.judgements import Judgements
from ragbench.score.retrieval.kernel.lists import LineUp, line_up
from ragbench.score.retrieval.kernel.positions import as_singles, find_tie_groups
from ragbench.types import FloatArray, IntArray, Qrels, Run
from ragbench.types.checks import LARGEST_GRADE
from ragbench.types.rows import borders

Ties = Literal["docid", "stable", "average"]
TrecEval = Literal[9, 10]

_GRADE_BITS = 33  # hold LARGEST_GRADE minus any grade


def rank(
    qrels: Qrels | Mapping[str, Mapping[str, int]],
    run: Run | Mapping[str, Mapping[str, float]],
    *,
    ties: Ties = "docid",
    trec_eval: TrecEval = 10,
) -> RankedGrades:
    """Find the rank of every judged document that a run retrieved.

    The queries are those of the qrels, in their order. One that the run lacks is empty and listed
    in `missing`; one without qrels is not looked at. Sorting is skipped where scores fall already.

    Args:
        qrels: {query id: {document id: grade}}, or `Qrels`.
        run: {query id: {document id: score}}, or `Run`; the scores count, higher is better.
        ties: How equal scores are ordered: `docid` (descending, as bytes: trec_eval's rule),
            `stable` (as listed), or `average`: measures give their expectation over all orders.
        trec_eval: 10 compares scores as doubles; 9 as 32-bit floats, so that it sees more ties.

    Example:
        >>> ranked = rank({"q": {"d1": 1, "d2": 3}}, {"q": {"d9": 9.0, "d2": 8.0}})
        >>> ranked.rank, ranked.grades, ranked.judged_grades
        (array([2]), array([3]), array([3, 1]))
    """
    return rank_judged(Judgements.read(qrels), run, ties=ties, trec_eval=trec_eval)


def rank_judged(
    judged: Judgements,
    run: Run | Mapping[str, Mapping[str, float]],
    *,
    ties: Ties = "docid",
    trec_eval: TrecEval = 10,
    depth: int | None = None,
) -> RankedGrades:
    """Do what `rank` does, with qrels that have been read already; look `depth` ranks deep."""
    check_ties(ties, trec_eval, depth)
    lines = line_up(run, judged)
    hits, scores = _found(lines, judged, stable=ties == "stable", singles=trec_eval == 9)
    n_retrieved = np.diff(lines.starts)
    if depth is not None:
        hits, n_retrieved = hits.down_to(depth), np.minimum(n_retrieved, depth)
    ranked = in_rank_order(judged, hits, n_retrieved, lines.missing)
    find_ties = partial(find_tie_groups, scores, lines.starts, ranked.query, ranked.rank, depth)
    return replace(ranked, find_ties=find_ties, averaged=ties == "average", trec_eval=trec_eval)


def _found(
    lines: LineUp, judged: Judgements, *, stable: bool, singles: bool
) -> tuple[Hits, FloatArray]:
    """Find the hits block by block; return them, and all scores as they are compared."""
    parts, scores = [], [np.zeros(0)]
    blocks = [*lines.blocks(judged)]
    for first, end in blocks:
        lists = lines.read(first, end)
        if singles:
            lists = replace(lists, scores=as_singles(lists.scores))
        parts.append(find_hits(lists, judged.part(first, end), stable=stable, singles=singles))
        scores.append(lists.scores)
    return Hits.joined(parts, [first for first, _ in blocks]), np.concatenate(scores)


def ranked_documents(
    run: Run, *, ties: Ties = "docid", trec_eval: TrecEval = 10
) -> dict[str, list[str]]:
    """Return query id -> its documents in the order that the rules give.

    Example:
        >>> ranked_documents(Run.from_dict({"q": {"d1": 1.0, "d2": 1.0, "d3": 2.0}}))
        {'q': ['d3', 'd2', 'd1']}
    """
    # as if every document were judged, its grade being the number of its row
    every = Qrels(run.query_ids, run.starts, run.documents, np.arange(1, len(run) + 1))
    ranked = rank(every, run, ties=ties, trec_eval=trec_eval)
    documents = [run.documents[row] for row in (ranked.grades - 1).tolist()]
    spans_of = zip(run.query_ids, ranked.starts.tolist(), ranked.starts[1:].tolist(), strict=False)
    return {query: documents[start:end] for query, start, end in spans_of}


def check_ties(ties: str, trec_eval: int, depth: int | None = None) -> None:
    """Refuse tie rules that do not exist, and a depth that would cut through an average."""
    if ties not in get_args(Ties):
        raise OptionError("rank", "ties", ties, "docid, stable, average")
    if trec_eval not in get_args(TrecEval) or isinstance(trec_eval, bool):
        raise OptionError("rank", "trec_eval", trec_eval, "9 or 10")
    if ties == "average" and depth is not None:
        raise OptionError("rank", "depth", depth, "no depth with ties=average; cut with @k")


def in_rank_order(
    judged: Judgements | Qrels, hits: Hits, n_retrieved: IntArray, missing: frozenset[int]
) -> RankedGrades:
    """Put the hits into rank order and the judged grades into the ideal one."""
    order = rank_order(hits.query, hits.rank)
    query = hits.query[order]
    n = len(judged.starts) - 1
    return RankedGrades(
        query_ids=judged.query_ids,
        query=query,
        rank=hits.rank[order],
        grades=hits.grades[order],
        starts=borders(np.bincount(query, minlength=n).tolist(), n),
        n_retrieved=n_retrieved,
        judged_grades=ideal_order(judged.grades, judged.starts),
        judged_starts=judged.starts,
        missing=missing,
    )


def ideal_order(grades: IntArray, starts: IntArray) -> IntArray:
    """Sort the grades of each query, the best first."""
    # sorted as one number: the query, and below it the grade, the largest first
    query = np.repeat(np.arange(len(starts) - 1, dtype=np.int64) << _GRADE_BITS, np.diff(starts))
    ideal: IntArray = np.sort(query + (LARGEST_GRADE - grades))
    return LARGEST_GRADE - (ideal & ((1 << _GRADE_BITS) - 1))


def rank_order(query: IntArray, rank: IntArray) -> IntArray:
    """Return the order that sorts by query and then by rank; no pair of them is there twice."""
    order: IntArray = np.argsort((query << 32) + rank)  # one number sorts quicker than two
    return order
