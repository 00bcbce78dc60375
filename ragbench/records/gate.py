"""What became of a gate: an entry of `gates` in `summary.json` and in what `compare` finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ragbench.records.codec import Prose, Record, optional

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
class Evidence(Record):
    """What all commits since a record say together of a drop."""

    e: float
    """The e-value; 1 says nothing."""
    fails_from: float
    """From which one on a drop is shown."""
    commits: int
    """How many commits there are since the record, this run included."""
    changed: int
    """In how many of them scores changed, so that there was something to learn."""
    since: str
    """The run that is the record."""


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
class GateVerdict(Record):
    """One gate, checked on one system.

    The numbers behind the verdict depend on the kind of gate: they stand flat beside the fields in
    the file, and in `facts` here.
    """

    gate: Prose
    system: str | None
    """Whose; None where the gate is about no single system: a certificate, a judge that was
    skipped."""
    verdict: Verdict
    why: Prose
    """The numbers in words."""
    line: int | None = None
    """Where the gate stands in its config; None where it comes from elsewhere."""
    refused: bool = optional(False)
    """Whether it may not be compared with what it names."""
    queries_needed: QueriesNeeded | None = optional()
    """This and what follows: of an undecided difference, see `Power`."""
    detectable: float | None = optional()
    estimate: Side | None = optional()
    means: tuple[float, float] | None = optional()
    """Of a difference: before and after, over the queries that both have."""
    worst_queries: tuple[WorseQuery, ...] = optional(())
    """Of a difference those that lost most, of a limit those farthest beyond it, the worst first;
    at most five."""
    evidence: Evidence | None = optional()
    """What the history that it is compared with adds; None where it is compared with one run."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The numbers in full."""
        return self.unknown
