"""Expected reciprocal rank: `err(max=4)@k`."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ragbench.registry import Option
from ragbench.score.retrieval.base import Cutoff, RankedGrades, measure
from ragbench.score.retrieval.gain import LARGEST_EXPONENT
from ragbench.types import FloatArray

LargestGrade = Annotated[
    int, Option("The grade that satisfies for certain, almost.", ge=1, le=LARGEST_EXPONENT)
]


@measure("err", range=(0.0, 1.0), from_qrels={"max": lambda ranked: ranked.max_grade})
def err(
    ranked: RankedGrades,
    *,
    k: Cutoff | None = None,
    max: LargestGrade | None = None,
) -> FloatArray:
    """Score each query by the expected 1 / rank at which a reader is satisfied and stops.

    A document satisfies with chance (2^grade - 1) / 2^max, so what stands behind a very good one
    hardly counts.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        k: Look at the first k ranks only.
        max: The top of the scale of grades, larger ones count as it; None takes the largest grade
            in the qrels.

    Returns:
        Array of shape (n,), values in [0, 1); NaN where a query has no relevant document.

    Raises:
        OptionError: k or max is below 1, or max is above 1000.

    Example:
        Grade 1 of 1 at ranks 1 and 2: 1/2 + 1/2 * 1/2 * 1/2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> err(rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "b": 8}}))
        array([0.625])

    References:
        Chapelle et al. (2009), Expected Reciprocal Rank for Graded Relevance. CIKM.
    """
    top = min(LARGEST_EXPONENT, ranked.max_grade) if max is None else max
    grades = ranked.grades.clip(0, top).astype(np.float64)
    satisfies = np.exp2(grades - top) - np.exp2(float(-top))
    if k is not None:
        satisfies *= ranked.rank <= k
    total, unsatisfied = np.zeros(ranked.n_queries), np.ones(ranked.n_queries)
    # A running product over ranks cannot be had from one over all queries without losing digits,
    # so the loop is over the hits of the longest list, all queries at once.
    n_rows = np.diff(ranked.starts)
    for place in range(n_rows.max(initial=0)):
        queries = np.flatnonzero(n_rows > place)
        rows = ranked.starts[queries] + place
        total[queries] += unsatisfied[queries] * satisfies[rows] / ranked.rank[rows]
        unsatisfied[queries] *= 1.0 - satisfies[rows]
    return ranked.where_relevant(total)
