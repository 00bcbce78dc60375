"""Reciprocal rank: `mrr` and `mrr@k`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.score.retrieval.first_hit import expect_at_first_hit
from ragbench.types import FloatArray


@measure("mrr", aliases=("reciprocal_rank",), range=(0.0, 1.0), averages_ties=True)
def reciprocal_rank(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by 1 / rank of its first relevant document.

    Only the first one counts: right for questions that one good passage answers.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only; a first hit beyond them scores 0.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; 0 where no relevant document was retrieved, NaN
        where a query has none.

    Raises:
        OptionError: k or rel is below 1.

    Example:
        The first relevant document is at rank 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"d1": 1}}, {"q": {"d7": 9.0, "d1": 8.0}})
        >>> reciprocal_rank(ranked), reciprocal_rank(ranked, k=1)
        (array([0.5]), array([0.]))

    References:
        Voorhees (1999), The TREC-8 Question Answering Track Report.
    """
    if ranked.averaged:
        return ranked.where_relevant(
            expect_at_first_hit(ranked, rel, lambda rank: 1 / rank, k), rel
        )
    hit = ranked.grades >= rel
    if k is not None:
        hit &= ranked.rank <= k
    best = np.zeros(ranked.n_queries)
    np.maximum.at(best, ranked.query[hit], 1.0 / ranked.rank[hit])
    return ranked.where_relevant(best, rel)
