"""A score column: one value per item, and for each missing value its cause."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from ragbench.types.scores import Cause, Direction

if TYPE_CHECKING:  # no NumPy at run time: a single list or text is scored without it
    from ragbench.signature import Signature
    from ragbench.types.rows import CauseArray, FloatArray, IntArray

# How the values of the queries become one number; `corpus`: computed from all of them at once, and
# each value is what its query moves that number by, in units of a mean.
Aggregate = Literal["mean", "sum", "geometric_mean", "corpus"]


def aggregate(values: FloatArray, how: Aggregate) -> float:
    """Return the one number of scored values: NaN for the mean of none, 0 for their sum."""
    # fsum: the order of the items moves no bit
    total = math.fsum(values)
    if how == "sum":
        return total
    if not len(values):
        return math.nan
    mean = total / len(values)
    return math.exp(mean) if how == "geometric_mean" else mean


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One score of every item: n values, and for each missing one the cause.

    Attributes:
        name: As the caller wrote it: `ndcg@10`, `rouge1`, `faithfulness`.
        values: Shape (n,); NaN where there is no value.
        causes: Shape (n,), uint8; `Cause.SCORED` exactly where there is a value.
        low: The smallest possible value of one item; -inf where unbounded.
        high: The largest possible value of one item; inf where unbounded.
        aggregate: How the values become one number.
        total: That number where it is not computed from the values.
        details: Row -> what went wrong there, in words.
        answer_causes: Shape (n, samples): the cause of each answer where an item has several, whose
            mean it is; None where each item is one answer.
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
        """The aggregate over the scored items; NaN where none is scored, 0 for a sum of none."""
        if self.total is not None:
            return self.total
        return aggregate(self.values[self.causes == Cause.SCORED], self.aggregate)

    def take(self, rows: IntArray) -> ScoreColumn:
        """Return the column of some items, in the order of `rows`.

        A score of a whole corpus is, over a part of it, the mean of what its items moved the whole
        by; over all items, in any order, it is what it was.
        """
        return replace(
            self,
            values=self.values[rows],
            causes=self.causes[rows],
            answer_causes=None if self.answer_causes is None else self.answer_causes[rows],
            total=self.total if len(rows) == len(self.values) else None,
            details={},
        )
