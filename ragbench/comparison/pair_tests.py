"""Tests of pairs of systems, and their differences with intervals and decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from msgspec import structs

from ragbench import stats
from ragbench.comparison.decisions import Excludes, decide
from ragbench.comparison.method import FamilyResult, Method, adjust_families, adjust_family
from ragbench.comparison.pairs import PairedScores
from ragbench.records.comparison import Difference
from ragbench.stats.mean import finite, nan_if_none
from ragbench.types import FloatArray

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
