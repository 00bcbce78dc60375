"""Graded gain: `cg@k`, `dcg@k`, `ideal_dcg@k`, `ndcg@k`; `ndcg_rel`, `rndcg`, `g`, `bing`.

The last four are normalised otherwise than at one rank.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragbench.score.base import takes_options_of
from ragbench.score.retrieval import options
from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.types import FloatArray, IntArray

_measure = partial(measure, group="graded gain")

# Least cost of a rank, also where the ideal ranking gains less or nothing.
LEAST_COST = 1.0


def running_sums(values: FloatArray, starts: IntArray) -> FloatArray:
    """Add up, for each row, the values of its query down to it, itself included.

    By doubling, log(longest query) passes: one running sum over all queries would be one pass, but
    what earlier queries leave in it rounds away the last digits of later ones. The rows of query i
    start at `starts[i]` and end before `starts[i + 1]`. Shape (rows,); the input is not changed.

    Example:
        >>> running_sums(np.array([1.0, 2.0, 4.0, 0.5]), np.array([0, 3, 4]))
        array([1. , 3. , 7. , 0.5])
    """
    sums = values.astype(np.float64)  # a copy
    lengths = np.diff(starts)
    place = np.arange(len(values)) - np.repeat(starts[:-1], lengths)
    step = 1
    while step < lengths.max(initial=0):
        reach = np.flatnonzero(place >= step)
        sums[reach] += sums[reach - step]
        step *= 2
    return sums


@dataclass(frozen=True, eq=False)
class Gained:
    """Gains of the retrieved and of the judged documents.

    `of` creates it from a ranking and the options of `dcg`.

    Attributes:
        ranked: Grades in rank order.
        rows: Row of `ranked` -> gain; unjudged documents have no row and gain nothing.
        ideal: Gains of all judged documents, falling within each query; none is below 0.
        k: Number of ranks whose gains are added up; None for all.
        discount: Divisor of the gain at a rank, as in `discounts`.
        base: Base of the logarithm with the discount `jk`.
    """

    ranked: RankedGrades
    rows: FloatArray
    ideal: FloatArray
    k: int | None = None
    discount: str = "log2"
    base: float = 2

    @classmethod
    def of(
        cls,
        owner: str,
        ranked: RankedGrades,
        gain: str = "linear",
        gains: str | None = None,
        **ranks: Any,
    ) -> Gained:
        """Return the gains of all grades; negative grades gain nothing.

        `gains` sets single gains, such as `{1:3,2:9}`. `owner` is the measure, for messages;
        `ranks` are `k`, `discount` and `base`.

        Raises:
            OptionError: `gains` is malformed, or given with gain=exp; or `base` has no effect.
            DataError: A grade is too large for gain=exp.
        """
        options.check_base(owner, ranks.get("discount", "log2"), ranks.get("base", 2))
        mapping = options.read_gains(owner, gains, gain)
        rows = _gains(owner, ranked.grades, gain, mapping)
        ideal = np.maximum(_gains(owner, ranked.judged_grades, gain, mapping), 0.0)
        if mapping:
            ideal = ideal[np.lexsort((-ideal, ranked.judged_query))]
        return cls(ranked, rows, ideal, **ranks)

    @functools.cached_property
    def n_gaining(self) -> IntArray:
        """Query -> number of judged documents that gain something.

        It has the shape (n,).
        """
        gaining = self.ranked.judged_query[self.ideal > 0]
        return np.bincount(gaining, minlength=self.ranked.n_queries)

    def where_gaining(self, scores: FloatArray) -> FloatArray:
        """Return the scores with NaN for queries without a document that gains anything.

        It has the shape (n,).
        """
        return np.where(self.n_gaining > 0, scores, np.nan)

    def sum_ideal(self, terms: FloatArray) -> FloatArray:
        """Return the sum per query of terms of the ideal ranking, one per judged document.

        It has the shape (n,), and is 0 for a query without judgements.
        """
        total = np.bincount(self.ranked.judged_query, terms, minlength=self.ranked.n_queries)
        return total.astype(np.float64, copy=False)

    # gains are divided by the discount, not multiplied by its inverse, which rounds once more: so
    # the last bit is trec_eval's
    def sum_retrieved(self) -> FloatArray:
        """Return the sum of the discounted gains that each query retrieved, shape (n,)."""
        ranked, discount = self.ranked, partial(discounts, discount=self.discount, base=self.base)
        if ranked.averaged:
            return ranked.sum(self.rows * ranked.weigh(lambda rank: 1.0 / discount(rank), self.k))
        terms = self.rows / discount(ranked.rank)
        return ranked.sum(terms if self.k is None else terms * (ranked.rank <= self.k))

    def sum_best(self) -> FloatArray:
        """Return the sum of the discounted gains of the best possible rankings, shape (n,)."""
        rank = self.ranked.judged_rank
        terms = self.ideal / discounts(rank, self.discount, self.base)
        return self.sum_ideal(terms if self.k is None else terms * (rank <= self.k))

    def ideal_down_to(self, query: IntArray, rank: IntArray, terms: FloatArray) -> FloatArray:
        """Return the sum of terms of the ideal ranking of given queries down to given ranks.

        Ranks start at 1, and may exceed the number of judged documents. Shape of `rank`; each query
        has a document that gains.
        """
        starts = self.ranked.judged_starts
        sums = running_sums(terms, starts)
        last = np.minimum(rank, self.n_gaining[query])
        return sums[starts[query] + last - 1]


def _gains(owner: str, grades: IntArray, gain: str, mapping: dict[int, float]) -> FloatArray:
    """Return the gain of each grade, by the mapping or by the formula."""
    positive: FloatArray = np.maximum(grades, 0).astype(np.float64)
    if gain == "exp":
        options.check_exponent(owner, int(grades.max(initial=0)))
        positive = np.exp2(positive) - 1.0
    for grade, value in mapping.items():
        positive[grades == grade] = value
    return positive


@_measure(
    "cg", aliases=("cumulated_gain",), range=(0.0, np.inf), cutoff="required", averages_ties=True
)
def cg(
    ranked: RankedGrades, *, k: Cutoff | None = None, gain: options.Gain = "linear"
) -> FloatArray:
    """Score each query by the sum of the gains of its first k documents, whatever their order.

    The gain is the grade, or 2^grade - 1 with gain=exp. Unjudged documents and negative grades
    gain 0. A query without any judged document that gains is NaN; other queries without hits are 0.
    Without k all retrieved documents count.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Number of ranks; None for all.
        gain: Gain of a grade: the grade itself, or 2^grade - 1.

    Returns:
        Array of shape (n,), values from 0; NaN for a query without a judged document that gains.

    Raises:
        DataError: A grade is too large for gain=exp.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> cg(rank({"q": {"a": 3, "b": 2}}, {"q": {"a": 9, "x": 8, "b": 7}}), k=3)
        array([5.])
    """
    gained = Gained.of("cg", ranked, gain)
    return gained.where_gaining(ranked.sum(gained.rows * ranked.weigh(np.ones_like, k)))


@_measure("dcg", range=(0.0, np.inf), cutoff="required", averages_ties=True)
def dcg(
    ranked: RankedGrades,
    *,
    k: Cutoff | None = None,
    gain: options.Gain = "linear",
    gains: options.Gains | None = None,
    discount: options.Discount = "log2",
    base: options.Base = 2,
) -> FloatArray:
    """Score each query by what its first k documents gain, less the deeper they stand.

    Negative grades gain nothing. The discount `log2` divides by log2(rank + 1); `jk` by the
    logarithm of the rank from rank `base` on, and by 1 before: Jarvelin and Kekalainen's first
    form. `gains` or a `base` without effect are refused, and a grade that is too large for `exp`.
    Without k all retrieved documents count.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Number of ranks; None for all.
        gain: Gain of a grade: the grade itself, or 2^grade - 1.
        gains: Gains of single grades; None for those of `gain`.
        discount: Divisor of a rank: log2(rank + 1), or the log of the rank from rank `base`
            on.
        base: Base of the logarithm with discount=jk.

    Returns:
        Array of shape (n,), values from 0; NaN for a query without a judged document that gains.

    Raises:
        OptionError: An option is not allowed or has no effect.
        DataError: A grade is too large for gain=exp.

    Example:
        3 / log2(2) + 2 / log2(4).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> dcg(rank({"q": {"a": 3, "b": 2}}, {"q": {"a": 9, "x": 8, "b": 7}}), k=3)
        array([4.])

    References:
        Jarvelin and Kekalainen (2002), Cumulated gain-based evaluation of IR techniques. TOIS.
    """
    gained = Gained.of("dcg", ranked, gain, gains, k=k, discount=discount, base=base)
    return gained.where_gaining(gained.sum_retrieved())


@_measure("ideal_dcg", range=(0.0, np.inf), cutoff="required", averages_ties=True)
@takes_options_of(dcg)
def ideal_dcg(ranked: RankedGrades, **options: Any) -> FloatArray:
    """Score each query by the `dcg` of the best possible ranking: what `ndcg` divides by.

    The same for every run: it says how much there was to be gained. The options are those of `dcg`:
    `k`, `gain`, `gains`, `discount` and `base`; without k all judged documents count.

    Returns:
        Array of shape (n,), values from 0; NaN for a query without a judged document that gains.

    Raises:
        OptionError: An option is not allowed or has no effect.
        DataError: A grade is too large for gain=exp.

    Example:
        3 / log2(2) + 2 / log2(3).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ideal_dcg(rank({"q": {"a": 3, "b": 2}}, {"q": {"x": 9}})).round(4)
        array([4.2619])

    References:
        Jarvelin and Kekalainen (2002), Cumulated gain-based evaluation of IR techniques. TOIS.
    """
    gained = Gained.of("ideal_dcg", ranked, **options)
    return gained.where_gaining(gained.sum_best())


@_measure("ndcg", range=(0.0, 1.0), averages_ties=True)
@takes_options_of(dcg)
def ndcg(ranked: RankedGrades, **options: Any) -> FloatArray:
    """Score each query by its discounted gain over that of the best possible ranking.

    The best ranking is made of ALL judged documents, retrieved or not: a list cannot look perfect
    by missing what it should have found. The options are those of `dcg`: `k`, `gain`, `gains`,
    `discount` and `base`. A cut-off holds for the best ranking too.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a judged document that gains.

    Raises:
        OptionError: An option is not allowed or has no effect.
        DataError: A grade is too large for gain=exp.

    Example:
        (3 / log2(2) + 2 / log2(4)) / (3 / log2(2) + 2 / log2(3)).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ndcg(rank({"q": {"a": 3, "b": 2}}, {"q": {"a": 9, "x": 8, "b": 7}})).round(4)
        array([0.9386])

    References:
        Jarvelin and Kekalainen (2002), Cumulated gain-based evaluation of IR techniques. TOIS.
    """
    gained = Gained.of("ndcg", ranked, **options)
    return ranked.divide(gained.sum_retrieved(), gained.sum_best())


def discounts(rank: IntArray, discount: str = "log2", base: float = 2) -> FloatArray:
    """Return the divisor of the gain at each rank: log2(rank + 1), for `jk` log(rank) to `base`.

    Ranks count from 1; divisors below 1 become 1.
    """
    if discount == "log2":
        divisors: FloatArray = np.log2(rank + 1.0)
        return divisors
    # below rank `base` the logarithm is under 1, where there is no discount
    divisors = np.maximum(np.log(rank) / np.log(base), 1.0)
    return divisors


@_measure("ndcg_rel", range=(0.0, 1.0), cutoff="none")
def ndcg_rel(ranked: RankedGrades, *, gains: options.Gains | None = None) -> FloatArray:
    """Score each query by its mean nDCG at the ranks of its relevant documents.

    nDCG@k falls and rises with k for reasons that have little to do with the system; this looks
    where a reader found something. A document that was missed counts with nDCG over the whole list.
    `gains` sets the gains of single grades, as `{1:3,2:9}`; any other grade gains itself.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a judged document that gains.

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


@_measure("rndcg", range=(0.0, 1.0), cutoff="none")
def rndcg(
    ranked: RankedGrades, *, gains: options.Gains | None = None, rel: Grade = 1
) -> FloatArray:
    """Score each query by its mean nDCG at the ranks where the best ranking changes its grade.

    With five documents of grade 3, three of grade 2 and ten of grade 1 these are ranks 5, 8 and 18.
    Where the list goes on behind the rank after the last of them, its end is one more. A query
    needs a document of grade `rel`, which changes nothing else. `gains` is that of `ndcg_rel`.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a document of grade `rel`, or
        without one that gains.

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
    query, ranks = ranked.judged_query[last], ranked.judged_rank[last]
    at_changes = _ndcg_at(gained, query, ranks, _dcg_down_to(gained, query, ranks))
    total = np.bincount(query, at_changes, minlength=ranked.n_queries)
    # one rank beyond the best ranking is not yet an end of its own: so trec_eval counts
    end = ranked.n_retrieved > gained.n_gaining + 1
    n_points = np.bincount(query, minlength=ranked.n_queries) + end
    scores = ranked.divide(total + np.where(end, _whole_ndcg(gained), 0.0), n_points)
    return ranked.where_relevant(gained.where_gaining(scores), rel)


def _last_of_its_gain(gained: Gained) -> NDArray[np.bool_]:
    """Return True for each judged document behind which the best ranking gains less."""
    query, ideal = gained.ranked.judged_query, gained.ideal
    if not len(ideal):
        return np.zeros(0, np.bool_)
    following = np.append((query[1:] == query[:-1]) * ideal[1:], 0.0)
    return (ideal > 0) & (following < ideal)


def _ndcg_at(gained: Gained, query: IntArray, rank: IntArray, dcg: FloatArray) -> FloatArray:
    """Return the nDCG at each position: the DCG divided by the ideal DCG at the same rank."""
    terms = gained.ideal / discounts(gained.ranked.judged_rank)
    return dcg / gained.ideal_down_to(query, rank, terms) if len(query) else dcg


def _whole_ndcg(gained: Gained) -> FloatArray:
    """Return the nDCG of each query's whole ranking; 0 where nothing can be gained."""
    best = gained.sum_best()
    return gained.sum_retrieved() / np.where(best > 0, best, 1.0)


def _dcg_so_far(gained: Gained) -> FloatArray:
    """Return the DCG of the query of each row, down to the row."""
    return running_sums(gained.rows / discounts(gained.ranked.rank), gained.ranked.starts)


def _dcg_down_to(gained: Gained, query: IntArray, rank: IntArray) -> FloatArray:
    """Return the DCG of given queries down to given ranks."""
    ranked = gained.ranked
    so_far = np.append(_dcg_so_far(gained), 0.0)
    # (query, rank) as one number, which ascends with the rows
    places = (ranked.query << 32) + ranked.rank
    end = np.searchsorted(places, (query << 32) + rank, side="right")
    return np.where(end > ranked.starts[query], so_far[end - 1], 0.0)


@_measure("g", aliases=("normalized_gain",), range=(0.0, 1.0), cutoff="none")
def normalized_gain(ranked: RankedGrades, *, gains: options.Gains | None = None) -> FloatArray:
    """Score each query by its gains, each discounted by what had been missed until then.

    A document at rank i gains its grade / log2(2 + best(i) - found(i)): best(i) is what the best
    ranking gains down to rank i, at least 1 a rank, found(i) what this one does. Behind good
    documents a hit counts nearly in full at any depth, which `ndcg` does not allow. `gains` sets
    the gains of single grades, as `{1:3,2:9}`; any other grade gains itself.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a judged document that gains.

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
    gained_above = running_sums(gained.rows, ranked.starts)[hit]
    # the best ranking gains at least the least cost at each rank where it gains anything
    least = np.where(gained.ideal > 0, np.maximum(gained.ideal, LEAST_COST), 0.0)
    best = gained.ideal_down_to(query, rank, least) if len(query) else gained_above
    best = best + LEAST_COST * np.maximum(rank - gained.n_gaining[query], 0)
    worth = gained.rows[hit] / np.log2(2.0 + best - gained_above)
    total = np.bincount(query, worth, minlength=ranked.n_queries)
    return ranked.divide(total, gained.sum_ideal(gained.ideal))


@_measure("bing", aliases=("binary_gain",), range=(0.0, 1.0), cutoff="none")
def binary_gain(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by its relevant documents, discounted by the non-relevant ones above them.

    A retrieved relevant document counts 1 / log2(2 + n), with n documents above it that are not
    relevant; unjudged documents count as not relevant. The sum is divided by the number of all
    relevant documents, retrieved or not. The value is NaN without a relevant document, 0 if no
    relevant one is retrieved.

    Args:
        ranked: Grades of the retrieved documents in rank order.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1], in the order of the queries.

    Raises:
        OptionError: `rel` is below 1, or `ranked` averages over ties.

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
