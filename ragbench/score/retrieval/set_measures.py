"""What was retrieved as a set, whatever its order: `set_p`, `set_recall`, `set_f`, `set_map`."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ragbench.registry import Option
from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import FloatArray

Beta = Annotated[float, Option("How much recall counts, relative to precision.", ge=0)]


@measure("set_p", range=(0.0, 1.0), cutoff="none", averages_ties=True)
def set_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the share of all its retrieved documents that is relevant.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; 0 where nothing was retrieved, NaN where a query
        has no relevant document.

    Raises:
        OptionError: rel is below 1.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_precision(rank({"q": {"a": 1}}, {"q": {"x": 9, "a": 8}}))
        array([0.5])
    """
    return ranked.where_relevant(ranked.count_hits(rel) / ranked.n_retrieved.clip(min=1), rel)


@measure("set_recall", range=(0.0, 1.0), cutoff="none", averages_ties=True)
def set_recall(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the share of its relevant documents that was retrieved at all.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: rel is below 1.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_recall(rank({"q": {"a": 1, "b": 2}}, {"q": {"x": 9, "a": 8}}))
        array([0.5])
    """
    return ranked.divide(ranked.count_hits(rel), ranked.count_relevant(rel))


@measure("set_relative_p", range=(0.0, 1.0), cutoff="none", averages_ties=True)
def set_relative_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by its hits over the most that a list of this length could have had.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; 0 where nothing was retrieved, NaN where a query
        has no relevant document.

    Raises:
        OptionError: rel is below 1.

    Example:
        One hit, where two retrieved documents might have been two of the three relevant ones.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_relative_precision(rank({"q": {"a": 1, "b": 1, "c": 1}}, {"q": {"x": 9, "a": 8}}))
        array([0.5])
    """
    possible = np.minimum(ranked.n_retrieved, ranked.count_relevant(rel)).clip(min=1)
    return ranked.where_relevant(ranked.count_hits(rel) / possible, rel)


@measure("set_map", range=(0.0, 1.0), cutoff="none", averages_ties=True)
def set_average_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by precision times recall of all that it retrieved.

    This is average precision if every relevant document stood at the mean precision of the set.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: rel is below 1.

    Example:
        1/2 * 1/2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_average_precision(rank({"q": {"a": 1, "b": 2}}, {"q": {"x": 9, "a": 8}}))
        array([0.25])
    """
    scores: FloatArray = set_precision(ranked, rel=rel) * set_recall(ranked, rel=rel)
    return scores


@measure("set_f", range=(0.0, 1.0), cutoff="none", averages_ties=True)
def set_f(ranked: RankedGrades, *, beta: Beta = 1.0, rel: Grade = 1) -> FloatArray:
    """Score each query by the weighted harmonic mean of precision and recall of its whole list.

    `beta` weighs as in trec_eval: (1 + beta) P R / (beta P + R). Textbooks write beta squared.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        beta: How much recall counts, relative to precision.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; 0 without a hit, NaN where a query has no relevant
        document.

    Raises:
        OptionError: beta is negative, or rel is below 1.

    Example:
        P = 1/2, R = 1/3, beta = 2: 3 * 1/6 / (1 + 1/3).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1, "c": 1}}, {"q": {"x": 9, "a": 8}})
        >>> set_f(ranked), set_f(ranked, beta=2)
        (array([0.4]), array([0.375]))

    References:
        van Rijsbergen (1979), Information Retrieval, chapter 7.
    """
    # with P = hits / n and R = hits / relevant: no division by 0 without hits
    relevant = ranked.count_relevant(rel)
    weighted = ((beta * relevant + ranked.n_retrieved) / (1.0 + beta)).astype(np.float64)
    return ranked.where_relevant(ranked.divide(ranked.count_hits(rel), weighted), rel)
