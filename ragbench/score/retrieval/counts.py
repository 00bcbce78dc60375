"""Counts of documents and queries: `num_ret`, `num_rel`, `num_rel_ret`, `num_q`."""

from __future__ import annotations

from functools import partial

import numpy as np

from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import Cause, FloatArray

_count = partial(
    measure,
    group="counts",
    range=(0.0, np.inf),
    aggregate="sum",
    cutoff="none",
    averages_ties=True,
    nan_means=Cause.EMPTY_RANKING,
)


@_count("num_ret")
def num_ret(ranked: RankedGrades) -> FloatArray:
    """Count the documents that each query retrieved.

    Returns:
        Array of shape (n,), of whole numbers as floats; 0 for a judged query that the run lacks.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> num_ret(rank({"q": {"a": 1}}, {"q": {"a": 9, "new": 8}}))
        array([2.])
    """
    return ranked.n_retrieved.astype(np.float64)


@_count("num_rel")
def num_rel(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Count the relevant documents of each query, retrieved or not.

    Returns:
        Array of shape (n,), never NaN.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> num_rel(rank({"q": {"a": 1, "b": 2, "c": 0}}, {}))
        array([2.])
    """
    return ranked.count_relevant(rel).astype(np.float64)


@_count("num_rel_ret")
def num_rel_ret(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Count the relevant documents that each query retrieved.

    Returns:
        Array of shape (n,), in the order of the queries; 0 for a query that the run lacks.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> num_rel_ret(rank({"q": {"a": 1, "b": 2}}, {"q": {"a": 9, "new": 8}}))
        array([1.])
    """
    return ranked.count_hits(rel).astype(np.float64)


@_count("num_q")
def num_q(ranked: RankedGrades) -> FloatArray:
    """Count the queries: each is 1.

    Returns:
        Array of ones of shape (n,), for the n judged queries, whether the run has them or not.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> num_q(rank({"q": {"a": 1}, "r": {"a": 1}}, {"q": {"a": 9}}))
        array([1., 1.])
    """
    return np.ones(ranked.n_queries)


@_count("num_nonrel_judged_ret", direction="lower")
def num_nonrel_judged_ret(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Count the documents that each query retrieved and that were judged not relevant.

    A negative grade is none.

    Returns:
        Array of shape (n,), in the order of the queries; 0 for a query that the run lacks.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> num_nonrel_judged_ret(rank({"q": {"a": 1, "b": 0}}, {"q": {"a": 9, "b": 8, "new": 7}}))
        array([1.])
    """
    wrong = (ranked.grades >= 0) & (ranked.grades < rel)
    return np.bincount(ranked.query[wrong], minlength=ranked.n_queries).astype(np.float64)
