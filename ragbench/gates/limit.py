"""`min`, `max` and `failed`: a mean, a cost, or the share of failed items keeps a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from ragbench.comparison.pairs import SHOWN_QUERIES
from ragbench.comparison.systems import bounds_of, is_open, summarize, with_failed_at
from ragbench.gates.base import (
    COSTS,
    Candidate,
    DecideBy,
    Decision,
    Entry,
    MeasureGate,
    Most,
    SystemGate,
    out_of_range,
    unless_turned,
    within,
)
from ragbench.gates.scores import KnownScore
from ragbench.records.gate import Facts, WorseQuery
from ragbench.records.score import SystemScore
from ragbench.records.summary import Latency, SystemSummary, Timing, Tokens
from ragbench.registry import Option
from ragbench.types import Cause, ScoreColumn


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
        return f"{self.measure} {'<=' if self.min is None else '>='} {self.limit:g}{how}"

    @property
    def limit(self) -> float:
        """The one of `min` and `max` that is given."""
        return float(self.max or 0) if self.min is None else self.min

    def check_condition(self, entry: Entry, score: KnownScore | None) -> None:
        """Note a limit on the worse side, or out of the range of the score."""
        if score is None:
            return
        key = "max" if self.min is None else "min"
        wanted = "min" if score.direction == "higher" else "max"
        if key != wanted:
            entry.wrong(key, f"{score.direction} {score.name} is better", f"{wanted}: a number")
        elif score.aggregate != "sum" and not score.low <= self.limit <= score.high:
            out_of_range(entry, key, score.low, score.high)

    def decide_system(self, held: Candidate) -> Decision:
        """Decide by the column of the score; what did not pass names its five worst queries."""
        column = held.column
        found = self.decide_column(column, held.run.method.confidence)
        if found.verdict == "pass" or column.aggregate != "mean":
            return found
        ids, sign = held.run.scored.query_ids, -1 if self.min is None else 1
        badly = sign * column.values
        worst = tuple(
            WorseQuery(query_id=ids[row], score=float(column.values[row]))
            for row in np.argsort(badly, kind="stable")[:SHOWN_QUERIES].tolist()  # NaN comes last
            if badly[row] < sign * self.limit
        )
        return replace(found, worst_queries=worst)

    def decide_column(self, column: ScoreColumn, confidence: float = 0.95) -> Decision:
        """Decide whether the mean of a score, or the worse end of its interval, reaches the limit.

        Queries that failed count at their worst and at their best: a verdict that they could turn
        is undecided. A score of no query is undecided.

        Example:
            >>> from ragbench.signature import Signature
            >>> hits = ScoreColumn(
            ...     "hit", np.array([1.0, 1.0, 1.0, 0.0]), np.zeros(4, np.uint8), Signature("hit"))
            >>> gate = Limit(measure="hit", min=0.7)
            >>> gate.decide_column(hits).verdict
            'pass'
            >>> replace(gate, decide="interval").decide_column(hits).why
            'mean 0.75 [0.3006, 0.9544] over 4 queries; its lower end is compared'
        """
        found = summarize(column, confidence=confidence)
        n_failed = int(is_open(column).sum())
        ends = found.interval or (None, None)
        low, high = map(_float, ends)
        facts = Facts(mean=found.mean, interval=ends, n=found.n, n_failed=n_failed)
        value = self._compared(found)
        if math.isnan(value):
            failed = f"; {n_failed} failed" if n_failed else ""
            nothing = "the score has no interval" if found.n else f"nothing was scored{failed}"
            return Decision("undecided", nothing, facts)
        verdict = within(value, self.min, self.max)
        why = f"mean {found.mean:.4g} over {found.n} queries"
        if self.decide == "interval":
            why = f"mean {found.mean:.4g} [{low:.4g}, {high:.4g}] over {found.n} queries; "
            why += f"its {'upper' if self.min is None else 'lower'} end is compared"
        values = self._at_worst_and_best(column, confidence) if n_failed else ()
        at_ends = ("undecided" if math.isnan(v) else within(v, self.min, self.max) for v in values)
        return unless_turned(Decision(verdict, why, facts), n_failed, at_ends)

    def _compared(self, summary: SystemScore) -> float:
        """The number that is compared with the limit; NaN where there is none."""
        if self.decide != "interval":
            return _float(summary.mean)
        return _float((summary.interval or (None, None))[1 if self.min is None else 0])

    def _at_worst_and_best(self, column: ScoreColumn, confidence: float) -> tuple[float, float]:
        """The same number with all that failed at one end, then at the other."""
        if self.decide != "interval":
            return bounds_of(column)
        bounded = math.isfinite(column.low) and math.isfinite(column.high)
        if not bounded or column.total is not None:  # it could be anything
            return (math.nan, math.nan)
        causes = np.where(is_open(column), Cause.SCORED, column.causes).astype(np.uint8)
        low, high = (
            summarize(
                replace(column, values=values, causes=causes, answer_causes=None),
                confidence=confidence,
            )
            for values in (with_failed_at(column, end) for end in (column.low, column.high))
        )
        return (self._compared(low), self._compared(high))


def _float(value: float | None) -> float:
    return math.nan if value is None else value


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

    def decide_system(self, held: Candidate) -> Decision:
        """Compare the cost as `summary.json` has it."""
        run = held.run.summary
        system = None if run is None else run.system(held.system.name)
        if run is None or system is None:
            return self.decide_value(None)
        return self.decide_value(_cost(system, run.timing, self.measure))

    def decide_value(self, value: float | None) -> Decision:
        """Decide by what a system took; None where that is not known."""
        if value is None:
            return Decision("undecided", "not known", Facts(value=None))
        return Decision(within(value, None, self.max), f"it is {value:.4g}", Facts(value=value))


def _cost(system: SystemSummary, timing: Timing, cost: str) -> float | None:
    latency, tokens = timing.of(system.name).latency_ms or Latency(), system.tokens or Tokens()
    known = (latency.p50, latency.p95, tokens.input, tokens.output, system.usd)
    return dict(zip(COSTS, known, strict=True))[cost]


@dataclass(frozen=True, kw_only=True)
class Failed(SystemGate):
    """At most a share of the items of a score failed."""

    subject = "failed"
    conditions = ("max",)

    failed: Annotated[
        str, Option("A score; `max` is the largest share of its items that may fail.")
    ]
    max: Most

    @property
    def about(self) -> str:
        """The score."""
        return self.failed

    @property
    def text(self) -> str:
        """The condition."""
        return f"failed {self.failed} <= {self.max:g}"

    def check_condition(self, entry: Entry, score: KnownScore | None) -> None:
        """The limit is a share."""
        if not 0 <= self.max <= 1:
            out_of_range(entry, "max", 0, 1)

    def decide_system(self, held: Candidate) -> Decision:
        """Decide by the column of the score."""
        return self.decide_column(held.column)

    def decide_column(self, column: ScoreColumn) -> Decision:
        """Decide by the items of a score; those that it does not apply to are not among them.

        Where a query has several answers, each of them is an item.
        """
        codes = column.causes if column.answer_causes is None else column.answer_causes
        counts = {Cause(code): n for code, n in enumerate(np.bincount(codes.ravel())) if n}
        failed = {cause.word: int(n) for cause, n in counts.items() if cause.failed}
        n_scored, n_failed = int(counts.get(Cause.SCORED, 0)), sum(failed.values())
        n = n_scored + n_failed
        facts = Facts(n=n_scored, n_failed=n_failed)
        if not n:
            return Decision("undecided", "the score applies to no query", facts)
        causes = ", ".join(f"{count} {cause}" for cause, count in failed.items())
        why = f"{n_failed} of {n} failed" + (f" ({causes})" if causes else "")
        return Decision(within(n_failed / n, None, self.max), why, facts)
