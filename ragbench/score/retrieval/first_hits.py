"""Measures of the first hit: `hit_rate@k` and `mrr`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.types import FloatArray, IntArray


@measure(
    "hit_rate",
    group="first hits",
    aliases=("success", "accuracy", "recall_any"),
    range=(0.0, 1.0),
    cutoff="required",
    averages_ties=True,
)
def hit_rate(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query 1 if a relevant document is among the first k, else 0.

    Without k all that was retrieved is looked at. With averaged ties it is the share of the orders
    of tied documents in which one is there.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        The only relevant document is at rank 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"d1": 1}}, {"q": {"d7": 9.0, "d1": 8.0}})
        >>> hit_rate(ranked, k=1), hit_rate(ranked, k=2)
        (array([0.]), array([1.]))
    """
    if ranked.averaged:
        return ranked.where_relevant(expect_at_first_hit(ranked, rel, np.ones_like, k), rel)
    hits = np.minimum(ranked.count_hits(rel, k), 1.0)
    return ranked.where_relevant(hits, rel)


@measure(
    "mrr", group="first hits", aliases=("reciprocal_rank",), range=(0.0, 1.0), averages_ties=True
)
def reciprocal_rank(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by 1 / rank of its first relevant document.

    Only the first one counts: right for questions that one good passage answers. 0 if none is among
    the first k, without k if none was retrieved.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

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


def expect_at_first_hit(
    ranked: RankedGrades, rel: int, worth: Callable[[IntArray], FloatArray], k: int | None = None
) -> FloatArray:
    """Return the worth of the rank of the first hit, as a mean over the orders of tied documents.

    The first hit stands in the first tie group that holds one; of its m documents, r are hits, and
    each place in turn has the hits by chance r / m, r / (m - 1), ... of what is left. A first hit
    beyond rank k is worth nothing, None for no such limit; a query without one has 0. A hit has a
    grade of `rel` or above. Shape (n,); `worth` gets an array of ranks from 1.

    References:
        McSherry and Najork (2008), Computing Information Retrieval Performance Measures Efficiently
        in the Presence of Tied Scores. ECIR.
    """
    total = np.zeros(ranked.n_queries)
    hits = np.flatnonzero(ranked.grades >= rel)
    queries, first_hits = np.unique(ranked.query[hits], return_index=True)
    first, size = ranked.ties.first[hits[first_hits]], ranked.ties.size[hits[first_hits]]
    same = ranked.ties.first[hits] == np.repeat(first, np.diff(np.append(first_hits, len(hits))))
    n_hits = np.bincount(ranked.query[hits][same], minlength=ranked.n_queries)[queries]
    still = np.ones(len(queries))
    # over the places of the largest group, all queries at once; none is left behind place
    # size - n_hits, where the chance is 1
    for place in range(int(size.max(initial=0))):
        chance = n_hits / (size - place)
        gained = still * chance * worth(first + place)
        total[queries] += gained if k is None else gained * (first + place <= k)
        still = still * (1.0 - chance)
        open_ = still > 0.0
        queries, first, size = queries[open_], first[open_], size[open_]
        n_hits, still = n_hits[open_], still[open_]
    return total
