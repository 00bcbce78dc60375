"""Differences of systems from their baselines with tests, and the best systems by each measure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain

import numpy as np
from msgspec import structs

from ragbench.comparison.all_pairs import AllPairs
from ragbench.comparison.method import Method
from ragbench.comparison.pair_tests import decide_pairs, run_family_tests
from ragbench.comparison.pairs import pair_systems, systems_with
from ragbench.comparison.signatures import unlike_measures
from ragbench.comparison.unpaired_tests import decide_unpaired
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.records.comparison import (
    Comparisons,
    Difference,
    MeasureComparison,
    leaders,
)
from ragbench.stats.mean import finite
from ragbench.types import ScoreColumn
from ragbench.types.lookups import omit_none


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
    whose signatures differ are not compared, and a measure with such scores has no best system. A
    pair that is in no comparison with a baseline is decided in the family of all pairs.

    Args:
        systems: Systems over the same queries.
        baseline: Baseline retriever, app or system of records. With None, or an unknown name, it is
            the first system of the same kind; see `baseline_of`.
        method: Test, correction, family and interval; by default, p-values of the comparisons by
            one measure are adjusted together by Holm's procedure.
        clusters: Cluster label of each query; None if queries are units.
        every_pair: Correct for all pairs of systems by step-down max-T, as tables with letters do,
            and fill `better_than`; the correction of the method does not count then.
        unpaired: True if systems and baselines have different queries; they are not ranked then.
        tolerated: Parts of signatures that may differ, as in `unlike_parts`.
        user_systems: Systems of the user, which lead the others.

    Returns:
        Comparisons by measure, in the order of the systems' measures; a measure that is summed over
        the queries has none.

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
            differences = decide_unpaired(family, method)
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
    columns, means = [], {}
    for name, system in systems.items():
        column = system.columns[family.measure]
        columns.append(column)
        means[name] = finite(column.mean)
    is_ranked = family.unlike is None and columns[0].aggregate != "sum"
    if is_ranked:
        names = leaders(means, user_systems, family.direction)
        rivals = [name for name in names[1:] if family.between(names[0], name) is None]
        leads = all_pairs.between(family.measure, names[0], rivals) if rivals else []
        family = structs.replace(family, leads=tuple(leads))
    if has_letters:
        family = structs.replace(family, better_than=_better_than(family, systems, all_pairs))
    same = same_everywhere(columns) if family.unlike is None else None
    tied = list(omit_none(means))
    if same is not None or not is_ranked or not tied:
        return structs.replace(family, tells_nothing=same)
    best = leaders(means, (), family.direction)[0]
    for winner, loser in _wins(family, all_pairs, best):
        if winner == best and loser in tied:
            tied.remove(loser)
    return structs.replace(family, best=best, tied_with_best=tuple(tied))


def _better_than(
    family: MeasureComparison, systems: Collection[str], all_pairs: AllPairs
) -> dict[str, tuple[str, ...]]:
    """Return system -> the systems that it is significantly better than."""
    wins, losers = set(_wins(family, all_pairs)), {}
    for winner in systems:
        losers[winner] = tuple(loser for loser in systems if (winner, loser) in wins)
    return losers


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

    Queries that no system has a value for do not count. It is None also for one system, and for
    sums such as counts of relevant documents.

    Example: both systems have 0.5 on every query
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
