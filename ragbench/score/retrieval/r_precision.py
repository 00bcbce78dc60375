"""R-precision: `r_precision`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import FloatArray


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
    relevant = ranked.count_relevant(rel)
    hit = ranked.grades >= rel
    within = ranked.weigh(np.ones_like, relevant[ranked.query])
    return ranked.divide(ranked.sum(hit * within), relevant)
