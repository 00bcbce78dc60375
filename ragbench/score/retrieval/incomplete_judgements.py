"""Measures for incomplete judgements: `bpref`, `gm_bpref`, `judged@k`, `unjudged@k`."""

from __future__ import annotations

from functools import partial
from math import log

import numpy as np

from ragbench.score.retrieval.average_precision import FLOOR, floored_logarithms
from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.types import Cause, FloatArray

_measure = partial(measure, group="incomplete judgements", range=(0.0, 1.0))
_share_of_list = partial(_measure, cutoff="required", nan_means=Cause.EMPTY_RANKING)


@_measure("bpref", cutoff="none")
def bpref(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by how rarely a judged non-relevant document precedes a relevant one.

    A retrieved relevant document counts 1 - min(n, R) / min(R, N), with n of the N judged
    non-relevant ones above it, and 1 if n is 0. The sum is divided by the number R of relevant
    documents. Unjudged documents are left out of the ranking instead of counting as not relevant,
    so the measure is kind to systems that were not judged themselves. Negative grades count as
    unjudged.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN for a query without a relevant document.

    Example:
        R = 2, N = 2: nothing precedes `a`, one of min(R, N) = 2 precedes `b`: (1 + 1/2) / 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"a": 1, "b": 1, "x": 0, "y": 0}}
        >>> bpref(rank(qrels, {"q": {"a": 9, "new": 8, "x": 7, "b": 6}}))
        array([0.75])

    References:
        Buckley and Voorhees (2004), Retrieval Evaluation with Incomplete Information. SIGIR.
    """
    relevant = ranked.count_relevant(rel)
    pool = ranked.count_relevant(0)
    hit = ranked.grades >= rel
    wrong = (ranked.grades >= 0) & ~hit
    wrong_so_far = ranked.hits_so_far(wrong)
    worst = np.minimum(relevant, pool - relevant)[ranked.query]
    # with no wrong document so far the numerator is 0 whatever the divisor: 1 avoids 0 / 0
    share = np.minimum(wrong_so_far, relevant[ranked.query]) / np.maximum(worst, 1)
    total = np.bincount(ranked.query, weights=hit * (1.0 - share), minlength=ranked.n_queries)
    return ranked.divide(total, relevant)


@_measure("gm_bpref", range=(log(FLOOR), 0.0), aggregate="geometric_mean", cutoff="none")
def geometric_bpref(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the logarithm of its `bpref`: hard queries count more.

    The run's value is exp of the mean, a geometric mean; queries are compared on logarithms. They
    lie between ln(1e-5) and 0.

    Returns:
        Array of shape (n,), in the order of the queries; NaN for a query without a relevant
        document.

    Example:
        The documents of a perfect query and one whose relevant document is missed: the floor.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"d1": 1}, "r": {"d1": 1}}
        >>> np.exp(geometric_bpref(rank(qrels, {"q": {"d1": 8.0}, "r": {"d7": 9.0}})))
        array([1.e+00, 1.e-05])

    References:
        Robertson (2006), On GMAP: and other transformations. CIKM.
    """
    return floored_logarithms(bpref(ranked, rel=rel))


@_share_of_list("judged")
def judged(ranked: RankedGrades, *, k: Cutoff | None = None) -> FloatArray:
    """Score each query by the share of its first k documents that has a judgement.

    Low values say that the other measures rest on few judgements: not that a system is bad. Where
    fewer than k were retrieved, or without k, it is the share of all of these. A negative grade
    counts as a judgement here. The value is NaN where nothing was retrieved.

    Returns:
        Array of shape (n,), values in [0, 1].

    Example:
        One of two retrieved documents is judged.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> judged(rank({"q": {"a": 0, "b": 1}}, {"q": {"a": 9, "new": 8}}), k=10)
        array([0.5])
    """
    rows = ranked.query if k is None else ranked.query[ranked.rank <= k]
    depth = ranked.n_retrieved if k is None else np.minimum(ranked.n_retrieved, k)
    return ranked.divide(np.bincount(rows, minlength=ranked.n_queries), depth)


@_share_of_list("unjudged", aliases=("unj",), direction="lower", averages_ties=True)
def unjudged(ranked: RankedGrades, *, k: Cutoff | None = None) -> FloatArray:
    """Score each query by the share of its first k ranks that holds a document without judgement.

    Negative grades count as unjudged, and ranks beyond a short list as judged, so that `judged@k`
    is not its complement there. Without k the divisor is the number of retrieved documents. An
    empty ranking has the value 0. With averaged ties the value is the mean over all orders of tied
    documents.

    Returns:
        Array of shape (n,), values in [0, 1], in the order of the queries; never NaN.

    Raises:
        OptionError: `k` is below 1.

    Example:
        One unjudged document in the first four ranks, two of which are empty.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> unjudged(rank({"q": {"a": 0, "b": 1}}, {"q": {"a": 9, "new": 8}}), k=4)
        array([0.25])

    References:
        Soboroff (2023), the program trec_eval, version 10: `unj`.
    """
    depth = ranked.n_retrieved if k is None else np.minimum(ranked.n_retrieved, k)
    judged_ones = ranked.sum((ranked.grades >= 0) * ranked.weigh(np.ones_like, k))
    ranks = depth.clip(min=1) if k is None else np.full(ranked.n_queries, k)
    return ranked.divide(depth - judged_ones, ranks)
