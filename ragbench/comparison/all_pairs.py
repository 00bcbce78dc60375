"""Decisions on all pairs of systems, corrected together by step-down max-T."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragbench.comparison.method import FamilyResult, Method
from ragbench.comparison.pair_tests import decide_pairs, run_tests
from ragbench.comparison.pairs import PairedScores, pair_columns, systems_with
from ragbench.comparison.signatures import unlike_parts
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.records.comparison import Difference
from ragbench.stats.multiple_comparisons import SystemPairs
from ragbench.types import ScoreColumn

# Pairs whose differences are tested in one table: it bounds the memory.
_BLOCK = 2_000


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
