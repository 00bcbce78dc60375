"""The decision on a gate: an entry of `gates` in `summary.json` and in comparisons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ragbench.records.codec import ABSENT, Record, flat
from ragbench.records.score import Ends
from ragbench.types.json_fields import Prose, optional

# What a gate says; `undecided` is neither: the data cannot tell.
Verdict = Literal["pass", "fail", "undecided"]


Side = Literal["within", "beyond"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesNeeded(Record):
    """How many queries, or clusters, decide with power 0.8; None where no number does.

    Attributes:
        equal: If the systems are equal.
        as_observed: If the difference is as observed.
    """

    equal: int | None
    as_observed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Power(Record):
    """What the queries of an undecided gate can decide, and what it would take.

    Attributes:
        detectable: The smallest true drop, or increase, that fails in 4 of 5 runs with so many
            queries; None where none does.
        estimate: Where the estimate is: within the margin, or beyond it.
    """

    queries_needed: QueriesNeeded
    detectable: float | None
    estimate: Side


@dataclass(frozen=True, slots=True, kw_only=True)
class WorseQuery(Record):
    """A query that lost much, or has a bad score.

    Attributes:
        baseline: What it was; None where the gate compares with nothing.
        question: Empty where it is not known.
    """

    query_id: str
    score: float
    baseline: float | None = optional()
    question: Prose = optional("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(Record):
    """The numbers behind a verdict, in full; those that its kind of gate has.

    Of a number that was looked for and is not known, None is written; `ABSENT` is not.

    Attributes:
        value: A cost.
        baseline: What it was before.
        kappa: Of a judge and people.
        mean: Of a score.
        difference: Mean paired difference of a score, not turned round where lower is better.
        increase: Of a cost, as a share of the baseline.
        interval: Of the kappa, mean, difference or increase.
        n: Queries with a value, in both runs where two are compared; of a kappa labelled answers.
        n_changed: Queries whose score differs.
        n_worse: Queries that became worse, by as much as counts.
        rule: How the interval was computed.
        n_clusters: How many clusters these queries are in, where they are in any.
        n_failed: Queries, or items, that a failure left out.
    """

    value: float | None = optional(ABSENT)
    baseline: float | None = optional()
    kappa: float | None = optional(ABSENT)
    mean: float | None = optional(ABSENT)
    difference: float | None = optional(ABSENT)
    increase: float | None = optional(ABSENT)
    interval: Ends | None = optional()
    n: int | None = optional()
    n_changed: int | None = optional()
    n_worse: int | None = optional()
    rule: str | None = optional()
    n_clusters: int | None = optional()
    n_failed: int | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFacts(Record):
    """The numbers behind a condition of `--fail-if`.

    Attributes:
        worst_queries: Those that lost most, the worst first; None where nothing was compared.
        means: Before and after, over the queries that both have.
        power: What so many queries can decide, where they do not.
    """

    numbers: Facts = flat(Facts())
    worst_queries: tuple[WorseQuery, ...] | None = optional()
    means: tuple[float, float] | None = optional()
    power: Power | None = flat()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Record):
    """The decision on a gate for one system, and the numbers behind it.

    The kind of gate decides; `decide_gates` adds the gate and its line.

    Attributes:
        gate: The condition.
        system: None where the gate is about no single system: a certificate, a judge that was
            skipped.
        why: The numbers in words.
        line: Where the gate stands in its config; None where it comes from elsewhere.
        refused: Whether system and baseline may not be compared.
        power: Of an undecided difference: what so many queries can decide.
        means: Of a difference: mean of the baseline and of the system, over the queries that both
            have.
        worst_queries: Of a difference those that lost most, of a limit those farthest beyond it,
            the worst first; at most five.
        facts: The numbers in full, which depend on the kind of gate.
    """

    gate: Prose = ""
    system: str | None = None
    verdict: Verdict = field(kw_only=False)
    why: Prose = field(kw_only=False)
    line: int | None = None
    refused: bool = optional(False)
    power: Power | None = flat()
    means: tuple[float, float] | None = optional()
    worst_queries: tuple[WorseQuery, ...] = optional(())
    facts: Facts = flat(Facts())
