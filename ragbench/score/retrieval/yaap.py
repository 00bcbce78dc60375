"""Average precision on a scale without ends: `yaap`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.average_precision import average_precision
from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import FloatArray


@measure("yaap", range=(-np.inf, np.inf), cutoff="none", of_nothing=0.0)
def yet_another_average_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the smoothed log odds of its average precision.

    With S, the sum of the precisions at the relevant documents, and R of these it is
    ln((1 + S) / (1 + R - S)). Queries rise with `map`, and may be averaged better: the ends of
    the scale are not crowded.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), from -ln(1 + R) where nothing is found to ln(1 + R) for a perfect
        ranking; NaN where a query has no relevant document, which is 0 where those count.

    Raises:
        OptionError: rel is below 1.

    Example:
        S = 1 and R = 2: ln((1 + 1) / (1 + 2 - 1)).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> yet_another_average_precision(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9}}))
        array([0.])

    References:
        Robertson (2012), On Smoothing Average Precision. ECIR.
    """
    relevant = ranked.count_relevant(rel)
    total = average_precision(ranked, rel=rel) * relevant
    scores: FloatArray = np.log((1.0 + total) / (1.0 + relevant - total))
    return scores
