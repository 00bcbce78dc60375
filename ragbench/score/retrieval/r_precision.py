"""Precision at R, the number of relevant documents: `r_precision`, `r_precision_mult@0.5`."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ragbench.registry import Option
from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import FloatArray, IntArray

Multiple = Annotated[float, Option("How many times R ranks are looked at.", gt=0)]


@measure("r_precision", aliases=("rprec",), range=(0.0, 1.0), cutoff="none", averages_ties=True)
def r_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by its precision at R, the number of its relevant documents.

    A perfect ranking scores 1 whatever R is, which precision@k cannot promise.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: rel is below 1.

    Example:
        R = 2, and one of the first two is relevant.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> r_precision(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 3, "x": 2, "b": 1}}))
        array([0.5])
    """
    return _precision_at(ranked, ranked.count_relevant(rel), rel)


@measure(
    "r_precision_mult",
    aliases=("rprec_mult",),
    range=(0.0, 1.0),
    cutoff="required",
    at="multiple",
    averages_ties=True,
)
def r_precision_multiple(
    ranked: RankedGrades, *, multiple: Multiple = 1.0, rel: Grade = 1
) -> FloatArray:
    """Score each query by its precision at a multiple of R, the number of its relevant documents.

    Small multiples say how precise the top is, large ones how much is found, for queries with few
    and with many relevant documents alike. `multiple * R` ranks are cut off after adding 0.9, so
    that nearly every fraction of a rank counts as one, as in trec_eval.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        multiple: 1 is `r_precision`.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; 0 where the multiple is below a tenth of a rank, NaN
        where a query has no relevant document.

    Raises:
        OptionError: The multiple is not above 0, or rel is below 1.

    Example:
        R = 2: one hit in the first rank, and in the first four.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 3, "x": 2}})
        >>> r_precision_multiple(ranked, multiple=0.5), r_precision_multiple(ranked, multiple=2)
        (array([1.]), array([0.25]))

    References:
        Buckley (2008), the program trec_eval, version 9: `Rprec_mult`.
    """
    relevant = ranked.count_relevant(rel)
    ranks = np.floor(multiple * relevant + 0.9).astype(np.int64)
    scores = _precision_at(ranked, ranks, rel)
    return ranked.where_relevant(np.where(ranks > 0, scores, 0.0), rel)


def _precision_at(ranked: RankedGrades, ranks: IntArray, rel: int) -> FloatArray:
    """Divide the hits in the first ranks, as many as each query has, by these; NaN for none."""
    hit = ranked.grades >= rel
    within = ranked.weigh(np.ones_like, ranks[ranked.query])
    return ranked.divide(ranked.sum(hit * within), ranks)
