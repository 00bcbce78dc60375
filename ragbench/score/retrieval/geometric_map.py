"""Geometric means over the queries: `gmap` of average precision, `gm_bpref` of bpref."""

from __future__ import annotations

from math import log

import numpy as np

from ragbench.score.retrieval.average_precision import average_precision
from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.score.retrieval.bpref import bpref
from ragbench.types import FloatArray

FLOOR = 1e-5
"""trec_eval's smallest value of a query, so that one miss does not make the whole mean 0."""


# version 2: the logarithm itself; the mean was exp of the arithmetic mean in version 1
@measure("gmap", range=(log(FLOOR), 0.0), aggregate="geometric_mean", cutoff="none", version=2)
def geometric_map(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the logarithm of its average precision: hard queries count more.

    The run's value is exp of the mean, a geometric mean; queries are compared on logarithms.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), natural logarithms from ln(1e-5) to 0; NaN where a query has no
        relevant document.

    Raises:
        OptionError: rel is below 1.

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
    return _logarithms(average_precision(ranked, rel=rel))


@measure("gm_bpref", range=(log(FLOOR), 0.0), aggregate="geometric_mean", cutoff="none")
def geometric_bpref(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by the logarithm of its `bpref`: hard queries count more.

    The run's value is exp of the mean, a geometric mean; queries are compared on logarithms.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), natural logarithms from ln(1e-5) to 0; NaN where a query has no
        relevant document.

    Raises:
        OptionError: rel is below 1.

    Example:
        The documents of a perfect query and one whose relevant document is missed: the floor.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"d1": 1}, "r": {"d1": 1}}
        >>> np.exp(geometric_bpref(rank(qrels, {"q": {"d1": 8.0}, "r": {"d7": 9.0}})))
        array([1.e+00, 1.e-05])

    References:
        Robertson (2006), On GMAP: and other transformations. CIKM.
    """
    return _logarithms(bpref(ranked, rel=rel))


def _logarithms(scores: FloatArray) -> FloatArray:
    logarithms: FloatArray = np.log(np.maximum(scores, FLOOR))
    return logarithms
