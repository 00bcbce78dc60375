"""Gates `min` and `max`: a mean or a cost keeps a limit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import structs

from ragbench.comparison.pairs import SHOWN_QUERIES
from ragbench.comparison.systems import bounds_of, is_open, summarize, with_failed_at
from ragbench.gates import base
from ragbench.records.gate import Decision, Facts, Verdict, WorseQuery
from ragbench.records.score import SystemScore
from ragbench.records.summary import Latency, TokenCounts
from ragbench.registry import Option
from ragbench.stats.mean import nan_if_none
from ragbench.types import Cause, ScoreColumn
from ragbench.types.display import counted


class Limit(base.MeasureGate):
    """The mean of a score reaches `min`, or where lower is better, is at most `max`.

    One of `min` and `max` is set, in the unit of the score. Without `decide` the mean is compared;
    `decide: interval` compares the worse end of its interval.
    """

    conditions = ("min", "max")

    min: Annotated[float | None, Option("Smallest allowed mean.")] = None
    max: base.Most | None = None
    decide: base.DecideBy = None

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
        """Value of `min`, or else of `max`."""
        return float(self.max or 0) if self.min is None else self.min

    def check_condition(self, score: base.ScoreFacts | None) -> Iterator[base.GateProblem]:
        """Yield a problem for a limit that a worse score keeps, or one out of the score's range.

        An unknown score has no problem.
        """
        if score is None:
            return
        key = "max" if self.min is None else "min"
        allowed = "min" if score.direction == "higher" else "max"
        # a limit on the better side would pass whatever gets worse
        if key != allowed:
            problem = f"{score.direction} {score.name} is better"
            yield base.GateProblem(key, problem, f"{allowed}: a number")
        # a sum grows with the number of queries and has no range
        elif score.aggregate != "sum" and not score.low <= self.limit <= score.high:
            yield base.out_of_range(key, score.low, score.high)

    def decide_system(self, candidate: base.Candidate) -> Decision:
        """Return the decision on the score of a system.

        A mean that did not pass comes with the five queries farthest beyond the limit, farthest
        first; sums, geometric means and scores of a corpus come without queries.
        """
        column = candidate.column
        decision = self.decide_column(column, candidate.run.method.confidence)
        if decision.verdict == "pass" or column.aggregate != "mean":
            return decision
        # sign 1 where low scores are bad
        ids, sign = candidate.run.scored.query_ids, -1 if self.min is None else 1
        upwards = sign * column.values
        worst = []
        for row in np.argsort(upwards, kind="stable")[:SHOWN_QUERIES].tolist():
            # NaN comes last, and is not below the limit
            if upwards[row] < sign * self.limit:
                worst.append(WorseQuery(query_id=ids[row], score=float(column.values[row])))
        return structs.replace(decision, worst_queries=tuple(worst))

    def decide_column(self, column: ScoreColumn, confidence: float = 0.95) -> Decision:
        """Return the decision on the mean of a score, or on the worse end of its interval.

        It is undecided if the score has no value or no interval, or if the failed queries, counted
        at their worst and at their best, could change the verdict.

        Raises:
            OptionError: `confidence` is outside (0, 1), or a value is outside the range of the
                score.

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
        summary = summarize(column, confidence=confidence)
        n_failed = int(is_open(column).sum())
        low, high = ends = summary.interval or (None, None)
        facts = Facts(mean=summary.mean, interval=ends, n=summary.n, n_failed=n_failed)
        value = self._compared(summary)
        if math.isnan(value):
            nothing = "the score has no interval; decide: mean needs none"
            if not summary.n:
                failed = f"{n_failed} failed{base.RETRY}" if n_failed else "gate another score"
                nothing = f"nothing was scored; {failed}"
            return Decision(verdict="undecided", why=nothing, facts=facts)
        why = f"mean {summary.mean:.4g} over {counted(summary.n, 'queries')}"
        if self.decide == "interval":
            limits = f"[{nan_if_none(low):.4g}, {nan_if_none(high):.4g}]"
            limits += f" over {counted(summary.n, 'queries')}"
            end = "upper" if self.min is None else "lower"
            why = f"mean {summary.mean:.4g} {limits}; its {end} end is compared"
        values = self._at_worst_and_best(column, confidence) if n_failed else ()
        at_ends: list[Verdict] = []
        for at_end in values:
            verdict = base.within(at_end, self.min, self.max)
            at_ends.append("undecided" if math.isnan(at_end) else verdict)
        decision = Decision(verdict=base.within(value, self.min, self.max), why=why, facts=facts)
        decision = base.undecided_if_turned(decision, n_failed, at_ends)
        keeps = base.within(nan_if_none(summary.mean), self.min, self.max) == "pass"
        return structs.replace(decision, not_worse=decision.verdict == "undecided" and keeps)

    def _compared(self, summary: SystemScore) -> float:
        """Return the mean, or with `decide: interval` the end of its interval that is worse."""
        if self.decide != "interval":
            return nan_if_none(summary.mean)
        return nan_if_none((summary.interval or (None, None))[1 if self.min is None else 0])

    def _at_worst_and_best(self, column: ScoreColumn, confidence: float) -> tuple[float, float]:
        """Return the compared number with all failed queries at one end, then at the other."""
        if self.decide != "interval":
            return bounds_of(column)
        bounded = math.isfinite(column.low) and math.isfinite(column.high)
        if not bounded or column.total is not None:  # a failed query could have any effect
            return (math.nan, math.nan)
        causes = np.where(is_open(column), Cause.SCORED, column.causes).astype(np.uint8)
        complete = replace(column, causes=causes, answer_causes=None)
        at_low = replace(complete, values=with_failed_at(column, column.low))
        at_high = replace(complete, values=with_failed_at(column, column.high))
        low = self._compared(summarize(at_low, confidence=confidence))
        return low, self._compared(summarize(at_high, confidence=confidence))


class Cost(base.MeasureGate):
    """A latency, a price or a number of tokens is at most `max`.

    `max` is in milliseconds, tokens or US dollars, as the cost is; `measure` is one of `COSTS`.
    A cost that is not known is undecided.
    """

    conditions = ("max",)
    quantity_kind = "cost"

    max: base.Most

    @property
    def text(self) -> str:
        """Condition as summaries show it."""
        return f"{self.measure} <= {self.max:g}"

    def decide_system(self, candidate: base.Candidate) -> Decision:
        """Return the decision on a system whose cost may be at most `max`, by `summary.json`.

        It is undecided if the run has no summary, or the cost is unknown.
        """
        summary = candidate.run.summary
        system = None if summary is None else summary.system(candidate.system.name)
        if summary is None or system is None:
            return self.decide_value(None)
        latency = summary.timing.of(system.name).latency_ms or Latency()
        tokens = system.tokens or TokenCounts()
        costs = (latency.p50, latency.p95, tokens.input, tokens.output, system.usd)
        # in the order of COSTS
        return self.decide_value(dict(zip(base.COSTS, costs, strict=True))[self.measure])

    def decide_value(self, value: float | None) -> Decision:
        """Return the decision on a cost; up to and including `max` it passes, None is undecided."""
        facts = Facts(value=value)
        if value is None:
            why = "not known; gate a run whose models have usage and prices"
            return Decision(verdict="undecided", why=why, facts=facts)
        return Decision(
            verdict=base.within(value, None, self.max), why=f"it is {value:.4g}", facts=facts
        )
