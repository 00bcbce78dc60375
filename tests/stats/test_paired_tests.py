"""Paired t, Wilcoxon and McNemar: SciPy's p-values, hand-worked ones, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import (
    mcnemar_p_values,
    randomization_p_values,
    t_test_p_values,
    wilcoxon_p_values,
)
from tests.stats.strategies import difference_tables

NAN = float("nan")
TESTS = [t_test_p_values, wilcoxon_p_values, mcnemar_p_values]


def column(*d):
    return np.array(d, dtype=float)[:, np.newaxis]


@given(difference_tables(max_rows=30))
@settings(max_examples=16)
def test_t_agrees_with_scipy(scipy_stats, table):
    for ours, d in zip(t_test_p_values(table), table.T, strict=True):
        defined = d[~np.isnan(d)]
        if len(defined) > 1 and defined.min() < defined.max():
            assert ours == pytest.approx(scipy_stats.ttest_1samp(defined, 0).pvalue, abs=1e-12)


@pytest.mark.parametrize("n", [5, 20, 50])
def test_wilcoxon_without_ties_agrees_with_scipys_exact_test(scipy_stats, n):
    table = np.random.default_rng(n).normal(0.2, 1, (n, 4))

    oracle = scipy_stats.wilcoxon(table, method="exact").pvalue

    np.testing.assert_allclose(wilcoxon_p_values(table), oracle, atol=1e-12)


@given(difference_tables(max_rows=8, missing=False))
@settings(max_examples=16, deadline=None)
def test_wilcoxon_with_ties_agrees_with_all_permutations(scipy_stats, table):
    # SciPy goes through every sign; differences in tenths keep the ties there
    for ours, d in zip(wilcoxon_p_values(table), np.rint(table * 10).T, strict=True):
        changed = d[d != 0]
        if len(changed) > 1:
            every_sign = scipy_stats.PermutationMethod(n_resamples=np.inf)
            oracle = scipy_stats.wilcoxon(changed, method=every_sign).pvalue
            assert ours == pytest.approx(oracle, abs=1e-12)


def test_wilcoxon_of_many_agrees_with_scipys_approximation(scipy_stats):
    table = np.round(np.random.default_rng(3).normal(0.05, 0.3, (200, 5)), 1)

    oracle = [scipy_stats.wilcoxon(d, method="asymptotic").pvalue for d in table.T]

    np.testing.assert_allclose(wilcoxon_p_values(table), oracle, rtol=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n", [51, 100, 1000])
def test_small_wilcoxon_p_values_of_many_agree_with_scipy(scipy_stats, n, sign):
    # All queries changed in one direction, down to p = 3e-165
    d = sign * np.arange(1.0, n + 1)

    oracle = scipy_stats.wilcoxon(d, method="asymptotic").pvalue

    np.testing.assert_allclose(wilcoxon_p_values(d[:, np.newaxis]), oracle, rtol=1e-9)


@given(st.integers(0, 400), st.integers(0, 400))
@settings(max_examples=16)
def test_mcnemar_agrees_with_the_binomial_test(scipy_stats, won, lost):
    table = column(*[1.0] * won, *[-1.0] * lost, 0.0)

    oracle = scipy_stats.binomtest(won, won + lost).pvalue if won + lost else 1.0

    assert mcnemar_p_values(table) == pytest.approx([oracle], abs=1e-12)


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=13))
@settings(max_examples=16)
def test_mcnemar_is_the_sign_flip_test_of_hits(d):
    np.testing.assert_allclose(
        mcnemar_p_values(column(*d)), randomization_p_values(column(*d)), atol=1e-12
    )


@pytest.mark.parametrize(
    ("test", "d", "expected"),
    [
        pytest.param(t_test_p_values, [1, -1], 1.0, id="t = 0"),
        pytest.param(t_test_p_values, [0, 0, 0], 1.0, id="nothing changed"),
        pytest.param(t_test_p_values, [0.5, 0.5], NAN, id="no spread to divide by"),
        pytest.param(t_test_p_values, [0.5], NAN, id="no degree of freedom"),
        pytest.param(t_test_p_values, [3, 1, NAN], 2 * 0.147583618, id="t = 2, one degree"),
        pytest.param(wilcoxon_p_values, [1, 2, 3], 2 / 8, id="all won: +++ and ---"),
        pytest.param(wilcoxon_p_values, [-1, 2, 3], 4 / 8, id="ranks 1 | 2 3: 2 of 8, twice"),
        pytest.param(wilcoxon_p_values, [0, 0, 5, NAN], 1.0, id="one changed: 2 / 2"),
        pytest.param(wilcoxon_p_values, [0.1 + 0.2, -0.3, 0.5], 6 / 8, id="rounding ties"),
        pytest.param(mcnemar_p_values, [1, 1, 1], 2 / 8, id="three of three"),
        pytest.param(mcnemar_p_values, [1, -1, 1, 0], 1.0, id="2 x (1 + 3) / 8, at most 1"),
        pytest.param(mcnemar_p_values, [NAN], NAN, id="nothing scored"),
    ],
)
def test_hand_worked(test, d, expected):
    assert test(column(*d)) == pytest.approx([expected], nan_ok=True)


@pytest.mark.costly
@pytest.mark.parametrize("test", TESTS)
@given(table=difference_tables())
@settings(max_examples=16)
def test_what_may_not_change_p_values(test, table):
    table = np.sign(table) if test is mcnemar_p_values else table

    np.testing.assert_allclose(test(-table), test(table), atol=1e-12)
    np.testing.assert_allclose(test(table[::-1, ::-1])[::-1], test(table), atol=1e-12)


@pytest.mark.parametrize("test", TESTS)
def test_no_column_and_no_query(test):
    assert test(np.zeros((3, 0))).shape == (0,)
    assert np.isnan(test(np.zeros((0, 2)))).all()


@pytest.mark.parametrize("test", TESTS)
def test_infinities_are_refused(test, assert_message):
    with pytest.raises(OptionError) as caught:
        test([[np.inf]])
    assert_message(caught.value)


def test_mcnemar_refuses_graded_scores(assert_message):
    with pytest.raises(OptionError) as caught:
        mcnemar_p_values([[1.0, 0.3]])
    assert_message(caught.value, "mcnemar_p_values: differences")
