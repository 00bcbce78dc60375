"""Score columns: one value per item, and for each missing value its cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from ragbench.types.scores import Cause, Direction

if TYPE_CHECKING:  # no NumPy at run time: a single list or text is scored without it
    from ragbench.signature import Signature
    from ragbench.types.rows import BoolArray, CauseArray, FloatArray, IntArray

# Rule by which the values of the queries become one number. `corpus` computes the number from all
# texts at once; the value of a query is then its influence on the number, in units of a mean.
Aggregate = Literal["mean", "sum", "geometric_mean", "corpus"]


def aggregate(values: FloatArray, how: Aggregate) -> float:
    """Return the mean, sum or geometric mean of scored values; no values give NaN, but a sum 0.

    The values are finite and have no NaN; for `geometric_mean` they are logarithms. `corpus` gives
    the mean.
    """
    # fsum is exact, so that the order of the items changes no bit of the result.
    total = math.fsum(values)
    if how == "sum":
        return total
    if not len(values):
        return math.nan
    mean = total / len(values)
    return math.exp(mean) if how == "geometric_mean" else mean


# Part `interval` of the signature of a share whose interval is one-sided: 0 to an exact limit.
UPPER_LIMIT = "upper"


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """Values of n items by one measure or metric, with the cause of each missing value.

    The constructor checks nothing. `mean` is the aggregate, NaN without values (0 for a sum).
    `without_scores` and `take` return new columns.

    Attributes:
        name: Name as the caller wrote it, such as `ndcg@10`, `rouge1` or `faithfulness`.
        values: Shape (n,), float64; NaN for an item without a value.
        causes: Shape (n,), uint8; `Cause.SCORED` exactly for the items with a value.
        signature: Measure with its parameters and versions.
        direction: `higher` or `lower`, whichever is better.
        low: Smallest possible value of one item; -inf if unbounded.
        high: Largest possible value of one item; inf if unbounded.
        aggregate: Rule by which the values become one number.
        total: Aggregate computed elsewhere, as for `corpus`; None computes it from the values.
        details: Error message by row; rows without one are absent.
        answer_causes: Shape (n, samples): cause of each answer, if the value of an item is the mean
            over several answers; None if each item is one answer. Where repetitions of a judge
            failed, it has the cause of each repetition on each answer.
    """

    name: str
    values: FloatArray
    causes: CauseArray
    signature: Signature
    direction: Direction = "higher"
    low: float = 0.0
    high: float = 1.0
    aggregate: Aggregate = "mean"
    total: float | None = None
    details: Mapping[int, str] = field(default_factory=dict)
    answer_causes: CauseArray | None = field(default=None, repr=False)

    @property
    def mean(self) -> float:
        """Aggregate over the scored items; NaN if no item is scored, but 0 for a sum."""
        if self.total is not None:
            return self.total
        return aggregate(self.values[self.causes == Cause.SCORED], self.aggregate)

    @property
    def verdict_causes(self) -> CauseArray:
        """Cause of each answer, or of each item if an item is one answer."""
        return self.causes if self.answer_causes is None else self.answer_causes

    def without_scores(self, rows: BoolArray | bool, cause: Cause) -> ScoreColumn:
        """Return the column with NaN and a cause in place of the scores of some items.

        `rows` is True for these items, shape (n,), or for all; items that have a cause keep it. A
        stored `total` is kept, but is NaN if no score is left: the sum over no items would be 0.
        """
        values, causes = self.values.copy(), self.causes.copy()
        replaced = rows & (causes == Cause.SCORED)
        values[replaced], causes[replaced] = math.nan, cause
        total = self.total if (causes == Cause.SCORED).any() else math.nan
        return replace(self, values=values, causes=causes, total=total)

    def failure_texts(self) -> Iterator[str]:
        """Yield the error message of each failed item that has one, in the order of the items."""
        for row in sorted(self.details):
            if self.details[row] and Cause(int(self.causes[row])).failed:
                yield self.details[row]

    def take(self, rows: IntArray) -> ScoreColumn:
        """Return the column of some items, in the order of `rows`, without `details`.

        A stored `total` is kept if `rows` has as many items as the column; else `mean` is computed
        from the values of the items.
        """
        return replace(
            self,
            values=self.values[rows],
            causes=self.causes[rows],
            answer_causes=None if self.answer_causes is None else self.answer_causes[rows],
            total=self.total if len(rows) == len(self.values) else None,
            details={},
        )
