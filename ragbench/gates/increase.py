"""Gate `max_increase`: whether a latency, a price or token count rose by more than a share."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated

import numpy as np

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.comparison.systems import with_cost_column
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.gates.base import within
from ragbench.gates.drop import Change, Identical, Spread, few_clusters, power_of, power_text
from ragbench.records.gate import Decision, Facts
from ragbench.registry import Option
from ragbench.stats import Increase, increase_interval, queries_for, t_quantile
from ragbench.stats.mean import finite
from ragbench.types import FloatArray

# Costs that are a quantile over the queries; the others are totals
_QUANTILES = {"latency_ms.p50": 0.5, "latency_ms.p95": 0.95}
_SHARE = "of the baseline's"
_ROUNDING = 1e-9  # a smaller increase is a rounding error


class CostIncrease(Change):
    """A latency, a price or a number of tokens did not rise by more than `max_increase`.

    `measure` is one of `COSTS`; further options are those of `Change`: `against`, `system` and
    `undecided`. `decide_systems(run)` yields a decision for each system, and raises KeyError if
    `run.baselines` lacks the file.

    Attributes:
        max_increase: Largest allowed increase of a cost, as a share of the baseline.
        identical: Verdict if every query costs the same as before: `pass`, or `undecided`.
    """

    conditions = ("max_increase",)
    of = "cost"

    max_increase: Annotated[float, Option(ge=0)]
    identical: Identical = "pass"

    @property
    def text(self) -> str:
        """Condition as summaries show it."""
        how = " (identical: undecided)" if self.identical == "undecided" else ""
        return f"{self.measure} increase <= {self.max_increase:g}{self.against_text}{how}"

    def check_baseline(self, baseline: ScoredSystems) -> None:
        """Check that a baseline has the costs of queries, and the systems that the gate names.

        Raises:
            DataError: No system of the baseline has costs, or a named system is missing.
        """
        if not any(system.costs for system in baseline.systems.values()):
            allowed = "a file of ragbench baseline --costs, or a run folder of this version"
            raise DataError(f"no {self.measure}", file=baseline.source, allowed=allowed)
        super().check_baseline(baseline)

    def columns_of(self, system: SystemScores, score: str) -> SystemScores:
        """Return the system with the cost as its column.

        Without columns if the system's cost is not known.
        """
        return with_cost_column(system, score)

    def is_not_worse(self, pairs: PairedScores, facts: Facts) -> bool:
        """Return True if the cost did not rise; False for an unknown increase."""
        return facts.increase is not None and facts.increase <= 0

    def decide_changes(self, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision on the relative increase of a cost.

        With [L, U] the interval of the increase: pass if U < max_increase, fail if L >
        max_increase, else undecided, with the number of queries that would decide. Two bare numbers
        are never compared: too few queries are undecided, and so are times that were measured for
        blocks of queries. Equal costs on every query give the verdict `identical`; one factor on
        every query is compared as it is. Clusters are the unit if there are any. Without a query
        whose cost is known in both, it is undecided.

        Example:
            >>> from ragbench.types import ScoreColumn
            >>> from ragbench.signature import Signature
            >>> column = lambda values: ScoreColumn(
            ...     "usd", values, np.zeros(40, np.uint8), Signature("usd"), "lower", 0.0, math.inf)
            >>> old = np.linspace(0.01, 0.02, 40)
            >>> new = column(old * np.tile([1.0, 1.2], 20))
            >>> pairs = PairedScores(new, column(old), "q" * 40)
            >>> gate = CostIncrease(measure="usd", max_increase=0.2)
            >>> decision = gate.decide_pairs(pairs, Method())
            >>> decision.verdict, round(decision.facts.increase, 3)
            ('pass', 0.101)
        """
        quantile, margin = _QUANTILES.get(self.measure), self.max_increase
        # queries without a cost on either side are left out of both
        has_both = ~np.isnan(pairs.gains)
        costs, base_costs = pairs.system.values[has_both], pairs.baseline.values[has_both]
        clusters = pairs.labels(has_both)
        if not len(costs):
            why = "not compared: known of no query in both; gate a cost that both have"
            return Decision("undecided", why, facts=Facts(n=0))
        interval = increase_interval(
            costs, base_costs, quantile=quantile, confidence=method.confidence,
            clusters=clusters, resamples=method.resamples, seed=method.seed,
        )  # fmt: skip
        n, increase, upper = interval.n, interval.increase, interval.upper
        n_clusters = None if clusters is None else len(np.unique(clusters))
        value, baseline = (_amount(values, quantile) for values in (costs, base_costs))
        decision = partial(
            Decision,
            facts=Facts(
                value=value,
                baseline=baseline,
                increase=finite(increase),
                interval=(finite(interval.lower), finite(upper)),
                n=n,
                rule=interval.rule,
                n_clusters=n_clusters,
            ),
        )
        why = f"{value:.4g} against {baseline:.4g}"
        why += "" if math.isnan(increase) else f": {increase:+.4g}"
        if interval.rule == "same_factor":  # the increase is known without an interval
            verdict = within(increase, None, margin)
            if abs(increase) < _ROUNDING:
                why = f"the same on all {n} queries: nothing changed, or nothing was called again"
                if self.identical == "undecided":
                    return decision("undecided", f"{why}; identical: pass accepts it")
                return decision(verdict, why)
            return decision(verdict, f"{why} {_SHARE} on every one of {n} queries")
        n_times = min(len(np.unique(costs)), len(np.unique(base_costs)))
        if few := _too_few(interval, n_times, quantile, n_clusters):
            return decision("undecided", f"{why}; {few}")
        why = f"{why} [{interval.lower:+.4g}, {upper:+.4g}] {_SHARE} over {pairs.counted(n)}"
        if upper < margin:
            return decision("pass", f"{why}: no increase by {margin:g} or more")
        if interval.lower > margin:
            return decision("fail", f"{why}: more than {margin:g}")
        n_units, unit = (n, "queries") if n_clusters is None else (n_clusters, "clusters")
        # the interval is no t interval: take the spread of a mean with a t interval of this width
        half, tail = (upper - interval.lower) / 2, (1 - method.confidence) / 2
        sd = half * math.sqrt(n_units) / t_quantile(1 - tail, n_units - 1)
        spread = Spread(increase, sd, n_units)
        power = power_of(spread, margin, method.confidence, widest=math.inf)
        words = power_text(power, n_units, unit, "increase")
        return decision("undecided", f"{why} includes {margin:g}; {words}", power=power)


def _too_few(
    interval: Increase, n_times: int, quantile: float | None, n_clusters: int | None
) -> str:
    """Return the reason why the queries cannot decide for other queries; empty if they can.

    The reasons are tried in this order: clusters, queries, different times, changes.

    Args:
        interval: Interval of the increase.
        n_times: Number of different costs of the system or its baseline, where that is smaller.
        quantile: Quantile that counts; None for a total.
        n_clusters: Number of clusters; None without clusters.
    """
    # a high quantile of few queries is their largest value
    least = queries_for(quantile)
    if few := few_clusters(n_clusters):
        return few
    if interval.n < least:
        return f"{interval.n} queries are too few; from {least} on they can decide"
    # queries that were answered in one block have the same time
    if quantile is not None and n_times < least:
        return (
            f"only {n_times} different times, as queries were answered in blocks; from {least} on "
            "they can decide"
        )
    if math.isnan(interval.lower):
        return "too few queries changed, and the cost has no upper end; more queries can decide"
    return ""


def _amount(values: FloatArray, quantile: float | None) -> float:
    """Return the total of costs, or their quantile.

    At least one cost; NumPy's linear interpolation between two.
    """
    return float(values.sum() if quantile is None else np.quantile(values, quantile))
