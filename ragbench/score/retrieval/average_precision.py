"""Average precision: `map` and `map@k`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.types import FloatArray, IntArray


@measure("map", aliases=("average_precision",), range=(0.0, 1.0), averages_ties=True)
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
        Manning, Raghavan and Schuetze (2008), Introduction to Information Retrieval, 8.4; for ties
        McSherry and Najork (2008), Computing Information Retrieval Performance Measures Efficiently
        in the Presence of Tied Scores. ECIR.
    """
    hit = ranked.grades >= rel
    total = _tied_total(ranked, hit, k) if ranked.averaged else _total(ranked, hit, k)
    return ranked.divide(total, ranked.count_relevant(rel))


def _total(ranked: RankedGrades, hit: NDArray[np.bool_], k: int | None) -> FloatArray:
    """Add up the precisions at each query's hits."""
    if k is not None:
        hit = hit & (ranked.rank <= k)
    return ranked.sum(ranked.hits_so_far(hit) / ranked.rank * hit)


def _tied_total(ranked: RankedGrades, hit: NDArray[np.bool_], k: int | None) -> FloatArray:
    """Add up the precisions at each query's hits, averaged over the orders of tied documents.

    With b hits before its group of m documents, r of them hits, a hit at place i of the group has
    b + 1 + (i - 1)(r - 1)/(m - 1) hits down to it, on average, and each place is as likely.
    """
    ties = ranked.ties
    before, tied = _hits_by_group(ranked, hit)
    others = (tied - 1) / np.maximum(ties.size - 1, 1)
    # sum of 1/rank and of (i - 1)/rank = 1 - first/rank over the places of the group
    inverse = ties.mean(lambda rank: 1.0 / rank, k)
    places = ties.mean(np.ones_like, k) - ties.first * inverse
    return ranked.sum(hit * ((before + 1) * inverse + others * places))


def _hits_by_group(ranked: RankedGrades, hit: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Count, for each row, the hits of its query before its tie group, and those in the group."""
    new = np.diff(ranked.query, prepend=-1) | np.diff(ranked.ties.first, prepend=-1)
    edges = np.append(np.flatnonzero(new), len(hit))
    group = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    count = np.concatenate(([0], np.cumsum(hit)))
    before = count[edges[group]] - count[ranked.starts[ranked.query]]
    return before, count[edges[group + 1]] - count[edges[group]]
