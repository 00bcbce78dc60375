"""What the documents of a ranking gain, and those of the best possible one."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.gain import check_exponent, read_gains
from ragbench.score.retrieval.running_sums import running_sums
from ragbench.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Gained:
    """Gains of the retrieved documents and of the judged ones, the latter best first."""

    ranked: RankedGrades
    """What gains."""
    rows: FloatArray
    """Row of `ranked` -> gain; unjudged documents have no row and gain nothing."""
    ideal: FloatArray
    """Gains of all judged documents, falling within each query; none is below 0."""

    @classmethod
    def of(
        cls, owner: str, ranked: RankedGrades, gain: str = "linear", gains: str | None = None
    ) -> Gained:
        """Read gains off grades.

        Args:
            owner: The measure, for messages.
            ranked: Grades of the retrieved documents in rank order.
            gain: `linear` or `exp`; negative grades gain nothing.
            gains: Gains of single grades, as `read_gains` reads them; only with `linear`.

        Raises:
            OptionError: `gains` cannot be read, or both are given.
            DataError: A grade is too large for `exp`.
        """
        mapping = read_gains(owner, gains, gain)
        rows = _gains(owner, ranked.grades, gain, mapping)
        ideal = np.maximum(_gains(owner, ranked.judged_grades, gain, mapping), 0.0)
        if mapping:
            ideal = ideal[np.lexsort((-ideal, ranked.judged_query))]
        return cls(ranked, rows, ideal)

    @functools.cached_property
    def n_gaining(self) -> IntArray:
        """Query -> number of judged documents that gain something."""
        gaining = self.ranked.judged_query[self.ideal > 0]
        return np.bincount(gaining, minlength=self.ranked.n_queries)

    def where_gaining(self, scores: FloatArray) -> FloatArray:
        """Keep the scores of the queries for which a document can gain anything; NaN elsewhere."""
        return np.where(self.n_gaining > 0, scores, np.nan)

    def sum_ideal(self, weights: FloatArray | None = None) -> FloatArray:
        """Add up the best ranking query by query; 0 where nothing gains."""
        values = self.ideal if weights is None else self.ideal * weights
        total = np.bincount(self.ranked.judged_query, values, minlength=self.ranked.n_queries)
        return total.astype(np.float64, copy=False)

    def ideal_down_to(
        self, query: IntArray, rank: IntArray, weights: FloatArray | None = None
    ) -> FloatArray:
        """Add up the best rankings of some queries down to some ranks from 1 on.

        Args:
            query: Positions of queries with a document that gains.
            rank: For each, the last rank that counts; may lie beyond the judged documents.
            weights: Judged document -> what its gain is multiplied with.
        """
        starts = self.ranked.judged_starts
        sums = running_sums(self.ideal if weights is None else self.ideal * weights, starts)
        last = np.minimum(rank, self.n_gaining[query])
        down_to: FloatArray = sums[starts[query] + last - 1]
        return down_to


def _gains(owner: str, grades: IntArray, gain: str, mapping: dict[int, float]) -> FloatArray:
    positive: FloatArray = np.maximum(grades, 0).astype(np.float64)
    if gain == "exp":
        check_exponent(owner, int(grades.max(initial=0)))
        positive = np.exp2(positive) - 1.0
    for grade, value in mapping.items():
        positive[grades == grade] = value
    return positive
