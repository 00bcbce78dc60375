"""Differences of systems from their baselines with tests, over all queries and in slices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragbench import stats
from ragbench.comparison.method import Method, adjust_family, is_shown
from ragbench.comparison.pairs import PairedScores, pair_columns, pair_systems, systems_with
from ragbench.comparison.signatures import unlike_measures
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.records.comparison import (
    Comparisons,
    Difference,
    MeasureComparison,
    SliceDifference,
    leaders,
)
from ragbench.stats.mean import finite
from ragbench.stats.multiple_comparisons import SystemPairs
from ragbench.types import FloatArray, ScoreColumn


class TestedPairs:
    """Tests of all pairs of systems by each measure, computed once on first use.

    The best set and the marks of tables share them: resampling is the slow part of a comparison.
    It takes systems over the same queries, and the cluster label of each query or None. `of`
    returns the tests of a measure; ValueError if no system has it.

    Attributes:
        method: Method of the comparison, with the number of resamples and the seed.
    """

    def __init__(
        self, systems: Sequence[SystemScores], method: Method, clusters: Sequence[str] | None
    ) -> None:
        self.method = method
        self._systems, self._clusters = systems, clusters
        self._pairs: dict[str, SystemPairs] = {}

    def of(self, measure: str) -> SystemPairs:
        """Return the pairs of all systems that have a measure, in the order of the systems.

        ValueError if no system has it, OptionError if a score is infinite. Clusters are checked
        when the result is used.
        """
        if measure not in self._pairs:
            systems = systems_with(measure, self._systems).values()
            self._pairs[measure] = SystemPairs(
                np.column_stack([system.columns[measure].values for system in systems]),
                self._clusters,
                resamples=self.method.resamples,
                seed=self.method.seed,
            )
        return self._pairs[measure]

    def lead(self, measure: str, system: str, rival: str) -> Difference:
        """Return the difference of a system from another one, by the test over all pairs.

        It has no p-value of its own. Without a common query nothing is tested. KeyError if one of
        them lacks the measure.
        """
        systems = systems_with(measure, self._systems)
        clusters = None if self._clusters is None else np.asarray(self._clusters)
        pair = pair_columns(measure, systems[system], systems[rival], clusters)
        difference, names = describe(pair, pair.differences, self.method), list(systems)
        # equal scores need no test
        if not difference.n_changed:
            return replace(difference, differs=False if difference.n else None)
        pairs, places = self.of(measure), sorted(map(names.index, (system, rival)))
        is_pair = (pairs.first == places[0]) & (pairs.second == places[1])
        p = float(pairs.p_values[is_pair][0])
        differs = is_shown(p, difference.interval, self.method)
        return replace(difference, test="max_t", p_adjusted=finite(p), differs=differs)


def compare_systems(
    systems: Sequence[SystemScores],
    baseline: str | None,
    method: Method,
    clusters: Sequence[str] | None = None,
    tested: TestedPairs | None = None,
    *,
    unpaired: bool = False,
    tolerated: Collection[str] = frozenset(),
    user_systems: Collection[str] = (),
) -> Comparisons:
    """Compare each system with its baseline by each measure.

    Only queries that both systems have a score for are compared, unless they are unpaired. Scores
    whose signatures differ are not compared, and a measure with such scores has no best system.

    Args:
        systems: Systems over the same queries.
        baseline: Baseline retriever, app or system of records. With None, or an unknown name, it is
            the first system of the same kind; see `baseline_of`.
        method: Test, correction, family and interval; by default, p-values of the comparisons by
            one measure are adjusted together by Holm's procedure.
        clusters: Cluster label of each query; None if queries are units.
        tested: Tests of all pairs of these systems, if the caller needs them too.
        unpaired: True if systems and baselines have different queries: then they are independent
            samples, which are not ranked.
        tolerated: Parts of signatures that may differ, as in `unlike_parts`.
        user_systems: Systems of the user, which lead the others.

    Returns:
        Comparisons by measure, in the order of the systems' measures; a measure that is summed over
        the queries has none. Without systems there is no measure.

    Raises:
        OptionError: `clusters` are not one label per query, or a score is infinite or beyond the
            range of its measure by so much that a difference is larger than the range.
    """
    tested = tested or TestedPairs(systems, method, clusters)
    labels = None if clusters is None else np.asarray(clusters)
    pairs = pair_systems(systems, baseline, labels, tolerated)
    families = list(pairs.values())
    if method.family == "all":
        # one family of all measures instead of one for each
        families = [tuple(pair for family in families for pair in family)]
    compared: dict[str, list[Difference]] = {name: [] for name in pairs}
    for family in families:
        differences = _test_unpaired(family, method) if unpaired else _test(family, method)
        for pair, comparison in zip(family, differences, strict=True):
            compared[pair.measure].append(comparison)
    measures, unlike = [], unlike_measures(systems, tolerated)
    for name, comparisons in compared.items():
        having = systems_with(name, systems)
        columns = [system.columns[name] for system in having.values()]
        is_ranked = not unpaired and name not in unlike
        same = same_everywhere(columns) if is_ranked else None
        best, tied = _best(name, having, tested) if is_ranked and not same else (None, [])
        measures.append(
            MeasureComparison(
                measure=name,
                kind=next(iter(having.values())).kinds[name],
                direction=columns[0].direction,
                signature=None if name in unlike else str(columns[0].signature),
                best=best,
                tied_with_best=tuple(tied),
                tells_nothing=same,
                unlike=unlike.get(name),
                comparisons=tuple(comparisons),
                leads=()
                if unpaired or name in unlike
                else tuple(_leads(name, having, comparisons, tested, user_systems)),
            )
        )
    return Comparisons(baseline=baseline, **asdict(method), measures=tuple(measures))


def same_everywhere(columns: Sequence[ScoreColumn]) -> str | None:
    """Return a sentence if all systems have the same value on every query, else None.

    The sentence is such as `both systems have 0.5 on every query`, without a full stop. Queries
    that no system has a value for do not count. It is None also for one system, for sums such as
    counts of relevant documents, and if there are no values. IndexError without columns.
    """
    values = columns[0].values
    if len(columns) < 2 or columns[0].aggregate == "sum" or not np.isfinite(values).any():
        return None
    # equal_nan: systems that fail on the same queries are alike there
    if not all(np.array_equal(values, column.values, equal_nan=True) for column in columns):
        return None
    distinct = np.unique(values[~np.isnan(values)])
    systems = "both systems have" if len(columns) == 2 else f"all {len(columns)} systems have"
    value = f"{distinct[0]:.3g}" if len(distinct) == 1 else "the same value"
    return f"{systems} {value} on every query"


def _leads(
    name: str,
    systems: Mapping[str, SystemScores],
    comparisons: Sequence[Difference],
    tested: TestedPairs,
    user_systems: Collection[str],
) -> Iterator[Difference]:
    """Yield the differences of the leading system from the next ones, without compared pairs.

    Nothing for a sum, and for fewer than two systems with a mean.
    """
    columns = {system: scores.columns[name] for system, scores in systems.items()}
    first = next(iter(columns.values()))
    means = {system: finite(column.mean) for system, column in columns.items()}
    names = leaders(means, user_systems, first.direction) if first.aggregate != "sum" else []
    compared = [{c.system, c.baseline} for c in comparisons]
    for rival in names[1:]:
        if {names[0], rival} not in compared:
            yield tested.lead(name, names[0], rival)


def _best(
    name: str, systems: Mapping[str, SystemScores], tested: TestedPairs
) -> tuple[str | None, list[str]]:
    """Return the system with the best mean, and the systems that max-T cannot tell from it.

    The best is None for a sum, or without finite means. A system that shares no scored query with
    the best was not compared, and is left out. Of equal means the first by name is best. The tied
    ones include it and keep the order of `systems`.
    """
    columns = [system.columns[name] for system in systems.values()]
    means = np.array([column.mean for column in columns])
    if columns[0].aggregate == "sum" or not np.isfinite(means).any():
        return None, []
    direction, names = columns[0].direction, list(systems)
    [best, *_] = leaders(dict(zip(names, map(finite, means), strict=True)), (), direction)
    mask = tested.of(name).tied_with_best(
        higher_is_better=direction == "higher", alpha=1 - tested.method.confidence
    )
    scored = systems[best].columns[name].values
    return best, [
        name
        for name, tied, column in zip(names, mask, columns, strict=True)
        # NaN on every query: the two systems have no scored query in common
        if tied and not np.isnan(column.values - scored).all()
    ]


def _test(family: Sequence[PairedScores], method: Method) -> list[Difference]:
    """Return differences, intervals and adjusted p-values of the pairs of a family, in order.

    A pair without a query that both systems have a score for has no p-value. No pairs give no
    differences. OptionError if the clusters are not one label per query.
    """
    if not family:
        return []
    units = [pair.units(pair.differences[:, np.newaxis]) for pair in family]
    result = adjust_family(np.hstack(units), method)
    differences = []
    for place, pair in enumerate(family):
        difference = describe(pair, pair.differences, method)
        # without common queries the sums are 0: no test, whatever p-value they give
        if difference.n:
            test = result.tests[place]
            difference = replace(
                difference,
                test=test,
                resamples=result.resamples if test == "randomization" else None,
                p=finite(result.p[place]),
                p_adjusted=finite(result.adjusted[place]),
                # skewed differences of mean 0 have small p
                differs=is_shown(result.adjusted[place], difference.interval, method),
            )
        differences.append(difference)
    return differences


def _test_unpaired(family: Sequence[PairedScores], method: Method) -> list[Difference]:
    """Return differences, intervals and p-values, adjusted by Holm's procedure, of a family.

    The two columns of a pair are over different queries, as independent samples. In the order of
    the family; a pair without scores on one side has None as p-value. Test and correction of
    `method` do not count. OptionError if a score is outside the range of its measure.
    """
    samples = [
        [column.values[~np.isnan(column.values)] for column in (pair.system, pair.baseline)]
        for pair in family
    ]
    options = method.confidence, method.resamples, method.seed
    intervals = [
        stats.unpaired_interval(values, other, pair.range, *options)
        for (values, other), pair in zip(samples, family, strict=True)
    ]
    adjusted = stats.holm_p_values([interval.p for interval in intervals])
    return [
        Difference(
            system=pair.names[0],
            baseline=pair.names[1],
            difference=finite(interval.mean),
            interval=(finite(interval.lower), finite(interval.upper)),
            n=len(values),
            n_baseline=len(other),
            test="unpaired",
            p=finite(interval.p),
            p_adjusted=finite(p),
            differs=None if np.isnan(p) else bool(p <= 1 - method.confidence),
        )
        for pair, (values, other), interval, p in zip(
            family, samples, intervals, adjusted, strict=True
        )
    ]


def describe(pair: PairedScores, differences: FloatArray, method: Method) -> Difference:
    """Return difference, interval and effect size of a pair, without a test.

    `differences` are those of all queries or of a slice; NaN marks a query that is left out. If
    none remains, counts of the result are 0 and its other numbers None. OptionError if a difference
    is larger than the range of the measure.
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
    detectable = pair.detectable(differences, method, 1 - confidence)
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
        minimum_detectable=finite(detectable),
    )


# A slice of fewer queries is listed but not tested: it cannot tell a loss from chance.
ENOUGH_QUERIES = 20


@dataclass(frozen=True, slots=True)
class Slicing:
    """Slices of the queries by one field; slices may overlap. `members` returns them as a table.

    It has a row per query and a column per slice; KeyError for a label that is not in `names`.

    Attributes:
        field: Name of the field: `metadata.topic`, `query_length`.
        names: Names of the slices, in the order of tables.
        labels: Slices of each query: one, or several if its metadata is a list.
    """

    field: str
    names: tuple[str, ...]
    labels: Sequence[tuple[str, ...]]

    def members(self) -> NDArray[np.bool_]:
        """Return True for each query in each slice, shape (queries, slices).

        A query without slices is in none. KeyError for a label that is not one of `names`.

        Example:
            >>> Slicing("metadata.tags", ("law", "tax"), [("tax",), ("law", "tax")]).members()
            array([[False,  True],
                   [ True,  True]])
        """
        column_of = {name: column for column, name in enumerate(self.names)}
        is_member = np.zeros((len(self.labels), len(self.names)), np.bool_)
        for row, slices in enumerate(self.labels):
            is_member[row, [column_of[name] for name in slices]] = True
        return is_member


def thirds_of(field: str, counts: Sequence[int], unit: str) -> Slicing:
    """Slice queries by a count into up to three slices of about equal size.

    Queries with equal counts stay together, so that there may be fewer slices; `unit` ends their
    names: "3 to 7 words". Names are in ascending order. Raises IndexError without counts.

    Example:
        >>> thirds_of("query_length", [3, 3, 5, 9], "words").names
        ('3 words', '5 words', '9 words')
    """
    values = np.asarray(counts)
    # inverted_cdf: cuts are counts that occur, not values between two of them
    cuts = np.quantile(values, [1 / 3, 2 / 3], method="inverted_cdf")
    third = (values[:, np.newaxis] > cuts).sum(axis=1)
    names = {}
    for number in np.unique(third).tolist():
        low, high = values[third == number].min(), values[third == number].max()
        names[number] = f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
    return Slicing(field, tuple(names.values()), [(names[number],) for number in third.tolist()])


def compare_slices(
    systems: Sequence[SystemScores],
    baseline: str | None,
    method: Method,
    slicings: Sequence[Slicing],
    clusters: Sequence[str] | None = None,
) -> tuple[SliceDifference, ...]:
    """Test in every slice whether a system is worse than its baseline.

    The test is one-sided, adjusted by studentized max-T over the tested slices of one field: if no
    slice is worse, the chance that any is called worse is at most 1 - confidence. Fields, measures
    and systems are families of their own. `worse` is None for a slice of fewer than
    `ENOUGH_QUERIES` queries, or clusters, which is not tested. Rows are in the order of the
    slicings, then the measures, the systems, the slices; empty without slicings. A pair whose
    signatures differ has none. Of `method`, the
    confidence, the resamples and the seed count. Without `baseline`, or with an unknown name, the
    first system of each kind is the baseline. OptionError if `clusters` are not one label per
    query, or a difference is larger than the range of its measure.
    """
    labels = None if clusters is None else np.asarray(clusters)
    return tuple(
        row
        for slicing in slicings
        for pairs in pair_systems(systems, baseline, labels).values()
        for pair in pairs
        if not pair.unlike
        for row in _compare_slices(pair, slicing, method)
    )


def _compare_slices(pair: PairedScores, slicing: Slicing, method: Method) -> list[SliceDifference]:
    """Return the difference of a pair in each slice of one field, with its one-sided test.

    In the order of the slices. `p_adjusted` and `worse` are None where fewer than 20 queries or
    clusters have both scores.
    """
    table = np.where(slicing.members(), pair.differences[:, np.newaxis], np.nan)
    # turned so that up is better: a decrease is worse
    units = pair.units(pair.sign * table)
    tested = np.count_nonzero(~np.isnan(units), axis=0) >= ENOUGH_QUERIES
    p_values, alpha = np.full(len(slicing.names), np.nan), 1 - method.confidence
    # slices that are not tested do not widen the correction of the others
    p_values[tested] = stats.max_t_p_values(
        units[:, tested], decrease=True, resamples=method.resamples, seed=method.seed
    )
    rows = []
    for place, name in enumerate(slicing.names):
        row = describe(pair, table[:, place], method)
        shared = ("system", "baseline", "difference", "interval", "n", "n_changed", "n_clusters")
        rows.append(
            SliceDifference(
                field=slicing.field,
                slice=name,
                measure=pair.measure,
                direction=pair.system.direction,
                p_adjusted=finite(p_values[place]),
                worse=bool(p_values[place] <= alpha) if tested[place] else None,
                **{key: getattr(row, key) for key in shared},
            )
        )
    return rows
