"""What was retrieved as a set, whatever its order: `set_p`, `set_recall`, `set_f`, `set_map`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np

from ragbench.errors import OptionError
from ragbench.registry import Option
from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import Cause, FloatArray

_set_measure = partial(
    measure, group="lists as sets", range=(0.0, 1.0), cutoff="none", averages_ties=True
)

Beta = Annotated[float, Option("How much recall counts, relative to precision.", ge=0)]


@_set_measure("set_p", counts_the_list=True)
def set_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the share of all its retrieved documents that is relevant.

    An empty ranking has 0.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_precision(rank({"q": {"a": 1}}, {"q": {"x": 9, "a": 8}}))
        array([0.5])
    """
    return ranked.where_relevant(ranked.count_hits(rel) / ranked.n_retrieved.clip(min=1), rel)


@_set_measure("set_recall")
def set_recall(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the share of its relevant documents that was retrieved at all.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_recall(rank({"q": {"a": 1, "b": 2}}, {"q": {"x": 9, "a": 8}}))
        array([0.5])
    """
    return ranked.divide(ranked.count_hits(rel), ranked.count_relevant(rel))


@_set_measure("set_relative_p", counts_the_list=True)
def set_relative_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by its hits over the most that a list of this length could have had.

    An empty ranking has 0.

    Example:
        One hit, where two retrieved documents might have been two of the three relevant ones.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_relative_precision(rank({"q": {"a": 1, "b": 1, "c": 1}}, {"q": {"x": 9, "a": 8}}))
        array([0.5])
    """
    possible = np.minimum(ranked.n_retrieved, ranked.count_relevant(rel)).clip(min=1)
    return ranked.where_relevant(ranked.count_hits(rel) / possible, rel)


@_set_measure("set_map", counts_the_list=True)
def set_average_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by precision times recall of all that it retrieved.

    This is average precision if every relevant document stood at the mean precision of the set.

    Example:
        1/2 * 1/2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_average_precision(rank({"q": {"a": 1, "b": 2}}, {"q": {"x": 9, "a": 8}}))
        array([0.25])
    """
    # of whole numbers, divided once, as in trec_eval: equal to it to the last bit
    hits, relevant = ranked.count_hits(rel), ranked.count_relevant(rel)
    possible = ranked.n_retrieved.clip(min=1) * relevant
    return ranked.divide(np.asarray(hits, np.float64) ** 2, possible)


@_set_measure("set_f", counts_the_list=True)
def set_f(ranked: RankedGrades, *, beta: Beta = 1.0, rel: Grade = 1) -> FloatArray:
    """Score each query by the weighted harmonic mean of precision and recall of its whole list.

    `beta` weighs as in trec_eval: (1 + beta) P R / (beta P + R). Textbooks write beta squared.
    Without a hit it is 0.

    Example:
        P = 1/2, R = 1/3, beta = 2: 3 * 1/6 / (1 + 1/3).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1, "c": 1}}, {"q": {"x": 9, "a": 8}})
        >>> set_f(ranked), set_f(ranked, beta=2)
        (array([0.4]), array([0.375]))

    References:
        van Rijsbergen (1979), Information Retrieval, chapter 7.
    """
    hits, relevant = ranked.count_hits(rel), ranked.count_relevant(rel)
    precision = hits / ranked.n_retrieved.clip(min=1)
    recall = hits / relevant.clip(min=1)
    # in the order of trec_eval's operations: equal to it to the last bit
    above, below = (beta + 1.0) * precision * recall, beta * precision + recall
    return ranked.where_relevant(above / np.where(hits > 0, below, 1.0), rel)


Hit = Annotated[float, Option("Value of a relevant document that was retrieved.")]
FalseAlarm = Annotated[float, Option("Value of another document that was retrieved.")]
Miss = Annotated[float, Option("Value of a relevant document that was not retrieved.")]
Rest = Annotated[float, Option("Value of another document that was not retrieved.")]
Documents = Annotated[int, Option("Documents in the collection: -N of ragbench score.", ge=1)]


@measure(
    "utility",
    group="lists as sets",
    counts_the_list=True,
    range=(-np.inf, np.inf),
    cutoff="none",
    averages_ties=True,
    nan_means=Cause.EMPTY_RANKING,
)
def utility(
    ranked: RankedGrades,
    *,
    a: Hit = 1.0,
    b: FalseAlarm = -1.0,
    c: Miss = 0.0,
    d: Rest = 0.0,
    documents: Documents | None = None,
    rel: Grade = 1,
) -> FloatArray:
    """Score each query by what its retrieved set is worth: hits count 1 up, the others 1 down.

    For tasks such as filtering, where a list has to stop by itself. The order counts nothing, and a
    query without a relevant document has a value like any other. An empty ranking has 0 with c = d
    = 0; `d` needs `documents`.

    Example:
        One hit and two others: 1 - 2; a relevant document that was missed costs another 3.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8, "y": 7}})
        >>> utility(ranked), utility(ranked, c=-3.0)
        (array([-1.]), array([-4.]))

    References:
        Hull (1998), The TREC-7 Filtering Track: Description and Analysis. TREC.
    """
    if d and documents is None:
        allowed = "the number of documents in the collection where d is not 0: -N, or documents="
        raise OptionError("utility", "documents", None, allowed)
    hits, relevant = ranked.count_hits(rel), ranked.count_relevant(rel)
    others = ranked.n_retrieved - hits
    rest = (documents or 0) - relevant - others
    worth: FloatArray = a * hits + b * others + c * (relevant - hits) + d * rest
    return worth.astype(np.float64)


_count = partial(
    measure,
    group="counts",
    range=(0.0, np.inf),
    aggregate="sum",
    cutoff="none",
    averages_ties=True,
    nan_means=Cause.EMPTY_RANKING,
)


@_count("num_ret", counts_the_list=True)
def num_ret(ranked: RankedGrades) -> FloatArray:
    """Count the documents that each query retrieved.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> num_ret(rank({"q": {"a": 1}}, {"q": {"a": 9, "new": 8}}))
        array([2.])
    """
    return ranked.n_retrieved.astype(np.float64)


@_count("num_rel")
def num_rel(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Count the relevant documents of each query, retrieved or not.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> num_rel(rank({"q": {"a": 1, "b": 2, "c": 0}}, {}))
        array([2.])
    """
    return ranked.count_relevant(rel).astype(np.float64)


@_count("num_rel_ret")
def num_rel_ret(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Count the relevant documents that each query retrieved.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> num_rel_ret(rank({"q": {"a": 1, "b": 2}}, {"q": {"a": 9, "new": 8}}))
        array([1.])
    """
    return ranked.count_hits(rel).astype(np.float64)


@_count("num_q")
def num_q(ranked: RankedGrades) -> FloatArray:
    """Count the queries: each is 1.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> num_q(rank({"q": {"a": 1}, "r": {"a": 1}}, {"q": {"a": 9}}))
        array([1., 1.])
    """
    return np.ones(ranked.n_queries)


@_count("num_nonrel_judged_ret")
def num_nonrel_judged_ret(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Count the documents that each query retrieved and that were judged not relevant.

    A negative grade is none.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> num_nonrel_judged_ret(rank({"q": {"a": 1, "b": 0}}, {"q": {"a": 9, "b": 8, "new": 7}}))
        array([1.])
    """
    wrong = (ranked.grades >= 0) & (ranked.grades < rel)
    return np.bincount(ranked.query[wrong], minlength=ranked.n_queries).astype(np.float64)
