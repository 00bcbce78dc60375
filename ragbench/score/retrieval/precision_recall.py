"""Precision, recall and their harmonic mean: `precision@k`, `recall@k`, `f1@k`."""

from __future__ import annotations

from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.types import FloatArray, IntArray


@measure("precision", range=(0.0, 1.0), cutoff="required", averages_ties=True)
def precision(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by the share of its first k ranks that hold a relevant document.

    Ranks that a short list leaves empty count as not relevant: the divisor is k.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only; None looks at, and divides by, all that was retrieved.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: k or rel is below 1.

    Example:
        Two of four ranks, and two of two retrieved.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"d1": 1, "d2": 1}}, {"q": {"d1": 9.0, "d2": 8.0}})
        >>> precision(ranked, k=4), precision(ranked)
        (array([0.5]), array([1.]))
    """
    hits = ranked.count_hits(rel, k)
    # a list without hits divides by 1 at least: nothing retrieved is a precision of 0
    depth: int | IntArray = k if k is not None else ranked.n_retrieved.clip(min=1)
    return ranked.where_relevant(hits / depth, rel)


@measure("recall", range=(0.0, 1.0), cutoff="required", averages_ties=True)
def recall(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by the share of its relevant documents that is among the first k.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only; still divided by all relevant documents.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: k or rel is below 1.

    Example:
        One of two relevant documents was retrieved.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> recall(rank({"q": {"d1": 1, "d2": 1}}, {"q": {"d1": 9.0}}), k=10)
        array([0.5])
    """
    return ranked.divide(ranked.count_hits(rel, k), ranked.count_relevant(rel))


@measure("f1", range=(0.0, 1.0), cutoff="required", averages_ties=True)
def f1(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by the harmonic mean of its precision and its recall.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only; None looks at all.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; 0 without a hit, NaN where a query has no relevant
        document.

    Raises:
        OptionError: k or rel is below 1.

    Example:
        Precision 2/3 and recall 2/10: 2 * 2 / (3 + 10).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": dict.fromkeys("abcdefghij", 1)}
        >>> f1(rank(qrels, {"q": {"a": 3, "x": 2, "b": 1}}), k=3).round(4)
        array([0.3077])
    """
    # 2PR / (P + R) with P = hits / depth and R = hits / relevant: no division by 0 without hits
    relevant = ranked.count_relevant(rel)
    depth: int | IntArray = k if k is not None else ranked.n_retrieved
    scores = ranked.divide(2 * ranked.count_hits(rel, k), relevant + depth)
    return ranked.where_relevant(scores, rel)
