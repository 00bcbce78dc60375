"""Decision on a gate, an entry of `gates` in `summary.json`; the exit code that follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ragbench import errors
from ragbench.records.score import Ends
from ragbench.types.json_fields import ABSENT, Prose, Record, flat, optional

# `undecided`: these questions do not suffice for either of the others; comparisons have other words
Verdict = Literal["pass", "fail", "undecided"]


# Level of an annotation, as GitHub names them
Level = Literal["error", "warning", "notice"]
# Place of an estimate relative to its margin
Side = Literal["within", "beyond"]


class QueriesNeeded(Record):
    """Numbers of queries, or clusters, that decide with power 0.8; None if no number does.

    Attributes:
        equal: If the systems are equal.
        as_observed: If the difference is as observed; None too if it is too near to the margin.
    """

    equal: int | None
    as_observed: int | None


class Power(Record):
    """Changes that the queries of an undecided gate can detect, and the number of queries needed.

    Attributes:
        queries_needed: Queries, or clusters, that would decide.
        detectable: Smallest true drop that fails in 4 of 5 runs with so many queries; None if none
            does.
        estimate: Whether the estimate is within the margin or beyond it.
    """

    queries_needed: QueriesNeeded
    detectable: float | None
    estimate: Side


class WorseQuery(Record):
    """A query that lost much, or has a bad score.

    Attributes:
        query_id: Its id.
        score: Score of the system.
        baseline: Score of the baseline; None if the gate compares with nothing.
        question: Its text; empty if it is not known.
    """

    query_id: str
    score: float
    baseline: float | None = optional()
    question: Prose = optional("")


class Facts(Record):
    """Numbers behind a verdict, in full; each kind of gate has some of them.

    Here null and an absent key differ: a number that the gate looked for and that is not known is
    null, a number of other kinds of gates has no key. In Python the one is None and the other is
    `ABSENT`, an empty tuple. Fields with the default None have no key if they are None.

    Attributes:
        value: Cost of the system.
        baseline: Cost of the baseline.
        kappa: Agreement of a judge and people.
        mean: Mean of a score.
        difference: Mean paired difference of a score, in the direction of the score.
        interval: Interval of the kappa, mean or difference.
        n: Queries with a value, in both runs if two are compared; labelled answers for a kappa.
        n_changed: Queries whose score differs.
        n_worse: Queries that became worse, by as much as counts.
        rule: Method of the interval.
        n_clusters: Clusters of these queries; absent without clusters.
        n_failed: Queries, or items, without a value because of a failure.
    """

    value: float | None = optional(ABSENT)
    baseline: float | None = optional()
    kappa: float | None = optional(ABSENT)
    mean: float | None = optional(ABSENT)
    difference: float | None = optional(ABSENT)
    interval: Ends | None = optional()
    n: int | None = optional()
    n_changed: int | None = optional()
    n_worse: int | None = optional()
    rule: str | None = optional()
    n_clusters: int | None = optional()
    n_failed: int | None = optional()

    @property
    def change(self) -> str:
        """Difference and its interval, as the reasons of gates begin; empty without a difference.

        Without an interval it is the difference alone; numbers have four digits and a sign.

        Example:
            >>> Facts(difference=-0.5, interval=(-0.5276, -0.4449)).change
            '-0.5 [-0.5276, -0.4449]'
        """
        if not isinstance(self.difference, (float, int)):
            return ""
        low, high = self.interval or (None, None)
        ends = "" if low is None or high is None else f" [{low:+.4g}, {high:+.4g}]"
        return f"{self.difference:+.4g}{ends}"


class Decision(Record):
    """Decision on a gate for one system, with the numbers behind it.

    The kind of gate decides, as `Decision(verdict="fail", why="0.2 < 0.3")`; `decide_gates` adds
    the gate and its line. `level` is `error` for a failed or refused gate, `warning` or `notice`
    for an undecided one, None for a passed one.

    Attributes:
        gate: The condition.
        system: Name of the system; None for a gate on no single system, such as a certificate.
        verdict: Pass, fail or undecided.
        why: The numbers in words.
        line: Line of the gate in its config; None for a gate from elsewhere.
        refused: Whether system and baseline may not be compared.
        power: Changes that so many queries can detect, for an undecided difference.
        means: Means of baseline and system, over the queries that both have; None without a
            baseline, and if nothing was compared.
        worst_queries: At most five queries that lost most, or are farthest beyond a limit, the
            worst first.
        facts: The numbers in full, which depend on the kind of gate.
        not_worse: Whether the gate is undecided although the estimate is not worse: the mean or
            cost is at least as good as that of the baseline, or keeps the limit.
    """

    # set by `decide_gates`, not by the kind of gate
    gate: Prose = ""
    system: str | None = None
    verdict: Verdict
    why: Prose
    line: int | None = None
    refused: bool = optional(False)
    power: Power | None = flat()
    means: tuple[float, float] | None = optional()
    worst_queries: tuple[WorseQuery, ...] = optional(())
    facts: Facts = flat(Facts())
    not_worse: bool = optional(False)

    @property
    def level(self) -> Level | None:
        """Level of its annotation; None if the gate passed.

        A refused or failed gate is an error. An undecided one is a warning, or a notice if the
        estimate is not worse.
        """
        if self.refused or self.verdict == "fail":
            return "error"
        if self.verdict == "pass":
            return None
        return "notice" if self.not_worse else "warning"

    def __bool__(self) -> bool:
        raise TypeError("a decision is neither true nor false: compare .verdict with 'pass'")


def exit_code_of(decisions: Sequence[Decision], *, complete: bool, strict: bool = False) -> int:
    """Return the exit code of a run, the first that applies of 2, 1, 4, 3, 0.

    2: a gate was refused; 1: a gate failed; 4: a gate is undecided, with `strict` only; 3: the run
    is not complete; 0: none of these.
    """
    verdicts = {decision.verdict for decision in decisions}
    if any(decision.refused for decision in decisions):
        return errors.EXIT_BAD_INPUT
    if "fail" in verdicts:
        return errors.EXIT_GATE_FAILED
    if strict and "undecided" in verdicts:
        return errors.EXIT_UNDECIDED
    return errors.EXIT_OK if complete else errors.EXIT_INCOMPLETE
