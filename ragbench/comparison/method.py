"""How systems are compared: the test of each pair, and p-values adjusted for a whole family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragbench import stats
from ragbench.types import FloatArray

Test = Literal["randomization", "t", "wilcoxon", "mcnemar"]
Correction = Literal["holm", "benjamini_hochberg", "bh", "max_t", "none"]
"""`bh` is short for `benjamini_hochberg`; `none` leaves each p-value as it is."""

_WITHOUT_RESAMPLES: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "t": stats.t_test_p_values,
    "wilcoxon": stats.wilcoxon_p_values,
    "mcnemar": stats.mcnemar_p_values,
}

_ADJUSTMENTS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "holm": stats.holm_p_values,
    "benjamini_hochberg": stats.benjamini_hochberg_p_values,
    "bh": stats.benjamini_hochberg_p_values,
    "none": np.copy,
}

Families = Literal["measure", "all"]
"""What is corrected for together: the comparisons by one measure, or by all."""


@dataclass(frozen=True, slots=True)
class Method:
    """How systems are compared."""

    confidence: float = 0.95
    """Level of every interval; 1 minus it is the error rate of every family of tests."""
    resamples: int = 10_000
    """Sign flips of a randomization test, and bootstrap resamples."""
    seed: int = 13
    test: Test = "randomization"
    correction: Correction = "holm"
    """How the p-values of a family are adjusted."""
    family: Families = "measure"
    """`measure`: the comparisons by one measure; `all`: those by all measures together."""
    cluster: str | None = None
    """What names the clusters; None where each query stands for itself."""


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """What the tests of one family give, an entry per comparison."""

    p: FloatArray
    """P-values before adjustment; NaN where nothing could be compared."""
    adjusted: FloatArray
    tests: list[Test]
    """Which test each p-value is of."""
    resamples: int
    """Sign flips that were drawn; more than asked for where the family needs them."""


def adjust_family(
    differences: FloatArray,
    *,
    test: Test = "randomization",
    correction: Correction = "holm",
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> FamilyResult:
    """Test every column of differences (n queries or clusters, m comparisons), and adjust for all.

    McNemar's test is of hits and misses. A column with other differences gets the randomization
    test, which on hits and misses is the same. One of m can only be rejected by B sign flips if
    1 / (B + 1) is at most alpha / m, so Holm and Benjamini-Hochberg get as many as that takes;
    `max_t` has sign flips of its own, and `none` needs no more for many comparisons than for one.

    Example:
        >>> found = adjust_family(np.array([[0.1, 0.3]] * 6), correction="holm")
        >>> found.p.tolist(), found.adjusted.tolist(), found.tests[0]
        ([0.03125, 0.03125], [0.0625, 0.0625], 'randomization')
    """
    m = differences.shape[1]
    if correction != "max_t" and m:
        needed = stats.resamples_needed(1 if correction == "none" else m, alpha=alpha)
        resamples = max(resamples, needed)
    tests = [_fitting(test, column) for column in differences.T]
    p = np.full(m, np.nan)
    for each in dict.fromkeys(tests):
        columns = np.array([word == each for word in tests])
        p[columns] = _p_values(each, differences[:, columns], resamples, seed)
    if correction == "max_t":
        adjusted = stats.max_t_p_values(differences, resamples=resamples, seed=seed)
    else:
        adjusted = _ADJUSTMENTS[correction](p)
    return FamilyResult(p, adjusted, tests, resamples)


def _fitting(test: Test, d: FloatArray) -> Test:
    graded = test == "mcnemar" and not np.isin(d[~np.isnan(d)], (-1.0, 0.0, 1.0)).all()
    return "randomization" if graded else test


def _p_values(test: Test, differences: FloatArray, resamples: int, seed: int) -> FloatArray:
    if test == "randomization":
        return stats.randomization_p_values(differences, resamples=resamples, seed=seed)
    return _WITHOUT_RESAMPLES[test](differences)
