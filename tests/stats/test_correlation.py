"""Pearson, Spearman and Kendall against SciPy, on ties too, group by group, and by hand."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench.stats import correlation
from ragbench.stats.correlation import kendall_tau_b, mean_correlation, pearson, spearman
from tests.stats.strategies import FEW, rated

levels = st.one_of(st.sampled_from(FEW), st.integers(-1000, 1000))
numbers = st.one_of(st.sampled_from(FEW), st.floats(-1e6, 1e6, allow_subnormal=False))


@given(st.one_of(rated(), st.lists(st.tuples(numbers, numbers), min_size=2).map(np.transpose)))
@settings(max_examples=16)
def test_agree_with_scipy(scipy_stats, pair):
    assume(all(len(set(values)) > 1 for values in pair))

    table = np.column_stack(pair)
    assert spearman(table).value == pytest.approx(scipy_stats.spearmanr(*pair)[0], abs=1e-9)
    assert kendall_tau_b(table).value == pytest.approx(scipy_stats.kendalltau(*pair)[0], abs=1e-9)


@given(st.one_of(rated(), st.lists(st.tuples(levels, levels), min_size=2).map(np.transpose)))
@settings(max_examples=16)
def test_pearson_agrees_with_scipy(scipy_stats, pair):
    assume(all(len(set(values)) > 1 for values in pair))

    table = np.column_stack(pair)
    assert pearson(table).value == pytest.approx(scipy_stats.pearsonr(*pair)[0], abs=1e-9)


@pytest.mark.parametrize("far", [1e3, 1e8, 1e12])
def test_without_a_far_item_the_others_are_counted_as_they_are(far):
    # The far item is nearly all of both sums; without it the correlation is that of the rest
    near = np.array([[0.1, 0.3, 0.2, 0.7], [0.5, 0.1, 0.4, 0.4]]).T

    coefficient = pearson(np.vstack((near, [[far, far]])))

    assert coefficient.value > 0.999
    assert coefficient.without[-1] == pytest.approx(np.corrcoef(near.T)[0, 1], abs=1e-9)


def test_tiny_numbers_do_not_vanish():
    assert pearson(np.array([[1e-225, 1], [2e-225, 2], [3e-225, 3]])).value == 1


@pytest.mark.parametrize(
    ("x", "y", "rho", "tau"),
    [
        pytest.param([1, 2, 3], [3, 2, 1], -1, -1, id="reversed"),
        pytest.param([1, 2, 3, 4], [1, 3, 2, 4], 0.8, 4 / 6, id="1 - 6 x 2 / 60; (5 - 1) / 6"),
        pytest.param(
            [1, 1, 2],
            [1, 2, 3],
            3**0.5 / 2,
            2 / 6**0.5,
            id="one tie: 1.5 / sqrt(1.5 x 2); 2 / 6^.5",
        ),
    ],
)
def test_hand_worked(x, y, rho, tau):
    table = np.column_stack((x, y))

    assert spearman(table).value == pytest.approx(rho)
    assert kendall_tau_b(table).value == pytest.approx(tau)


@given(rated(min_size=3), st.sampled_from([np.exp, np.cbrt, lambda v: 7 * v - 3]))
@settings(max_examples=16)
def test_a_rising_transformation_changes_nothing(pair, rise):
    x, y = pair
    for statistic in (spearman, kendall_tau_b):
        one, other = (statistic(np.column_stack((values, y))) for values in (x, rise(x)))
        np.testing.assert_equal((one.value, one.without), (other.value, other.without))


@pytest.mark.parametrize("statistic", [spearman, kendall_tau_b])
@given(n=st.integers(2, 40), levels=st.integers(1, 6), seed=st.integers(0, 1000))
def test_few_values_are_counted_as_pairs_are(statistic, n, levels, seed):
    # labels of few levels beside any score: sums of whole numbers are the same bits
    rng = np.random.default_rng(seed)
    table = np.column_stack([rng.integers(0, 9, n) / 7, rng.integers(0, levels, n) / 3])
    by_value = statistic(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correlation, "_MOST_LEVELS", 0)
        by_pair = statistic(table)
    np.testing.assert_array_equal(by_value.value, by_pair.value)
    np.testing.assert_array_equal(by_value.without, by_pair.without)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    table = rng.integers(0, 9, (300, 2)).astype(float)
    whole = spearman(table), kendall_tau_b(table)

    monkeypatch.setattr(correlation, "_MOST_LEVELS", 0)
    monkeypatch.setattr(correlation, "_BLOCK_BYTES", 16 * 300 * 7)

    for one, other in zip((spearman(table), kendall_tau_b(table)), whole, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-12)
        np.testing.assert_allclose(one.without, other.without, atol=1e-12)


_SCIPY = [(pearson, "pearsonr"), (spearman, "spearmanr"), (kendall_tau_b, "kendalltau")]


@pytest.mark.costly
@pytest.mark.parametrize(("statistic", "theirs"), _SCIPY)
@settings(max_examples=16)
@given(rated(), st.data())
def test_group_by_group_is_the_mean_of_what_scipy_says(scipy_stats, statistic, theirs, pair, data):
    # Groups in which somebody gives one value throughout, and groups of one, are counted out
    x, y = pair
    groups = np.array(data.draw(st.lists(st.sampled_from("abc"), min_size=len(x), max_size=len(x))))
    gaps = data.draw(st.lists(st.booleans(), min_size=len(x), max_size=len(x)))
    x = np.where(gaps, np.nan, x)
    expected, flat_x, flat_y, single = [], 0, 0, 0
    for group in np.unique(groups[~np.isnan(x)]):
        inside = (groups == group) & ~np.isnan(x)
        if inside.sum() == 1:
            single += 1
        elif len(set(x[inside])) == 1:
            flat_x += 1
        elif len(set(y[inside])) == 1:
            flat_y += 1
        else:
            expected.append(getattr(scipy_stats, theirs)(x[inside], y[inside])[0])

    correlation = mean_correlation(statistic, np.column_stack((x, y)), groups)

    assert (correlation.constant_x, correlation.constant_y, correlation.single) == (
        flat_x,
        flat_y,
        single,
    )
    assert correlation.mean.n == len(expected)
    if expected:
        assert correlation.mean.value == pytest.approx(np.mean(expected), abs=1e-9)
    if len(expected) >= 3:
        assert -1 <= correlation.mean.lower <= correlation.mean.value <= correlation.mean.upper <= 1


def test_hard_questions_make_no_agreement_inside_them():
    # Both rate the three groups alike; inside a group the order is reversed
    table = np.array([[1, 2], [2, 1], [11, 12], [12, 11], [21, 22], [22, 21]])

    assert pearson(table).value > 0.98
    assert mean_correlation(pearson, table, list("aabbcc")).mean.value == pytest.approx(-1)
