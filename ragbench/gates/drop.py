"""Gates `max_drop` and `max_queries_worse`: whether a system became worse than its baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores, paired_interval, reaches
from ragbench.gates.base import DecideBy, GateProblem, not_compared, undecided_if_turned, within
from ragbench.gates.change import Change, Identical, Spread, few_clusters, power_of, power_text
from ragbench.gates.scores import ScoreFacts
from ragbench.records.gate import Decision, Facts, QueriesNeeded, Verdict
from ragbench.registry import Option
from ragbench.stats import DifferenceInterval, queries_to_exclude, score_interval
from ragbench.stats.mean import finite
from ragbench.types import FloatArray

# An estimate this near to the margin, in standard errors, is noise: no number of queries follows
_NOISE_ERRORS = 0.1
# Fewer identical queries exclude no share of changes that is worth printing
_MIN_IDENTICAL = 4


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
        rules = ", ".join(filter(None, (self.decide, identical)))
        condition = f"{self.measure} drop <= {self.max_drop:g}{self.against_text}"
        return f"{condition} ({rules})" if rules else condition

    def check_condition(self, score: ScoreFacts | None) -> Iterator[GateProblem]:
        """Yield mistakes of the margin, also a key that has no effect."""
        yield from super().check_condition(score)
        if self.decide == "mean" and self.identical == "undecided":
            problem = "decide: mean is of exactly these queries"
            yield GateProblem("identical", problem, "decide: interval")

    def decide_changes(self, pairs: PairedScores, method: Method) -> Decision:
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
            >>> decision = gate.decide_pairs(pairs, Method())
            >>> decision.verdict, decision.power.queries_needed
            ('undecided', QueriesNeeded(equal=411, as_observed=102))
            >>> replace(gate, decide="mean").decide_pairs(pairs, Method()).verdict
            'fail'
        """
        d = pairs.gains
        n_failed = int(pairs.failed.sum())
        if np.isnan(d).all():
            facts = Facts(n=0, n_failed=n_failed)
            return Decision("undecided", not_compared(n_failed), facts=facts)
        rule = self._by_mean if self.decide == "mean" else self._by_interval
        decision = rule(d, pairs, method)
        decision = replace(decision, facts=replace(decision.facts, n_failed=n_failed))
        at_ends = (
            # a score without a bound could have any value for a failed query
            "undecided" if np.isinf(d).any() else rule(d, pairs, method).verdict
            for d in (pairs.with_failed("worst"), pairs.with_failed("best"))
        )
        return undecided_if_turned(decision, n_failed, at_ends)

    def _by_interval(self, d: FloatArray, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision by the interval of the mean difference.

        Args:
            d: Differences of queries, of which higher is better; NaN without a pair.
            pairs: Scores of the system and its baseline.
            method: Options of the interval.
        """
        margin, width = self.max_drop, pairs.range[1] - pairs.range[0]
        confidence = method.confidence
        clusters = None if pairs.clusters is None else np.asarray(pairs.clusters)
        interval = paired_interval(d, method, range=pairs.range, clusters=clusters)
        unit = "queries" if interval.n_clusters is None else "clusters"
        # in the direction of the score, as it is printed; adding 0.0 makes -0.0 0.0
        mean = pairs.sign * interval.mean + 0.0
        low, high = sorted(pairs.sign * end + 0.0 for end in (interval.lower, interval.upper))
        facts = Facts(
            difference=finite(mean),
            interval=(finite(low), finite(high)),
            n=interval.n,
            n_changed=interval.n_changed,
            rule=interval.rule,
            n_clusters=interval.n_clusters,
        )
        # queries that are not in the sample may change although none of the sample did
        if interval.n_changed == 0:
            why, excludes = _identical(interval, unit, margin, confidence)
            passes = self.identical == "pass" or excludes
            return Decision("pass" if passes else "undecided", why, facts=facts)
        if few := few_clusters(interval.n_clusters):
            return Decision("undecided", few, facts=facts)
        if math.isnan(interval.lower):
            changed = f"only {interval.n_changed} of {interval.n} queries changed"
            return Decision("undecided", f"{changed}, and the score has no bound", facts=facts)
        turned = "" if pairs.sign == 1 else ", lower is better"
        why = f"{mean:+.4g} [{low:+.4g}, {high:+.4g}] over {interval.n} queries{turned}"
        if interval.lower > -margin:
            return Decision("pass", f"{why}: no drop by {margin:g} or more", facts=facts)
        if interval.upper < -margin:
            return Decision("fail", f"{why}: a drop by more than {margin:g}", facts=facts)
        # the size of a change is that of a query, not of a cluster
        size = 0.0 if clusters is not None else _size(d)
        spread = Spread(-interval.mean, interval.sd, interval.n_units, size)
        power = power_of(spread, margin, confidence, widest=width)
        if clusters is None and math.isfinite(width):
            # planned by the interval itself, which is exact and slow
            power = replace(power, queries_needed=_queries_needed(d, margin, confidence, width))
        words = power_text(power, interval.n_units, unit, "drop")
        why = f"{why} includes a drop of {margin:g}; {words}"
        return Decision("undecided", why, facts=facts, power=power)

    def _by_mean(self, d: FloatArray, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision by the mean of exactly these queries, without an interval."""
        d = d[~np.isnan(d)]
        mean, n_changed = float(d.mean()), int(np.count_nonzero(d))
        difference = pairs.sign * mean + 0.0
        facts = Facts(difference=difference, n=len(d), n_changed=n_changed)
        verdict = within(mean, -self.max_drop, None)
        drop = "no drop" if verdict == "pass" else "a drop"
        why = f"{difference:+.4g} over these {len(d)} queries: {drop} by more than"
        return Decision(verdict, f"{why} {self.max_drop:g}", facts=facts)


def _identical(
    interval: DifferenceInterval, unit: str, max_drop: float, confidence: float
) -> tuple[str, bool]:
    """Return a reason in words, and True if unchanged queries exclude a drop by the margin.

    Args:
        interval: Interval of differences that are all 0.
        unit: `queries` or `clusters`.
        max_drop: The margin.
        confidence: Level of the interval.
    """
    n = interval.n_units
    all_queries = f"all {interval.n} queries" if interval.n > 1 else "the only query"
    # a share of queries or clusters, which a score without a bound has, too
    _, share = score_interval(0, 0, n, confidence=confidence)
    why = f"identical on {all_queries}"
    if n < _MIN_IDENTICAL:
        return f"{why}, too few to exclude changes in others", False
    why += f"; excludes changes in more than {share:.2g} of all {unit}"
    # the limit, not the share: a cluster can hold more queries than the mean one
    if -interval.lower < max_drop:
        return why, True
    return f"{why}, which leaves a drop by {max_drop:g} open", False


def _queries_needed(d: FloatArray, margin: float, confidence: float, width: float) -> QueriesNeeded:
    """Return the number of queries with which the interval itself decides.

    Equal systems are simulated by turning half of the changes round. None for a margin that no
    difference exceeds, or an estimate too near to it.
    """
    d = d[~np.isnan(d)]
    noise = _NOISE_ERRORS * float(d.std()) / math.sqrt(len(d))
    # an observed drop near the margin would need an enormous number of queries
    near = abs(float(d.mean()) + margin) <= noise
    if not margin < width:
        return QueriesNeeded(equal=None, as_observed=None)

    def plan(differences: FloatArray) -> int | None:
        return queries_to_exclude(differences, -margin, largest=width, confidence=confidence)

    return QueriesNeeded(equal=plan(np.concatenate((d, -d))), as_observed=None if near else plan(d))


def _size(d: FloatArray) -> float:
    """Return the mean size of a change, weighted by size; 0 without changes."""
    sizes = np.abs(d[~np.isnan(d)])
    return float((sizes**2).sum() / sizes.sum()) if sizes.any() else 0.0


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
        """Condition as summaries show it."""
        least = f" by {self.by:g}" if self.by is not None else ""
        limit = f"<= {self.max_queries_worse} queries"
        return f"{self.measure} worse{least} on {limit}{self.against_text}"

    def decide_changes(self, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision on the number of queries that became worse, each by at least `by`.

        A mean can hide that some questions broke; this looks at each. It counts these queries and
        says nothing about others. Without `by` every query counts that became worse at all. A query
        with a failure may be worse or not: a verdict that such queries could change is undecided.
        """
        d = pairs.gains
        n = int((~np.isnan(d)).sum())
        count = self._n_worse(d)
        # failed queries at their best and worst bound the number
        least, most = (self._n_worse(pairs.with_failed(end)) for end in ("best", "worst"))
        by = f"by {self.by:g} or more" if self.by else "at all"
        why = f"{count} of {n} queries became worse {by}; allowed: {self.max_queries_worse}"
        n_failed = int(pairs.failed.sum())
        facts = Facts(n=n, n_worse=count, n_failed=n_failed)
        if not n:
            return Decision("undecided", not_compared(n_failed), facts=facts)
        verdict: Verdict = "fail" if least > self.max_queries_worse else "pass"
        if verdict == "pass" and most > self.max_queries_worse:
            verdict, why = "undecided", f"{why}; failures on {most - least} could turn it"
        return Decision(verdict, why, facts=facts)

    def _n_worse(self, differences: FloatArray) -> int:
        """Return the number of differences that are a drop by `by` or more."""
        # without `by` the margin is 0, which an unchanged query reaches too
        is_worse = reaches(-differences, self.margin) & (differences < 0)
        return int(is_worse.sum())
