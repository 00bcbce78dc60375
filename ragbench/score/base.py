"""What every measure, metric and judge returns: a column of values with causes and a signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # no NumPy at run time: a single list or text is scored without it
    from ragbench.signature import Signature
    from ragbench.types import CauseArray, Direction, FloatArray, IntArray

Aggregate = Literal["mean", "sum", "geometric_mean", "corpus"]
"""How the values of the queries become one number; `corpus`: computed from all of them at once,
and each value is what its query moves that number by, in units of a mean."""

Advance = Callable[[int], None]
"""Told how many items have just been done."""


@dataclass(frozen=True, slots=True)
class Look:
    """When a judge that may stop early did, which all that is said of its scores allows for."""

    number: int
    """Which of the planned looks was the last; from 1."""
    sizes: tuple[int, ...]
    """After how many queries, or clusters, each planned look is; the last is all of them."""
    judged: int
    """How many queries were judged."""
    queries: int
    always_valid: bool = False
    """Whether intervals hold whenever one looks, not at the planned looks alone."""
    places: IntArray | None = field(default=None, repr=False, compare=False)
    """Shape (n,): when the query of each row came, for bets in that order."""

    @property
    def stopped(self) -> bool:
        """Whether queries were left out."""
        return self.judged < self.queries


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One score of every item: n values, and for each missing one the cause."""

    name: str
    """As the caller wrote it: `ndcg@10`, `rouge1`, `faithfulness`."""
    values: FloatArray
    """Shape (n,); NaN where there is no value."""
    causes: CauseArray
    """Shape (n,), uint8; `Cause.SCORED` exactly where there is a value."""
    signature: Signature
    direction: Direction = "higher"
    low: float = 0.0
    """The smallest possible value of one item; -inf where unbounded."""
    high: float = 1.0
    """The largest possible value of one item; inf where unbounded."""
    aggregate: Aggregate = "mean"
    """How the values become one number."""
    total: float | None = None
    """That number where it is not computed from the values."""
    details: Mapping[int, str] = field(default_factory=dict)
    """Row -> what went wrong there, in words."""
    look: Look | None = None
    """When its judge stopped, or could have; None for a score that is always of all items."""
    answer_causes: CauseArray | None = field(default=None, repr=False)
    """Shape (n, samples): the cause of each answer where an item has several, whose mean it is;
    None where each item is one answer."""
