"""Statistics and coefficients of agreement beside SciPy, scikit-learn, or their definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import optimize
from scipy import stats as scipy
from sklearn import metrics as sklearn

from ragbench import stats
from ragbench.stats.bradley_terry import win_matrix
from ragbench.stats.correlation import Coefficient
from ragbench.stats.score_intervals import TIE_BEYOND, TIE_WITHIN
from tests.conformance.reference import ROUNDING, Pairs, Reference
from tests.stats.test_krippendorff import _by_pairs
from tests.stats.test_max_t import written_out
from tests.stats.test_paired_proportions import tail

Array = np.ndarray

WITHOUT_REFERENCE: dict[str, str] = {
    "betting_interval": "no package here has it; by simulation in tests/stats/test_betting.py",
    "cheapest_design": "every design tried in turn in tests/stats/test_variance.py",
    "difference_interval": (
        "its rules join intervals that no package joins; their parts beside SciPy, worked by hand "
        "and by simulated coverage in tests/stats/test_difference.py"
    ),
    "interim_interval": "as difference_interval, at a bound; tests/stats/test_sequential.py",
    "look_sizes": "a list of whole numbers; properties in tests/stats/test_sequential.py",
    "mean_agreement": "a mean over raters, worked by hand in tests/stats/test_agreement.py",
    "queries_to_exclude": (
        "no package plans by these intervals; the power of its plans by counting and by samples in "
        "tests/stats/test_planning.py"
    ),
    "tilting_interval": (
        "no package here has it; a solver for the weights, 200,000 draws at a limit and, for hits, "
        "score_interval in tests/stats/test_tilting.py"
    ),
    "ppi_difference": "ppi_py is not among the test packages; tests/stats/test_ppi.py",
    "ppi_mean": "ppi_py is not among the test packages; by hand in tests/stats/test_ppi.py",
    "queries_for": "a whole number, worked by hand in tests/stats/test_increase.py",
    "tied_with_best": "max_t_p_values of all pairs; by hand in tests/stats/test_max_t.py",
}
"""Statistic -> why there is nothing to hold it against, and where it is tested instead."""


def _samples(times: int, n: int, size: tuple[int, int] = (3, 40)) -> Iterator[Array]:
    """Scores as evaluations give them: few values, many alike, now and then any number."""
    rng = np.random.default_rng(5)
    for _ in range(n * times):
        length = int(rng.integers(*size))
        few = rng.choice([0.0, 0.1, 0.25, 0.5, 2 / 3, 1.0], length)
        yield np.where(rng.random(length) < 0.7, few, rng.random(length))


def _differences(times: int, n: int, size: tuple[int, int] = (3, 40)) -> Iterator[Array]:
    rng = np.random.default_rng(6)
    for values in _samples(times, n, size):
        d = values * rng.choice([-1.0, 0.0, 1.0], len(values)) + 0.05 * rng.random()
        if np.ptp(d) > 1e-9:  # a t test of equal differences is among the odd inputs
            yield d


def _families(times: int, n: int) -> Iterator[Array]:
    """P-values of up to eight comparisons."""
    rng = np.random.default_rng(7)
    for _ in range(n * times):
        p = rng.random(int(rng.integers(1, 9))) ** 3
        yield np.where(rng.random(len(p)) < 0.2, 0.02, p)


def _ratings(times: int, n: int, levels: int = 5) -> Iterator[tuple[Array, Array]]:
    """Two raters who agree more often than not, neither of them constant."""
    rng = np.random.default_rng(8)
    for _ in range(n * times):
        x = rng.integers(1, levels + 1, int(rng.integers(4, 30)))
        y = np.clip(x + rng.choice([0, 0, 0, 1, -1, 2], len(x)), 1, levels)
        x[:2], y[:2] = (1, 2), (1, 3)
        yield x, y


def _one(ours: Callable, theirs: Callable, cases: Callable, *sizes: object) -> Callable:
    """Compare two functions of one case."""

    def pairs(times: int) -> Pairs:
        for case in cases(times, *sizes):
            case = case if isinstance(case, tuple) else (case,)
            yield ours(*case), theirs(*case)

    return pairs


def _grid(*axes: tuple[float, ...]) -> Callable[[int], Iterator[tuple[float, ...]]]:
    return lambda _: itertools.product(*axes)


DF = (1, 2, 3.5, 10, 99, 5_000, 1e6)
T = (-30.0, -2.0, -0.1, 0.0, 0.5, 1.96, 6.0, 40.0)


def _closed_test(p: Array) -> Array:
    """Holm's procedure as the closed test that it is: every subset by Bonferroni."""
    sets = [s for k in range(1, len(p) + 1) for s in itertools.combinations(range(len(p)), k)]
    return np.array(
        [max(min(len(s) * min(p[list(s)]), 1.0) for s in sets if i in s) for i in range(len(p))]
    )


def _exact_flips(d: Array) -> float:
    """By SciPy, on multiples of one unit, so that it keeps the ties."""
    whole = np.rint(d * 1000)
    found = scipy.permutation_test(
        (whole, np.zeros(len(d))),
        lambda a, b, axis: np.abs((a - b).sum(axis=axis)),
        permutation_type="samples",
        vectorized=True,
        alternative="greater",
        n_resamples=np.inf,
    )
    return found.pvalue


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
        shape = (int(rng.integers(2, 8)), int(rng.integers(1, 4)))
        yield rng.choice([0.0, 0.1, 0.2, 0.3, -0.1, -0.3, 1.0, np.nan], shape)


def _wilcoxon(times: int) -> Pairs:
    rng = np.random.default_rng(10)
    for n in (5, 9, 14, 20) * 10 * times:
        d = rng.permutation(np.arange(1, n + 1)) * rng.choice([-1.0, 1.0], n) + 0.25
        theirs = scipy.wilcoxon(d, method="exact").pvalue
        yield stats.wilcoxon_p_values(d[:, None])[0], theirs
    for _ in range(20 * times):
        d = np.round(rng.normal(0.1, 0.5, 80), 1)
        theirs = scipy.wilcoxon(d, method="asymptotic").pvalue
        yield stats.wilcoxon_p_values(d[:, None])[0], theirs


def _mcnemar(_: int) -> Pairs:
    for won, lost in itertools.product(range(0, 30, 3), range(0, 30, 4)):
        d = np.array([1.0] * won + [-1.0] * lost + [0.0] * 5)
        theirs = scipy.binomtest(won, won + lost).pvalue if won + lost else 1.0
        yield stats.mcnemar_p_values(d[:, None])[0], theirs


def _wilson(times: int) -> Pairs:
    for values in _samples(times, 100):
        hits = np.round(values)
        theirs = scipy.binomtest(int(hits.sum()), len(hits)).proportion_ci(0.95, "wilson")
        found = stats.mean_interval(hits)
        yield (found.lower, found.upper), (theirs.low, theirs.high)


def _t_interval(times: int) -> Pairs:
    for values in _samples(times, 100):
        if len({*values}) > 1:
            theirs = scipy.ttest_1samp(values, 0.0).confidence_interval(0.95)
            found = stats.mean_interval(values, range=(-math.inf, math.inf))
            yield (found.lower, found.upper), (theirs.low, theirs.high)


def _two_more(times: int) -> Pairs:
    for values in _samples(times, 100):
        if not {*values} <= {0.0, 1.0}:
            theirs = scipy.ttest_1samp([*values, 0.0, 1.0], 0.0).confidence_interval(0.95)
            found = stats.mean_interval(values)
            yield (found.lower, found.upper), (max(theirs.low, 0.0), min(theirs.high, 1.0))


def _errors(limits: object, sample: Array) -> Array:
    """Limits in standard errors of the mean: what the draws of a bootstrap move them by."""
    return np.array(limits) / (sample.std() / math.sqrt(len(sample)))


def _bootstrap(function: Callable, method: str) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        for seed in range(3 * times):
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
        upper, lower = np.quantile(t, [0.025, 0.975])
        error = values.std(ddof=1) / math.sqrt(n)
        theirs = (values.mean() - lower * error, values.mean() - upper * error)
        ours = stats.studentized_bootstrap(values, resamples=20_000)
        yield _errors(ours, values), _errors(theirs, values)


def _effect_interval(times: int) -> Pairs:
    for seed in range(2 * times):
        rng = np.random.default_rng(seed)
        d = (rng.random(300) < 0.4) * rng.choice([-1.0, -0.5, 0.5], 300, p=[0.5, 0.3, 0.2])
        theirs = scipy.bootstrap(
            (d,),
            lambda x, axis: x.mean(axis=axis) / x.std(axis=axis, ddof=1),
            n_resamples=4_000,
            method="basic",
            rng=rng,
        ).confidence_interval
        yield stats.effect_size_interval(d), (theirs.low, theirs.high)


def _ratio_of_medians(now: Array, before: Array, axis: int = -1) -> Array:
    first = {"axis": axis, "method": "inverted_cdf"}
    return np.quantile(now, 0.5, **first) / np.quantile(before, 0.5, **first)


def _increase(times: int) -> Pairs:
    for seed in range(3, 3 + times):
        z = np.random.default_rng(seed).standard_normal((2, 201))
        z[1] = 0.8 * z[0] + 0.6 * z[1]
        now, before = np.exp(0.5 * z)
        theirs = scipy.bootstrap(
            (now, before), _ratio_of_medians, paired=True, method="percentile",
            n_resamples=4_000, rng=1,
        ).confidence_interval  # fmt: skip
        found = stats.increase_interval(now, before, quantile=0.5, resamples=4_000)
        yield (found.lower, found.upper), (theirs.low - 1, theirs.high - 1)


def _needed(distance: float, sd: float, power: float) -> int:
    """The smallest number of queries with that power, one after the other."""
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
        outcomes = np.vstack([outcomes, np.full(len(pairs), 0.5)])
        wins = win_matrix(outcomes, pairs)

        def loss(free: Array, wins: Array = wins) -> float:
            values = np.append(free, -free.sum())
            return (wins * np.logaddexp(0, values[None, :] - values[:, None])).sum()

        best = optimize.minimize(loss, np.zeros(size - 1), method="BFGS", options={"gtol": 1e-9}).x
        yield stats.bradley_terry_strengths(outcomes, pairs).values[:-1], best


def _components(times: int) -> Pairs:
    """F = mean square between / within = (within + runs x between) / within."""
    for seed in range(20 * times):
        rng = np.random.default_rng(seed)
        x = rng.normal(0, 0.3, (30, 1)) + rng.normal(0, 0.1, (30, 4))
        found = {c.levels: c.variance for c in stats.split_variance(x).components}
        within = found[("generator", "judge")]
        yield (within + 4 * found[("query",)]) / within, scipy.f_oneway(*x).statistic


def _sums(times: int) -> Pairs:
    rng = np.random.default_rng(12)
    for d in _differences(times, 50):
        labels = rng.integers(0, 4, len(d))
        theirs = [d[labels == label].sum() for label in dict.fromkeys(labels.tolist())]
        yield np.sort(stats.cluster_sums(d[:, None], labels)[:, 0]), np.sort(theirs)


def _alphas(level: str) -> Callable[[int], Pairs]:
    def pairs(times: int) -> Pairs:
        rng = np.random.default_rng(13)
        for _ in range(40 * times):
            table = rng.integers(1, 5, (int(rng.integers(3, 12)), int(rng.integers(2, 5))))
            table = np.where(rng.random(table.shape) < 0.2, np.nan, table)
            table[:2, :2] = [[1, 2], [3, 3]]
            yield stats.krippendorff_alpha(table, level=level).value, _by_pairs(table, level)

    return pairs


def _auc(times: int) -> Pairs:
    rng = np.random.default_rng(14)
    for scores in _samples(times, 200):
        good = rng.integers(0, 2, len(scores))
        good[:2] = 0, 1
        yield stats.roc_auc(scores, good).value, sklearn.roc_auc_score(good, scores)


def _by_question(ours: Coefficient, theirs: Callable) -> Callable:
    """Five questions with the ratings of several systems each, none of them constant."""

    def pairs(times: int) -> Pairs:
        cases = list(_ratings(times, 100))
        for start in range(0, len(cases), 5):
            some = cases[start : start + 5]
            x, y = (np.concatenate(side) for side in zip(*some, strict=True))
            groups = np.repeat(range(len(some)), [len(each) for each, _ in some])
            found = stats.mean_correlation(x, y, groups, coefficient=ours)
            yield found.mean.value, np.mean([theirs(*each)[0] for each in some])

    return pairs


def _first_commit(times: int) -> Pairs:
    """Half of the capital is staked at once, in equal parts; the other half waits."""
    stakes = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
    for d in _differences(times, 100, (12, 40)):
        d = np.clip(d, -1, 1)
        products = [math.prod(1 - min(s, 0.95 / 1.02) * (x + 0.02) for x in d) for s in stakes]
        yield stats.drop_evidence([d], 0.02).e, 0.5 * sum(products) / len(stakes) + 0.5


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
            weight = TIE_BEYOND if limit <= 0 else TIE_WITHIN
            beside = np.clip([limit - 1e-7, limit + 1e-7], -1.0, 1.0)
            tails = [tail(one, other, n, d, weight, scipy.multinomial) for d in beside]
            yield float(np.clip(0.025, min(tails), max(tails))), 0.025


def _kappas(ours: str, theirs: str | None) -> Reference:
    return Reference(
        "cohen_kappa",
        f"scikit-learn `cohen_kappa_score`, `weights={theirs!r}`",
        ROUNDING,
        _one(
            lambda x, y: stats.cohen_kappa(x, y, weights=ours).value,
            lambda x, y: sklearn.cohen_kappa_score(x, y, labels=[1, 2, 3, 4, 5], weights=theirs),
            _ratings,
            200,
        ),
    )


REFERENCES = [
    Reference(
        "mean_interval",
        "SciPy `binomtest(...).proportion_ci('wilson')`, of hits",
        ROUNDING,
        _wilson,
    ),
    Reference("mean_interval", "SciPy `ttest_1samp`, of an unbounded range", ROUNDING, _t_interval),
    Reference("mean_interval", "SciPy `ttest_1samp` with a 0 and a 1 more", ROUNDING, _two_more),
    Reference(
        "paired_differences",
        "NumPy `subtract`",
        0.0,
        _one(
            lambda d: stats.paired_differences(d, d[::-1]), lambda d: d - d[::-1], _differences, 50
        ),
    ),
    Reference(
        "effect_size",
        "SciPy `ttest_1samp`, its statistic over sqrt n",
        ROUNDING,
        _one(
            stats.effect_size,
            lambda d: scipy.ttest_1samp(d, 0.0).statistic / math.sqrt(len(d)),
            _differences,
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
    Reference(
        "increase_interval", "SciPy `bootstrap`, paired medians, 4,000 draws", 0.03, _increase
    ),
    Reference(
        "randomization_p_values",
        "SciPy `permutation_test`, all signs",
        ROUNDING,
        _one(
            lambda d: stats.randomization_p_values(np.round(d, 3)[:, None])[0],
            lambda d: _exact_flips(np.round(d, 3)),
            _differences,
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
        _one(
            lambda d: stats.t_test_p_values(d[:, None])[0],
            lambda d: scipy.ttest_1samp(d, 0.0).pvalue,
            _differences,
            200,
        ),
    ),
    Reference("wilcoxon_p_values", "SciPy `wilcoxon`, exact and asymptotic", ROUNDING, _wilcoxon),
    Reference("mcnemar_p_values", "SciPy `binomtest`", ROUNDING, _mcnemar),
    Reference(
        "holm_p_values",
        "plainly: the closed test, every subset by Bonferroni",
        ROUNDING,
        _one(stats.holm_p_values, _closed_test, _families, 100),
    ),
    Reference(
        "benjamini_hochberg_p_values",
        "SciPy `false_discovery_control`",
        ROUNDING,
        _one(stats.benjamini_hochberg_p_values, scipy.false_discovery_control, _families, 200),
    ),
    Reference(
        "max_t_p_values",
        "plainly: Westfall and Young's definition, sign by sign",
        ROUNDING,
        _one(stats.max_t_p_values, lambda table: written_out(table, "down"), _tables, 30),
    ),
    Reference(
        "resamples_needed",
        "plainly: the fewest draws whose 1 / (B + 1) is at most alpha / m",
        0.0,
        _one(
            lambda m: stats.resamples_needed(m),
            lambda m: next(b for b in range(1, 10**6) if 1 / (b + 1) <= 0.05 / m + 1e-15),
            _grid((1, 2, 3, 7, 10, 45, 500)),
        ),
    ),
    Reference(
        "can_reject",
        "plainly: Holm's own p-values of the smallest p",
        0.0,
        _one(
            lambda b, m: stats.can_reject(b, m),
            lambda b, m: float(m / (b + 1) <= 0.05 + 1e-15),
            _grid((19, 99, 999, 9_999), (1, 2, 5, 50, 500)),
        ),
    ),
    Reference("cluster_sums", "plainly: a sum for each label", ROUNDING, _sums),
    Reference(
        "t_cdf",
        "SciPy `t.cdf`, relative",
        1e-10,
        _one(stats.t_cdf, scipy.t.cdf, _grid(T, DF)),
        True,
    ),
    Reference(
        "t_sf", "SciPy `t.sf`, relative", 1e-10, _one(stats.t_sf, scipy.t.sf, _grid(T, DF)), True
    ),
    Reference(
        "t_quantile",
        "SciPy `t.ppf`, relative",
        1e-10,
        _one(stats.t_quantile, scipy.t.ppf, _grid((0.001, 0.2, 0.5, 0.8, 0.975, 0.9999), DF)),
        True,
    ),
    Reference(
        "noncentral_t_sf",
        "SciPy `nct.sf`",
        1e-8,
        _one(
            stats.noncentral_t_sf, scipy.nct.sf, _grid((1.0, 1.96, 4.0), DF, (0.0, 0.3, 2.8, 6.0))
        ),
    ),
    Reference(
        "queries_needed",
        "the first n whose SciPy `nct.sf` has the power",
        0.0,
        _one(
            lambda distance, sd, power: stats.queries_needed(distance, sd, power=power),
            _needed,
            _grid((0.05, 0.1, 0.5), (0.1, 0.2, 0.3), (0.8, 0.95)),
        ),
    ),
    Reference(
        "minimum_detectable_difference",
        "SciPy `t.ppf` at both ends, times the standard error",
        1e-10,
        _one(
            lambda sd, n, power: stats.minimum_detectable_difference(sd, n, power=power),
            _detectable,
            _grid((0.1, 0.3, 1.0), (5, 50, 500), (0.8, 0.95)),
        ),
    ),
    Reference(
        "spending_bounds",
        "Reboussin, DeMets, Kim and Lan (2000), as printed",
        2e-4,
        _one(
            lambda sizes: stats.spending_bounds(sizes),
            lambda sizes: {
                2: (2.9626, 1.9686),
                3: (3.7103, 2.5114, 1.9930),
                5: (4.8769, 3.3569, 2.6803, 2.2898, 2.0310),
            }[len(sizes)],
            lambda _: (([100 * k for k in range(1, n + 1)],) for n in (2, 3, 5)),
        ),
    ),
    Reference("split_variance", "SciPy `f_oneway`, its F", 1e-9, _components, True),
    Reference(
        "drop_evidence",
        "plainly: the bets on a first commit, query by query; relative",
        1e-9,
        _first_commit,
        relative=True,
    ),
    Reference(
        "score_interval",
        "SciPy `multinomial`, summed over every table: what is left out at each limit",
        1e-6,
        _tails_at_limits,
    ),
    Reference("bradley_terry_strengths", "SciPy `minimize` of the likelihood", 1e-5, _strengths),
    Reference(
        "raw_agreement",
        "scikit-learn `accuracy_score`",
        ROUNDING,
        _one(lambda x, y: stats.raw_agreement(x, y).value, sklearn.accuracy_score, _ratings, 200),
    ),
    _kappas("equal", None),
    _kappas("linear", "linear"),
    _kappas("quadratic", "quadratic"),
    Reference(
        "confusion_table",
        "scikit-learn `confusion_matrix`",
        0.0,
        _one(
            lambda x, y: stats.confusion_table(x, y, [1, 2, 3, 4, 5]),
            lambda x, y: sklearn.confusion_matrix(x, y, labels=[1, 2, 3, 4, 5]),
            _ratings,
            100,
        ),
    ),
    *(
        Reference("krippendorff_alpha", f"plainly, pair by pair: {level}", ROUNDING, _alphas(level))
        for level in ("nominal", "ordinal", "interval")
    ),
    Reference(
        "pearson",
        "SciPy `pearsonr`",
        ROUNDING,
        _one(
            lambda x, y: stats.pearson(x, y).value,
            lambda x, y: scipy.pearsonr(x, y)[0],
            _ratings,
            200,
        ),
    ),
    *(
        Reference(
            "mean_correlation",
            f"mean of SciPy `{theirs.__name__}` over questions: {ours}",
            ROUNDING,
            _by_question(ours, theirs),
        )
        for ours, theirs in (
            ("pearson", scipy.pearsonr),
            ("spearman", scipy.spearmanr),
            ("kendall", scipy.kendalltau),
        )
    ),
    Reference(
        "spearman",
        "SciPy `spearmanr`",
        ROUNDING,
        _one(
            lambda x, y: stats.spearman(x, y).value,
            lambda x, y: scipy.spearmanr(x, y)[0],
            _ratings,
            200,
        ),
    ),
    Reference(
        "kendall_tau_b",
        "SciPy `kendalltau`",
        ROUNDING,
        _one(
            lambda x, y: stats.kendall_tau_b(x, y).value,
            lambda x, y: scipy.kendalltau(x, y)[0],
            _ratings,
            200,
        ),
    ),
    Reference("roc_auc", "scikit-learn `roc_auc_score`", ROUNDING, _auc),
]
