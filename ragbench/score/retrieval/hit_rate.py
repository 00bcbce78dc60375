"""Hit rate, also called success or accuracy: `hit_rate@k`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.score.retrieval.first_hit import expect_at_first_hit
from ragbench.types import FloatArray


@measure(
    "hit_rate",
    aliases=("success", "accuracy"),
    range=(0.0, 1.0),
    cutoff="required",
    averages_ties=True,
)
def hit_rate(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query 1 if a relevant document is among the first k, else 0.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only; None looks at all.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), each value 0 or 1; NaN where a query has no relevant document.

    Raises:
        OptionError: k or rel is below 1.

    Example:
        The only relevant document is at rank 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"d1": 1}}, {"q": {"d7": 9.0, "d1": 8.0}})
        >>> hit_rate(ranked, k=1), hit_rate(ranked, k=2)
        (array([0.]), array([1.]))
    """
    if ranked.averaged:
        return ranked.where_relevant(expect_at_first_hit(ranked, rel, np.ones_like, k), rel)
    found = np.minimum(ranked.count_hits(rel, k), 1.0)
    return ranked.where_relevant(found, rel)
