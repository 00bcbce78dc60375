"""`min` and `max`: the mean of a score, or a cost, is at least, or at most, a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from ragbench.comparison.summary import ScoreSummary, finite, summarize
from ragbench.comparison.systems import SystemScores
from ragbench.gates.base import (
    Decide,
    DecideBy,
    Decision,
    Entry,
    GatedRun,
    MeasureGate,
    Most,
    Systems,
    out_of_range,
    within,
)
from ragbench.gates.scores import KnownScore
from ragbench.registry import Option
from ragbench.score.base import ScoreColumn
from ragbench.types import Cause


@dataclass(frozen=True, kw_only=True)
class Limit(MeasureGate):
    """The mean of a score reaches `min`, or where lower is better, is at most `max`."""

    conditions = ("min", "max")

    min: Annotated[float | None, Option("The mean is at least this.")] = None
    max: Most | None = None
    decide: DecideBy = None

    @property
    def text(self) -> str:
        """The condition.

        Example:
            >>> Limit(measure="recall@10", min=0.8, decide="interval").text
            'recall@10 >= 0.8 (interval)'
        """
        how = f" ({self.decide})" if self.decide else ""
        sign = "<=" if self.min is None else ">="
        return f"{self.measure} {sign} {self.limit:g}{how}"

    @property
    def limit(self) -> float:
        """The one of `min` and `max` that is given."""
        return float(self.max or 0) if self.min is None else self.min

    def check_condition(self, entry: Entry, score: KnownScore | None) -> None:
        """The limit is on the side that is better, and in the range of the score."""
        if score is None:
            return
        key = "max" if self.min is None else "min"
        wanted = "min" if score.direction == "higher" else "max"
        if key != wanted:
            entry.wrong(key, f"{score.direction} {score.name} is better", f"{wanted}: a number")
        elif score.aggregate != "sum" and not score.low <= self.limit <= score.high:
            out_of_range(entry, key, score.low, score.high)

    def decide_system(
        self, system: SystemScores, score: str, having: Systems, run: GatedRun
    ) -> Decision:
        """Compare the mean, or the worse end of its interval."""
        return decide_score(
            system.columns[score],
            least=self.min,
            most=self.max,
            decide=self.decide or "mean",
            confidence=run.method.confidence,
        )

    def is_settled(self, found: Decision) -> bool:
        """Whether the interval does not hold the limit."""
        low, high = found.facts.get("interval") or (None, None)
        return low is not None and high is not None and not low <= self.limit <= high


@dataclass(frozen=True, kw_only=True)
class Cost(MeasureGate):
    """A latency, a price or a number of tokens is at most `max`."""

    conditions = ("max",)
    of = "cost"

    max: Most

    @property
    def text(self) -> str:
        """The condition."""
        return f"{self.measure} <= {self.max:g}"

    def decide_system(
        self, system: SystemScores, score: str, having: Systems, run: GatedRun
    ) -> Decision:
        """Compare the cost as `summary.json` has it."""
        return decide_cost(run.costs.get(system.name, {}).get(score), self.max)


def decide_score(
    column: ScoreColumn,
    *,
    least: float | None = None,
    most: float | None = None,
    decide: Decide = "mean",
    confidence: float = 0.95,
) -> Decision:
    """Decide whether the mean of a score is at least, or at most, a limit.

    Queries that failed count at their worst and at their best: a verdict that they could turn is
    undecided. A score of no query is undecided.

    Args:
        column: The score of all queries.
        least: `min:`; either this or `most` is given.
        most: `max:`.
        decide: `mean` compares the mean, `interval` the worse end of its interval.
        confidence: Of the interval.

    Returns:
        The verdict; its facts hold mean, interval, and how many queries were scored and failed.

    Example:
        >>> from ragbench.signature import Signature
        >>> hits = ScoreColumn(
        ...     "hit", np.array([1.0, 1.0, 1.0, 0.0]), np.zeros(4, np.uint8), Signature("hit"))
        >>> decide_score(hits, least=0.7).verdict
        'pass'
        >>> decide_score(hits, least=0.7, decide="interval").why
        'mean 0.75 [0.3006, 0.9544] over 4 queries; its lower end is compared'
    """
    found = summarize(column, confidence=confidence)
    n_failed = sum(found.failed.values())
    facts = {
        "mean": finite(found.mean),
        "interval": [finite(end) for end in found.interval],
        "n": found.n,
        "n_failed": n_failed,
    }
    is_least = least is not None
    value = _compared(found, is_least, decide)
    if math.isnan(value):
        failed = f"; {n_failed} failed" if n_failed else ""
        nothing = "the score has no interval" if found.n else f"nothing was scored{failed}"
        return Decision("undecided", nothing, facts)
    verdict = within(value, least, most)
    why = f"mean {found.mean:.4g} over {found.n} queries"
    if decide == "interval":
        low, high = found.interval
        why = f"mean {found.mean:.4g} [{low:.4g}, {high:.4g}] over {found.n} queries; "
        why += f"its {'lower' if is_least else 'upper'} end is compared"
    if n_failed:
        ends = _at_worst_and_best(column, found, is_least, decide, confidence)
        if any(math.isnan(end) or within(end, least, most) != verdict for end in ends):
            turned = f"{n_failed} queries failed, which could turn {verdict}; of the others: {why}"
            return Decision("undecided", turned, facts)
    return Decision(verdict, why, facts)


def decide_cost(value: float | None, most: float) -> Decision:
    """Decide whether a latency, a price or a number of tokens is at most a limit."""
    if value is None:
        return Decision("undecided", "not known", {"value": None})
    return Decision(within(value, None, most), f"it is {value:.4g}", {"value": value})


def _compared(found: ScoreSummary, is_least: bool, decide: Decide) -> float:
    """The number that is held against the limit; NaN where there is none."""
    return found.interval[0 if is_least else 1] if decide == "interval" else found.mean


def _at_worst_and_best(
    column: ScoreColumn, found: ScoreSummary, is_least: bool, decide: Decide, confidence: float
) -> tuple[float, float]:
    """The same number with every failed item at one end, then at the other."""
    if decide == "mean":
        return found.bounds
    bounded = math.isfinite(column.low) and math.isfinite(column.high)
    if not bounded or column.total is not None:  # it could be anything
        return (math.nan, math.nan)
    failed = np.array([Cause(code).failed for code in column.causes.tolist()])
    causes = np.where(failed, Cause.SCORED, column.causes).astype(np.uint8)
    low, high = (
        summarize(
            replace(column, values=np.where(failed, end, column.values), causes=causes),
            confidence=confidence,
        )
        for end in (column.low, column.high)
    )
    return (_compared(low, is_least, decide), _compared(high, is_least, decide))
