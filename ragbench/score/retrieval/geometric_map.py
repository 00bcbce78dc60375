"""Geometric mean average precision: `gmap`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.average_precision import average_precision
from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import FloatArray

FLOOR = 1e-5
"""trec_eval's smallest value of a query, so that one miss does not make the whole mean 0."""


@measure("gmap", range=(FLOOR, 1.0), aggregate="geometric_mean", cutoff="none")
def geometric_map(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by its average precision, to be averaged on logs: hard queries count more.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [1e-5, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: rel is below 1.

    Example:
        The only relevant document was missed.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> geometric_map(rank({"q": {"d1": 1}}, {"q": {"d7": 9.0}}))
        array([1.e-05])

    References:
        Robertson (2006), On GMAP: and other transformations. CIKM.
    """
    scores: FloatArray = np.maximum(average_precision(ranked, rel=rel), FLOOR)
    return scores
