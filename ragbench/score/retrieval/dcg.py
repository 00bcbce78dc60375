"""Cumulated gain, discounted and normalised: `cg@k`, `dcg@k`, `ideal_dcg@k`, `ndcg@k`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Cutoff, RankedGrades, measure
from ragbench.score.retrieval.gain import Base, Discount, Gain, Gains, check_base
from ragbench.score.retrieval.gained import Gained
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
    gained = Gained.of("cg", ranked, gain)
    return gained.where_gaining(ranked.sum(gained.rows * ranked.weigh(np.ones_like, k)))


@measure("dcg", range=(0.0, np.inf), cutoff="required", averages_ties=True)
def dcg(
    ranked: RankedGrades,
    *,
    k: Cutoff | None = None,
    gain: Gain = "linear",
    gains: Gains | None = None,
    discount: Discount = "log2",
    base: Base = 2,
) -> FloatArray:
    """Score each query by what its first k documents gain, less the deeper they stand.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only.
        gain: `linear` adds the grade, `exp` adds 2^grade - 1; negative grades gain nothing.
        gains: Gains of single grades, as `{1:3,2:9}`; the others gain their grade.
        discount: `log2` divides by log2(rank + 1); `jk` by the logarithm of the rank from rank
            `base` on, and by 1 before: Jarvelin and Kekalainen's first form.
        base: Base of the logarithm with `jk`.

    Returns:
        Array of shape (n,), values from 0 up; NaN where a query has no relevant document.

    Raises:
        OptionError: k is below 1, no such gain or discount, or gains or a base without effect.
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
    gained = Gained.of("dcg", ranked, gain, gains)
    weights = ranked.weigh(lambda rank: 1.0 / discounts(rank, discount, base), k)
    return gained.where_gaining(ranked.sum(gained.rows * weights))


@measure("ideal_dcg", range=(0.0, np.inf), cutoff="required", averages_ties=True)
def ideal_dcg(
    ranked: RankedGrades,
    *,
    k: Cutoff | None = None,
    gain: Gain = "linear",
    gains: Gains | None = None,
    discount: Discount = "log2",
    base: Base = 2,
) -> FloatArray:
    """Score each query by the `dcg` of the best possible ranking: what `ndcg` divides by.

    The same for every run: it says how much there was to be gained.

    Args:
        ranked: Grades of all judged documents, for n queries.
        k: Look at the first k ranks only.
        gain: `linear` adds the grade, `exp` adds 2^grade - 1; negative grades gain nothing.
        gains: Gains of single grades, as `{1:3,2:9}`; the others gain their grade.
        discount: `log2` divides by log2(rank + 1); `jk` by the logarithm of the rank from rank
            `base` on, and by 1 before.
        base: Base of the logarithm with `jk`.

    Returns:
        Array of shape (n,), values from 0 up; NaN where a query has no relevant document.

    Raises:
        OptionError: k is below 1, no such gain or discount, or gains or a base without effect.
        DataError: A grade is too large for `exp`.

    Example:
        3 / log2(2) + 2 / log2(3).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ideal_dcg(rank({"q": {"a": 3, "b": 2}}, {"q": {"x": 9}})).round(4)
        array([4.2619])

    References:
        Jarvelin and Kekalainen (2002), Cumulated gain-based evaluation of IR techniques. TOIS.
    """
    check_base("ideal_dcg", discount, base)
    gained = Gained.of("ideal_dcg", ranked, gain, gains)
    return gained.where_gaining(_best(gained, k, discount, base))


@measure("ndcg", range=(0.0, 1.0), averages_ties=True)
def ndcg(
    ranked: RankedGrades,
    *,
    k: Cutoff | None = None,
    gain: Gain = "linear",
    gains: Gains | None = None,
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
        gains: Gains of single grades, as `{1:3,2:9}`; the others gain their grade.
        discount: `log2` divides by log2(rank + 1); `jk` by the logarithm of the rank from rank
            `base` on, and by 1 before.
        base: Base of the logarithm with `jk`.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: k is below 1, no such gain or discount, or gains or a base without effect.
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
    gained = Gained.of("ndcg", ranked, gain, gains)
    weights = ranked.weigh(lambda rank: 1.0 / discounts(rank, discount, base), k)
    return ranked.divide(ranked.sum(gained.rows * weights), _best(gained, k, discount, base))


def discounts(rank: IntArray, discount: str = "log2", base: float = 2) -> FloatArray:
    """Return what the gain at each rank is divided by."""
    if discount == "log2":
        divisors: FloatArray = np.log2(rank + 1.0)
        return divisors
    # below rank `base` the logarithm is under 1, where there is no discount
    divisors = np.maximum(np.log(rank) / np.log(base), 1.0)
    return divisors


def _best(gained: Gained, k: int | None, discount: str, base: float) -> FloatArray:
    """Add up the discounted gains of the best possible ranking."""
    rank = gained.ranked.judged_rank
    weights = 1.0 / discounts(rank, discount, base)
    return gained.sum_ideal(weights if k is None else weights * (rank <= k))
