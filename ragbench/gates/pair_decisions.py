"""Decision on a pair of systems as the tables print it, for gates without a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragbench.comparison.all_pairs import AllPairs
from ragbench.comparison.compare_runs import compare_sources
from ragbench.comparison.matching import match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.moved_queries import paired_rows
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError
from ragbench.records.comparison import Comparisons, Difference
from ragbench.types.lookups import take_items


class PrintedDecisions:
    """Decisions on the pairs of a run, and of the run and its baselines, each made once.

    A pair of systems of the run has the decision of the run's own comparisons, or, without one,
    that of all pairs. A pair of the run and another source has the decision of `ragbench compare`.
    """

    def __init__(
        self,
        scored: ScoredSystems,
        method: Method,
        clusters: Mapping[str, str] | None,
        comparisons: Comparisons | None,
    ) -> None:
        self._scored, self._method, self._clusters = scored, method, clusters
        self._comparisons = comparisons
        self._all_pairs = AllPairs(
            list(scored.systems.values()), method, self._labels(scored.query_ids)
        )
        self._between: dict[tuple[int, str], dict[str, Difference]] = {}

    def find(
        self, measure: str, system: str, source: ScoredSystems, baseline: str
    ) -> Difference | None:
        """Return the decision on a system of the run and its baseline in a source.

        The result is None if `ragbench compare` refuses the two sources: then no table has the
        pair.
        """
        if source is not self._scored:
            return self._with(source, measure).get(system)
        family = None if self._comparisons is None else self._comparisons.measure(measure)
        printed = None if family is None else family.between(system, baseline)
        return printed or self._all_pairs.between(measure, system, [baseline])[0]

    def _with(self, source: ScoredSystems, measure: str) -> dict[str, Difference]:
        """Return system -> its decision against the same system of another source."""
        key = (id(source), measure)
        if key not in self._between:
            self._between[key] = self._compare(source, measure)
        return self._between[key]

    def _compare(self, source: ScoredSystems, measure: str) -> dict[str, Difference]:
        try:
            matching = match_sources(
                source, [self._scored], measures=[measure], intersect=True, least_same=0
            )
        except DataError:  # of other systems: the gate has paired its own already
            return {}
        labels = self._labels(matching.sources[0].query_ids)
        compared = compare_sources(matching, self._method.of_runs(), labels)
        (name,) = matching.measures
        family = compared.measure(name)
        rows = paired_rows(compared, matching, name)
        decisions = () if family is None else family.comparisons
        return {row.scores.name: d for (row, *_), d in zip(rows, decisions, strict=True)}

    def _labels(self, query_ids: Sequence[str]) -> list[str] | None:
        """Return the cluster of each query; None if queries are units."""
        clusters = self._clusters
        return None if clusters is None else take_items(clusters, query_ids)
