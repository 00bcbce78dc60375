"""Binary preference: `bpref`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import FloatArray


@measure("bpref", range=(0.0, 1.0), cutoff="none")
def bpref(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by how rarely a judged non-relevant document precedes a relevant one.

    Unjudged documents are left out of the ranking instead of counting as not relevant, so the
    measure is kind to systems that were not judged themselves. Negative grades count as unjudged.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: rel is below 1.

    Example:
        R = 2, N = 2: nothing precedes `a`, one of min(R, N) = 2 precedes `b`: (1 + 1/2) / 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"a": 1, "b": 1, "x": 0, "y": 0}}
        >>> bpref(rank(qrels, {"q": {"a": 9, "new": 8, "x": 7, "b": 6}}))
        array([0.75])

    References:
        Buckley and Voorhees (2004), Retrieval Evaluation with Incomplete Information. SIGIR.
    """
    relevant = ranked.count_relevant(rel)
    pool = ranked.count_relevant(0)
    hit = ranked.grades >= rel
    wrong = (ranked.grades >= 0) & ~hit
    wrong_so_far = ranked.hits_so_far(wrong)
    worst = np.minimum(relevant, pool - relevant)[ranked.query]
    # with no wrong document so far the numerator is 0 whatever the divisor: 1 avoids 0 / 0
    share = np.minimum(wrong_so_far, relevant[ranked.query]) / np.maximum(worst, 1)
    total = np.bincount(ranked.query, weights=hit * (1.0 - share), minlength=ranked.n_queries)
    return ranked.divide(total, relevant)
