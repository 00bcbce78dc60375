"""Systems compared over several collections: macro means, intervals, and one test over all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from msgspec import structs

from ragbench import stats
from ragbench.comparison.decisions import decide, is_shown, leaves_out
from ragbench.comparison.method import Method, adjust_family
from ragbench.comparison.pairs import PairedScores, pair_columns, pair_systems
from ragbench.comparison.signatures import unlike_measures
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.records.collections import MacroMeasure, MacroScore
from ragbench.records.comparison import Comparisons, Difference, leaders
from ragbench.records.score import Ends, SystemScore
from ragbench.stats.mean import finite, nan_if_none
from ragbench.types import FloatArray


@dataclass(frozen=True, slots=True)
class CollectionScores:
    """Scores and comparisons of all systems on one collection, for `compare_collections`.

    `pairs` has keys (measure, system, baseline), `scores` has (measure, system).

    Attributes:
        name: Name of the collection.
        scored: Score per query of each system, without controls, with the summary of the run.
        comparisons: Comparisons of the run.
        clusters: Cluster of each query; None if queries are units.
    """

    name: str
    scored: ScoredSystems
    comparisons: Comparisons
    clusters: Sequence[str] | None = None

    @property
    def pairs(self) -> Mapping[tuple[str, str, str], PairedScores]:
        """Paired scores by (measure, system, baseline), in the order of the tables."""
        by_measure = pair_systems(
            [*self.scored.systems.values()], self.scored.baseline, self.clusters
        )
        by_key = {}
        for measure, pairs in by_measure.items():
            for pair in pairs:
                by_key[measure, pair.names[0], pair.names[1]] = pair
        return by_key

    def pair(self, measure: str, system: str, other: str) -> PairedScores:
        """Return the paired scores of two systems by a measure."""
        systems = self.scored.systems
        clusters = None if self.clusters is None else np.asarray(self.clusters)
        return pair_columns(measure, systems[system], systems[other], clusters)

    @property
    def scores(self) -> Mapping[tuple[str, str], SystemScore]:
        """Score by measure and system, in the order of the tables; empty without a summary."""
        systems = () if self.scored.summary is None else self.scored.summary.systems
        scores = {}
        for system in systems:
            if system.name in self.scored.systems:
                for measure, score in system.scores.items():
                    scores[measure, system.name] = score
        return scores


def compare_collections(
    collections: Sequence[CollectionScores], method: Method
) -> tuple[MacroMeasure, ...]:
    """Return macro means, differences and tests of each measure that every collection has.

    A measure and a system that a collection lacks are left out. The test is the stratified
    randomization test, whatever the test of `method`: signs flip per query, or per cluster, within
    its collection. Measures whose values of queries do not make a mean, such as corpus BLEU, have
    no comparisons. Measures and systems have the order of the first collection; without collections
    there are none.
    """
    if not collections:
        return ()
    names = [collection.name for collection in collections]
    scores = [collection.scores for collection in collections]
    pairs = [collection.pairs for collection in collections]
    # the first collection decides the order alone: a score has to be in all of them anyway
    common = []
    for key in scores[0]:
        if all(key in by_key for by_key in scores):
            common.append(key)
    systems_of: dict[str, list[str]] = {}
    for measure, system in common:
        systems_of.setdefault(measure, []).append(system)
    measures = []
    for measure, systems in systems_of.items():
        # kind, direction and aggregate belong to the measure: any system of any collection has them
        first = scores[0][measure, systems[0]]
        # of corpus BLEU the values per query do not add up to the score, so that flips of their
        # signs say nothing about it
        tested = _tested_pairs(measure, pairs) if first.aggregate == "mean" else []
        macro_scores = []
        for system in systems:
            macro_scores.append(_macro_score(system, names, [by[measure, system] for by in scores]))
        macro = MacroMeasure(
            measure=measure,
            kind=first.kind or "generation",
            direction=first.direction,
            systems=tuple(macro_scores),
            comparisons=(
                *_differences(tested, pairs, method),
                *_not_compared(measure, pairs),
            ),
            unlike=_unlike(measure, collections),
            tied=_tied_on_collections(measure, collections),
        )
        if first.aggregate == "mean":
            tied = _tied_with_best(macro, collections, method)
            macro = structs.replace(macro, tied_with_best=tied)
        measures.append(macro)
    return tuple(measures)


# Pairs of systems that are tested for the marks of macro means: it bounds the memory.
_MOST_PAIRS = 2_000


def _tied_with_best(
    measure: MacroMeasure, collections: Sequence[CollectionScores], method: Method
) -> tuple[str, ...]:
    """Return the system with the best macro mean, and systems that are not shown to be worse."""
    # pairs with a baseline keep their decision; max-T over all pairs decides on the others
    means = {}
    for score in measure.systems:
        if score.mean is not None:
            means[score.system] = score.mean
    names = list(combinations(means, 2))
    if measure.unlike is not None or not 0 < len(names) <= _MOST_PAIRS:
        return ()
    paired, columns, has_changes = {}, [], False
    for system, other in names:
        parts = [of.pair(measure.measure, system, other) for of in collections]
        if all(np.isfinite(part.differences).any() for part in parts):
            paired[system, other] = parts
            columns.append(stats.stratified_units(list(map(_units, parts))))
            has_changes |= bool(np.nan_to_num(columns[-1]).any())
    if not has_changes:
        return ()
    result = adjust_family(
        np.column_stack(columns), replace(method, test="randomization", correction="max_t")
    )
    (best,) = leaders(means, (), measure.direction)[:1]
    decided = {frozenset((row.system, row.baseline)): row.differs for row in measure.comparisons}
    worse: set[str] = set()
    for place, (of_pair, parts) in enumerate(paired.items()):
        if best not in of_pair:
            continue
        differs = decided.get(frozenset(of_pair))
        if differs is None:
            p, adjusted = result.p[place], result.adjusted[place]
            interval = _macro_interval(parts, method)
            differs = is_shown(p, adjusted, interval, 1 - method.confidence)
        worse |= {*of_pair} if differs else set()
    tied = []
    for name in means:
        if name == best or name not in worse:
            tied.append(name)
    return tuple(tied)


def _tied_on_collections(
    measure: str, collections: Sequence[CollectionScores]
) -> dict[str, tuple[str, ...]]:
    """Return collection -> systems that are tied with the best one, as its run has them."""
    tied = {}
    for collection in collections:
        n_systems = sum(name == measure for name, _ in collection.scores)
        for family in collection.comparisons.measures:
            # a single system is neither best nor tied
            if family.measure == measure and family.tied_with_best and n_systems > 1:
                tied[collection.name] = family.tied_with_best
    return tied


def _tested_pairs(
    measure: str, pairs: Sequence[Mapping[tuple[str, str, str], PairedScores]]
) -> list[tuple[str, str, str]]:
    """Return the pairs of a measure that have a difference on a query of every collection."""
    tested = []
    for key in pairs[0]:
        parts = _parts(key, pairs) if key[0] == measure else []
        has_all = len(parts) == len(pairs)
        if has_all and all(not np.isnan(part.differences).all() for part in parts):
            tested.append(key)
    return tested


def _parts(
    key: tuple[str, str, str], pairs: Sequence[Mapping[tuple[str, str, str], PairedScores]]
) -> list[PairedScores]:
    """Return the paired scores of a key on each collection that has it."""
    return [by_key[key] for by_key in pairs if key in by_key]


def _unlike(measure: str, collections: Sequence[CollectionScores]) -> str | None:
    """Return in words how the signatures of a measure differ, by collection; None if nowhere."""
    texts = []
    for collection in collections:
        reasons = unlike_measures([*collection.scored.systems.values()])
        if measure in reasons:
            texts.append(f"{collection.name}: {reasons[measure]}")
    return "; ".join(texts) or None


def _not_compared(
    measure: str, pairs: Sequence[Mapping[tuple[str, str, str], PairedScores]]
) -> Iterator[Difference]:
    """Yield a difference without numbers for each pair that a collection does not compare."""
    for key in pairs[0]:
        reasons = filter(None, [pair.unlike for pair in _parts(key, pairs)])
        unlike = next(reasons, None)
        if key[0] == measure and unlike is not None:
            yield Difference(system=key[1], baseline=key[2], unlike=unlike)


def _units(pair: PairedScores) -> FloatArray:
    """Return the differences of a pair by query, or their sums by cluster, with the same mean."""
    sums = pair.units(pair.differences[:, np.newaxis])[:, 0]
    if pair.clusters is None:
        return sums
    # not 0: pairs without a common query are left out before
    n = np.count_nonzero(~np.isnan(pair.differences))
    return sums * np.count_nonzero(~np.isnan(sums)) / n


def _macro_score(system: str, names: Sequence[str], scores: Sequence[SystemScore]) -> MacroScore:
    """Return the macro mean of a system; `scores` has its score on each of the collections."""
    means, intervals, parts = {}, {}, []
    for name, score in zip(names, scores, strict=True):
        means[name] = score.mean
        parts.append((score.mean, score.interval))
        if score.interval is not None and None not in score.interval:
            intervals[name] = score.interval
    mean, interval = _combined(parts)
    return MacroScore(system=system, means=means, mean=mean, interval=interval, intervals=intervals)


def _combined(
    parts: Sequence[tuple[float | None, Ends | None]],
) -> tuple[float | None, Ends | None]:
    """Return the macro mean of estimates and its interval; None where one part lacks it."""
    # A mean of the other parts would hide the collection where the system has no value.
    estimates = []
    for value, ends in parts:
        low, high = ends or (None, None)
        estimates.append((nan_if_none(value), nan_if_none(low), nan_if_none(high)))
    mean, lower, upper = stats.macro_mean(estimates)
    limits = finite(lower), finite(upper)
    return finite(mean), None if None in limits else limits


def _differences(
    keys: Sequence[tuple[str, str, str]],
    pairs: Sequence[Mapping[tuple[str, str, str], PairedScores]],
    method: Method,
) -> Iterator[Difference]:
    """Yield the macro difference of each pair of one measure, with its adjusted p-value."""
    if not keys:
        return
    columns = []
    for key in keys:
        columns.append(stats.stratified_units(list(map(_units, _parts(key, pairs)))))
    # all pairs in one call: the correction is over the comparisons by one measure
    flips = replace(method, test="randomization")
    result = adjust_family(np.column_stack(columns), flips)
    for place, key in enumerate(keys):
        paired = _parts(key, pairs)

        def excludes(confidence: float, paired: Sequence[PairedScores] = paired) -> bool:
            """Return True if the interval of the macro difference at a confidence excludes 0."""
            return leaves_out(_macro_interval(paired, replace(method, confidence=confidence)))

        interval = _macro_interval(paired, method)
        p, adjusted = result.p[place], result.adjusted[place]
        decision = decide(p, adjusted, interval, 1 - method.confidence, excludes)
        n = n_changed = 0
        for pair in paired:
            n += int(np.isfinite(pair.differences).sum())
            n_changed += int(np.count_nonzero(np.nan_to_num(pair.differences)))
        yield Difference(
            system=key[1],
            baseline=key[2],
            # units are scaled so that their sum is the macro mean over the common queries
            difference=float(np.nansum(columns[place])),
            interval=None if None in interval else decision.interval,
            n=n,
            n_changed=n_changed,
            rule="macro",
            test="stratified randomization",
            resamples=result.resamples,
            p=decision.p,
            p_adjusted=decision.p_adjusted,
            n_comparisons=result.n_comparisons,
            differs=decision.differs,
        )


def _macro_interval(pairs: Sequence[PairedScores], method: Method) -> Ends:
    """Return the limits of the macro mean of a pair's differences, one part a collection."""
    bounds = []
    for pair in pairs:
        limits = pair.interval(pair.differences, method)
        bounds.append((limits.mean, (finite(limits.lower), finite(limits.upper))))
    _, interval = _combined(bounds)
    return interval or (None, None)
