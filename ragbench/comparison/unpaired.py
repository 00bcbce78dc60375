"""Differences of systems over different questions, as those of independent samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragbench import stats
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.records.comparison import Difference
from ragbench.stats.mean import finite


def test_unpaired(family: Sequence[PairedScores], method: Method) -> list[Difference]:
    """Return differences, intervals and p-values, adjusted by Holm's procedure, of a family.

    The two columns of a pair are over different queries; a score that is computed from all queries
    together has no pairs. In the order of the family.

    Raises:
        OptionError: A score is outside the range of its measure.
    """
    differences = []
    for pair in family:
        values, other = (c.values[~np.isnan(c.values)] for c in (pair.system, pair.baseline))
        interval = stats.unpaired_interval(
            values, other, pair.range, method.confidence, method.resamples, method.seed
        )
        differences.append(
            Difference(
                system=pair.names[0],
                baseline=pair.names[1],
                difference=finite(interval.mean),
                interval=(finite(interval.lower), finite(interval.upper)),
                n=len(values),
                n_baseline=len(other),
                test="unpaired",
                p=finite(interval.p),
            )
        )
    p_values = [np.nan if row.p is None else row.p for row in differences]
    alpha = 1 - method.confidence
    return [
        replace(row, p_adjusted=finite(p), differs=None if np.isnan(p) else bool(p <= alpha))
        for row, p in zip(differences, stats.holm_p_values(p_values), strict=True)
    ]
