"""Differences of systems from their baselines with tests, over all queries and in slices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, product

import numpy as np
from msgspec import structs

from ragbench import stats
from ragbench.comparison.all_pairs import AllPairs, decide_pairs, describe, run_family_tests
from ragbench.comparison.decisions import decide
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores, pair_systems, systems_with
from ragbench.comparison.signatures import unlike_measures
from ragbench.comparison.slices import Slicing
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.records.comparison import (
    Comparisons,
    Difference,
    MeasureComparison,
    SliceDifference,
    leaders,
)
from ragbench.stats.mean import finite
from ragbench.stats.unpaired import has_too_few
from ragbench.types import FloatArray, ScoreColumn


def compare_systems(
    systems: Sequence[SystemScores],
    baseline: str | None,
    method: Method,
    clusters: Sequence[str] | None = None,
    *,
    every_pair: bool = False,
    unpaired: bool = False,
    tolerated: Collection[str] = frozenset(),
    user_systems: Collection[str] = (),
) -> Comparisons:
    """Compare each system with its baseline by each measure.

    Only queries that both systems have a score for are compared, unless they are unpaired. Scores
    whose signatures differ are not compared, and a measure with such scores has no best system.
    Each pair has one decision: that of the family of its comparison with a baseline, or, for a pair
    that is in no such comparison, that of the family of all pairs.

    Args:
        systems: Systems over the same queries.
        baseline: Baseline retriever, app or system of records. With None, or an unknown name, it is
            the first system of the same kind; see `baseline_of`.
        method: Test, correction, family and interval; by default, p-values of the comparisons by
            one measure are adjusted together by Holm's procedure.
        clusters: Cluster label of each query; None if queries are units.
        every_pair: Correct for all pairs of systems by step-down max-T, as tables with letters do,
            and fill `better_than`; the correction of the method does not count then.
        unpaired: True if systems and baselines have different queries: then they are independent
            samples, which are not ranked.
        tolerated: Parts of signatures that may differ, as in `unlike_parts`.
        user_systems: Systems of the user, which lead the others.

    Returns:
        Comparisons by measure, in the order of the systems' measures; a measure that is summed over
        the queries has none. Without systems there is no measure.

    Raises:
        OptionError: `clusters` are not one label per query, or a score is far outside the range of
            its measure.
    """
    if every_pair:
        method = replace(method, correction="max_t")
    all_pairs = AllPairs(systems, method, clusters, tolerated)
    labels = None if clusters is None else np.asarray(clusters)
    pairs = pair_systems(systems, baseline, labels, tolerated)
    families = list(pairs.values())
    if method.family == "all":
        # one family of all measures instead of one for each
        families = [tuple(chain.from_iterable(families))]
    compared: dict[str, list[Difference]] = {name: [] for name in pairs}
    families = list(filter(None, families))
    results = run_family_tests(families, method)
    for family in families:
        if unpaired:
            differences = _test_unpaired(family, method)
        elif every_pair:
            differences = all_pairs.decide(family)
        else:
            differences = decide_pairs(family, method, next(results))
        for pair, comparison in zip(family, differences, strict=True):
            compared[pair.measure].append(comparison)
    measures, unlike = [], unlike_measures(systems, tolerated)
    for name, comparisons in compared.items():
        having = systems_with(name, systems)
        columns = [system.columns[name] for system in having.values()]
        family_of = MeasureComparison(
            measure=name,
            kind=next(iter(having.values())).kinds[name],
            direction=columns[0].direction,
            signature=None if name in unlike else str(columns[0].signature),
            unlike=unlike.get(name),
            comparisons=tuple(comparisons),
        )
        if not unpaired:
            family_of = _with_all_pairs(family_of, having, all_pairs, user_systems, every_pair)
        measures.append(family_of)
    return Comparisons(baseline=baseline, **asdict(method), measures=tuple(measures))


def _with_all_pairs(
    family: MeasureComparison,
    systems: Mapping[str, SystemScores],
    all_pairs: AllPairs,
    user_systems: Collection[str],
    has_letters: bool,
) -> MeasureComparison:
    """Return the comparisons of a measure with leads and best systems, and letters if wanted."""
    columns = {}
    for name, system in systems.items():
        columns[name] = system.columns[family.measure]
    first = next(iter(columns.values()))
    is_ranked = family.unlike is None and first.aggregate != "sum"
    means = {}
    for name, column in columns.items():
        means[name] = finite(column.mean)
    if is_ranked:
        names = leaders(means, user_systems, family.direction)
        rivals = []
        for name in names[1:]:
            if family.between(names[0], name) is None:
                rivals.append(name)
        leads = all_pairs.between(family.measure, names[0], rivals) if rivals else []
        family = structs.replace(family, leads=tuple(leads))
    if has_letters:
        family = structs.replace(family, better_than=_better_than(family, systems, all_pairs))
    same = same_everywhere(list(columns.values())) if family.unlike is None else None
    scored = []
    for name, mean in means.items():
        if mean is not None:
            scored.append(name)
    if same is not None or not is_ranked or not scored:
        return structs.replace(family, tells_nothing=same)
    best = leaders(means, (), family.direction)[0]
    worse = set()
    for winner, loser in _wins(family, all_pairs, best):
        if winner == best:
            worse.add(loser)
    return structs.replace(
        family, best=best, tied_with_best=tuple(n for n in scored if n not in worse)
    )


def _better_than(
    family: MeasureComparison, systems: Iterable[str], all_pairs: AllPairs
) -> dict[str, tuple[str, ...]]:
    """Return system -> the systems that it is significantly better than."""
    losers: dict[str, list[str]] = {name: [] for name in systems}
    wins = set(_wins(family, all_pairs))
    for winner, loser in product(losers, repeat=2):
        if (winner, loser) in wins:
            losers[winner].append(loser)
    return {winner: tuple(names) for winner, names in losers.items()}


def _wins(
    family: MeasureComparison, all_pairs: AllPairs, system: str | None = None
) -> list[tuple[str, str]]:
    """Return (better system, worse system) of the pairs that differ; `system` limits the pairs."""
    wins = []
    if system is not None and family.better_than is not None:
        for winner, losers in family.better_than.items():
            for loser in losers:
                wins.append((winner, loser))
        return wins
    up = 1 if family.direction == "higher" else -1
    rows = (*family.comparisons, *family.leads)
    for row in rows:
        if row.differs:
            is_better = up * (row.difference or 0.0) > 0
            names = (row.system, row.baseline)
            wins.append(names if is_better else names[::-1])
    decided = {frozenset((row.system, row.baseline)) for row in rows}
    return wins + all_pairs.wins(family.measure, decided, system)


def same_everywhere(columns: Sequence[ScoreColumn]) -> str | None:
    """Return a sentence if all systems have the same value on every query, else None.

    The sentence is such as `both systems have 0.5 on every query`, without a full stop. Queries
    that no system has a value for do not count. It is None also for one system, for sums such as
    counts of relevant documents, and if there are no values.
    """
    values = columns[0].values
    if len(columns) < 2 or columns[0].aggregate == "sum" or not np.isfinite(values).any():
        return None
    # equal_nan: systems that fail on the same queries are alike there
    if not all(np.array_equal(values, column.values, equal_nan=True) for column in columns):
        return None
    distinct = list({*values[~np.isnan(values)].tolist()})
    systems = "both systems have" if len(columns) == 2 else f"all {len(columns)} systems have"
    value = f"{distinct[0]:.3g}" if len(distinct) == 1 else "the same value"
    return f"{systems} {value} on every query"


def _test_unpaired(family: Sequence[PairedScores], method: Method) -> list[Difference]:
    """Return differences, intervals and p-values, adjusted by Holm's procedure, of a family."""
    samples, intervals = [], []
    for pair in family:
        values, baseline_values = pair.system.values, pair.baseline.values
        sample = [values[~np.isnan(values)], baseline_values[~np.isnan(baseline_values)]]
        samples.append(sample)
        intervals.append(_unpaired_interval(sample, pair.range, method))
    adjusted = stats.holm_p_values([interval.p for interval in intervals])
    n_comparisons = int(np.count_nonzero(~np.isnan(adjusted)))
    differences = []
    for pair, sample, interval, p in zip(family, samples, intervals, adjusted, strict=True):

        def excludes(
            confidence: float, sample: Sequence[FloatArray] = sample, pair: PairedScores = pair
        ) -> bool:
            """Return True if the interval of two means at a confidence excludes 0."""
            wider = replace(method, confidence=confidence)
            other = _unpaired_interval(sample, pair.range, wider)
            return other.lower > 0 or other.upper < 0

        ends = (finite(interval.lower), finite(interval.upper))
        decision = decide(interval.p, p, ends, 1 - method.confidence, excludes)
        has_values = min(map(len, sample)) > 0
        too_few = has_values and has_too_few(sample[0], sample[1], pair.range)
        differences.append(
            Difference(
                system=pair.names[0],
                baseline=pair.names[1],
                difference=finite(interval.mean),
                interval=decision.interval,
                n=len(sample[0]),
                n_baseline=len(sample[1]),
                test="unpaired",
                p=decision.p,
                p_adjusted=decision.p_adjusted,
                n_comparisons=n_comparisons,
                differs=False if too_few else decision.differs,
            )
        )
    return differences


def _unpaired_interval(
    sample: Sequence[FloatArray], ends: tuple[float, float], method: Method
) -> stats.UnpairedInterval:
    """Return the interval of the difference of two means over different queries."""
    values, other = sample
    options = method.confidence, method.resamples, method.seed
    return stats.unpaired_interval(values, other, ends, *options)


# A slice of fewer queries is listed but not tested: it cannot tell a loss from chance.
ENOUGH_QUERIES = 20


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
    signatures differ has none. Of `method`, the confidence, the resamples and the seed count.
    Without `baseline`, or with an unknown name, the first system of each kind is the baseline.
    Raises OptionError if `clusters` are not one label per query, or a difference is larger than the
    range of its measure.
    """
    labels = None if clusters is None else np.asarray(clusters)
    pairs = [*chain.from_iterable(pair_systems(systems, baseline, labels).values())]
    differences: list[SliceDifference] = []
    for slicing, pair in product(slicings, pairs):
        if not pair.unlike:
            differences += _compare_slices(pair, slicing, method)
    return tuple(differences)


def _compare_slices(pair: PairedScores, slicing: Slicing, method: Method) -> list[SliceDifference]:
    """Return the difference of a pair in each slice of one field, with its one-sided test."""
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


def doubtful_intervals(measures: Iterable[MeasureComparison]) -> Iterator[str]:
    """Yield a note for each measure with an interval that cannot be trusted.

    Nearly all queries changed by the same amount, and the score has no bound: a single large change
    that the sample lacks may make any difference, and no interval can allow for it.
    """
    for family in measures:
        systems = []
        for row in family.comparisons:
            if row.rule == "near_constant":
                systems.append(row.system)
        if systems:
            why = "nearly all questions changed by the same amount, and the score has no bound"
            names = ", ".join(systems)
            yield f"{family.measure}: do not trust the interval of {names}: {why}"
