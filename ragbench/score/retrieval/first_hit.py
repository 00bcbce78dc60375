"""The first relevant document where the order of equal scores is open: for `mrr` and `hit_rate`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ragbench.score.retrieval.base import RankedGrades
from ragbench.types import FloatArray, IntArray


def expect_at_first_hit(
    ranked: RankedGrades, rel: int, worth: Callable[[IntArray], FloatArray], k: int | None = None
) -> FloatArray:
    """Average, over the orders of tied documents, what the rank of the first hit is worth.

    The first hit stands in the first tie group that holds one; of its m documents, r are hits,
    and each place in turn has the hits by chance r / m, r / (m - 1), ... of what is left.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.
        worth: Ranks -> what a first hit there is worth.
        k: A first hit beyond this rank is worth nothing.

    Returns:
        Array of shape (n,); 0 where there is no hit.

    References:
        McSherry and Najork (2008), Computing Information Retrieval Performance Measures Efficiently
        in the Presence of Tied Scores. ECIR.
    """
    total = np.zeros(ranked.n_queries)
    hits = np.flatnonzero(ranked.grades >= rel)
    queries, at = np.unique(ranked.query[hits], return_index=True)
    first, size = ranked.ties.first[hits[at]], ranked.ties.size[hits[at]]
    same = ranked.ties.first[hits] == np.repeat(first, np.diff(np.append(at, len(hits))))
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
