"""Rankings without what was not judged: trec_eval's -J."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.tie_groups import TieGroups
from ragbench.types import IntArray
from ragbench.types.rows import borders


def without_unjudged(ranked: RankedGrades, grades: IntArray | None = None) -> RankedGrades:
    """Take the documents out of each ranking that have no grade, or a negative one.

    Those that are left close up. A ranking may be empty then.

    Args:
        ranked: The judged documents in rank order.
        grades: Their grades, where `ranked` has something else in their place.

    Example:
        `new` is not judged, so `b` stands at rank 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 0, "b": 1}}, {"q": {"a": 9, "new": 8, "b": 7}})
        >>> found = without_unjudged(ranked)
        >>> found.rank, found.n_retrieved
        (array([1, 2]), array([2]))
    """
    kept = np.flatnonzero((ranked.grades if grades is None else grades) >= 0)
    query = ranked.query[kept]
    counts = np.bincount(query, minlength=ranked.n_queries)
    starts = borders(counts.tolist(), ranked.n_queries)
    place = np.arange(len(kept)) - starts[query]

    def find_ties() -> TieGroups:
        """Tied documents still stand together: their group is what is left of it."""
        first = ranked.ties.first[kept]
        new = np.diff(first, prepend=-1).astype(bool) | np.diff(query, prepend=-1).astype(bool)
        edges = np.append(np.flatnonzero(new), len(kept))
        group = np.cumsum(new) - 1
        return TieGroups(
            place[edges[:-1]][group] + 1,
            place[edges[1:] - 1][group] + 1,
        )

    return replace(
        ranked,
        query=query,
        rank=place + 1,
        grades=ranked.grades[kept],
        starts=starts,
        n_retrieved=counts,
        find_ties=find_ties if ranked.find_ties is not None else None,
    )
