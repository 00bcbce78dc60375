"""Diversity: `alpha_ndcg@k`, `subtopic_recall@k`, `redundancy@k`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from math import fsum, log2, nan
from typing import Annotated

import numpy as np

from ragbench.registry import Option
from ragbench.score.retrieval.base import Cutoff, RankedSubtopics, Subtopics, measure
from ragbench.types import Cause, FloatArray

_measure = partial(
    measure, group="diversity", range=(0.0, 1.0), reads="subtopics", cutoff="required"
)


@_measure("alpha_ndcg")
def alpha_ndcg(
    queries: Sequence[RankedSubtopics],
    *,
    k: Cutoff | None = None,
    alpha: Annotated[
        float, Option("Chance that one document settles a subtopic that it covers.", ge=0, lt=1)
    ] = 0.5,
) -> FloatArray:
    """Score each query by discounted gain in which a subtopic is worth less each time it returns.

    A document gains (1 - alpha)^n for each subtopic it covers, n being the documents above that
    covered it already. The best ranking is built greedily from all relevant documents, as its
    authors do: to find the true best is NP-hard, and a ranking that beats the greedy one by its
    luck with ties counts as 1. A cut-off holds for the best ranking too. With alpha = 0 every
    mention counts in full, near 1 only the first. A query without a subtopic has no value (NaN).
    Without k both rankings count in full.

    Args:
        queries: Subtopics of each query.
        k: Number of ranks; None for all.

    Returns:
        Array of shape (n,), values in [0, 1].

    Example:
        The second document repeats subtopic a; the best ranking has b there:
        (1 + 0.5/log2(3)) / (1 + 1/log2(3)).

        >>> judged = {"d1": ["a"], "d2": ["a"], "d3": ["b"]}
        >>> alpha_ndcg([RankedSubtopics.of(["d1", "d2", "d3"], judged)], k=2).round(4)
        array([0.8066])

    References:
        Clarke et al. (2008), Novelty and Diversity in Information Retrieval Evaluation. SIGIR.
    """

    def score(query: RankedSubtopics) -> float:
        best = _discounted(_best_order(query.judged, alpha, k), alpha)
        return min(1.0, _discounted(query.retrieved[:k], alpha) / best) if best else nan

    return np.array([*map(score, queries)], np.float64)


@_measure("subtopic_recall")
def subtopic_recall(queries: Sequence[RankedSubtopics], *, k: Cutoff | None = None) -> FloatArray:
    """Score each query by the share of its subtopics that its first k documents cover.

    A query without a subtopic has no value (NaN). Without k all retrieved documents count.

    Returns:
        Array of shape (n,), values in [0, 1].

    Example:
        >>> judged = {"d1": ["a"], "d2": ["a"], "d3": ["b"]}
        >>> subtopic_recall([RankedSubtopics.of(["d1", "d2", "d3"], judged)], k=2)
        array([0.5])

    References:
        Zhai, Cohen and Lafferty (2003), Beyond Independent Relevance. SIGIR.
    """

    def score(query: RankedSubtopics) -> float:
        covered = frozenset[Hashable]().union(*query.retrieved[:k])
        return len(covered) / len(query.all) if query.all else nan

    return np.array([*map(score, queries)], np.float64)


@_measure("redundancy", direction="lower", nan_means=Cause.EMPTY_RANKING)
def redundancy(queries: Sequence[RankedSubtopics], *, k: Cutoff | None = None) -> FloatArray:
    """Score each query by the share of relevant documents that add nothing to those above them.

    A document is redundant if it is relevant, and documents above it cover all its subtopics.
    Those that are not relevant at all count neither way. Lower is better, and always below 1; NaN
    where the first k documents hold no relevant one. Without k all retrieved documents count.

    Returns:
        Array of shape (n,).

    Example:
        One of two relevant documents repeats what the first says.

        >>> judged = {"d1": ["a", "b"], "d2": ["a"]}
        >>> redundancy([RankedSubtopics.of(["d1", "d9", "d2"], judged)], k=3)
        array([0.5])
    """

    def score(query: RankedSubtopics) -> float:
        relevant = list(filter(None, query.retrieved[:k]))
        covered = frozenset[Hashable]()
        repeated = 0
        for covers in relevant:
            repeated += covers <= covered
            covered |= covers
        return repeated / len(relevant) if relevant else nan

    return np.array([*map(score, queries)], np.float64)


def _discounted(ranking: Iterable[Subtopics], alpha: float) -> float:
    """Return the sum of the gains of a ranking, each over log2(rank + 1)."""
    covered: Counter[Hashable] = Counter()
    total = 0.0
    for rank, covers in enumerate(ranking, 1):
        total += _gain(covers, covered, alpha) / log2(rank + 1)
        covered.update(covers)
    return total


def _best_order(judged: Sequence[Subtopics], alpha: float, k: int | None) -> list[Subtopics]:
    """Return the subtopics of the relevant documents, ranked greedily by their gain."""
    candidates, order = list(judged), list[Subtopics]()
    covered: Counter[Hashable] = Counter()
    while candidates and (k is None or len(order) < k):
        best = max(candidates, key=lambda covers: _gain(covers, covered, alpha))
        candidates.remove(best)
        order.append(best)
        covered.update(best)
    return order


def _gain(covers: Subtopics, covered: Counter[Hashable], alpha: float) -> float:
    return fsum((1.0 - alpha) ** covered[topic] for topic in covers)
