"""Gate `cheapest_within`, and the cheapest system of a run that is surely not much worse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, get_args

import numpy as np
from msgspec import structs

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores, pair_columns, systems_with
from ragbench.comparison.signatures import unlike_measures
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.gates import base
from ragbench.gates.drop import Drop, few_clusters
from ragbench.records.causes import gated_score
from ragbench.records.gate import Decision, Facts
from ragbench.records.summary import CheapestSystem, QueryCost, cost_text
from ragbench.registry import Option
from ragbench.types.lookups import take_items

# Times of a few milliseconds depend on the load of the machine more than on the system
_SHORT_MS = 10.0
_VERDICTS = ("fail", "undecided", "pass")


class _Loss(Drop):
    """A loss against another system, in a gate that has no key `identical` to name."""

    identical_advice = ()


@dataclass(frozen=True)
class CostComparison:
    """Systems that are cheaper than one of them, and surely not worse than the best by a margin.

    The best system is not known, only the one with the best mean. So a system counts as within the
    margin only if each paired interval of its difference from another system excludes a larger
    loss: then it is within the margin of the best one, whichever that is. No correction is needed
    for these intervals, as all of them have to hold. As several systems may be within the margin by
    chance, their confidence is raised by Bonferroni's rule for the number of systems that the rule
    may choose from. `benchmarks/cheapest.py` simulates the rule, and simpler ones that fail.
    `cheapest` returns the choice, and `decide` the decision on two systems.

    Attributes:
        system: Name of the system; it may be replaced by systems that answer, too, if it does.
        systems: All systems that have the measure, by name.
        measure: Name of the measure.
        margin: Largest loss, in the unit of the measure.
        method: Options of the intervals.
        query_ids: Queries, in the order of the scores.
        clusters: Cluster label of each query; None if queries are units.

    References:
        Hsu (1984), Constrained simultaneous confidence intervals for multiple comparisons with the
        best; Berger (1982), Multiparameter hypothesis testing and acceptance sampling.
    """

    system: str
    systems: Mapping[str, SystemScores]
    measure: str
    margin: float
    method: Method
    query_ids: Sequence[str]
    clusters: Sequence[str] | None = None

    @cached_property
    def costs(self) -> tuple[QueryCost, dict[str, float]]:
        """Kind of cost, and system -> cost of a query, for the systems that may be chosen.

        The kind is the first of dollars, tokens and milliseconds that is known of two systems and
        differs; without one the result is (`usd`, {}). A system whose cost is not known is left
        out.
        """
        answers = _has_answers(self.systems[self.system])
        peers = []
        for system in self.systems.values():
            if _has_answers(system) == answers:
                peers.append(system)
        for cost in get_args(QueryCost):
            costs = {}
            for peer in peers:
                value = _cost_of_query(peer, cost)
                if not math.isnan(value):
                    costs[peer.name] = value
            if len({*costs.values()}) > 1:
                return cost, costs
        return "usd", {}

    @property
    def cheaper(self) -> list[str]:
        """Systems that are cheaper than the system, the cheapest first; [] if its cost is unknown.

        A time counts as lower only if that of the system is 10 ms or more, and it is at most half
        of that. Equal costs keep the order of the systems.
        """
        cost, costs = self.costs
        limit, is_time = costs.get(self.system, 0.0), cost == "latency_ms"
        cheaper = []
        for name, amount in costs.items():
            is_lower = max(2 * amount, _SHORT_MS) <= limit if is_time else amount < limit
            if is_lower:
                cheaper.append(name)
        return sorted(cheaper, key=costs.__getitem__)

    def rivals(self, system: str) -> list[str]:
        """Return the other systems, the best mean first; equal means keep their order."""
        columns = {}
        for name, scores in self.systems.items():
            columns[name] = scores.columns[self.measure]
        sign = -1 if columns[system].direction == "higher" else 1
        names = sorted(columns, key=lambda name: sign * columns[name].mean)
        rivals = []
        for name in names:
            if name != system:
                rivals.append(name)
        return rivals

    @cached_property
    def _corrected(self) -> Method:
        """Method with the confidence that Bonferroni's rule gives, that of the run at least."""
        n_wrong = len(self.costs[1]) - 1  # the best system is never a wrong choice
        # one end counts, so that two such intervals have the error of the run together
        error = (1 - self.method.confidence) * 2 / max(n_wrong, 2)
        return replace(self.method, confidence=1 - error)

    def _pair(self, system: str, rival: str) -> PairedScores:
        systems = self.systems[system], self.systems[rival]
        pairs = pair_columns(self.measure, *systems, self.clusters)
        return replace(pairs, query_ids=self.query_ids)

    def decide(self, system: str, rival: str) -> Decision:
        """Return the decision on a drop by the margin from a rival.

        Systems with equal scores pass only if so many queries exclude a drop by the margin.
        """
        gate = _Loss(measure=self.measure, max_drop=self.margin, identical="undecided")
        return gate.decide_pairs(self._pair(system, rival), self._corrected)

    def is_within(self, system: str) -> bool:
        """Return True if `decide` passes for each rival of a system; True without rivals.

        The check stops at the first rival that fails. It plans no number of queries, which takes
        far longer.
        """
        for rival in self.rivals(system):
            pairs = self._pair(system, rival)
            worst = pairs.with_failed("worst")
            if np.isinf(worst).any():  # a score without a bound could have any value
                return False
            ends = pairs.gain_interval(worst, self._corrected)
            if few_clusters(ends.n_clusters) or not ends.lower > -self.margin:
                return False
        return True

    def cheapest(self) -> CheapestSystem | None:
        """Return the cheapest system that is surely within the margin, for the best system.

        `self.system` counts as the best one. The result is None if no system is cheaper, or its
        cost is not known. `system` of the result is None if no cheaper system is surely within the
        margin.
        """
        best, (cost, costs), cheaper = self.system, self.costs, self.cheaper
        if not cheaper:
            return None
        system = next(filter(self.is_within, cheaper), None)
        return CheapestSystem(
            measure=self.measure,
            margin=self.margin,
            best=best,
            system=system,
            cost=cost,
            costs={name: costs[name] for name in (system, best) if name is not None},
        )


def scored_by(score: str, systems: Iterable[SystemScores]) -> dict[str, SystemScores]:
    """Return the systems that have a value of a score, by name, in their order."""
    having = systems_with(score, systems)
    scored = {}
    for name, system in having.items():
        if not math.isnan(system.columns[score].mean):
            scored[name] = system
    return scored


def _has_answers(system: SystemScores) -> bool:
    """Return True if answers of a system are scored, and not its ranking alone."""
    return any(kind != "retrieval" for kind in system.kinds.values())


def _cost_of_query(system: SystemScores, cost: QueryCost) -> float:
    """Return the mean of dollars or tokens, or the median of milliseconds, over known queries."""
    names = ("tokens.input", "tokens.output") if cost == "tokens" else (cost,)
    values = np.sum([system.costs.get(name, np.array([np.nan])) for name in names], axis=0)
    values = values[~np.isnan(values)]
    middle = np.median if cost == "latency_ms" else np.mean
    return float(middle(values)) if len(values) else math.nan


class Cheapest(base.SystemGate):
    """The cheapest system that is surely not worse than the best by more than a margin.

    It fails if a cheaper system is surely within the margin too, or if the system is surely worse
    by more than the margin. The cost is US dollars a query; where they are not known or do not
    differ, tokens, then milliseconds. Without any known difference of costs it is undecided.
    Further options are those of `Gate`: `system`, which is needed, and `undecided`.

    Attributes:
        measure: Name of a score; None takes `right` or else the first one of the system, of those
            that are no sum; `found` only without others.
    """

    quantity_key = "cheapest_within"
    score_key = "measure"
    conditions: ClassVar[tuple[str, ...]] = ()

    cheapest_within: Annotated[
        float, Option("Largest loss against the best system; needs `system`.", ge=0)
    ]
    measure: base.Measure | None = None

    @property
    def text(self) -> str:
        """Condition as summaries show it."""
        by = f" by {self.measure}" if self.measure else ""
        return f"cheapest within {self.cheapest_within:g} of the best{by}"

    def check_condition(self, score: base.ScoreFacts | None) -> Iterator[base.GateProblem]:
        """Yield a problem for a gate without a system, a sum, and a margin beyond the range.

        Nothing is yielded about an unknown score.
        """
        if self.system is None:
            yield base.GateProblem(None, "missing key 'system'", "system: the name of one")
        drop = Drop(measure=self.quantity, max_drop=self.cheapest_within)
        for problem in drop.check_condition(score):
            yield replace(problem, key=self.quantity_key)

    def decide_system(self, candidate: base.Candidate) -> Decision:
        """Return the decision on one system, by the costs and scores of all that have the score.

        Undecided if no query has the score, its cost is not known, or no costs differ; and with
        `refused` True if signatures of the score differ.
        `facts.value` is the cost. A system that fails because of a cheaper one has that cost as
        `facts.baseline`. Else means and interval are those against the rival with the best mean, of
        the rivals with the worst verdict.
        """
        run, system, margin = candidate.run, candidate.system, self.cheapest_within
        means = []
        for name, column in system.columns.items():
            if column.aggregate != "sum":
                means.append(name)
        score = candidate.score or gated_score(means)
        systems = scored_by(score, candidate.having.values())
        if system.name not in systems:
            by = score or "any measure"
            why = f"no query has a score by {by}; gate another measure, or run with --retry-failed"
            return Decision(verdict="undecided", why=why)
        if (unlike := unlike_measures([*systems.values()]).get(score)) is not None:
            why = f"refused: {score} cannot be compared: {unlike}"
            return Decision(verdict="undecided", why=why, refused=True)
        ids, labels = run.scored.query_ids, run.clusters
        clusters = None if labels is None else take_items(labels, ids)
        comparison = CostComparison(system.name, systems, score, margin, run.method, ids, clusters)
        cost, costs = comparison.costs
        if (value := costs.get(system.name)) is None:
            why = "its cost is not known, or no two known costs differ; give prices of its model"
            return Decision(verdict="undecided", why=why)
        cheaper = next(filter(comparison.is_within, comparison.cheaper), None)
        if cheaper is not None:
            amounts = cost_text(cost, costs[cheaper], value)
            why = f"{cheaper} is cheaper and surely within {margin:g} of the best: {amounts}"
            return Decision(
                verdict="fail", why=why, facts=Facts(value=value, baseline=costs[cheaper])
            )
        rivals = comparison.rivals(system.name)
        decisions = [(rival, comparison.decide(system.name, rival)) for rival in rivals]
        rival, decision = min(decisions, key=lambda pair: _VERDICTS.index(pair[1].verdict))
        why = f"{cost_text(cost, value)}; {score} against {rival}: {decision.why}"
        return structs.replace(
            decision, why=why, facts=structs.replace(decision.facts, value=value)
        )
