"""Models of a reader who leaves after each rank by chance (`rbp`) or once satisfied (`err`)."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import numpy as np

from ragbench.registry import Option
from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.score.retrieval.options import LARGEST_EXPONENT, LargestGrade, Persistence
from ragbench.types import FloatArray

_measure = partial(measure, group="models of a reader", range=(0.0, 1.0))


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
