"""`max_drop` and `max_queries_worse`: whether a system became worse, and what cannot be said."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from ragbench.comparison.method import Method, paired_interval
from ragbench.comparison.pairs import PairedScores, at_least, both_means, worst_queries
from ragbench.comparison.systems import finite
from ragbench.gates.base import DecideBy, Decision, Entry, not_compared, unless_turned, within
from ragbench.gates.change import (
    Change,
    Identical,
    Spread,
    few_clusters,
    power_of,
    shown_power,
)
from ragbench.gates.scores import KnownScore
from ragbench.records.gate import Facts, QueriesNeeded, Verdict
from ragbench.registry import Option
from ragbench.stats import DifferenceInterval, queries_to_exclude, score_interval
from ragbench.types import FloatArray

_NOISE = 0.1
"""An estimate within so many standard errors of the margin is noise, and nothing to plan with."""
_SAYING_SOMETHING = 4
"""Fewer identical queries exclude changes in no share of the others that is worth printing."""


@dataclass(frozen=True, kw_only=True)
class Drop(Change):
    """The mean of a score did not drop by more than `max_drop`."""

    conditions = ("max_drop",)
    margin_key = "max_drop"

    max_drop: Annotated[float, Option("Largest allowed drop of the mean paired difference.", ge=0)]
    decide: DecideBy = None
    identical: Identical = "pass"

    @property
    def text(self) -> str:
        """The condition.

        Example:
            >>> Drop(measure="ndcg@10", max_drop=0.05, against="main.json").text
            'ndcg@10 drop <= 0.05 against main.json'
        """
        identical = "identical: undecided" if self.identical == "undecided" else None
        how = ", ".join(word for word in (self.decide, identical) if word)
        said = f" ({how})" if how else ""
        return f"{self.measure} drop <= {self.max_drop:g}{self.shown_against}{said}"

    def check_condition(self, entry: Entry, score: KnownScore | None) -> None:
        """Note also a key that means nothing."""
        super().check_condition(entry, score)
        if self.decide == "mean" and self.identical == "undecided":
            found = "decide: mean is of exactly these queries"
            entry.wrong("identical", found, "decide: interval")

    def decide_pairs(self, pairs: PairedScores, method: Method) -> Decision:
        """Decide whether the mean paired difference is a drop by more than `max_drop`.

        Up is better: where lower scores are better, differences are turned round. With [L, U] the
        interval that comparisons print: pass where L > -max_drop, fail where U < -max_drop, else
        undecided, with what such queries can show and how many it would take. No difference on
        any query passes, or with `identical` only where that excludes the margin. Queries
        that failed count at their worst and at their best: a verdict that they could turn is
        undecided. Clusters, where there are any, are the unit; fewer than 10 are undecided. Facts
        hold difference and interval as they are printed, not turned round, and the `rule` that
        gave the interval: `score` for hits, `tilting` for graded scores.

        Example:
            One of eight queries lost its hit, which says next to nothing about all others.

            >>> from ragbench.types import ScoreColumn
            >>> from ragbench.signature import Signature
            >>> column = lambda *values: ScoreColumn(
            ...     "hit", np.array(values), np.zeros(len(values), np.uint8), Signature("hit"))
            >>> pairs = PairedScores(column(0.0, *[1.0] * 7), column(*[1.0] * 8), "abcdefgh")
            >>> gate = Drop(measure="hit", max_drop=0.05)
            >>> found = gate.decide_pairs(pairs, Method())
            >>> found.verdict, found.power.queries_needed
            ('undecided', QueriesNeeded(equal=411, as_observed=102))
            >>> replace(gate, decide="mean").decide_pairs(pairs, Method()).verdict
            'fail'
        """
        d = pairs.differences()
        n_failed = int(pairs.failed.sum())
        if np.isnan(d).all():
            return Decision("undecided", not_compared(n_failed), Facts(n=0, n_failed=n_failed))
        rule = self._by_mean if self.decide == "mean" else self._by_interval
        found = rule(d, pairs, method)
        found = replace(
            found,
            facts=replace(found.facts, n_failed=n_failed),
            means=both_means(pairs),
            worst_queries=worst_queries(pairs),
        )
        at_ends = (
            # without a bound, anything could be
            "undecided" if np.isinf(d).any() else rule(d, pairs, method).verdict
            for d in (pairs.with_failed("worst"), pairs.with_failed("best"))
        )
        return unless_turned(found, n_failed, at_ends)

    def _by_interval(self, d: FloatArray, pairs: PairedScores, method: Method) -> Decision:
        """Decide by the interval of differences of which up is better, NaN where there is none."""
        margin = self.max_drop
        clusters = None if pairs.clusters is None else np.asarray(pairs.clusters)
        found = paired_interval(d, method, range=pairs.range, clusters=clusters)
        facts = _facts(found, pairs.sign)
        # what did not change on the judged queries may change on the others
        if found.n_changed == 0:
            why, excludes = _identical(found, margin, pairs.range, method)
            passes = self.identical == "pass" or excludes
            return Decision("pass" if passes else "undecided", why, facts)
        if few := few_clusters(found.n_clusters):
            return Decision("undecided", few, facts)
        if math.isnan(found.lower):
            few = f"only {found.n_changed} of {found.n} queries changed, and the score has no bound"
            return Decision("undecided", few, facts)
        mean, low, high = _turned(found, pairs.sign)
        turned = "" if pairs.sign == 1 else ", lower is better"
        interval = f"{mean:+.4g} [{low:+.4g}, {high:+.4g}] over {found.n} queries{turned}"
        if found.lower > -margin:
            return Decision("pass", f"{interval}: no drop by {margin:g} or more", facts)
        if found.upper < -margin:
            return Decision("fail", f"{interval}: a drop by more than {margin:g}", facts)
        unit = "queries" if found.n_clusters is None else "clusters"
        confidence = method.confidence
        size = 0.0 if clusters is not None else _size(d)
        spread = Spread(-found.mean, found.sd, found.n_units, size)
        power = power_of(spread, margin, confidence, widest=_width(pairs.range))  # plans take long
        if clusters is None and math.isfinite(_width(pairs.range)):
            needed = _queries_needed(d, margin, confidence, _width(pairs.range))
            power = replace(power, queries_needed=needed)
        said = shown_power(power, found.n_units, unit, "drop")
        why = f"{interval} includes a drop of {margin:g}; {said}"
        return Decision("undecided", why, facts, power=power)

    def _by_mean(self, d: FloatArray, pairs: PairedScores, method: Method) -> Decision:
        """The mean of exactly these queries, which needs no interval."""
        d = d[~np.isnan(d)]
        mean, n_changed = float(d.mean()), int(np.count_nonzero(d))
        shown = pairs.sign * mean + 0.0
        facts = Facts(difference=shown, n=len(d), n_changed=n_changed)
        why = f"{shown:+.4g} over these {len(d)} queries"
        verdict = within(mean, -self.max_drop, None)
        drop = "no drop" if verdict == "pass" else "a drop"
        return Decision(verdict, f"{why}: {drop} by more than {self.max_drop:g}", facts)


def _turned(found: DifferenceInterval, sign: int) -> tuple[float, float, float]:
    """The mean and its interval as they are printed; adding 0.0 makes -0.0 0.0."""
    low, high = sorted((sign * found.lower + 0.0, sign * found.upper + 0.0))
    return sign * found.mean + 0.0, low, high


def _facts(found: DifferenceInterval, sign: int) -> Facts:
    mean, low, high = _turned(found, sign)
    return Facts(
        difference=finite(mean),
        interval=(finite(low), finite(high)),
        n=found.n,
        n_changed=found.n_changed,
        rule=found.rule,
        n_clusters=found.n_clusters,
    )


def _identical(
    found: DifferenceInterval, max_drop: float, score_range: tuple[float, float], method: Method
) -> tuple[str, bool]:
    """Say that nothing changed and what that excludes, and whether the margin is excluded."""
    n, unit = found.n_units, "queries" if found.n_clusters is None else "clusters"
    why = f"identical on all {found.n} queries" if found.n > 1 else "identical on the only query"
    # the interval of so many unchanged ones, in a unit that a score without a bound has, too
    _, share = score_interval(0, 0, n, confidence=method.confidence)
    if n < _SAYING_SOMETHING:
        return f"{why}, too few to exclude changes in others", False
    why += f"; excludes changes in more than {share:.2g} of all {unit}"
    if share * _width(score_range) < max_drop:
        return why, True
    return f"{why}, which leaves a drop by {max_drop:g} open", False


def _queries_needed(d: FloatArray, margin: float, confidence: float, width: float) -> QueriesNeeded:
    """Plan by the interval itself: with equal systems half of the changes are gains."""
    d = d[~np.isnan(d)]
    noise = _NOISE * float(d.std()) / math.sqrt(len(d))
    near = abs(float(d.mean()) + margin) <= noise
    if not margin < width:
        return QueriesNeeded(equal=None, as_observed=None)

    def plan(differences: FloatArray) -> int | None:
        return queries_to_exclude(differences, -margin, largest=width, confidence=confidence)

    return QueriesNeeded(equal=plan(np.concatenate((d, -d))), as_observed=None if near else plan(d))


def _size(d: FloatArray) -> float:
    """By how much a query changes, where it does: the sum of squares over that of sizes."""
    sizes = np.abs(d[~np.isnan(d)])
    return float((sizes**2).sum() / sizes.sum()) if sizes.any() else 0.0


def _width(score_range: tuple[float, float]) -> float:
    return score_range[1] - score_range[0]


@dataclass(frozen=True, kw_only=True)
class QueriesWorse(Change):
    """At most so many queries became worse, each of these queries by `by` or more."""

    conditions = ("max_queries_worse",)
    margin_key = "by"

    max_queries_worse: Annotated[
        int, Option("Largest number of queries that may become worse.", ge=0)
    ]
    by: Annotated[
        float | None, Option("max_queries_worse: smallest drop that counts; default: any.", gt=0)
    ] = None

    @property
    def text(self) -> str:
        """The condition."""
        least = f" by {self.by:g}" if self.by is not None else ""
        limit = f"<= {self.max_queries_worse} queries"
        return f"{self.measure} worse{least} on {limit}{self.shown_against}"

    def decide_pairs(self, pairs: PairedScores, method: Method) -> Decision:
        """Decide whether more than `max_queries_worse` queries became worse, each by at least `by`.

        A mean can hide that some questions broke; this looks at each. It is a count over these
        queries, not a guess at others. Without `by` every query counts that became worse at all. A
        query that failed, or one of whose answers did, may have become worse, or be so only for
        that: a verdict that such queries could turn is undecided.
        """
        d = pairs.differences()
        n = int((~np.isnan(d)).sum())
        count = self._n_worse(d)
        least, most = (self._n_worse(pairs.with_failed(end)) for end in ("best", "worst"))
        by = f"by {self.by:g} or more" if self.by else "at all"
        why = f"{count} of {n} queries became worse {by}; allowed: {self.max_queries_worse}"
        n_failed = int(pairs.failed.sum())
        facts = Facts(n=n, n_worse=count, n_failed=n_failed)
        if not n:
            return Decision("undecided", not_compared(n_failed), facts)
        verdict: Verdict = "fail" if least > self.max_queries_worse else "pass"
        if verdict == "pass" and most > self.max_queries_worse:
            verdict, why = "undecided", f"{why}; failures on {most - least} could turn it"
        return Decision(verdict, why, facts, both_means(pairs), worst_queries(pairs))

    def _n_worse(self, differences: FloatArray) -> int:
        is_worse = at_least(-differences, self.margin) & (differences < 0)
        return int(is_worse.sum())
