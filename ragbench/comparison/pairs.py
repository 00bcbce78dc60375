"""Which systems are compared by which measure, and their scores query by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ragbench.comparison.comparable import meet
from ragbench.comparison.method import look_of
from ragbench.comparison.sources import ScoredSystems
from ragbench.comparison.systems import SystemScores, baselines, is_open, with_failed_at
from ragbench.records.gate import WorseQuery
from ragbench.score.base import Look, ScoreColumn
from ragbench.stats import paired_differences
from ragbench.types import Cause, FloatArray


@dataclass(frozen=True, slots=True)
class Pair:
    """A system and its baseline by one measure."""

    measure: str
    system: str
    baseline: str
    column: ScoreColumn
    """Of the system."""
    differences: FloatArray
    """Score of the system minus score of the baseline; NaN where either has none."""
    look: Look | None = None
    """When the judge of either stopped early, or could have."""


def pair_systems(
    systems: Sequence[SystemScores], baseline: str | None
) -> dict[str, tuple[Pair, ...]]:
    """Pair every system that has a measure with its baseline; a sum over queries has no pairs."""
    return {
        name: tuple(
            pair_columns(name, system, other)
            for system in systems
            if (other := of_system.get(system.name)) is not None
            and system.columns[name].aggregate != "sum"
        )
        for name, of_system in baselines(systems, baseline).items()
    }


def having(name: str, systems: Sequence[SystemScores]) -> dict[str, SystemScores]:
    """Return the systems that have a measure, by name."""
    return {system.name: system for system in systems if name in system.columns}


def pair_columns(name: str, system: SystemScores, other: SystemScores) -> Pair:
    """Pair a system with any other one that has the measure."""
    column, theirs = system.columns[name], other.columns[name]
    d = paired_differences(column.values, theirs.values)
    return Pair(name, system.name, other.name, column, d, look_of(column, theirs))


Truths = NDArray[np.bool_]

SHOWN_QUERIES = 5
_ROUNDING = 1e-12  # of the numbers compared; what differs by less is equal


@dataclass(frozen=True, slots=True)
class PairedScores:
    """One score of a system and of its baseline, over the same queries in the same order."""

    system: ScoreColumn
    baseline: ScoreColumn
    """Of what it is tested against."""
    query_ids: Sequence[str]
    clusters: Sequence[str] | None = None
    """Queries with equal labels belong together; None where each stands for itself."""

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is: times it, up is better."""
        return 1 if self.system.direction == "higher" else -1

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest possible score of one query."""
        return (self.system.low, self.system.high)

    @property
    def failed(self) -> Truths:
        """Pairs that a failure leaves open, in whole or where one of several answers failed.

        One whose other half does not apply is no pair.
        """
        has_failed = [is_open(c) for c in (self.system, self.baseline)]
        has_score = [c.causes == Cause.SCORED for c in (self.system, self.baseline)]
        could_be_pairs = (has_failed[0] | has_score[0]) & (has_failed[1] | has_score[1])
        found: Truths = (has_failed[0] | has_failed[1]) & could_be_pairs
        return found

    def differences(self) -> FloatArray:
        """System minus baseline for each query, up is better; NaN where one has no score."""
        return self.sign * paired_differences(self.system.values, self.baseline.values)

    def with_failed(self, end: Literal["worst", "best"]) -> FloatArray:
        """Return the differences of all pairs, what failed at the worst, or best, for the system.

        Infinite where a score has no bound.
        """
        low, high = self.range if self.sign == 1 else self.range[::-1]
        for_system, for_baseline = (low, high) if end == "worst" else (high, low)
        b, a = with_failed_at(self.system, for_system), with_failed_at(self.baseline, for_baseline)
        # rounding is of finite scores: an end without a bound stays infinite
        d = np.where(np.isinf(b - a), b - a, paired_differences(b, a))
        return np.where(self.failed, self.sign * d, self.differences())


Scored = tuple[ScoredSystems, SystemScores, str]
"""Where a score is from: all systems, the one in question, and the name of its score."""


def pair_scores(
    now: Scored, before: Scored, clusters: Mapping[str, str] | None = None
) -> PairedScores:
    """Put a score of two systems, from wherever they are, over the same queries in one order.

    `clusters` are by query. Where signatures or query sets differ the error says how.
    """
    (run, system, name), (base, other, theirs) = now, before
    met = meet(
        replace(base, systems={name: replace(other, columns={name: other.columns[theirs]})}),
        [replace(run, systems={name: replace(system, columns={name: system.columns[name]})})],
        measures=[name],
    )
    old, new = (source.systems[name].columns[name] for source in met.sources)
    ids = met.sources[1].query_ids
    return PairedScores(
        new, old, ids, None if clusters is None else [clusters[query] for query in ids]
    )


def both_means(pairs: PairedScores) -> tuple[float, float]:
    """Return the mean before and after, over the queries that both have a score for."""
    known = ~np.isnan(pairs.differences())
    before, after = (float(each.values[known].mean()) for each in (pairs.baseline, pairs.system))
    return before, after


def worst_queries(pairs: PairedScores) -> tuple[WorseQuery, ...]:
    """Return the queries that lost most, worst first, with both scores; at most five."""
    d = pairs.differences()
    order = np.argsort(d, kind="stable")  # NaN comes last
    return tuple(
        WorseQuery(
            query_id=pairs.query_ids[row],
            score=float(pairs.system.values[row]),
            baseline=float(pairs.baseline.values[row]),
        )
        for row in order[:SHOWN_QUERIES].tolist()
        if d[row] < 0
    )


def at_least(values: FloatArray, limit: float) -> Truths:
    """Whether values reach a limit, rounding errors aside; NaN never does."""
    reached: Truths = values >= limit - _ROUNDING * max(1.0, abs(limit))
    return reached
