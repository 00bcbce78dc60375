"""Tests of systems over different queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragbench import stats
from ragbench.comparison.decisions import decide
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.records.comparison import (
    Difference,
)
from ragbench.stats.mean import finite
from ragbench.stats.unpaired import has_too_few
from ragbench.types import FloatArray


def decide_unpaired(family: Sequence[PairedScores], method: Method) -> list[Difference]:
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
