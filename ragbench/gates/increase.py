"""`max_increase`: whether a latency, a price or a number of tokens rose by more than a share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores, both_means, worst_queries
from ragbench.comparison.systems import finite, with_cost_column
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.gates.base import Decision, within
from ragbench.gates.change import Change, Identical, Spread, few_clusters, power_of, shown_power
from ragbench.records.gate import Facts, Verdict
from ragbench.registry import Option
from ragbench.stats import Increase as IncreaseInterval
from ragbench.stats import increase_interval, queries_for, t_quantile
from ragbench.types import FloatArray

_QUANTILES = {"latency_ms.p50": 0.5, "latency_ms.p95": 0.95}
"""Costs of which a quantile over the queries counts; the others are totals."""
_SHARE = "of the baseline's"

Amounts = tuple[float, float]
"""A cost now and before: a total, or a quantile."""


@dataclass(frozen=True, kw_only=True)
class Increase(Change):
    """A latency, a price or a number of tokens did not rise by more than `max_increase`."""

    conditions = ("max_increase",)
    of = "cost"

    max_increase: Annotated[
        float, Option("Largest allowed increase of a cost, as a share of the baseline.", ge=0)
    ]
    identical: Identical = "pass"

    @property
    def text(self) -> str:
        """The condition."""
        how = " (identical: undecided)" if self.identical == "undecided" else ""
        return f"{self.measure} increase <= {self.max_increase:g}{self.shown_against}{how}"

    def check_reference(self, base: ScoredSystems) -> None:
        """The costs of queries are there, and the systems that it names."""
        if not any(each.costs for each in base.systems.values()):
            allowed = "a file of ragbench baseline --costs, or a run folder of this version"
            raise DataError(f"no {self.measure}", file=base.source, allowed=allowed)
        super().check_reference(base)

    def columns_of(self, system: SystemScores, score: str) -> SystemScores:
        """Return the system with the cost as its column."""
        return with_cost_column(system, score)

    def decide_pairs(self, pairs: PairedScores, method: Method) -> Decision:
        """Decide whether a cost rose by more than a share of the baseline's.

        With [L, U] the interval of the relative increase: pass where U < max_increase, fail where
        L > max_increase, else undecided, with the queries that it would take. Two bare numbers are
        never compared: too few queries are undecided, and so are times that were measured for
        blocks of queries at once. What is the same on every query passes; one factor on every query
        is compared with the share as it is. Clusters, where there are any, are the unit.

        Example:
            >>> from ragbench.types import ScoreColumn
            >>> from ragbench.signature import Signature
            >>> column = lambda values: ScoreColumn(
            ...     "usd", values, np.zeros(40, np.uint8), Signature("usd"), "lower", 0.0, math.inf)
            >>> before = np.linspace(0.01, 0.02, 40)
            >>> now = column(before * np.tile([1.0, 1.2], 20))
            >>> pairs = PairedScores(now, column(before), "q" * 40)
            >>> found = Increase(measure="usd", max_increase=0.2).decide_pairs(pairs, Method())
            >>> found.verdict, round(found.facts.increase, 3)
            ('pass', 0.101)
        """
        quantile, margin = _QUANTILES.get(self.measure), self.max_increase
        known = ~np.isnan(pairs.differences())
        now, before = pairs.system.values[known], pairs.baseline.values[known]
        clusters = None if pairs.clusters is None else np.asarray(pairs.clusters)[known]
        if not len(now):
            return Decision("undecided", "not compared: known of no query in both", Facts(n=0))
        found = increase_interval(
            now, before, quantile=quantile, confidence=method.confidence, clusters=clusters,
            resamples=method.resamples, seed=method.seed,
        )  # fmt: skip
        n_clusters = None if clusters is None else len(np.unique(clusters))
        amounts = _amount(now, quantile), _amount(before, quantile)
        decision = partial(
            Decision,
            facts=_facts(found, amounts, n_clusters),
            means=both_means(pairs),
            worst_queries=worst_queries(pairs),
        )
        if found.rule == "same_factor":
            verdict = _beyond(found, margin) or "pass"
            is_open = _is_same(found) and self.identical == "undecided"
            return decision("undecided" if is_open else verdict, _same(found, amounts))
        few = _too_few(found, now, before, quantile, n_clusters)
        if few:
            return decision("undecided", f"{_shown(found, amounts)}; {few}")
        why = (
            f"{_shown(found, amounts)} [{found.lower:+.4g}, {found.upper:+.4g}] {_SHARE} over "
            f"{found.n} queries"
        )
        decided = _beyond(found, margin)
        if decided == "pass":
            return decision("pass", f"{why}: no increase by {margin:g} or more")
        if decided == "fail":
            return decision("fail", f"{why}: more than {margin:g}")
        n_units = found.n if n_clusters is None else n_clusters
        # the spread that a mean of so many would have with this interval
        half, tail = (found.upper - found.lower) / 2, (1 - method.confidence) / 2
        sd = half * math.sqrt(n_units) / t_quantile(1 - tail, n_units - 1)
        spread = Spread(found.increase, sd, n_units)
        power = power_of(spread, margin, method.confidence, widest=math.inf)
        unit = "queries" if n_clusters is None else "clusters"
        why = f"{why} includes {margin:g}; {shown_power(power, n_units, unit, 'increase')}"
        return decision("undecided", why, power=power)


def _beyond(found: IncreaseInterval, max_increase: float) -> Verdict | None:
    if found.rule == "same_factor":  # a number, not an interval
        return within(found.increase, None, max_increase)
    if found.upper < max_increase:
        return "pass"
    return "fail" if found.lower > max_increase else None


def _too_few(
    found: IncreaseInterval,
    now: FloatArray,
    before: FloatArray,
    quantile: float | None,
    n_clusters: int | None,
) -> str:
    """Why nothing can be said of other queries; nothing where it can."""
    least = queries_for(quantile)
    if few := few_clusters(n_clusters):
        return few
    if found.n < least:
        return f"{found.n} queries are too few; from {least} on they can decide"
    n_times = min(len(np.unique(now)), len(np.unique(before)))
    if quantile is not None and n_times < least:
        return (
            f"only {n_times} different times, as queries were answered in blocks; from {least} on "
            "they can decide"
        )
    if math.isnan(found.lower):
        return "too few queries changed, and the cost has no upper end"
    return ""


def _amount(values: FloatArray, quantile: float | None) -> float:
    return float(values.sum() if quantile is None else np.quantile(values, quantile))


def _facts(found: IncreaseInterval, amounts: Amounts, n_clusters: int | None) -> Facts:
    return Facts(
        value=amounts[0],
        baseline=amounts[1],
        increase=finite(found.increase),
        interval=(finite(found.lower), finite(found.upper)),
        n=found.n,
        rule=found.rule,
        n_clusters=n_clusters,
    )


def _shown(found: IncreaseInterval, amounts: Amounts) -> str:
    shown = f"{amounts[0]:.4g} against {amounts[1]:.4g}"
    return shown if math.isnan(found.increase) else f"{shown}: {found.increase:+.4g}"


def _is_same(found: IncreaseInterval) -> bool:
    return abs(found.increase) < 1e-9


def _same(found: IncreaseInterval, amounts: Amounts) -> str:
    if _is_same(found):
        return f"the same on all {found.n} queries: nothing changed, or nothing was called again"
    return f"{_shown(found, amounts)} {_SHARE} on every one of {found.n} queries"
