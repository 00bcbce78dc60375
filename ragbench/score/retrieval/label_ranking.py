"""Label ranking average precision: `lrap`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import FloatArray


@measure("lrap", range=(0.0, 1.0), cutoff="none")
def label_ranking_average_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by average precision with every tied document at the last rank of its tie.

    No order of equal scores can help: a system that scores all documents alike gets the share of
    relevant ones. `ties` has no say in it. A relevant document that was not retrieved adds 0.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: rel is below 1.

    Example:
        `a` and `x` are tied, so `a` counts at rank 2 and `b` at rank 3: (1/2 + 2/3) / 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 9, "b": 8}})
        >>> label_ranking_average_precision(ranked).round(4)
        array([0.5833])

    References:
        Tsoumakas, Katakis and Vlahavas (2010), Mining Multi-label Data. Data Mining and Knowledge
        Discovery Handbook.
    """
    hit = ranked.grades >= rel
    last = ranked.ties.last
    # the hits down to the end of a tie group are those down to its last row: rows of a query in
    # one group stand together, and the group's end differs from the next row's
    ends = np.append((last[1:] != last[:-1]) | (ranked.query[1:] != ranked.query[:-1]), True)
    end_of = np.flatnonzero(ends)
    group = np.cumsum(ends) - ends
    found = ranked.hits_so_far(hit)[end_of[group]] if len(hit) else last
    return ranked.divide(ranked.sum(hit * found / last), ranked.count_relevant(rel))
