"""Rank-biased precision: `rbp(p=0.8)`."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ragbench.registry import Option
from ragbench.score.retrieval.base import Cutoff, Grade, RankedGrades, measure
from ragbench.types import FloatArray

Persistence = Annotated[
    float, Option("Chance that a reader goes on from one rank to the next.", gt=0, lt=1)
]
RbpGain = Annotated[
    Literal["binary", "graded"], Option("Relevant or not, or the grade over the largest grade.")
]


@measure("rbp", range=(0.0, 1.0))
def rbp(
    ranked: RankedGrades,
    *,
    k: Cutoff | None = None,
    p: Persistence = 0.8,
    rel: Grade = 1,
    gain: RbpGain = "binary",
) -> FloatArray:
    """Score each query by what a reader finds who leaves after each rank with chance 1 - p.

    A perfect ranking of few relevant documents stays below 1: the reader finds nothing behind
    them.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only.
        p: Persistence: 0.5 looks at about two documents, 0.8 at five, 0.95 at twenty.
        rel: Smallest grade that counts as relevant.
        gain: `binary` counts relevant documents; `graded` counts each by its grade over the
            largest grade in the qrels.

    Returns:
        Array of shape (n,), values in [0, 1); NaN where a query has no relevant document.

    Raises:
        OptionError: k or rel is below 1, p is not between 0 and 1, or there is no such gain.

    Example:
        Hits at ranks 1 and 3: 0.5 * (1 + 0.5^2).

        >>> from ragbench.score.retrieval.ranking import rank
        >>> rbp(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8, "b": 7}}), p=0.5)
        array([0.625])

    References:
        Moffat and Zobel (2008), Rank-biased precision for measurement of retrieval effectiveness.
        TOIS.
    """
    counts = (ranked.grades >= rel) & (ranked.rank <= (k or np.inf))
    worth = counts * (ranked.grades / ranked.max_grade if gain == "graded" else 1.0)
    weights = worth * (1.0 - p) * np.power(float(p), ranked.rank - 1)
    total = np.bincount(ranked.query, weights=weights, minlength=ranked.n_queries)
    return ranked.where_relevant(total, rel)
