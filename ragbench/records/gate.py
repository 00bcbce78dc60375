"""The decision on a gate: an entry of `gates` in `summary.json` and in comparisons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ragbench.records.codec import ABSENT, Prose, Record, flat, optional
from ragbench.records.score import Ends

Verdict = Literal["pass", "fail", "undecided"]
"""What a gate says; `undecided` is neither: the data cannot tell."""


Side = Literal["within", "beyond"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesNeeded(Record):
    """How many queries, or clusters, decide with power 0.8; None where no number does."""

    equal: int | None
    """If the systems are equal."""
    as_observed: int | None
    """If the difference is as observed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power(Record):
    """What the queries of an undecided gate can decide, and what it would take."""

    queries_needed: QueriesNeeded
    detectable: float | None
    """The smallest true drop, or increase, that fails in 4 of 5 runs with so many queries; None
    where none does."""
    estimate: Side
    """Where the estimate is: within the margin, or beyond it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorseQuery(Record):
    """A query that lost much, or has a bad score."""

    query_id: str
    score: float
    baseline: float | None = optional()
    """What it was; None where the gate compares with nothing."""
    question: Prose = optional("")
    """Empty where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(Record):
    """The numbers behind a verdict, in full; those that its kind of gate has.

    Of a number that was looked for and is not known, None is written; `ABSENT` is not.
    """

    value: float | None = optional(ABSENT)
    """A cost."""
    baseline: float | None = optional()
    """What it was before."""
    kappa: float | None = optional(ABSENT)
    """Of a judge and people."""
    mean: float | None = optional(ABSENT)
    """Of a score."""
    difference: float | None = optional(ABSENT)
    """Mean paired difference of a score, not turned round where lower is better."""
    increase: float | None = optional(ABSENT)
    """Of a cost, as a share of the baseline."""
    interval: Ends | None = optional()
    """Of the kappa, mean, difference or increase."""
    n: int | None = optional()
    """Queries with a value, in both runs where two are compared; of a kappa labelled answers."""
    n_changed: int | None = optional()
    """Queries whose score differs."""
    n_worse: int | None = optional()
    """Queries that became worse, by as much as counts."""
    rule: str | None = optional()
    """How the interval was computed."""
    n_clusters: int | None = optional()
    """How many clusters these queries are in, where they are in any."""
    n_failed: int | None = optional()
    """Queries, or items, that a failure left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFacts(Record):
    """The numbers behind a condition of `--fail-if`."""

    numbers: Facts = flat(Facts())
    worst_queries: tuple[WorseQuery, ...] | None = optional()
    """Those that lost most, the worst first; None where nothing was compared."""
    means: tuple[float, float] | None = optional()
    """Before and after, over the queries that both have."""
    power: Power | None = flat()
    """What so many queries can decide, where they do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Record):
    """The decision on a gate for one system, and the numbers behind it.

    The kind of gate decides; `decide_gates` adds the gate and its line.
    """

    gate: Prose = ""
    """The condition."""
    system: str | None = None
    """None where the gate is about no single system: a certificate, a judge that was skipped."""
    verdict: Verdict = field(kw_only=False)
    why: Prose = field(kw_only=False)
    """The numbers in words."""
    line: int | None = None
    """Where the gate stands in its config; None where it comes from elsewhere."""
    refused: bool = optional(False)
    """Whether system and baseline may not be compared."""
    power: Power | None = flat()
    """Of an undecided difference: what so many queries can decide."""
    means: tuple[float, float] | None = optional()
    """Of a difference: mean of the baseline and of the system, over the queries that both have."""
    worst_queries: tuple[WorseQuery, ...] = optional(())
    """Of a difference those that lost most, of a limit those farthest beyond it, the worst first;
    at most five."""
    facts: Facts = flat(Facts())
    """The numbers in full, which depend on the kind of gate."""
