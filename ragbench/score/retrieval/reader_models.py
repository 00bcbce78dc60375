"""Models of a reader who stops at the first hit (`hit_rate@k`, `mrr`) or later (`rbp`, `err`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import numpy as np

from ragbench.registry import Option
from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.score.retrieval.options import LARGEST_EXPONENT, LargestGrade, Persistence
from ragbench.types import FloatArray, IntArray

_measure = partial(measure, group="models of a reader", range=(0.0, 1.0))


@measure(
    "hit_rate",
    group="first hits",
    aliases=("success", "accuracy", "recall_any"),
    range=(0.0, 1.0),
    cutoff="required",
    averages_ties=True,
)
def hit_rate(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query 1 if a relevant document is among the first k, else 0.

    Without k all that was retrieved is looked at. With averaged ties it is the share of the orders
    of tied documents in which one is there.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        The only relevant document is at rank 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"d1": 1}}, {"q": {"d7": 9.0, "d1": 8.0}})
        >>> hit_rate(ranked, k=1), hit_rate(ranked, k=2)
        (array([0.]), array([1.]))
    """
    if ranked.averaged:
        return ranked.where_relevant(expect_at_first_hit(ranked, rel, np.ones_like, k), rel)
    hits = np.minimum(ranked.count_hits(rel, k), 1.0)
    return ranked.where_relevant(hits, rel)


@measure(
    "mrr", group="first hits", aliases=("reciprocal_rank",), range=(0.0, 1.0), averages_ties=True
)
def reciprocal_rank(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by 1 / rank of its first relevant document.

    Only the first one counts: right for questions that one good passage answers. 0 if none is among
    the first k, without k if none was retrieved.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        The first relevant document is at rank 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"d1": 1}}, {"q": {"d7": 9.0, "d1": 8.0}})
        >>> reciprocal_rank(ranked), reciprocal_rank(ranked, k=1)
        (array([0.5]), array([0.]))

    References:
        Voorhees (1999), The TREC-8 Question Answering Track Report.
    """
    if ranked.averaged:
        return ranked.where_relevant(
            expect_at_first_hit(ranked, rel, lambda rank: 1 / rank, k), rel
        )
    hit = ranked.grades >= rel
    if k is not None:
        hit &= ranked.rank <= k
    best = np.zeros(ranked.n_queries)
    np.maximum.at(best, ranked.query[hit], 1.0 / ranked.rank[hit])
    return ranked.where_relevant(best, rel)


def expect_at_first_hit(
    ranked: RankedGrades, rel: int, worth: Callable[[IntArray], FloatArray], k: int | None = None
) -> FloatArray:
    """Return the worth of the rank of the first hit, as a mean over the orders of tied documents.

    The first hit stands in the first tie group that holds one; of its m documents, r are hits, and
    each place in turn has the hits by chance r / m, r / (m - 1), ... of what is left. A first hit
    beyond rank k is worth nothing, None for no such limit; a query without one has 0. A hit has a
    grade of `rel` or above. Shape (n,); `worth` gets an array of ranks from 1.

    References:
        McSherry and Najork (2008), Computing Information Retrieval Performance Measures Efficiently
        in the Presence of Tied Scores. ECIR.
    """
    total = np.zeros(ranked.n_queries)
    hits = np.flatnonzero(ranked.grades >= rel)
    queries, first_hits = np.unique(ranked.query[hits], return_index=True)
    first, size = ranked.ties.first[hits[first_hits]], ranked.ties.size[hits[first_hits]]
    same = ranked.ties.first[hits] == np.repeat(first, np.diff(np.append(first_hits, len(hits))))
    n_hits = np.bincount(ranked.query[hits][same], minlength=ranked.n_queries)[queries]
    still = np.ones(len(queries))
    # over the places of the largest group, all queries at once; none is left behind place
    # size - n_hits, where the chance is 1
    for place in range(int(size.max(initial=0))):
        chance = n_hits / (size - place)
        gained = still * chance * worth(first + place)
        total[queries] += gained if k is None else gained * (first + place <= k)
        still = still * (1.0 - chance)
        open_ = still > 0.0
        queries, first, size = queries[open_], first[open_], size[open_]
        n_hits, still = n_hits[open_], still[open_]
    return total


@_measure("rbp", averages_ties=True)
def rbp(
    ranked: RankedGrades,
    *,
    k: Cutoff | None = None,
    p: Persistence = 0.8,
    rel: Grade = 1,
    gain: Annotated[
        Literal["binary", "graded"], Option("Relevant or not, or the grade over the largest grade.")
    ] = "binary",
) -> FloatArray:
    """Score each query by what a reader finds who leaves after each rank with chance 1 - p.

    A perfect ranking of few relevant documents stays below 1: the reader finds nothing behind them.
    A persistence p of 0.5 looks at about two documents, 0.8 at five, 0.95 at twenty. With
    `gain=graded` a relevant document counts by its grade over the largest grade in the qrels.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Number of ranks; None for all.
        p: Chance that a reader goes on from one rank to the next.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        Hits at ranks 1 and 3: 0.5 * (1 + 0.5^2).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> rbp(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8, "b": 7}}), p=0.5)
        array([0.625])

    References:
        Moffat and Zobel (2008), Rank-biased precision for measurement of retrieval effectiveness.
        TOIS.
    """
    worth = (ranked.grades >= rel) * (ranked.grades / ranked.max_grade if gain == "graded" else 1.0)
    total = ranked.sum(
        worth * ranked.weigh(lambda rank: (1.0 - p) * np.power(float(p), rank - 1), k)
    )
    return ranked.where_relevant(total, rel)


@_measure("rbp_residual", direction="lower", averages_ties=True)
def rbp_residual(
    ranked: RankedGrades, *, k: Cutoff | None = None, p: Persistence = 0.8
) -> FloatArray:
    """Score each query by how much `rbp` could still rise: the weight of all that is not judged.

    `rbp` lies between its value and its value plus this residual, whatever judges would say of the
    unjudged documents and of those that a longer list would add. Documents behind the first k ranks
    count as not judged, as in `rbp@k`.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Number of ranks; None for all.
        p: Chance that a reader goes on from one rank to the next.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        Ranks 1 and 3 are judged: 1 - 0.5 * (1 + 0.5^2).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"a": 1, "b": 0}}
        >>> rbp_residual(rank(qrels, {"q": {"a": 9, "new": 8, "b": 7}}), p=0.5)
        array([0.375])

    References:
        Moffat and Zobel (2008), Rank-biased precision for measurement of retrieval effectiveness.
        TOIS.
    """
    judged = ranked.sum(ranked.weigh(lambda rank: (1.0 - p) * np.power(float(p), rank - 1), k))
    return ranked.where_relevant(1.0 - judged)


@_measure("err", from_qrels={"max": lambda ranked: ranked.max_grade})
def err(
    ranked: RankedGrades, *, k: Cutoff | None = None, max: LargestGrade | None = None
) -> FloatArray:
    """Score each query by the expected 1 / rank at which a reader is satisfied and stops.

    A document satisfies with chance (2^grade - 1) / 2^max, so what stands behind a very good one
    hardly counts. Larger grades than `max`, the top of the scale, count as it; without it the
    largest grade in the qrels is the top.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Number of ranks; None for all.
        max: Top of the scale of grades, such as 4 for gdeval; default: the largest in the qrels.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        Grade 1 of 1 at ranks 1 and 2: 1/2 + 1/2 * 1/2 * 1/2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> err(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "b": 8}}))
        array([0.625])

    References:
        Chapelle et al. (2009), Expected Reciprocal Rank for Graded Relevance. CIKM.
    """
    top = min(LARGEST_EXPONENT, ranked.max_grade) if max is None else max
    grades = ranked.grades.clip(0, top).astype(np.float64)
    satisfies = np.exp2(grades - top) - np.exp2(float(-top))
    if k is not None:
        satisfies *= ranked.rank <= k
    total, unsatisfied = np.zeros(ranked.n_queries), np.ones(ranked.n_queries)
    # A running product over ranks cannot be had from one over all queries without losing digits,
    # so the loop is over the hits of the longest list, all queries at once.
    n_rows = np.diff(ranked.starts)
    for place in range(n_rows.max(initial=0)):
        queries = np.flatnonzero(n_rows > place)
        rows = ranked.starts[queries] + place
        total[queries] += unsatisfied[queries] * satisfies[rows] / ranked.rank[rows]
        unsatisfied[queries] *= 1.0 - satisfies[rows]
    return ranked.where_relevant(total)
