"""How much of what was retrieved has been judged, or not: `judged@k`, `unjudged@k`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Cutoff, RankedGrades, measure
from ragbench.types import Cause, FloatArray


@measure("judged", range=(0.0, 1.0), cutoff="required", nan_means=Cause.EMPTY_RANKING)
def judged(ranked: RankedGrades, *, k: Cutoff | None = None) -> FloatArray:
    """Score each query by the share of its first k documents that has a judgement.

    Low values say that the other measures rest on few judgements: not that a system is bad.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only; divided by the retrieved where fewer than k are.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where nothing was retrieved.

    Raises:
        OptionError: k is below 1.

    Example:
        One of two retrieved documents is judged.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> judged(rank({"q": {"a": 0, "b": 1}}, {"q": {"a": 9, "new": 8}}), k=10)
        array([0.5])
    """
    seen = ranked.query if k is None else ranked.query[ranked.rank <= k]
    depth = ranked.n_retrieved if k is None else np.minimum(ranked.n_retrieved, k)
    return ranked.divide(np.bincount(seen, minlength=ranked.n_queries), depth)


@measure(
    "unjudged",
    aliases=("unj",),
    range=(0.0, 1.0),
    direction="lower",
    cutoff="required",
    averages_ties=True,
    nan_means=Cause.EMPTY_RANKING,
)
def unjudged(ranked: RankedGrades, *, k: Cutoff | None = None) -> FloatArray:
    """Score each query by the share of its first k ranks that holds a document without judgement.

    Negative grades count as unjudged, and ranks beyond a short list as judged: `judged@k`, which
    divides by what was retrieved, is not its complement there.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only; None divides by all that was retrieved.

    Returns:
        Array of shape (n,), values in [0, 1]; 0 where nothing was retrieved.

    Raises:
        OptionError: k is below 1.

    Example:
        One unjudged document in the first four ranks, two of which are empty.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> unjudged(rank({"q": {"a": 0, "b": 1}}, {"q": {"a": 9, "new": 8}}), k=4)
        array([0.25])

    References:
        Soboroff (2023), the program trec_eval, version 10: `unj`.
    """
    depth = ranked.n_retrieved if k is None else np.minimum(ranked.n_retrieved, k)
    judged_ones = ranked.sum((ranked.grades >= 0) * ranked.weigh(np.ones_like, k))
    ranks = depth.clip(min=1) if k is None else np.full(ranked.n_queries, k)
    return ranked.divide(depth - judged_ones, ranks)
