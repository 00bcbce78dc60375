"""A family of comparisons: which test, which adjustment, how many flips."""

import numpy as np
import pytest

from ragbench.comparison.method import Method, adjust_family
from ragbench.stats import max_t_p_values

RANDOM = np.random.default_rng(11)
TABLE = RANDOM.normal(0.03, 0.1, (60, 3))


@pytest.mark.parametrize(("test", "oracle"), [("t", "ttest_1samp"), ("wilcoxon", "wilcoxon")])
def test_p_values_are_scipys(test, oracle):
    from scipy import stats

    options = {"popmean": 0} if test == "t" else {"method": "asymptotic"}
    theirs = [getattr(stats, oracle)(d, **options).pvalue for d in TABLE.T]

    family = adjust_family(TABLE, Method(test=test))

    assert family.p == pytest.approx(theirs)
    assert family.tests == [test] * 3


def test_benjamini_hochberg_is_scipys():
    from scipy import stats

    family = adjust_family(TABLE, Method(test="t", correction="benjamini_hochberg"))

    assert family.adjusted == pytest.approx(stats.false_discovery_control(family.p))
    assert adjust_family(TABLE, Method(test="t", correction="bh")).adjusted.tolist() == (
        family.adjusted.tolist()
    )


def test_without_correction_p_is_that_of_each_pair_alone():
    # Holm would need 1,199 flips for so many comparisons; here no pair costs another pair flips
    table = RANDOM.normal(0.02, 0.1, (40, 60))
    alone = [adjust_family(d[:, None], Method(resamples=100, seed=3)).p[0] for d in table.T]

    family = adjust_family(table, Method(correction="none", resamples=100, seed=3))

    assert family.resamples == 100
    assert family.p.tolist() == family.adjusted.tolist() == alone
    assert (family.adjusted < adjust_family(table, Method(resamples=100, seed=3)).adjusted).any()


def test_max_t_has_flips_of_its_own():
    family = adjust_family(TABLE, Method(correction="max_t", resamples=500, seed=4))

    assert family.adjusted.tolist() == max_t_p_values(TABLE, resamples=500, seed=4).tolist()
    assert family.resamples == 500


def test_mcnemar_is_for_hits_and_misses_alone():
    hits = np.sign(np.round(TABLE[:, :1] * 5))
    mixed = np.column_stack([hits, TABLE[:, 1]])

    family = adjust_family(mixed, Method(test="mcnemar"))

    assert family.tests == ["mcnemar", "randomization"]
    assert family.p[1] == adjust_family(mixed[:, 1:], Method()).p[0]


@pytest.mark.parametrize("correction", ["holm", "benjamini_hochberg"])
def test_a_large_family_gets_the_flips_that_it_takes(correction):
    # 60 true differences: at 1 / 101 > .05 / 60 the smallest p would reject none
    table = RANDOM.normal(0.5, 0.1, (40, 60))

    family = adjust_family(table, Method(correction=correction, resamples=100))

    assert family.resamples == 60 / 0.05 - 1
    assert (family.adjusted <= 0.05).all()


def test_no_comparison():
    family = adjust_family(np.zeros((5, 0)), Method())

    assert family.p.shape == family.adjusted.shape == (0,)


@pytest.mark.costly
@pytest.mark.parametrize("correction", ["holm", "max_t"])
def test_keeps_the_error_rate_of_the_family(correction):
    # 200 families of five equal systems against one baseline: at 5 %, se 1.5 points
    rng, wrong = np.random.default_rng(12), 0
    for _ in range(200):
        scores = rng.normal(0, 1, (50, 6))
        table = scores[:, 1:] - scores[:, :1]
        family = adjust_family(table, Method(correction=correction, resamples=199))
        wrong += bool((family.adjusted <= 0.05).any())

    assert wrong / 200 < 0.1
