"""Average precision: `map` and `map@k`, and its variants `gmap`, `yaap`, `infap`, `lrap`."""

from __future__ import annotations

from functools import partial
from math import log

import numpy as np
from numpy.typing import NDArray

from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.score.retrieval.options import Divide, check_divide
from ragbench.score.retrieval.positions import number_groups
from ragbench.types import FloatArray, IntArray

# trec_eval's smallest value of a query, so that one miss does not make the whole mean 0.
FLOOR = 1e-5


_measure = partial(measure, group="average precision", range=(0.0, 1.0), cutoff="none")


@_measure("map", aliases=("average_precision",), cutoff="optional", averages_ties=True)
def average_precision(
    ranked: RankedGrades, *, k: Cutoff | None = None, divide: Divide | None = None, rel: Grade = 1
) -> FloatArray:
    """Score each query by the mean of the precisions at its relevant documents.

    A relevant document that was not retrieved adds 0: misses cost as well as late hits. A cut-off
    leaves the divisor at all R relevant documents, as in trec_eval, so that more than k of them
    keep the score below 1; `divide=min` divides by min(k, R) instead. A query that has none gets
    no value: a 0 would drag the mean down.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Number of ranks; None for all.
        divide: `min` divides by min(k, R), not by R, the number of relevant documents; needs a k.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Raises:
        OptionError: An option is not allowed, such as `divide` without k.

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
    check_divide(divide, k)
    hit = ranked.grades >= rel
    total = _tied_total(ranked, hit, k) if ranked.averaged else _total(ranked, hit, k)
    relevant = ranked.count_relevant(rel)
    # without k there is no divide=min
    return ranked.divide(total, np.minimum(relevant, k) if divide and k else relevant)


def _total(ranked: RankedGrades, hit: NDArray[np.bool_], k: int | None) -> FloatArray:
    if k is not None:
        hit = hit & (ranked.rank <= k)
    return ranked.sum(ranked.hits_so_far(hit) / ranked.rank * hit)


def _tied_total(ranked: RankedGrades, hit: NDArray[np.bool_], k: int | None) -> FloatArray:
    """Return the sum of the precisions at each query's hits, a mean over the orders of ties."""
    # With b hits before its group of m documents, r of them hits, a hit at place i of the group has
    # b + 1 + (i - 1)(r - 1)/(m - 1) hits down to it on average, and each place is as likely.
    ties = ranked.ties
    hits_above, tied = _hits_by_group(ranked, hit)
    other_hits = (tied - 1) / np.maximum(ties.size - 1, 1)
    # sum of 1/rank and of (i - 1)/rank = 1 - first/rank over the places of the group
    inverse = ties.mean(lambda rank: 1.0 / rank, k)
    places = ties.mean(np.ones_like, k) - ties.first * inverse
    return ranked.sum(hit * ((hits_above + 1) * inverse + other_hits * places))


def _hits_by_group(ranked: RankedGrades, hit: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Count, for each row, the hits of its query before its tie group, and those in the group."""
    edges, group = number_groups(ranked.query, ranked.ties.first)
    count = np.concatenate(([0], np.cumsum(hit)))
    hits_above = count[edges[group]] - count[ranked.starts[ranked.query]]
    return hits_above, count[edges[group + 1]] - count[edges[group]]


# version 2: the logarithm itself; the mean was exp of the arithmetic mean in version 1
@_measure("gmap", range=(log(FLOOR), 0.0), aggregate="geometric_mean", version=2)
def geometric_map(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the logarithm of its average precision: hard queries count more.

    The run's value is exp of the mean, a geometric mean; queries are compared on logarithms. They
    lie between ln(1e-5) and 0.

    Returns:
        Array of shape (n,), in the order of the queries; NaN for a query without a relevant
        document.

    Example:
        The only relevant document stands at rank 2, then is missed: the floor.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"d1": 1}, "r": {"d1": 1}}
        >>> run = {"q": {"d7": 9.0, "d1": 8.0}, "r": {"d7": 9.0}}
        >>> np.exp(geometric_map(rank(qrels, run)))
        array([5.e-01, 1.e-05])

    References:
        Robertson (2006), On GMAP: and other transformations. CIKM.
    """
    return floored_logarithms(average_precision(ranked, rel=rel))


def floored_logarithms(scores: FloatArray) -> FloatArray:
    """Return the natural logarithms of scores, none below that of `FLOOR`.

    `FLOOR` is 1e-5; NaN stays NaN.
    """
    return np.log(np.maximum(scores, FLOOR))


@_measure("yaap", range=(-np.inf, np.inf), of_nothing=0.0)
def yet_another_average_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the smoothed log odds of its average precision.

    With S, the sum of the precisions at the relevant documents, and R of these it is
    ln((1 + S) / (1 + R - S)). Queries rise with `map`, and may be averaged better: the ends of
    the scale are not crowded. Values lie between -ln(1 + R), where nothing is found, and ln(1 + R);
    a query without a relevant document has 0 where those count.

    Returns:
        Array of shape (n,), in the order of the queries; NaN for a query without a relevant
        document.

    Example:
        S = 1 and R = 2: ln((1 + 1) / (1 + 2 - 1)).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> yet_another_average_precision(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9}}))
        array([0.])

    References:
        Robertson (2012), On Smoothing Average Precision. ECIR.
    """
    relevant = ranked.count_relevant(rel)
    total = average_precision(ranked, rel=rel) * relevant
    return np.log((1.0 + total) / (1.0 + relevant - total))


# trec_eval's weight of the guess that a document is as likely relevant as not.
SMOOTHING = 1e-5


@_measure("infap")
def inferred_average_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by an estimate of average precision where only a sample was judged.

    A negative grade marks a document that was in the pool but not in the sample: it is taken to be
    relevant as often as the judged ones above it. A document without a grade was not in the pool
    and counts as not relevant. With complete judgements it is `map` but for a smoothing of 1e-5.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        `b` is taken to be relevant like `a`, the only one judged above `c`: (1 + 3/3) / 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"a": 1, "b": -1, "c": 1}}
        >>> inferred_average_precision(rank(qrels, {"q": {"a": 9, "b": 8, "c": 7}})).round(4)
        array([1.])

    References:
        Yilmaz and Aslam (2006), Estimating Average Precision with Incomplete and Imperfect
        Judgments. CIKM.
    """
    hit = ranked.grades >= rel
    wrong = (ranked.grades >= 0) & ~hit
    hits_above = ranked.hits_so_far(hit) - 1
    judged_above = hits_above + ranked.hits_so_far(wrong)
    pooled_above = judged_above + ranked.hits_so_far(ranked.grades < 0)
    relevant_share = (hits_above + SMOOTHING) / (judged_above + 2 * SMOOTHING)
    # in the order of trec_eval's operations: equal to it to the last bit
    above = (ranked.rank - 1).astype(np.float64)
    pooled_share = (above / ranked.rank) * (pooled_above / above.clip(min=1))
    precision: FloatArray = 1.0 / ranked.rank + pooled_share * relevant_share
    return ranked.divide(ranked.sum(hit * precision), ranked.count_relevant(rel))


@_measure("lrap")
def label_ranking_average_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by average precision with every tied document at the last rank of its tie.

    No order of equal scores can help: a system that scores all documents alike gets the share of
    relevant ones. It needs no order of ties, and refuses `ties=average`. A relevant document that
    was not retrieved adds 0.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        `a` and `x` are tied, so `a` counts at rank 2 and `b` at rank 3: (1/2 + 2/3) / 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 9, "b": 8}})
        >>> label_ranking_average_precision(ranked).round(4)
        array([0.5833])

    References:
        Tsoumakas, Katakis and Vlahavas (2010), Mining Multi-label Data. Data Mining and Knowledge
        Discovery Handbook.
    """
    hit = ranked.grades >= rel
    edges, group = number_groups(ranked.query, ranked.ties.first)
    # the hits down to the end of a tie group are those down to its last judged document
    hits_to_end = ranked.hits_so_far(hit)[edges[group + 1] - 1]
    total = ranked.sum(hit * hits_to_end / ranked.ties.last)
    return ranked.divide(total, ranked.count_relevant(rel))
