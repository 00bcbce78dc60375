"""Decisions on pairs of systems: those of one family, and those of all pairs by max-T."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from ragbench import stats
from ragbench.comparison.decisions import Excludes, decide
from ragbench.comparison.method import FamilyResult, Method, adjust_families, adjust_family
from ragbench.comparison.pairs import PairedScores, pair_columns, systems_with
from ragbench.comparison.signatures import unlike_parts
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.records.comparison import Difference
from ragbench.stats.mean import finite, nan_if_none
from ragbench.stats.multiple_comparisons import SystemPairs
from ragbench.types import FloatArray, ScoreColumn

# Pairs whose differences are tested in one table: it bounds the memory.
_BLOCK = 2_000
# Cells of the tables of families that are tested together: it bounds the memory, too.
_CELLS = 1 << 22


def run_tests(pairs: Sequence[PairedScores], method: Method) -> FamilyResult:
    """Return the tests of at least one pair, adjusted together by the correction of the method.

    Raises OptionError if the clusters are not one label per query.
    """
    return next(run_family_tests([pairs], method))


def run_family_tests(
    families: Sequence[Sequence[PairedScores]], method: Method
) -> Iterator[FamilyResult]:
    """Yield the tests of each family of at least one pair, all over the same queries.

    Raises OptionError if the clusters are not one label per query.
    """
    tables, n_cells = list[FloatArray](), 0
    for pairs in families:
        table = np.hstack([pair.units(pair.differences[:, np.newaxis]) for pair in pairs])
        if tables and n_cells + table.size > _CELLS:
            yield from adjust_families(tables, method)
            tables, n_cells = [], 0
        tables.append(table)
        n_cells += table.size
    yield from adjust_families(tables, method)


def decide_pairs(
    pairs: Sequence[PairedScores], method: Method, result: FamilyResult
) -> list[Difference]:
    """Return the difference of each pair with its decision, by the tests of its family.

    A pair without a query that both systems have a score for has no p-value.
    """
    alpha, differences = 1 - method.confidence, []
    for place, pair in enumerate(pairs):
        difference = describe(pair, pair.differences, method)
        # without common queries the sums are 0: no test, whatever p-value they give
        if difference.n:
            p, adjusted, test = result.p[place], result.adjusted[place], result.tests[place]
            decision = decide(p, adjusted, difference.interval, alpha, _excludes_zero(pair, method))
            difference = structs.replace(
                difference,
                interval=decision.interval,
                test=test,
                resamples=result.resamples if test == "randomization" else None,
                p=decision.p,
                p_adjusted=decision.p_adjusted,
                n_comparisons=result.n_comparisons,
                differs=decision.differs,
                # the smallest p-value of a family has to be as small as Bonferroni's rule asks for
                minimum_detectable=finite(
                    pair.detectable(pair.differences, method, alpha / max(result.n_comparisons, 1))
                ),
            )
        differences.append(difference)
    return differences


def _excludes_zero(pair: PairedScores, method: Method) -> Excludes:
    """Return a function from a confidence to True if the interval of a pair excludes 0."""

    def excludes(confidence: float) -> bool:
        """Return True if the interval at a confidence excludes 0."""
        return pair.excludes_zero(pair.differences, replace(method, confidence=confidence))

    return excludes


def careful_interval(
    pair: PairedScores, gains: FloatArray, method: Method
) -> stats.DifferenceInterval:
    """Return the interval of gains as the decision on their pair has it.

    It ends at 0 where it would leave out 0 although the test of the pair alone shows nothing. The
    printed decision has it already.
    """
    interval = pair.gain_interval(gains, method)
    if pair.decision is not None and pair.decision.interval is not None:
        ends = sorted(pair.sign * nan_if_none(end) for end in pair.decision.interval)
        return replace(interval, lower=ends[0], upper=ends[1])
    if not interval.lower > 0 and not interval.upper < 0:
        return interval
    units = pair.units(gains[:, np.newaxis])
    p = adjust_family(units, replace(method, correction="none")).p[0]
    if p <= 1 - method.confidence:
        return interval
    return replace(interval, lower=min(interval.lower, 0.0), upper=max(interval.upper, 0.0))


def describe(pair: PairedScores, differences: FloatArray, method: Method) -> Difference:
    """Return difference, interval and effect size of a pair, without a test.

    `differences` are those of all queries or of a slice; NaN marks a query that is left out. If
    none remains, counts of the result are 0 and its other numbers None. Raises OptionError if a
    difference is larger than the range of the measure.
    """
    system, baseline = pair.names
    compared = ~np.isnan(differences)
    d, labels = differences[compared], pair.labels(compared)
    if not len(d):
        return Difference(
            system=system,
            baseline=baseline,
            interval=(None, None),
            effect_interval=(None, None),
            n_changed=0,
            unlike=pair.unlike or None,
        )
    confidence = method.confidence
    interval = pair.interval(differences, method)
    low, high = stats.effect_size_interval(d, confidence=confidence, clusters=labels)
    return Difference(
        system=system,
        baseline=baseline,
        difference=finite(interval.mean),
        interval=(finite(interval.lower), finite(interval.upper)),
        n=interval.n,
        n_changed=interval.n_changed,
        n_clusters=None if labels is None else interval.n_clusters,
        rule=interval.rule,
        effect_size=finite(stats.effect_size(d)),
        effect_interval=(finite(low), finite(high)),
    )


class AllPairs:
    """Decisions on all pairs of systems by each measure, corrected by step-down max-T.

    The p-values are computed once, on first use: resampling is the slow part of a comparison. It
    takes systems over the same queries, and the cluster label of each query or None. Sums over the
    queries, and pairs whose signatures differ, are not tested.

    Attributes:
        method: Method of the comparison; with the family `all` the pairs by all measures are
            corrected together.
    """

    def __init__(
        self,
        systems: Sequence[SystemScores],
        method: Method,
        clusters: Sequence[str] | None = None,
        tolerated: Collection[str] = frozenset(),
    ) -> None:
        self.method = method
        self._systems, self._tolerated = systems, tolerated
        self._clusters = None if clusters is None else np.asarray(clusters)

    def decide(self, pairs: Sequence[PairedScores]) -> list[Difference]:
        """Return the difference of each pair with its decision; [] without pairs.

        The pairs are by one measure, or, with the family `all`, by any.
        """
        return decide_pairs(pairs, self.method, self._test(pairs)) if pairs else []

    def between(self, measure: str, system: str, rivals: Sequence[str]) -> list[Difference]:
        """Return the differences of a system from others, with the decisions of `wins`."""
        systems = systems_with(measure, self._systems)
        order = list(systems).index
        names = []
        for rival in rivals:
            names.append(sorted((system, rival), key=order))
        differences = self.decide([self._pair(measure, systems, *of_pair) for of_pair in names])
        return [row if row.system == system else row.reverse() for row in differences]

    def wins(
        self, measure: str, without: Collection[frozenset[str]] = (), system: str | None = None
    ) -> list[tuple[str, str]]:
        """Return (better system, worse system) of each pair that is shown to differ.

        Where p is small, only the limit that is nearer to 0 is looked at: whole intervals are slow
        for thousands of pairs.

        Args:
            measure: Name of the measure.
            without: Pairs that are decided elsewhere.
            system: Limits the pairs to those of one system.
        """
        alpha, systems = 1 - self.method.confidence, systems_with(measure, self._systems)
        p_values = self._family(measure).p_values(measure)
        names = []
        for of_pair, adjusted in p_values.items():
            if adjusted <= alpha:
                names.append(of_pair)
        names = [of_pair for of_pair in names if frozenset(of_pair) not in without]
        if system is not None:
            names = [of_pair for of_pair in names if system in of_pair]
        wins = []
        for start in range(0, len(names), _BLOCK):
            block = names[start : start + _BLOCK]
            pairs = [self._pair(measure, systems, *of_pair) for of_pair in block]
            result = self._test(pairs)
            for pair, p, adjusted in zip(pairs, result.p, result.adjusted, strict=True):
                if max(p, adjusted) <= alpha and pair.excludes_zero(pair.differences, self.method):
                    first, second = pair.names
                    is_first = pair.sign * np.nanmean(pair.differences) > 0
                    wins.append((first, second) if is_first else (second, first))
        return wins

    def _pair(
        self, measure: str, systems: Mapping[str, SystemScores], system: str, other: str
    ) -> PairedScores:
        """Return the paired scores of two systems."""
        # The interval of a pair depends on which of them is the baseline: callers keep the order of
        # the systems.
        return pair_columns(
            measure, systems[system], systems[other], self._clusters, self._tolerated
        )

    def _test(self, pairs: Sequence[PairedScores]) -> FamilyResult:
        """Return the tests of at least one pair, with p-values adjusted for all pairs."""
        result = run_tests(pairs, replace(self.method, correction="none"))
        adjusted = [self._family(pair.measure).p_value(pair.measure, pair.names) for pair in pairs]
        n_comparisons = self._family(pairs[0].measure).n_tested
        return replace(result, adjusted=np.array(adjusted), n_comparisons=n_comparisons)

    def _family(self, measure: str) -> _Family:
        """Return the family of the pairs by a measure; with the family `all`, that of all."""
        return self._families["" if self.method.family == "all" else measure]

    @cached_property
    def _families(self) -> Mapping[str, _Family]:
        """Measure -> the family of its pairs; with the family `all`, '' -> that of all pairs."""
        measures = dict.fromkeys(chain.from_iterable(s.columns for s in self._systems))
        systems = {name: systems_with(name, self._systems) for name in measures}
        tables = {}
        for name, having in systems.items():
            tables[name] = {name: having}
        if self.method.family == "all":
            tables = {"": systems}
        families = {}
        for key, table in tables.items():
            families[key] = _Family(table, self.method, self._clusters, self._tolerated)
        SystemPairs.share_flips([family.pairs for family in families.values()])
        return families


class _Family:
    """Adjusted p-values of all pairs of systems by one measure or several, by step-down max-T."""

    def __init__(
        self,
        systems: Mapping[str, Mapping[str, SystemScores]],
        method: Method,
        clusters: NDArray[Any] | None,
        tolerated: Collection[str],
    ) -> None:
        columns: list[ScoreColumn] = []
        names: list[tuple[str, str]] = []
        # columns of one group are paired: those of one measure whose signatures allow it
        groups: list[int] = []
        for measure, having in systems.items():
            start = len(columns)
            for name, scores in having.items():
                column = scores.columns[measure]
                if column.aggregate == "sum":
                    continue
                group = len(columns)  # a new one, unless it is like one of the measure
                for place in dict.fromkeys(groups[start:]):
                    if not unlike_parts(columns[place].signature, column.signature, tolerated):
                        group = place
                        break
                groups.append(group)
                columns.append(column)
                names.append((measure, name))
        self._names = names
        self.pairs = SystemPairs(
            np.column_stack([column.values for column in columns]) if columns else np.zeros((0, 0)),
            clusters if columns else None,
            groups=groups,
            resamples=method.resamples,
            seed=method.seed,
        )

    @cached_property
    def _by_measure(self) -> dict[str, dict[tuple[str, str], float]]:
        """Measure -> names of two systems -> their adjusted p-value; NaN without common queries."""
        pairs, by_measure = self.pairs, dict[str, dict[tuple[str, str], float]]()
        for first, second, p in zip(pairs.first, pairs.second, pairs.p_values, strict=True):
            measure, name = self._names[first]
            by_measure.setdefault(measure, {})[name, self._names[second][1]] = float(p)
        return by_measure

    def p_values(self, measure: str) -> Mapping[tuple[str, str], float]:
        """Return names of two systems -> adjusted p-value, for the pairs by a measure."""
        return self._by_measure.get(measure, {})

    def p_value(self, measure: str, names: tuple[str, str]) -> float:
        """Return the adjusted p-value of a pair; NaN if it is not tested."""
        p_values = self.p_values(measure)
        return p_values.get(names, p_values.get(names[::-1], math.nan))

    @cached_property
    def n_tested(self) -> int:
        """Number of pairs that have a p-value."""
        return int(np.count_nonzero(~np.isnan(self.pairs.p_values)))
