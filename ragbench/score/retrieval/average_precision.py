"""Average precision: `map` and `map@k`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.types import FloatArray


@measure("map", aliases=("average_precision",), range=(0.0, 1.0))
def average_precision(
    ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1
) -> FloatArray:
    """Score each query by the mean of the precisions at its relevant documents.

    A relevant document that was not retrieved adds 0: misses cost as well as late hits.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only; still divided by all relevant documents.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]. NaN where a query has no relevant document:
        the measure does not apply there, and a 0 would drag the mean down.

    Raises:
        OptionError: k or rel is below 1.

    Example:
        Hits at ranks 1 and 3, two relevant documents: (1/1 + 2/3) / 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"d1": 1, "d2": 1}}
        >>> ranked = rank(qrels, run={"q": {"d1": 9.0, "d7": 8.0, "d2": 7.0}})
        >>> average_precision(ranked).round(4), average_precision(ranked, k=2)
        (array([0.8333]), array([0.5]))

    References:
        Manning, Raghavan and Schuetze (2008), Introduction to Information Retrieval, 8.4.
    """
    hit = ranked.grades >= rel
    if k is not None:
        hit &= ranked.rank <= k
    # One running count over all queries, minus what earlier queries left in it: no
    # Python loop, so the cost is O(retrieved) whatever the number of queries.
    count = np.concatenate(([0], np.cumsum(hit)))
    hits_so_far = count[1:] - count[ranked.starts[ranked.query]]
    precision = hits_so_far / ranked.rank
    total = np.bincount(ranked.query, weights=precision * hit, minlength=ranked.n_queries)

    relevant = ranked.count_relevant(rel)
    scores = np.full(ranked.n_queries, np.nan)
    np.divide(total, relevant, out=scores, where=relevant > 0)
    return scores
