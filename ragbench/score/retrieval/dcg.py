"""Cumulated gain, discounted and normalised: `cg@k`, `dcg@k`, `ndcg`, `ndcg@k`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Cutoff, RankedGrades, measure
from ragbench.score.retrieval.gain import Base, Discount, Gain, check_base, check_exponent
from ragbench.types import FloatArray, IntArray


@measure(
    "cg",
    aliases=("cumulated_gain",),
    range=(0.0, np.inf),
    cutoff="required",
    averages_ties=True,
)
def cg(ranked: RankedGrades, *, k: Cutoff | None = None, gain: Gain = "linear") -> FloatArray:
    """Score each query by the sum of what its first k documents gain, whatever their order.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only.
        gain: `linear` adds the grade, `exp` adds 2^grade - 1; negative grades gain nothing.

    Returns:
        Array of shape (n,), values from 0 up; NaN where a query has no relevant document.

    Raises:
        OptionError: k is below 1, or there is no such gain.
        DataError: A grade is too large for `exp`.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> cg(rank({"q": {"a": 3, "b": 2}}, {"q": {"a": 9, "x": 8, "b": 7}}), k=3)
        array([5.])
    """
    gained = _gains("cg", ranked.grades, gain)
    return ranked.where_relevant(ranked.sum(gained * ranked.weigh(np.ones_like, k)))


@measure("dcg", range=(0.0, np.inf), cutoff="required", averages_ties=True)
def dcg(
    ranked: RankedGrades,
    *,
    k: Cutoff | None = None,
    gain: Gain = "linear",
    discount: Discount = "log2",
    base: Base = 2,
) -> FloatArray:
    """Score each query by what its first k documents gain, less the deeper they stand.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only.
        gain: `linear` adds the grade, `exp` adds 2^grade - 1; negative grades gain nothing.
        discount: `log2` divides by log2(rank + 1); `jk` by the logarithm of the rank from rank
            `base` on, and by 1 before: Jarvelin and Kekalainen's first form.
        base: Base of the logarithm with `jk`.

    Returns:
        Array of shape (n,), values from 0 up; NaN where a query has no relevant document.

    Raises:
        OptionError: k is below 1, no such gain or discount, or a base without effect.
        DataError: A grade is too large for `exp`.

    Example:
        3 / log2(2) + 2 / log2(4).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> dcg(rank({"q": {"a": 3, "b": 2}}, {"q": {"a": 9, "x": 8, "b": 7}}), k=3)
        array([4.])

    References:
        Jarvelin and Kekalainen (2002), Cumulated gain-based evaluation of IR techniques. TOIS.
    """
    check_base("dcg", discount, base)
    gained = _gains("dcg", ranked.grades, gain)
    weights = ranked.weigh(lambda rank: 1.0 / _discounts(rank, discount, base), k)
    return ranked.where_relevant(ranked.sum(gained * weights))


@measure("ndcg", range=(0.0, 1.0), averages_ties=True)
def ndcg(
    ranked: RankedGrades,
    *,
    k: Cutoff | None = None,
    gain: Gain = "linear",
    discount: Discount = "log2",
    base: Base = 2,
) -> FloatArray:
    """Score each query by its discounted gain over that of the best possible ranking.

    The best ranking is made of ALL judged documents, retrieved or not: a list cannot look perfect
    by missing what it should have found.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only, of the best ranking too.
        gain: `linear` adds the grade, `exp` adds 2^grade - 1; negative grades gain nothing.
        discount: `log2` divides by log2(rank + 1); `jk` by the logarithm of the rank from rank
            `base` on, and by 1 before.
        base: Base of the logarithm with `jk`.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: k is below 1, no such gain or discount, or a base without effect.
        DataError: A grade is too large for `exp`.

    Example:
        (3 / log2(2) + 2 / log2(4)) / (3 / log2(2) + 2 / log2(3)).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ndcg(rank({"q": {"a": 3, "b": 2}}, {"q": {"a": 9, "x": 8, "b": 7}})).round(4)
        array([0.9386])

    References:
        Jarvelin and Kekalainen (2002), Cumulated gain-based evaluation of IR techniques. TOIS.
    """
    check_base("ndcg", discount, base)
    gained = _gains("ndcg", ranked.grades, gain)
    best = _gains("ndcg", ranked.judged_grades, gain)
    weights = ranked.weigh(lambda rank: 1.0 / _discounts(rank, discount, base), k)
    best *= 1.0 / _discounts(ranked.judged_rank, discount, base)
    if k is not None:
        best *= ranked.judged_rank <= k
    ideal = np.bincount(ranked.judged_query, weights=best, minlength=ranked.n_queries)
    return ranked.divide(ranked.sum(gained * weights), ideal)


def _gains(owner: str, grades: IntArray, gain: str) -> FloatArray:
    positive: FloatArray = np.maximum(grades, 0).astype(np.float64)
    if gain == "linear":
        return positive
    check_exponent(owner, int(grades.max(initial=0)))
    gains: FloatArray = np.exp2(positive) - 1.0
    return gains


def _discounts(rank: IntArray, discount: str, base: float) -> FloatArray:
    if discount == "log2":
        discounts: FloatArray = np.log2(rank + 1.0)
        return discounts
    # below rank `base` the logarithm is under 1, where there is no discount
    logarithms: FloatArray = np.maximum(np.log(rank) / np.log(base), 1.0)
    return logarithms
