"""Precision over the best that was possible: `relative_p@k`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.types import FloatArray


@measure(
    "relative_p",
    aliases=("relative_precision",),
    range=(0.0, 1.0),
    cutoff="required",
    averages_ties=True,
)
def relative_precision(
    ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1
) -> FloatArray:
    """Score each query by its hits in the first k ranks over the most that k ranks could hold.

    Precision while k is below the number of relevant documents, recall from there on: 1 is always
    within reach.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only; None looks at all that was retrieved.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: k or rel is below 1.

    Example:
        One hit, where three ranks might have held both relevant documents.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> relative_precision(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8}}), k=3)
        array([0.5])

    References:
        Buckley (2008), the program trec_eval, version 9: `relative_P`.
    """
    relevant = ranked.count_relevant(rel)
    depth = ranked.n_retrieved.clip(min=1) if k is None else np.full(ranked.n_queries, k)
    return ranked.divide(ranked.count_hits(rel, k), np.minimum(depth, relevant))
