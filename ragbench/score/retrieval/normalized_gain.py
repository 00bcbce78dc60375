"""Gain that costs what stood before it, not how deep it stands: `g`, `bing`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.score.retrieval.gain import Gains
from ragbench.score.retrieval.gained import Gained
from ragbench.score.retrieval.running_sums import running_sums
from ragbench.types import FloatArray

LEAST_COST = 1.0
"""What a rank costs where the best ranking would gain less there, or nothing at all."""


@measure("g", aliases=("normalized_gain",), range=(0.0, 1.0), cutoff="none")
def normalized_gain(ranked: RankedGrades, *, gains: Gains | None = None) -> FloatArray:
    """Score each query by its gains, each discounted by what had been missed until then.

    A document at rank i gains its grade / log2(2 + best(i) - found(i)): best(i) is what the best
    ranking gains down to rank i, at least 1 a rank, found(i) what this one does. Behind good
    documents a hit counts nearly in full at any depth, which `ndcg` does not allow.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        gains: Gains of single grades, as `{1:3,2:9}`; the others gain their grade.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: The gains cannot be read.

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
    # what the least cost adds to the gains of the best ranking, rank by rank
    least = LEAST_COST / np.where(gained.ideal > 0, gained.ideal, LEAST_COST)
    best = gained.ideal_down_to(query, rank, np.maximum(least, 1.0)) if len(query) else found
    best = best + LEAST_COST * np.maximum(rank - gained.n_gaining[query], 0)
    worth = gained.rows[hit] / np.log2(2.0 + best - found)
    total = np.bincount(query, worth, minlength=ranked.n_queries)
    return ranked.divide(total, gained.sum_ideal())


@measure("bing", aliases=("binary_gain",), range=(0.0, 1.0), cutoff="none")
def binary_gain(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by its relevant documents, each discounted by the others above it.

    A relevant document counts 1 / log2(2 + documents above it that are not relevant): as `g` with
    relevant or not for a grade.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: rel is below 1.

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
