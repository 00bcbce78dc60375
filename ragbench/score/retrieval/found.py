"""Found: whether the first hits of a query have the evidence that its answer needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from ragbench.registry import Option
from ragbench.score.retrieval.base import Cutoff, RankedGrades, measure
from ragbench.types import Cause, CauseArray, FloatArray, IntArray

Need = Annotated[
    Literal["any", "all"],
    Option(
        "Gold that has to be among the first k hits: any of it, or all; all_hit and recall_all mean"
        " all."
    ),
]


@dataclass(frozen=True, eq=False)
class MetGold:
    """Ranks at which the rankings of n queries meet their gold; all arrays have shape (n,).

    Ranks count hits as they were retrieved, from 1; 0 stands for gold that is not met.

    Attributes:
        any_rank: Rank of the first hit that has some of the gold.
        all_rank: Rank down to which hits have all of the gold.
        unplaced: Rank of the first hit that may have a gold span and has no place in a document; 0
            without one.
        causes: `SCORED` for a query with gold, else the reason why it has no value.
    """

    any_rank: IntArray
    all_rank: IntArray
    unplaced: IntArray
    causes: CauseArray

    @classmethod
    def of_grades(cls, ranked: RankedGrades, rel: int = 1) -> MetGold:
        """Return the ranks of gold documents, those of a grade from `rel` on.

        Example:
            >>> from ragbench.score.retrieval.ranking import rank
            >>> ranks = MetGold.of_grades(rank({"q": {"a": 1, "b": 1}}, {"q": {"x": 3, "a": 2}}))
            >>> ranks.any_rank.tolist(), ranks.all_rank.tolist()
            ([2], [0])
        """
        n_relevant, n_hits = ranked.count_relevant(rel), ranked.count_hits(rel)
        query = ranked.query[ranked.grades >= rel]
        ranks = ranked.rank[ranked.grades >= rel]
        any_rank, all_rank = np.zeros((2, ranked.n_queries), np.int64)
        # ranks ascend within a query: backwards, the best one is written last
        any_rank[query[::-1]] = ranks[::-1]
        all_rank[query] = ranks
        all_rank[n_hits < n_relevant] = 0
        causes = np.where(n_relevant > 0, Cause.SCORED, Cause.NO_RELEVANT).astype(np.uint8)
        return cls(any_rank, all_rank, np.zeros_like(any_rank), causes)

    @classmethod
    def of_no_queries(cls) -> MetGold:
        """Return the ranks of no queries."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, empty, np.zeros(0, np.uint8))


@measure("found", group="first hits", range=(0.0, 1.0), reads="gold", cutoff="required")
def found(ranks: MetGold, *, k: Cutoff | None = None, need: Need = "any") -> FloatArray:
    """Score each query 1 if its first k hits have the gold that its answer needs, else 0.

    Hits count as they were retrieved. A gold span is met by a passage that has a character of it, a
    gold document by any passage of it; without judgements, the gold answer by a passage that has
    its words. With `need=all`, each gold document and span has to be met. Where gold is whole
    documents and hits are documents, it equals `hit_rate@k`. The value is NaN for a query without
    gold, and if gold that is not met may stand in one of the first k passages, which has no place
    in a document. Without k all hits count.

    Returns:
        Array of shape (n,).

    Example:
        One of two gold documents is at rank 2, the other is not retrieved.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranks = MetGold.of_grades(rank({"q": {"a": 1, "b": 1}}, {"q": {"x": 3, "a": 2}}))
        >>> found(ranks, k=2), found(ranks, k=2, need="all"), found(ranks, k=1)
        (array([1.]), array([0.]), array([0.]))

    References:
        Wu et al. (2024), LongMemEval, for the two forms: recall_any@k and recall_all@k.
    """
    rank = ranks.any_rank if need == "any" else ranks.all_rank
    is_met = rank > 0 if k is None else (rank > 0) & (rank <= k)
    doubtful = ranks.unplaced > 0 if k is None else (ranks.unplaced > 0) & (ranks.unplaced <= k)
    values = is_met.astype(np.float64)
    values[(ranks.causes != Cause.SCORED) | (doubtful & ~is_met)] = np.nan
    return values
