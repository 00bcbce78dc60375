"""Tests of significance and their corrections beside SciPy, or their definition."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ragbench import stats
from tests.conformance.cases import differences
from tests.conformance.reference import ROUNDING, Pairs, Reference, grid, of_cases
from tests.lazy import Lazy
from tests.stats.test_max_t import written_out

scipy = Lazy("scipy.stats")

Array = np.ndarray


def _families(times: int, n: int) -> Iterator[Array]:
    """P-values of up to eight comparisons."""
    rng = np.random.default_rng(7)
    for _ in range(n * times):
        # cubes: small values are where corrections differ
        p = rng.random(int(rng.integers(1, 9))) ** 3
        # equal values, since ties are where step-down procedures go wrong
        yield np.where(rng.random(len(p)) < 0.2, 0.02, p)


def _closed_test(p: Array) -> Array:
    """Holm's procedure as the closed test that it is: every subset by Bonferroni."""
    sets = [s for k in range(1, len(p) + 1) for s in itertools.combinations(range(len(p)), k)]
    return np.array(
        [max(min(len(s) * min(p[list(s)]), 1.0) for s in sets if i in s) for i in range(len(p))]
    )


def _exact_flips(d: Array) -> float:
    """By SciPy, on multiples of one unit, so that it keeps the ties."""
    # whole numbers add up exactly: floats would break ties by rounding
    whole = np.rint(d * 1000)
    result = scipy.permutation_test(
        (whole, np.zeros(len(d))),
        lambda a, b, axis: np.abs((a - b).sum(axis=axis)),
        permutation_type="samples",
        vectorized=True,
        alternative="greater",
        n_resamples=np.inf,
    )
    return result.pvalue


def _random_flips(times: int) -> Pairs:
    for seed in range(3 * times):
        d = np.random.default_rng(seed).normal(0.03, 0.1, 40)
        theirs = scipy.permutation_test(
            (d, np.zeros(40)),
            lambda a, b, axis: (a - b).mean(axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=20_000,
            rng=seed,
        ).pvalue
        yield stats.randomization_p_values(d[:, None], resamples=20_000)[0], theirs


def _tables(times: int, n: int) -> Iterator[Array]:
    rng = np.random.default_rng(9)
    for _ in range(n * times):
        # few rows: the definition goes through all 2^n signs
        shape = (int(rng.integers(2, 8)), int(rng.integers(1, 4)))
        yield rng.choice([0.0, 0.1, 0.2, 0.3, -0.1, -0.3, 1.0, np.nan], shape)


def _wilcoxon(times: int) -> Pairs:
    rng = np.random.default_rng(10)
    for n in (5, 9, 14, 20) * 10 * times:
        # distinct sizes and no zero: SciPy has exact values for these alone
        d = rng.permutation(np.arange(1, n + 1)) * rng.choice([-1.0, 1.0], n) + 0.25
        theirs = scipy.wilcoxon(d, method="exact").pvalue
        yield stats.wilcoxon_p_values(d[:, None])[0], theirs
    for _ in range(20 * times):
        # one decimal gives ties and zeros, which the normal distribution corrects for
        d = np.round(rng.normal(0.1, 0.5, 80), 1)
        theirs = scipy.wilcoxon(d, method="asymptotic").pvalue
        yield stats.wilcoxon_p_values(d[:, None])[0], theirs


def _mcnemar(_: int) -> Pairs:
    for won, lost in itertools.product(range(0, 30, 3), range(0, 30, 4)):
        d = np.array([1.0] * won + [-1.0] * lost + [0.0] * 5)
        theirs = scipy.binomtest(won, won + lost).pvalue if won + lost else 1.0
        yield stats.mcnemar_p_values(d[:, None])[0], theirs


REFERENCES = [
    Reference(
        "randomization_p_values",
        "SciPy `permutation_test`, all signs",
        ROUNDING,
        of_cases(
            lambda d: stats.randomization_p_values(np.round(d, 3)[:, None])[0],
            lambda d: _exact_flips(np.round(d, 3)),
            differences,
            30,
            (2, 10),
        ),
    ),
    Reference(
        "randomization_p_values", "SciPy `permutation_test`, 20,000 draws", 0.025, _random_flips
    ),
    Reference(
        "t_test_p_values",
        "SciPy `ttest_1samp`",
        ROUNDING,
        of_cases(
            lambda d: stats.t_test_p_values(d[:, None])[0],
            lambda d: scipy.ttest_1samp(d, 0.0).pvalue,
            differences,
            200,
        ),
    ),
    Reference("wilcoxon_p_values", "SciPy `wilcoxon`, exact and asymptotic", ROUNDING, _wilcoxon),
    Reference("mcnemar_p_values", "SciPy `binomtest`", ROUNDING, _mcnemar),
    Reference(
        "holm_p_values",
        "plainly: the closed test, every subset by Bonferroni",
        ROUNDING,
        of_cases(stats.holm_p_values, _closed_test, _families, 100),
    ),
    Reference(
        "benjamini_hochberg_p_values",
        "SciPy `false_discovery_control`",
        ROUNDING,
        of_cases(
            stats.benjamini_hochberg_p_values,
            lambda p: scipy.false_discovery_control(p),
            _families,
            200,
        ),
    ),
    Reference(
        "max_t_p_values",
        "plainly: Westfall and Young's definition, sign by sign",
        ROUNDING,
        of_cases(stats.max_t_p_values, lambda table: written_out(table), _tables, 30),
    ),
    Reference(
        "interval_p_value",
        "SciPy `ttest_1samp`, from its intervals alone",
        2e-6,
        of_cases(
            lambda d: stats.interval_p_value(
                lambda c: tuple(scipy.ttest_1samp(d, 0.0).confidence_interval(c)), least=1e-9
            ),
            lambda d: scipy.ttest_1samp(d, 0.0).pvalue,
            differences,
            20,
        ),
    ),
    Reference(
        "resamples_needed",
        "plainly: the fewest draws whose 1 / (B + 1) is at most alpha / m",
        0.0,
        of_cases(
            lambda m: stats.resamples_needed(m),
            lambda m: next(b for b in range(1, 10**6) if 1 / (b + 1) <= 0.05 / m + 1e-15),
            grid((1, 2, 3, 7, 10, 45, 500)),
        ),
    ),
]
