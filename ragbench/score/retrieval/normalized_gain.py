"""Gains normalised otherwise than at one rank: `ndcg_rel`, `rndcg`, `g`, `bing`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.score.retrieval.dcg import Gained, discounts, running_sums
from ragbench.score.retrieval.options import Gains
from ragbench.types import FloatArray, IntArray

LEAST_COST = 1.0
"""What a rank costs where the best ranking would gain less there, or nothing at all."""


@measure("ndcg_rel", group="graded gain", range=(0.0, 1.0), cutoff="none")
def ndcg_rel(ranked: RankedGrades, *, gains: Gains | None = None) -> FloatArray:
    """Score each query by its mean nDCG at the ranks of its relevant documents.

    nDCG@k falls and rises with k for reasons that have little to do with the system; this looks
    where a reader found something. A document that was missed counts with nDCG over the whole list.

    Example:
        `a` at rank 2: (1/log2(3)) / (1 + 1/log2(3)); `b` is missed: the same, over the whole list.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ndcg_rel(rank({"q": {"a": 1, "b": 1}}, {"q": {"x": 9, "a": 8}})).round(4)
        array([0.3869])

    References:
        Buckley (2008), the program trec_eval, version 9: `ndcg_rel`, an experimental measure.
    """
    gained = Gained.of("ndcg_rel", ranked, gains=gains)
    hit = gained.rows > 0
    at_hits = _ndcg_at(gained, ranked.query[hit], ranked.rank[hit], _dcg_so_far(gained)[hit])
    total = np.bincount(ranked.query[hit], at_hits, minlength=ranked.n_queries)
    missed = gained.n_gaining - np.bincount(ranked.query[hit], minlength=ranked.n_queries)
    return ranked.divide(total + missed * _whole_ndcg(gained), gained.n_gaining)


@measure("rndcg", group="graded gain", counts_the_list=True, range=(0.0, 1.0), cutoff="none")
def rndcg(ranked: RankedGrades, *, gains: Gains | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by its mean nDCG at the ranks where the best ranking changes its grade.

    With five documents of grade 3, three of grade 2 and ten of grade 1 these are ranks 5, 8 and 18.
    Where the list goes on behind the rank after the last of them, its end is one more. A query
    needs a document of grade `rel`, which changes nothing else.

    Example:
        The best ranking is 2, 1: it changes at ranks 1 and 2. nDCG@1 = 1/2, and
        nDCG@2 = (1 + 2/log2(3)) / (2 + 1/log2(3)).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> rndcg(rank({"q": {"a": 2, "b": 1}}, {"q": {"b": 9, "a": 8}})).round(4)
        array([0.6799])

    References:
        Buckley (2008), the program trec_eval, version 9: `Rndcg`, an experimental measure.
    """
    gained = Gained.of("rndcg", ranked, gains=gains)
    last = np.flatnonzero(_last_of_its_gain(gained))
    query, at = ranked.judged_query[last], ranked.judged_rank[last]
    at_changes = _ndcg_at(gained, query, at, _dcg_down_to(gained, query, at))
    total = np.bincount(query, at_changes, minlength=ranked.n_queries)
    # one rank beyond the best ranking is not yet an end of its own: so trec_eval counts
    end = ranked.n_retrieved > gained.n_gaining + 1
    n_points = np.bincount(query, minlength=ranked.n_queries) + end
    scores = ranked.divide(total + np.where(end, _whole_ndcg(gained), 0.0), n_points)
    return ranked.where_relevant(gained.where_gaining(scores), rel)


def _last_of_its_gain(gained: Gained) -> NDArray[np.bool_]:
    """Mark the judged documents behind which the best ranking gains less."""
    query, ideal = gained.ranked.judged_query, gained.ideal
    if not len(ideal):
        return np.zeros(0, np.bool_)
    following = np.append((query[1:] == query[:-1]) * ideal[1:], 0.0)
    return (ideal > 0) & (following < ideal)


def _ndcg_at(gained: Gained, query: IntArray, rank: IntArray, dcg: FloatArray) -> FloatArray:
    """Divide the DCG of queries down to some ranks by that of the best ranking."""
    terms = gained.ideal / discounts(gained.ranked.judged_rank)
    return dcg / gained.ideal_down_to(query, rank, terms) if len(query) else dcg


def _whole_ndcg(gained: Gained) -> FloatArray:
    """Score whole rankings by nDCG; 0 where nothing can be gained."""
    ranked = gained.ranked
    found = ranked.sum(gained.rows / discounts(ranked.rank))
    best = gained.sum_ideal(gained.ideal / discounts(ranked.judged_rank))
    return found / np.where(best > 0, best, 1.0)


def _dcg_so_far(gained: Gained) -> FloatArray:
    """The DCG of each row's query down to it."""
    return running_sums(gained.rows / discounts(gained.ranked.rank), gained.ranked.starts)


def _dcg_down_to(gained: Gained, query: IntArray, rank: IntArray) -> FloatArray:
    """The DCG of some queries down to some ranks."""
    ranked = gained.ranked
    so_far = np.append(_dcg_so_far(gained), 0.0)
    # (query, rank) as one number, which ascends with the rows
    before = np.searchsorted(_place(ranked.query, ranked.rank), _place(query, rank), side="right")
    return np.where(before > ranked.starts[query], so_far[before - 1], 0.0)


def _place(query: IntArray, rank: IntArray) -> IntArray:
    place: IntArray = (query << 32) + rank
    return place


@measure("g", group="graded gain", aliases=("normalized_gain",), range=(0.0, 1.0), cutoff="none")
def normalized_gain(ranked: RankedGrades, *, gains: Gains | None = None) -> FloatArray:
    """Score each query by its gains, each discounted by what had been missed until then.

    A document at rank i gains its grade / log2(2 + best(i) - found(i)): best(i) is what the best
    ranking gains down to rank i, at least 1 a rank, found(i) what this one does. Behind good
    documents a hit counts nearly in full at any depth, which `ndcg` does not allow.

    Example:
        1/log2(2 + 2 - 1) for `b`, 2/log2(2 + 3 - 3) for `a`, over 3.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> normalized_gain(rank({"q": {"a": 2, "b": 1}}, {"q": {"b": 9, "a": 8}})).round(4)
        array([0.877])

    References:
        Buckley (2008), the program trec_eval, version 9: `G`, an experimental measure.
    """
    gained = Gained.of("g", ranked, gains=gains)
    hit = gained.rows > 0
    query, rank = ranked.query[hit], ranked.rank[hit]
    found = running_sums(gained.rows, ranked.starts)[hit]
    # the best ranking gains at least the least cost at each rank where it gains anything
    least = np.where(gained.ideal > 0, np.maximum(gained.ideal, LEAST_COST), 0.0)
    best = gained.ideal_down_to(query, rank, least) if len(query) else found
    best = best + LEAST_COST * np.maximum(rank - gained.n_gaining[query], 0)
    worth = gained.rows[hit] / np.log2(2.0 + best - found)
    total = np.bincount(query, worth, minlength=ranked.n_queries)
    return ranked.divide(total, gained.sum_ideal())


@measure("bing", group="graded gain", aliases=("binary_gain",), range=(0.0, 1.0), cutoff="none")
def binary_gain(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by its relevant documents, each discounted by the others above it.

    A relevant document counts 1 / log2(2 + documents above it that are not relevant): as `g` with
    relevant or not for a grade.

    Example:
        Nothing wrong above `a`, one document above `b`: (1/log2(2) + 1/log2(3)) / 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> binary_gain(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8, "b": 7}})).round(4)
        array([0.8155])

    References:
        Buckley (2008), the program trec_eval, version 9: `binG`, an experimental measure.
    """
    hit = ranked.grades >= rel
    wrong_above = ranked.rank - ranked.hits_so_far(hit)
    # wrong_above of the other rows means nothing, and is at least 0
    total = ranked.sum(hit / np.log2(2.0 + wrong_above))
    return ranked.divide(total, ranked.count_relevant(rel))
