"""Intervals, sample sizes and the other statistics beside SciPy, or their definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from ragbench import stats
from ragbench.stats.bradley_terry import win_matrix
from ragbench.stats.score_intervals import TIE_BEYOND, TIE_WITHIN
from tests.conformance import agreement, significance
from tests.conformance.cases import differences, samples
from tests.conformance.reference import (
    ROUNDING,
    Pairs,
    Reference,
    declared_by_tests,
    grid,
    of_cases,
)
from tests.lazy import Lazy
from tests.stats.test_paired_proportions import tail

optimize = Lazy("scipy.optimize")
scipy = Lazy("scipy.stats")

Array = np.ndarray

_BY_TESTS, _REASONS = declared_by_tests("stats")
# Statistic -> why there is nothing to hold it against, and where it is tested instead.
WITHOUT_REFERENCE: dict[str, str] = {
    "barnard_p_value": (
        "pooled statistic with the correction of Berger and Boos, which scipy lacks; its error in "
        "all tables of 1 to 20 a side in tests/stats/test_unpaired.py"
    ),
    "excludes_zero": "the sign of difference_interval, compared in tests/stats/test_difference.py",
    **_REASONS,
    "detectable_difference": (
        "no package plans by these intervals; the share of draws that show its differences in "
        "tests/stats/test_unseen_losses.py"
    ),
    "difference_interval": (
        "its rules join intervals that no package joins; their parts beside SciPy, worked by hand "
        "and by simulated coverage in tests/stats/test_difference.py"
    ),
    "mean_agreement": "a mean over raters, worked by hand in tests/stats/test_agreement.py",
    "next_purchases": (
        "arithmetic with the parts of noise_parts, worked by hand in tests/stats/test_noise.py"
    ),
    "noise_parts": (
        "mean squares of nested data by the textbook, and 60 simulated worlds with known parts in "
        "tests/stats/test_noise.py"
    ),
    "pass_all": "all draws, counted one by one in tests/stats/test_noise.py",
    "pass_any": "all draws, counted one by one in tests/stats/test_noise.py",
    "queries_to_exclude": (
        "no package plans by these intervals; the power of its plans by counting and by samples in "
        "tests/stats/test_planning.py"
    ),
    "unpaired_interval": (
        "Newcombe's table of differences of two proportions, Welch's interval for many values, and "
        "simulated coverage in tests/stats/test_unpaired.py"
    ),
    "tilting_interval": (
        "no package here has it; a solver for the weights, 200,000 draws at a limit and, for hits, "
        "score_interval in tests/stats/test_tilting.py"
    ),
    "ppi_difference": "ppi_py is not among the test packages; tests/stats/test_ppi.py",
    "ppi_mean": "ppi_py is not among the test packages; by hand in tests/stats/test_ppi.py",
}


DF = (1, 2, 3.5, 10, 99, 5_000, 1e6)
T = (-30.0, -2.0, -0.1, 0.0, 0.5, 1.96, 6.0, 40.0)


def _wilson(times: int) -> Pairs:
    for values in samples(times, 100):
        # values of 0 and 1 alone get Wilson's interval
        hits = np.round(values)
        theirs = scipy.binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, "wilson")
        interval = stats.mean_interval(hits)
        yield (interval.lower, interval.upper), (theirs.low, theirs.high)


def _t_interval(times: int) -> Pairs:
    # scipy has no t interval of fewer than two different values
    for values in samples(times, 100, (3, 20)):
        if len({*values}) > 1:
            theirs = scipy.ttest_1samp(values, 0.0).confidence_interval(0.95)
            interval = stats.mean_interval(values, range=(-math.inf, math.inf))
            yield (interval.lower, interval.upper), (theirs.low, theirs.high)


def _two_more(times: int) -> Pairs:
    for values in samples(times, 100):
        # bounded means add one 0 and one 1 before Student's interval; hits do not
        if not {*values} <= {0.0, 1.0}:
            theirs = scipy.ttest_1samp([*values, 0.0, 1.0], 0.0).confidence_interval(0.95)
            interval = stats.mean_interval(values)
            yield (interval.lower, interval.upper), (max(theirs.low, 0.0), min(theirs.high, 1.0))


def _errors(limits: object, sample: Array) -> Array:
    """Limits in standard errors of the mean: what the draws of a bootstrap move them by."""
    # two bootstraps with other draws agree within a few hundredths of a standard error
    return np.array(limits) / (sample.std() / math.sqrt(len(sample)))


def _bootstrap(function: Callable, method: str) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        for seed in range(3 * times):
            # skewed, so that percentile, basic and studentized intervals differ
            values = np.random.default_rng(seed).exponential(0.2, 60)
            theirs = scipy.bootstrap(
                (values,), np.mean, n_resamples=20_000, method=method, rng=seed
            ).confidence_interval
            ours = function(values, resamples=20_000)
            yield _errors(ours, values), _errors((theirs.low, theirs.high), values)

    return pairs


def _studentized(times: int) -> Pairs:
    """Mean - t* s / sqrt n, resample by resample, with NumPy's own mean and std."""
    for seed in range(3 * times):
        rng = np.random.default_rng(seed)
        values, n = rng.exponential(0.2, 60), 60
        draws = values[rng.integers(0, n, (20_000, n))]
        t = (draws.mean(1) - values.mean()) / (draws.std(1, ddof=1) / math.sqrt(n))
        # the upper quantile of t gives the lower limit
        upper, lower = np.quantile(t, [0.025, 0.975])
        error = values.std(ddof=1) / math.sqrt(n)
        theirs = (values.mean() - lower * error, values.mean() - upper * error)
        ours = stats.studentized_bootstrap(values, resamples=20_000)
        yield _errors(ours, values), _errors(theirs, values)


def _effect_interval(times: int) -> Pairs:
    for seed in range(2 * times):
        rng = np.random.default_rng(seed)
        # paired differences of hits: most are 0
        d = (rng.random(300) < 0.4) * rng.choice([-1.0, -0.5, 0.5], 300, p=[0.5, 0.3, 0.2])
        theirs = scipy.bootstrap(
            (d,),
            lambda x, axis: x.mean(axis=axis) / x.std(axis=axis, ddof=1),
            n_resamples=4_000,
            method="basic",
            rng=rng,
        ).confidence_interval
        yield stats.effect_size_interval(d), (theirs.low, theirs.high)


def _needed(distance: float, sd: float, power: float) -> int:
    """The smallest number of queries with that power, one after the other."""
    # power of a t test by the noncentral t distribution, as G*Power computes it
    for n in range(2, 100_000):
        t = scipy.t.ppf(0.975, n - 1)
        if scipy.nct.sf(t, n - 1, distance / sd * math.sqrt(n)) >= power:
            return n
    raise AssertionError("never")


def _detectable(sd: float, n: float, power: float) -> float:
    spread = scipy.t.ppf(0.975, n - 1) + scipy.t.ppf(power, n - 1)
    return spread * sd / math.sqrt(n)


def _strengths(times: int) -> Pairs:
    rng = np.random.default_rng(11)
    for _ in range(20 * times):
        size = int(rng.integers(2, 6))
        pairs = list(itertools.combinations(range(size), 2))
        outcomes = rng.choice([0.0, 0.5, 1.0, np.nan], (8, len(pairs)))
        # a row of ties: without it a system that never lost has no finite strength
        outcomes = np.vstack([outcomes, np.full(len(pairs), 0.5)])
        wins = win_matrix(outcomes, pairs)

        def loss(free: Array, wins: Array = wins) -> float:
            # strengths are known up to a constant: they sum to 0
            values = np.append(free, -free.sum())
            return (wins * np.logaddexp(0, values[None, :] - values[:, None])).sum()

        best = optimize.minimize(loss, np.zeros(size - 1), method="BFGS", options={"gtol": 1e-9}).x
        yield stats.bradley_terry_strengths(outcomes, pairs).values[:-1], best


def _sums(times: int) -> Pairs:
    rng = np.random.default_rng(12)
    for d in differences(times, 50):
        labels = rng.integers(0, 4, len(d))
        # sums label by label, in the order in which labels occur first
        theirs = [d[labels == label].sum() for label in dict.fromkeys(labels.tolist())]
        yield np.sort(stats.cluster_sums(d[:, None], labels)[:, 0]), np.sort(theirs)


def _tails_at_limits(times: int) -> Pairs:
    """At a limit, the probability of counts as far from it as those observed crosses 2.5 %.

    It may jump there, as another table becomes as far: just beside the limit it is on both sides.
    """
    rng = np.random.default_rng(15)
    for _ in range(10 * times):
        n = int(rng.integers(2, 40))
        lost, gained = (int(x) for x in rng.multinomial(n, [0.1, 0.05, 0.85])[:2])
        low, high = stats.score_interval(lost, gained, n)
        for limit, one, other in ((low, lost, gained), (-high, gained, lost)):
            # the observed table counts by 0.75 in the tail beyond 0 and by 0.5 in the other
            weight = TIE_BEYOND if limit <= 0 else TIE_WITHIN
            beside = np.clip([limit - 1e-7, limit + 1e-7], -1.0, 1.0)
            tails = [tail(one, other, n, d, weight, scipy.multinomial) for d in beside]
            yield float(np.clip(0.025, min(tails), max(tails))), 0.025


REFERENCES = [
    Reference(
        "mean_interval",
        "SciPy `binomtest(...).proportion_ci('wilson')`, of hits",
        ROUNDING,
        _wilson,
    ),
    Reference(
        "mean_interval",
        "SciPy `ttest_1samp`, of an unbounded range, up to 19 values",
        ROUNDING,
        _t_interval,
    ),
    Reference("mean_interval", "SciPy `ttest_1samp` with a 0 and a 1 more", ROUNDING, _two_more),
    Reference(
        "paired_differences",
        "NumPy `subtract`",
        0.0,
        of_cases(
            lambda d: stats.paired_differences(d, d[::-1]), lambda d: d - d[::-1], differences, 50
        ),
    ),
    Reference(
        "effect_size",
        "SciPy `ttest_1samp`, its statistic over sqrt n",
        ROUNDING,
        of_cases(
            stats.effect_size,
            lambda d: scipy.ttest_1samp(d, 0.0).statistic / math.sqrt(len(d)),
            differences,
            100,
        ),
    ),
    Reference(
        "effect_size_interval", "SciPy `bootstrap`, basic, 4,000 draws", 0.03, _effect_interval
    ),
    Reference(
        "percentile_bootstrap",
        "SciPy `bootstrap`, 20,000 draws, in standard errors",
        0.15,
        _bootstrap(stats.percentile_bootstrap, "percentile"),
    ),
    Reference(
        "bca_bootstrap",
        "SciPy `bootstrap`, 20,000 draws, in standard errors",
        0.25,
        _bootstrap(stats.bca_bootstrap, "BCa"),
    ),
    Reference(
        "studentized_bootstrap",
        "plainly: draw by draw, 20,000, in standard errors",
        0.25,
        _studentized,
    ),
    *significance.REFERENCES,
    Reference("cluster_sums", "plainly: a sum for each label", ROUNDING, _sums),
    Reference(
        "t_sf",
        "SciPy `t.sf`, relative",
        1e-10,
        of_cases(stats.t_sf, lambda t, df: scipy.t.sf(t, df), grid(T, DF)),
        True,
    ),
    Reference(
        "t_quantile",
        "SciPy `t.ppf`, relative",
        1e-10,
        of_cases(
            stats.t_quantile,
            lambda p, df: scipy.t.ppf(p, df),
            grid((0.001, 0.2, 0.5, 0.8, 0.975, 0.9999), DF),
        ),
        True,
    ),
    Reference(
        "noncentral_t_sf",
        "SciPy `nct.sf`",
        1e-8,
        of_cases(
            stats.noncentral_t_sf,
            lambda t, df, nc: scipy.nct.sf(t, df, nc),
            grid((1.0, 1.96, 4.0), DF, (0.0, 0.3, 2.8, 6.0)),
        ),
    ),
    Reference(
        "queries_needed",
        "the first n whose SciPy `nct.sf` has the power",
        0.0,
        of_cases(
            lambda distance, sd, power: stats.queries_needed(distance, sd, power=power),
            _needed,
            grid((0.05, 0.1, 0.5), (0.1, 0.2, 0.3), (0.8, 0.95)),
        ),
    ),
    Reference(
        "minimum_detectable_difference",
        "SciPy `t.ppf` at both ends, times the standard error",
        1e-10,
        of_cases(
            lambda sd, n, power: stats.minimum_detectable_difference(sd, n, power=power),
            _detectable,
            grid((0.1, 0.3, 1.0), (5, 50, 500), (0.8, 0.95)),
        ),
    ),
    Reference(
        "score_interval",
        "SciPy `multinomial`, summed over every table: what is left out at each limit",
        1e-6,
        _tails_at_limits,
    ),
    Reference("bradley_terry_strengths", "SciPy `minimize` of the likelihood", 1e-5, _strengths),
    *agreement.REFERENCES,
    *_BY_TESTS,
]
