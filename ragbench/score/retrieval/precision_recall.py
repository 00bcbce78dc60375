"""Precision and recall: at a rank, at R, at levels of recall, and of all that was retrieved."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np

from ragbench.errors import OptionError
from ragbench.registry import Option
from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.types import Cause, FloatArray, IntArray

Multiple = Annotated[float, Option("How many times R ranks are used.", gt=0)]

RecallLevel = Annotated[float, Option("Share of the relevant documents to be found.", ge=0, le=1)]
LEVELS = tuple(tenths / 10 for tenths in range(11))
Levels = Annotated[str, Option("Levels of recall instead of the eleven, such as {0.2,0.5,0.8}.")]

_measure = partial(measure, group="precision and recall", range=(0.0, 1.0))

_set_measure = partial(
    measure, group="lists as sets", range=(0.0, 1.0), cutoff="none", averages_ties=True
)

Beta = Annotated[float, Option("How much recall counts, relative to precision.", ge=0)]


@_measure("precision", cutoff="required", averages_ties=True)
def precision(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by the share of its first k ranks that hold a relevant document.

    Ranks that a short list leaves empty count as not relevant: the divisor is k. Without k all that
    was retrieved is looked at, and divided by.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        Two of four ranks, and two of two retrieved.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"d1": 1, "d2": 1}}, {"q": {"d1": 9.0, "d2": 8.0}})
        >>> precision(ranked, k=4), precision(ranked)
        (array([0.5]), array([1.]))
    """
    hits = ranked.count_hits(rel, k)
    # a list without hits divides by 1 at least: nothing retrieved is a precision of 0
    depth: int | IntArray = k if k is not None else ranked.n_retrieved.clip(min=1)
    return ranked.where_relevant(hits / depth, rel)


@_measure("recall", cutoff="required", averages_ties=True)
def recall(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by the share of its relevant documents that is among the first k.

    Divided by all relevant documents, whatever k is. Without k all that was retrieved is looked at.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        One of two relevant documents was retrieved.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> recall(rank({"q": {"d1": 1, "d2": 1}}, {"q": {"d1": 9.0}}), k=10)
        array([0.5])
    """
    return ranked.divide(ranked.count_hits(rel, k), ranked.count_relevant(rel))


@_measure("f1", cutoff="required", averages_ties=True)
def f1(ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1) -> FloatArray:
    """Score each query by the harmonic mean of its precision and its recall.

    Without a hit it is 0. Without k it is that of all that was retrieved.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        Precision 2/3 and recall 2/10: 2 * 2 / (3 + 10).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": dict.fromkeys("abcdefghij", 1)}
        >>> f1(rank(qrels, {"q": {"a": 3, "x": 2, "b": 1}}), k=3).round(4)
        array([0.3077])
    """
    # 2PR / (P + R) with P = hits / depth and R = hits / relevant: no division by 0 without hits
    relevant = ranked.count_relevant(rel)
    depth: int | IntArray = k if k is not None else ranked.n_retrieved
    scores = ranked.divide(2 * ranked.count_hits(rel, k), relevant + depth)
    return ranked.where_relevant(scores, rel)


@_measure("r_precision", aliases=("rprec",), cutoff="none", averages_ties=True)
def r_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by its precision at R, the number of its relevant documents.

    A perfect ranking scores 1 whatever R is, which precision@k cannot promise.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        R = 2, and one of the first two is relevant.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> r_precision(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 3, "x": 2, "b": 1}}))
        array([0.5])
    """
    return _precision_at(ranked, ranked.count_relevant(rel), rel)


@_measure(
    "r_precision_mult",
    aliases=("rprec_mult",),
    cutoff="required",
    at="multiple",
    averages_ties=True,
)
def r_precision_multiple(
    ranked: RankedGrades, *, multiple: Multiple = 1.0, rel: Grade = 1
) -> FloatArray:
    """Score each query by its precision at a multiple of R, the number of its relevant documents.

    Small multiples say how precise the top is, large ones how much is found, for queries with few
    and with many relevant documents alike. `multiple * R` ranks are cut off after adding 0.9, so
    that nearly every fraction of a rank counts as one, as in trec_eval. Without a rank, where
    `multiple * R` is below a tenth, the score is 0.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        R = 2: one hit in the first rank, and in the first four.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 3, "x": 2}})
        >>> r_precision_multiple(ranked, multiple=0.5), r_precision_multiple(ranked, multiple=2)
        (array([1.]), array([0.25]))

    References:
        Buckley (2008), the program trec_eval, version 9: `Rprec_mult`.
    """
    relevant = ranked.count_relevant(rel)
    ranks = np.floor(multiple * relevant + 0.9).astype(np.int64)
    scores = _precision_at(ranked, ranks, rel)
    return ranked.where_relevant(np.where(ranks > 0, scores, 0.0), rel)


def _precision_at(ranked: RankedGrades, ranks: IntArray, rel: int) -> FloatArray:
    """Return the precision of each query at its own number of ranks; NaN for 0 ranks."""
    hit = ranked.grades >= rel
    within = ranked.weigh(np.ones_like, ranks[ranked.query])
    return ranked.divide(ranked.sum(hit * within), ranks)


@_measure("relative_p", aliases=("relative_precision",), cutoff="required", averages_ties=True)
def relative_precision(
    ranked: RankedGrades, *, k: Cutoff | None = None, rel: Grade = 1
) -> FloatArray:
    """Score each query by its hits in the first k ranks over the most that k ranks could hold.

    Precision while k is below the number of relevant documents, recall from there on: 1 is always
    within reach. Without k, the number of retrieved documents takes its place.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        One hit, where three ranks might have held both relevant documents.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> relative_precision(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8}}), k=3)
        array([0.5])

    References:
        Buckley (2008), the program trec_eval, version 9: `relative_P`.
    """
    relevant = ranked.count_relevant(rel)
    depth = ranked.n_retrieved.clip(min=1) if k is None else np.full(ranked.n_queries, k)
    return ranked.divide(ranked.count_hits(rel, k), np.minimum(depth, relevant))


@_measure("iprec_at_recall", cutoff="required", at="recall")
def iprec_at_recall(
    ranked: RankedGrades, *, recall: RecallLevel = 0.0, rel: Grade = 1
) -> FloatArray:
    """Score each query by its best precision at any rank by which that share of recall is reached.

    A share of R relevant documents is a whole number of them: `recall * R` rounded, halves up, as
    in trec_eval 10; cut off after adding 0.9 in trec_eval 9 and before. A level of no document
    gives the best precision of all ranks. A level that is not reached gives 0.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        Hits at ranks 1 and 4, all there are: 1/1 at a recall of 0.5, 2/4 at a recall of 1.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8, "y": 7, "b": 6}})
        >>> iprec_at_recall(ranked, recall=0.5), iprec_at_recall(ranked, recall=1.0)
        (array([1.]), array([0.5]))

    References:
        Manning, Raghavan and Schuetze (2008), Introduction to Information Retrieval, 8.4.
    """
    hit = ranked.grades >= rel
    so_far = ranked.hits_so_far(hit)
    n_needed = _documents(recall, ranked.count_relevant(rel), ranked.trec_eval)
    deep = hit & (so_far >= n_needed[ranked.query])
    best = np.zeros(ranked.n_queries)
    np.maximum.at(best, ranked.query[deep], so_far[deep] / ranked.rank[deep])
    return ranked.where_relevant(best, rel)


@_measure("11pt_avg", cutoff="none")
def eleven_point_average(
    ranked: RankedGrades, *, levels: Levels | None = None, rel: Grade = 1
) -> FloatArray:
    """Score each query by the mean of its interpolated precisions at recall 0, 0.1, ... 1.

    Kept for comparison with old results; `map` uses every relevant document. `levels` are other
    levels of recall, whose mean it is then: `{0.2,0.5,0.8}`.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Raises:
        OptionError: An option is not allowed, `levels` are no numbers from 0 to 1, or `ranked`
            averages over ties.

    Example:
        Precision 1 at the five levels that one of two documents reaches, 1/2 at the other six.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8, "y": 7, "b": 6}})
        >>> eleven_point_average(ranked) * 11
        array([9.5])

    References:
        Manning, Raghavan and Schuetze (2008), Introduction to Information Retrieval, 8.4.
    """
    points = LEVELS if levels is None else _levels(levels)
    total = np.zeros(ranked.n_queries)
    # from the last level to the first, as trec_eval adds them up: equal to it to the last bit
    for level in reversed(points):
        total += iprec_at_recall(ranked, recall=level, rel=rel)
    return total / len(points)


def _levels(text: str) -> tuple[float, ...]:
    """Return the levels of a text such as `{0.2,0.5,0.8}`, in its order."""
    try:
        levels = tuple(map(float, text.strip().removeprefix("{").removesuffix("}").split(",")))
    except ValueError:
        levels = (-1.0,)
    if not all(0.0 <= level <= 1.0 for level in levels):
        allowed = "numbers from 0 to 1 in braces, such as {0.2,0.5,0.8}"
        raise OptionError("11pt_avg", "levels", text, allowed)
    return levels


def _documents(recall: float, relevant: IntArray, trec_eval: int) -> IntArray:
    """Return the number of relevant documents that make up a level of recall, for each query."""
    # It is rounded as that version of trec_eval does.
    share = recall * relevant
    whole: IntArray = np.floor(share + 0.9).astype(np.int64)
    if trec_eval == 10:
        whole = np.floor(share).astype(np.int64) + (share % 1.0 >= 0.5)
    return whole


@_set_measure("set_p")
def set_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the share of all its retrieved documents that is relevant.

    An empty ranking has 0.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_precision(rank({"q": {"a": 1}}, {"q": {"x": 9, "a": 8}}))
        array([0.5])
    """
    return ranked.where_relevant(ranked.count_hits(rel) / ranked.n_retrieved.clip(min=1), rel)


@_set_measure("set_recall")
def set_recall(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the share of its relevant documents that was retrieved at all.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_recall(rank({"q": {"a": 1, "b": 2}}, {"q": {"x": 9, "a": 8}}))
        array([0.5])
    """
    return ranked.divide(ranked.count_hits(rel), ranked.count_relevant(rel))


@_set_measure("set_relative_p")
def set_relative_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by its hits over the most that a list of this length could have had.

    An empty ranking has 0.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        One hit, where two retrieved documents might have been two of the three relevant ones.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> set_relative_precision(rank({"q": {"a": 1, "b": 1, "c": 1}}, {"q": {"x": 9, "a": 8}}))
        array([0.5])
    """
    possible = np.minimum(ranked.n_retrieved, ranked.count_relevant(rel)).clip(min=1)
    return ranked.where_relevant(ranked.count_hits(rel) / possible, rel)


@_set_measure("set_map")
def set_average_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by precision times recall of all that it retrieved.

    This is average precision if every relevant document stood at the mean precision of the set.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

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


@_set_measure("set_f")
def set_f(ranked: RankedGrades, *, beta: Beta = 1.0, rel: Grade = 1) -> FloatArray:
    """Score each query by the weighted harmonic mean of precision and recall of its whole list.

    `beta` weighs as in trec_eval: (1 + beta) P R / (beta P + R). Textbooks write beta squared.
    Without a hit it is 0.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

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


@_set_measure("utility", range=(-np.inf, np.inf), nan_means=Cause.EMPTY_RANKING)
def utility(
    ranked: RankedGrades,
    *,
    a: Annotated[float, Option("Value of a relevant document that was retrieved.")] = 1.0,
    b: Annotated[float, Option("Value of another document that was retrieved.")] = -1.0,
    c: Annotated[float, Option("Value of a relevant document that was not retrieved.")] = 0.0,
    d: Annotated[float, Option("Value of another document that was not retrieved.")] = 0.0,
    documents: Annotated[
        int | None, Option("Documents in the collection: -N of ragbench score.", ge=1)
    ] = None,
    rel: Grade = 1,
) -> FloatArray:
    """Score each query by what its retrieved set is worth: hits count 1 up, the others 1 down.

    For tasks such as filtering, where a list has to stop by itself. The order counts nothing, and a
    query without a relevant document has a value like any other. An empty ranking has 0 with c = d
    = 0; `d` needs `documents`.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), without bounds and never NaN.

    Raises:
        OptionError: An option is not allowed, or `d` is not 0 and `documents` is None.

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
    false_alarms = ranked.n_retrieved - hits
    passed_over = (documents or 0) - relevant - false_alarms
    worth: FloatArray = a * hits + b * false_alarms + c * (relevant - hits) + d * passed_over
    return worth.astype(np.float64)
