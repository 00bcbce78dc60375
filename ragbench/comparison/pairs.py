"""Pairs of systems: which are compared by which measure, query by query; which a judge prefers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ragbench import stats
from ragbench.comparison.matching import meet
from ragbench.comparison.method import Method
from ragbench.comparison.systems import baselines, is_open, summarize, with_failed_at
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.records.comparison import Preference, PreferredPair
from ragbench.records.gate import WorseQuery
from ragbench.records.summary import PreferredSystem
from ragbench.stats import paired_differences
from ragbench.stats.bradley_terry import win_matrix
from ragbench.stats.mean import finite
from ragbench.types import Cause, FloatArray, ScoreColumn

_EQUAL = 1e-9  # strengths that differ by less have one rank


def pair_systems(
    systems: Sequence[SystemScores], baseline: str | None
) -> dict[str, tuple[PairedScores, ...]]:
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


def pair_columns(name: str, system: SystemScores, other: SystemScores) -> PairedScores:
    """Pair a system with any other one that has the measure."""
    columns = (system.columns[name], other.columns[name])
    return PairedScores(*columns, measure=name, names=(system.name, other.name))


Truths = NDArray[np.bool_]

SHOWN_QUERIES = 5
_ROUNDING = 1e-12  # of the numbers compared; what differs by less is equal


@dataclass(frozen=True)
class PairedScores:
    """Scores of a system and of its baseline by one measure, over the same queries in one order.

    Attributes:
        system: Scores of the system.
        baseline: Scores of its baseline.
        query_ids: Queries in the order of both columns; empty if the caller needs none.
        clusters: Cluster label of each query; None if each query is a unit of its own.
        measure: Name of the measure; empty if the caller needs none.
        names: Names of the system and of its baseline; empty if the caller needs none.
    """

    system: ScoreColumn
    baseline: ScoreColumn
    query_ids: Sequence[str] = ()
    clusters: Sequence[str] | None = None
    measure: str = ""
    names: tuple[str, str] = ("", "")

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
        failed: Truths = (has_failed[0] | has_failed[1]) & could_be_pairs
        return failed

    @cached_property
    def differences(self) -> FloatArray:
        """System minus baseline for each query; NaN where either has no score."""
        return paired_differences(self.system.values, self.baseline.values)

    @property
    def gains(self) -> FloatArray:
        """Differences with their sign turned where lower scores are better: up is better."""
        return self.sign * self.differences

    def with_failed(self, end: Literal["worst", "best"]) -> FloatArray:
        """Return the differences of all pairs, what failed at the worst, or best, for the system.

        Infinite where a score has no bound.
        """
        low, high = self.range if self.sign == 1 else self.range[::-1]
        for_system, for_baseline = (low, high) if end == "worst" else (high, low)
        b, a = with_failed_at(self.system, for_system), with_failed_at(self.baseline, for_baseline)
        # rounding is of finite scores: an end without a bound stays infinite
        d = np.where(np.isinf(b - a), b - a, paired_differences(b, a))
        return np.where(self.failed, self.sign * d, self.gains)


# Where a score is from: all systems, the one in question, and the name of its score.
Scored = tuple[ScoredSystems, SystemScores, str]


def pair_scores(
    system: Scored, baseline: Scored, clusters: Mapping[str, str] | None = None
) -> PairedScores:
    """Put a score of two systems, from wherever they are, over the same queries in one order.

    `clusters` are by query. Where signatures or query sets differ the error says how.
    """
    # both under one name, so that they are compared whatever they are called
    name = system[2]
    base, run = (
        replace(source, systems={name: replace(scores, columns={name: scores.columns[score]})})
        for source, scores, score in (baseline, system)
    )
    met = meet(base, [run], measures=[name])
    old, new = (source.systems[name].columns[name] for source in met.sources)
    ids = met.sources[1].query_ids
    return PairedScores(
        new, old, ids, None if clusters is None else [clusters[query] for query in ids]
    )


# Which cluster each query is in.
Labels = np.ndarray[tuple[int], np.dtype[Any]]
Ends = tuple[float, float]


def paired_interval(
    differences: FloatArray,
    method: Method,
    *,
    range: Ends = (0.0, 1.0),
    clusters: Labels | None = None,
) -> stats.DifferenceInterval:
    """Compute the mean difference over the queries that both systems have a score for.

    Args:
        differences: Shape (n,), a row for each query; NaN where either system has no score.
        method: Confidence, resamples and seed of the interval.
        range: The smallest and the largest possible score of one system.
        clusters: The cluster of each query.
    """
    has_both = ~np.isnan(differences)
    return stats.difference_interval(
        differences[has_both],
        range=range,
        confidence=method.confidence,
        clusters=None if clusters is None else clusters[has_both],
        resamples=method.resamples,
        seed=method.seed,
    )


def both_means(pairs: PairedScores) -> tuple[float, float]:
    """Return the mean before and after, over the queries that both have a score for."""
    has_both = ~np.isnan(pairs.differences)
    return float(pairs.baseline.values[has_both].mean()), float(
        pairs.system.values[has_both].mean()
    )


def worst_queries(pairs: PairedScores) -> tuple[WorseQuery, ...]:
    """Return the queries that lost most, worst first, with both scores; at most five."""
    d = pairs.gains
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
    """Return True for values that reach a limit, rounding errors aside; NaN never does."""
    reached: Truths = values >= limit - _ROUNDING * max(1.0, abs(limit))
    return reached


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two systems whose answers were compared query by query.

    Attributes:
        system: The first system: a win is its win.
        other: The second.
        column: 1 where the first won, 0.5 for a tie, 0 where it lost.
        same: How many of the ties are equal answers.
    """

    system: str
    other: str
    column: ScoreColumn
    same: int = 0


def compare_preferences(pairs: Sequence[ComparedPair], method: Method) -> Preference:
    """Describe what a judge prefers by one rubric.

    The win rate of a pair is its wins and half its ties, over the queries that were judged. The
    pairs are one family: that no side of a pair is preferred is tested by sign flips over the
    queries, adjusted by Holm's procedure.

    References:
        Zheng et al. (2023), Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena.
    """
    names = list(dict.fromkeys(name for pair in pairs for name in (pair.system, pair.other)))
    ends = [(names.index(pair.system), names.index(pair.other)) for pair in pairs]
    table = np.column_stack([pair.column.values for pair in pairs])
    strengths = stats.bradley_terry_strengths(table, ends, confidence=method.confidence)
    comparisons = tuple(_comparisons(pairs, table, method))
    wins = win_matrix(table, ends)
    return Preference(
        systems=tuple(_systems(names, strengths, comparisons)),
        rule=strengths.rule,
        notes=tuple(_notes(names, strengths)),
        comparisons=comparisons,
        win_matrix={
            name: {
                other: float(won / (won + lost))
                for other, won, lost in zip(names, row, column, strict=True)
                if won + lost > 0
            }
            for name, row, column in zip(names, wins, wins.T, strict=True)
        },
    )


def _comparisons(
    pairs: Sequence[ComparedPair], table: FloatArray, method: Method
) -> Iterator[PreferredPair]:
    alpha = 1 - method.confidence
    resamples = max(method.resamples, stats.resamples_needed(len(pairs), alpha=alpha))
    p_values = stats.randomization_p_values(2 * table - 1, resamples=resamples, seed=method.seed)
    for pair, p, adjusted in zip(pairs, p_values, stats.holm_p_values(p_values), strict=True):
        score = summarize(pair.column, confidence=method.confidence)
        values = Counter(pair.column.values.tolist())
        yield PreferredPair(
            system=pair.system,
            other=pair.other,
            wins=values[1.0],
            ties=values[0.5],
            losses=values[0.0],
            same_answer=pair.same,
            win_rate=score.mean,
            interval=score.interval or (None, None),
            n=score.n,
            failed=score.failed,
            not_applicable=score.not_applicable,
            bounds=score.bounds or (None, None),
            signature=score.signature,
            p=finite(p),
            p_adjusted=finite(adjusted),
            differs=bool(adjusted <= alpha),
        )


def _systems(
    names: Sequence[str], strengths: stats.Strengths, comparisons: Sequence[PreferredPair]
) -> Iterator[PreferredSystem]:
    """Yield each system with its strength, its wins and its losses against all others."""
    values = strengths.values
    for row, name in enumerate(names):
        pairs = [c for c in comparisons if name in (c.system, c.other)]
        won = sum(c.wins if c.system == name else c.losses for c in pairs)
        lost = sum(c.losses if c.system == name else c.wins for c in pairs)
        tied, n = sum(c.ties for c in pairs), sum(c.n for c in pairs)
        # there is no rank over all where comparisons do not connect all systems
        is_ranked = len(strengths.groups) == 1
        yield PreferredSystem(
            system=name,
            rank=1 + int((values > values[row] + _EQUAL).sum()) if is_ranked else None,
            strength=finite(values[row]),
            interval=(finite(strengths.lower[row]), finite(strengths.upper[row])),
            win_rate=(won + tied / 2) / n if n else None,
            wins=won,
            ties=tied,
            losses=lost,
            failed=dict(sum((Counter(c.failed) for c in pairs), Counter())),
            not_applicable=sum(c.not_applicable for c in pairs),
        )


def _notes(names: Sequence[str], strengths: stats.Strengths) -> list[str]:
    notes = []
    if strengths.rule == "plus_tie":
        notes.append(
            "some systems never lost to the others, which no finite strength explains: strengths "
            "are those with one tie added to each pair"
        )
    if len(strengths.groups) > 1:
        groups = "; ".join(
            ", ".join(names[system] for system in group) for group in strengths.groups
        )
        notes.append(
            f"no comparison connects these, so that there is no rank over all: {groups}; strengths "
            "are within each group"
        )
    return notes
