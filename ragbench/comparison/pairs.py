"""Paired scores of systems and baselines over the same queries; preferences of a judge by pair."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ragbench import stats
from ragbench.comparison.matching import LEAST_COMMON, QueryChanges, match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.signatures import unlike_measures
from ragbench.comparison.systems import baselines, is_open, with_failed_at
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.records.comparison import Difference
from ragbench.records.gate import WorseQuery
from ragbench.stats import paired_differences
from ragbench.stats.difference import PairedUnits, paired_units
from ragbench.types import Cause, FloatArray, ScoreColumn
from ragbench.types.display import counted
from ragbench.types.rows import BoolArray

Clusters = Sequence[str] | NDArray[Any] | None


def pair_systems(
    systems: Sequence[SystemScores],
    baseline: str | None,
    clusters: Clusters = None,
    tolerated: Collection[str] = frozenset(),
) -> dict[str, tuple[PairedScores, ...]]:
    """Return score -> paired scores of each system that has a baseline by this score.

    `baseline` is the name of the baseline retriever, app or system of records; None, or an unknown
    name, takes the first system of the same kind, see `baseline_of`. `clusters` has the cluster
    label of each query; None if queries are units. A score that is summed over queries, such as a
    count of documents, has no pairs (an empty tuple). Systems keep their order; scores are in the
    order in which the systems name them first. The pairs have no query ids. `tolerated` are parts
    of signatures that may differ, as in `unlike_parts`.
    """
    pairs: dict[str, tuple[PairedScores, ...]] = {}
    for name, baseline_of_system in baselines(systems, baseline).items():
        of_score = []
        for system in systems:
            other = baseline_of_system.get(system.name)
            if other is not None and system.columns[name].aggregate != "sum":
                of_score.append(pair_columns(name, system, other, clusters, tolerated))
        pairs[name] = tuple(of_score)
    return pairs


def systems_with(name: str, systems: Iterable[SystemScores]) -> dict[str, SystemScores]:
    """Return the systems that have a measure, by name, in their order; empty if none has it."""
    by_name = {}
    for system in systems:
        if name in system.columns:
            by_name[system.name] = system
    return by_name


def pair_columns(
    name: str,
    system: SystemScores,
    other: SystemScores,
    clusters: Clusters = None,
    tolerated: Collection[str] = frozenset(),
) -> PairedScores:
    """Pair a system with another one by a measure; raise KeyError if one of them lacks it.

    The result has no query ids, and no differences if the signatures of the two forbid them.

    Args:
        name: Name of the measure.
        system: System of the pair.
        other: Its baseline.
        clusters: Cluster label of each query; None if queries are units.
        tolerated: Parts of signatures that may differ, as in `unlike_parts`.
    """
    columns, names = (system.columns[name], other.columns[name]), (system.name, other.name)
    unlike = unlike_measures([_only(name, other), _only(name, system)], tolerated)
    return PairedScores(
        *columns, clusters=clusters, measure=name, names=names, unlike=unlike.get(name, "")
    )


def _only(name: str, system: SystemScores) -> SystemScores:
    """Return a system with the column of one measure alone."""
    return replace(system, columns={name: system.columns[name]})


# Number of queries that a decision on a gate names.
SHOWN_QUERIES = 5
# Relative rounding error: a mean of equal scores may miss its limit by less than this.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class PairedScores:
    """Scores of a system and of its baseline by one measure, over the same queries in one order.

    `pair_scores` returns it with query ids and changes, `pair_columns` with measure and names.
    Arrays of its properties have shape (n,), in the order of the queries. `differences` are system
    minus baseline; in `gains` up is better. Both are NaN where either has no score. `interval`
    and `gain_interval` raise OptionError for a difference beyond the range of the score.

    Attributes:
        system: Scores of the system.
        baseline: Scores of its baseline.
        query_ids: Queries in the order of both columns; empty if the caller needs none.
        clusters: Cluster label of each query; None if each query is a unit of its own.
        measure: Name of the measure; empty if the caller needs none.
        names: Names of the system and of its baseline; empty if the caller needs none.
        changes: Queries of either side that are not compared; None if the caller needs none.
        unlike: Difference of the signatures in words, which forbids a comparison: then differences
            and gains are NaN for all queries. Empty if the scores may be compared.
        decision: Decision on the pair in the table that prints it; None if the caller needs none.
    """

    system: ScoreColumn
    baseline: ScoreColumn
    query_ids: Sequence[str] = ()
    clusters: Clusters = None
    measure: str = ""
    names: tuple[str, str] = ("", "")
    changes: QueryChanges | None = None
    unlike: str = ""
    decision: Difference | None = None

    @property
    def unchanged(self) -> str:
        """Share of unchanged queries in words, such as `77 of 78 unchanged (1 edited, 1 new)`.

        The result is empty if no query was edited, added or removed.
        """
        if self.changes is None or not self.changes.counts:
            return ""
        share = f"{len(self.query_ids)} of {self.changes.n_base} unchanged"
        return f"{share} ({self.changes.counts})"

    @property
    def is_decidable(self) -> bool:
        """True if at least 80 % of the queries of the baseline are common and unchanged.

        Also True if `changes` is None.
        """
        n_base = 0 if self.changes is None else self.changes.n_base
        return len(self.query_ids) >= LEAST_COMMON * n_base

    def counted(self, n: int) -> str:
        """Return `n queries`, with the share of unchanged queries if some are not compared.

        `n` is the number of queries with both scores. If that is the number of all unchanged
        queries, only the share is returned.
        """
        if self.unchanged and n == len(self.query_ids):
            return self.unchanged
        return counted(n, "queries") + (f", {self.unchanged}" if self.unchanged else "")

    @property
    def sign(self) -> int:
        """Return 1 if higher scores are better, else -1: the factor that makes up better."""
        return 1 if self.system.direction == "higher" else -1

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest possible score of one query.

        An end may be infinite.
        """
        return (self.system.low, self.system.high)

    @property
    def failed(self) -> BoolArray:
        """Return True for each query with a failed answer of either system, shape (n,).

        False if the score does not apply to the answer of one of both: these are no pair.
        """
        has_failed = [is_open(c) for c in (self.system, self.baseline)]
        has_score = [c.causes == Cause.SCORED for c in (self.system, self.baseline)]
        could_be_pairs = (has_failed[0] | has_score[0]) & (has_failed[1] | has_score[1])
        failed: BoolArray = (has_failed[0] | has_failed[1]) & could_be_pairs
        return failed

    @cached_property
    def differences(self) -> FloatArray:
        """System minus baseline for each query; NaN where either has no score.

        Rounding errors are 0.
        """
        if self.unlike:
            return np.full(len(self.system.values), np.nan)
        return paired_differences(self.system.values, self.baseline.values)

    @property
    def gains(self) -> FloatArray:
        """Differences with their sign turned where lower scores are better: up is better.

        The value is NaN where either has no score.
        """
        return self.sign * self.differences

    def with_failed(self, end: Literal["worst", "best"]) -> FloatArray:
        """Return the gains with all failed answers at the worst, or the best, for the system.

        A gain is infinite if the score has no bound on that side. Shape (n,); NaN where the pair
        has no score and `failed` is False.
        """
        if self.unlike:
            return self.gains
        # worst for a system: its own failures score low, those of its baseline high
        low, high = self.range if self.sign == 1 else self.range[::-1]
        for_system, for_baseline = (low, high) if end == "worst" else (high, low)
        b, a = with_failed_at(self.system, for_system), with_failed_at(self.baseline, for_baseline)
        # `paired_differences` rounds finite scores; an end without a bound stays infinite
        d = np.where(np.isinf(b - a), b - a, paired_differences(b, a))
        return np.where(self.failed, self.sign * d, self.gains)

    def labels(self, is_scored: BoolArray) -> NDArray[Any] | None:
        """Return the cluster labels of the queries where `is_scored`; None if queries are units."""
        return None if self.clusters is None else np.asarray(self.clusters)[is_scored]

    def units(self, table: FloatArray) -> FloatArray:
        """Return the rows of a table of queries, or their sums by cluster: the units of sign flips.

        `table` has shape (queries, m); NaN where a cell has no value, as in a sum of such cells.
        Raises OptionError unless there is one cluster label per row.
        """
        return table if self.clusters is None else stats.cluster_sums(table, self.clusters)

    def interval(self, differences: FloatArray, method: Method) -> stats.DifferenceInterval:
        """Return mean and interval of differences of queries, over those that are not NaN.

        If all are NaN, so are the limits, and the rule is `undefined`. A difference that is too
        large for the range of the score raises OptionError.
        """
        options = self._options(differences, method)
        return stats.difference_interval(**options, resamples=method.resamples, seed=method.seed)

    def excludes_zero(self, differences: FloatArray, method: Method) -> bool:
        """Return True if `interval` excludes 0, in a tenth of its time; OptionError as there."""
        options = self._options(differences, method)
        return stats.excludes_zero(**options, resamples=method.resamples, seed=method.seed)

    def gain_interval(self, gains: FloatArray, method: Method) -> stats.DifferenceInterval:
        """Return mean and interval of gains of queries, as `interval` does for differences."""
        options = self._options(gains, method, of_gains=True)
        return stats.difference_interval(**options, resamples=method.resamples, seed=method.seed)

    def detectable(self, differences: FloatArray, method: Method, level: float) -> float:
        """Return the smallest difference that such queries show in 4 of 5 cases.

        Interval and paired test have to show it, the test with a p-value of at most `level`. The
        value is NaN where no difference like these is shown, as if nothing changed, and without an
        interval.
        """
        if math.isfinite(self.range[1] - self.range[0]):
            options = self._options(differences, method)
            return stats.detectable_difference(**options, level=level)
        interval = self.interval(differences, method)
        if math.isnan(interval.lower):
            return math.nan
        sd, n = interval.sd, interval.n_units
        return stats.minimum_detectable_difference(sd, n, confidence=1 - level)

    def detectable_drop(self, gains: FloatArray, method: Method, margin: float) -> float:
        """Return the size of the smallest drop whose interval is beyond a margin in 4 of 5 cases.

        The score has two ends. The value is NaN where no drop like these changes is.
        """
        options = self._options(gains, method, of_gains=True)
        return stats.detectable_difference(**options, beyond=-margin)

    def gain_units(self, gains: FloatArray) -> PairedUnits:
        """Return the gains of the units of the interval, queries or clusters, for plans."""
        options = self._options(gains, Method(), of_gains=True)
        shared = {key: options[key] for key in ("differences", "baseline", "clusters")}
        return paired_units("gate", **shared, ends=options["range"])

    def _options(self, d: FloatArray, method: Method, *, of_gains: bool = False) -> dict[str, Any]:
        """Return the arguments of intervals and plans for differences, or for gains."""
        has_both = ~np.isnan(d)
        baseline, (low, high) = self.baseline.values[has_both], self.range
        if of_gains and self.sign == -1:
            baseline, (low, high) = -baseline, (-high, -low)
        return {
            "differences": d[has_both],
            "baseline": baseline,
            "range": (low, high),
            "confidence": method.confidence,
            "clusters": self.labels(has_both),
        }


# Origin of a score: the source, one of its systems, and the name of the score in it.
ScoreOrigin = tuple[ScoredSystems, SystemScores, str]


def pair_scores(
    system: ScoreOrigin, baseline: ScoreOrigin, clusters: Mapping[str, str] | None = None
) -> PairedScores:
    """Pair a score of two systems, of one source or two, over the common, unchanged queries.

    The names of systems and scores may differ. `clusters` maps each query to its cluster label;
    None if queries are units. The order of the queries is that of the baseline; only judged queries
    are left. Queries that were edited, added or removed are in `changes` of the result; its
    `measure` and `names` are empty.

    Raises:
        DataError: Signatures differ, or no query is common and unchanged.
        KeyError: A system lacks its score, or `clusters` lacks a query.
    """
    # `match_sources` matches systems and scores by name: both get the same one
    name = system[2]
    base, run = _with_one_score(baseline, name), _with_one_score(system, name)
    matched = match_sources(base, [run], measures=[name], intersect=True, least_same=0)
    old, new = (source.systems[name].columns[name] for source in matched.sources)
    ids = matched.sources[1].query_ids
    labels = None if clusters is None else [clusters[query] for query in ids]
    return PairedScores(new, old, ids, labels, changes=matched.changes[1])


def _with_one_score(origin: ScoreOrigin, name: str) -> ScoredSystems:
    """Return a source with one system and one score of it, both under the same name."""
    source, scores, score = origin
    return replace(source, systems={name: replace(scores, columns={name: scores.columns[score]})})


def both_means(pairs: PairedScores) -> tuple[float, float]:
    """Return the means of baseline and system over the queries that both have a score for.

    Both are NaN if there is none; NumPy then warns. The baseline comes first.
    """
    has_both = ~np.isnan(pairs.differences)
    baseline, system = (c.values[has_both].mean() for c in (pairs.baseline, pairs.system))
    return float(baseline), float(system)


def worst_queries(pairs: PairedScores) -> tuple[WorseQuery, ...]:
    """Return the queries with the largest losses, worst first, with both scores; at most five.

    Equal losses keep the order of the queries; empty without a loss.
    """
    d = pairs.gains
    order = np.argsort(d, kind="stable")  # NaN comes last
    queries = []
    for row in order[:SHOWN_QUERIES].tolist():
        if d[row] < 0:
            queries.append(scores_of(pairs, row))
    return tuple(queries)


def scores_of(pairs: PairedScores, row: int) -> WorseQuery:
    """Return a query with both scores, without its question; `row` is that of the pair, from 0."""
    return WorseQuery(
        query_id=pairs.query_ids[row],
        score=float(pairs.system.values[row]),
        baseline=float(pairs.baseline.values[row]),
    )


def reaches(values: FloatArray, limit: float) -> BoolArray:
    """Return True for each value that is at least `limit`, rounding errors aside; False for NaN.

    A relative error of 1e-12 counts as rounding.
    """
    reached: BoolArray = values >= limit - _ROUNDING * max(1.0, abs(limit))
    return reached
