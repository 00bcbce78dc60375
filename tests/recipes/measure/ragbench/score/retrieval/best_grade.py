"""The best grade in sight: `best_grade@k`."""

from __future__ import annotations

import numpy as np

from ragbench.score.retrieval.base import Cutoff, RankedGrades, measure
from ragbench.types import FloatArray


@measure("best_grade", group="first hits", range=(0.0, 1.0), cutoff="required")
def best_grade(ranked: RankedGrades, *, k: Cutoff) -> FloatArray:
    """Score each query by the best grade of its first k documents over the best that there is.

    Example:
        Grade 1 at rank 1, where there is a document of grade 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> best_grade(rank({"q": {"a": 1, "b": 2}}, {"q": {"a": 9, "b": 8}}), k=1)
        array([0.5])
    """
    seen = (ranked.grades > 0) & (ranked.rank <= k)
    best, possible = np.zeros((2, ranked.n_queries))
    np.maximum.at(best, ranked.query[seen], ranked.grades[seen])
    np.maximum.at(possible, ranked.judged_query, ranked.judged_grades)
    return ranked.divide(best, possible)
