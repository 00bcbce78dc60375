"""Decision on a gate, an entry of `gates` in `summary.json`; the exit code that follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from ragbench import errors
from ragbench.records.score import Ends
from ragbench.types.json_fields import ABSENT, Meaning, Prose, Record, flat, optional

# `undecided`: these questions do not suffice for either of the others; comparisons have other words
Verdict = Literal["pass", "fail", "undecided"]

ARE_UNDECIDED = "undecided: neither passed nor failed"  # end of the warning of a run

# Level of an annotation, as GitHub names them
Level = Literal["error", "warning", "notice"]
# Place of an estimate relative to its margin
Side = Literal["within", "beyond"]


class QueriesNeeded(Record):
    """Numbers of queries, or clusters, that decide with power 0.8; None if no number does."""

    equal: Annotated[int | None, Meaning("If the systems are equal.")]
    as_observed: Annotated[
        int | None,
        Meaning("If the difference is as observed; null too if it is too near to the margin."),
    ]


class Power(Record):
    """Changes that the queries of an undecided gate can detect, and the queries needed."""

    queries_needed: Annotated[QueriesNeeded, Meaning("Queries, or clusters, that would decide.")]
    detectable: Annotated[
        float | None,
        Meaning(
            "Smallest true drop that fails in 4 of 5 runs with so many queries; null if none does."
        ),
    ]
    estimate: Annotated[Side, Meaning("Whether the estimate is within the margin or beyond it.")]


class WorseQuery(Record):
    """A query that lost much, or has a bad score."""

    query_id: Annotated[str, Meaning("Its id.")]
    score: Annotated[float, Meaning("Score of the system.")]
    baseline: Annotated[
        float | None, Meaning("Score of the baseline; null if the gate compares with nothing.")
    ] = optional()
    question: Annotated[Prose, Meaning("Its text; empty if it is not known.")] = optional("")
    row: Annotated[
        int | None, Meaning("Its row in a table without ids, from 1; null elsewhere.")
    ] = optional()


class Facts(Record):
    """Numbers behind a verdict, in full; each kind of gate has some of them.

    Here null and an absent key differ: a number that the gate looked for and that is not known is
    null, a number of other kinds of gates has no key. In Python the one is None and the other is
    `ABSENT`, an empty tuple. Fields with the default None have no key if they are None.
    """

    value: Annotated[float | None, Meaning("Cost of the system.")] = optional(ABSENT)
    baseline: Annotated[float | None, Meaning("Cost of the baseline.")] = optional()
    kappa: Annotated[float | None, Meaning("Agreement of a judge and people.")] = optional(ABSENT)
    mean: Annotated[float | None, Meaning("Mean of a score.")] = optional(ABSENT)
    difference: Annotated[
        float | None, Meaning("Mean paired difference of a score, in the direction of the score.")
    ] = optional(ABSENT)
    interval: Annotated[Ends | None, Meaning("Interval of the kappa, mean or difference.")] = (
        optional()
    )
    n: Annotated[
        int | None,
        Meaning(
            "Queries with a value, in both runs if two are compared; labelled answers for a kappa."
        ),
    ] = optional()
    n_looks: Annotated[
        int | None, Meaning("Looks at the queries that changed; absent without a further look.")
    ] = optional()
    looks_difference: Annotated[
        float | None,
        Meaning(
            "Mean of all looks, which decides. It is nearer to 0 than the true difference, as "
            "queries that did not change in the first look count as unchanged."
        ),
    ] = optional()
    n_changed: Annotated[int | None, Meaning("Queries whose score differs.")] = optional()
    n_worse: Annotated[int | None, Meaning("Queries that became worse, by as much as counts.")] = (
        optional()
    )
    rule: Annotated[str | None, Meaning("Method of the interval.")] = optional()
    n_clusters: Annotated[
        int | None, Meaning("Clusters of these queries; absent without clusters.")
    ] = optional()
    n_failed: Annotated[
        int | None, Meaning("Queries, or items, without a value because of a failure.")
    ] = optional()

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
    """

    # set by `decide_gates`, not by the kind of gate
    gate: Annotated[Prose, Meaning("The condition.")] = ""
    system: Annotated[
        str | None,
        Meaning("Name of the system; null for a gate on no single system, such as a certificate."),
    ] = None
    verdict: Annotated[Verdict, Meaning("Pass, fail or undecided.")]
    why: Annotated[Prose, Meaning("The numbers in words.")]
    line: Annotated[
        int | None, Meaning("Line of the gate in its config; null for a gate from elsewhere.")
    ] = None
    refused: Annotated[bool, Meaning("Whether system and baseline may not be compared.")] = (
        optional(False)
    )
    power: Annotated[
        Power | None,
        Meaning("Changes that so many queries can detect, for an undecided difference."),
    ] = flat()
    means: Annotated[
        tuple[float, float] | None,
        Meaning(
            "Means of baseline and system, over the queries that both have; null without a "
            "baseline, and if nothing was compared."
        ),
    ] = optional()
    worst_queries: Annotated[
        tuple[WorseQuery, ...],
        Meaning(
            "At most five queries that lost most, or are farthest beyond a limit, the worst first."
        ),
    ] = optional(())
    facts: Annotated[Facts, Meaning("The numbers in full, which depend on the kind of gate.")] = (
        flat(Facts())
    )
    not_worse: Annotated[
        bool,
        Meaning(
            "Whether the gate is undecided although the estimate is not worse: the mean or "
            "cost is at least as good as that of the baseline, or keeps the limit."
        ),
    ] = optional(False)

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
