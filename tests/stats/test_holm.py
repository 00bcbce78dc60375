"""Holm and Benjamini-Hochberg: SciPy, Holm's own stepwise procedure, hand-worked values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats.multiple_comparisons import (
    benjamini_hochberg_p_values,
    holm_p_values,
    resamples_needed,
)

P = st.one_of(st.sampled_from([0.0, 0.01, 0.02, 0.5, 1.0]), st.floats(0, 1))
FAMILIES = st.lists(P, min_size=1, max_size=12)
WITH_GAPS = st.lists(st.one_of(P, st.just(np.nan)), max_size=12)


@given(FAMILIES)
@settings(max_examples=16)
def test_benjamini_hochberg_agrees_with_scipy(scipy_stats, p):
    oracle = scipy_stats.false_discovery_control(p, method="bh")

    assert benjamini_hochberg_p_values(p) == pytest.approx(oracle, rel=1e-12)


@given(FAMILIES, st.sampled_from([0.01, 0.049, 0.2, 0.77]))
@settings(max_examples=16)
def test_holm_rejects_what_its_steps_reject(p, alpha):
    # Step by step as in the paper: smallest against alpha / m, next against alpha / (m - 1)
    rejected, m = np.zeros(len(p), dtype=bool), len(p)
    for step, place in enumerate(np.argsort(p, kind="stable")):
        if p[place] * (m - step) > alpha:
            break
        rejected[place] = True

    np.testing.assert_array_equal(holm_p_values(p) <= alpha, rejected)


@pytest.mark.parametrize(
    ("adjust", "p", "expected"),
    [
        pytest.param(holm_p_values, [0.01, 0.04], [0.02, 0.04], id="holm: .01 x 2, .04 x 1"),
        pytest.param(holm_p_values, [0.03, 0.02], [0.04, 0.04], id="holm: .03 lifted to .02 x 2"),
        pytest.param(holm_p_values, [0.6, 0.7], [1.0, 1.0], id="holm: not above 1"),
        pytest.param(holm_p_values, [0.01, np.nan, 0.04], [0.02, np.nan, 0.04], id="holm: a gap"),
        pytest.param(benjamini_hochberg_p_values, [0.01, 0.04], [0.02, 0.04], id="bh: .01 x 2 / 1"),
        pytest.param(benjamini_hochberg_p_values, [0.03, 0.02], [0.03, 0.03], id="bh: .04 to .03"),
        pytest.param(benjamini_hochberg_p_values, [np.nan, 0.5], [np.nan, 0.5], id="bh: a gap"),
    ],
)
def test_hand_worked(adjust, p, expected):
    assert adjust(p) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("adjust", [holm_p_values, benjamini_hochberg_p_values])
@given(p=WITH_GAPS, random=st.randoms(use_true_random=False))
@settings(max_examples=16)
def test_properties(adjust, p, random):
    p = np.array(p)
    adjusted = adjust(p)
    has_value = ~np.isnan(p)
    places = random.sample(range(len(p)), len(p))

    np.testing.assert_array_equal(np.isnan(adjusted), ~has_value)
    np.testing.assert_array_equal(adjusted[has_value], adjust(p[has_value]))
    np.testing.assert_array_equal(adjust(p[places]), adjusted[places])
    assert (adjusted[has_value] >= p[has_value]).all()
    assert (adjusted[has_value] <= 1).all()
    assert (holm_p_values(p)[has_value] >= benjamini_hochberg_p_values(p)[has_value] - 1e-15).all()


@pytest.mark.parametrize(
    ("n", "alpha", "expected"),
    [
        pytest.param(1, 0.05, 19, id="1 / 20"),
        pytest.param(500, 0.05, 9_999, id="1 / 10,000"),
        pytest.param(501, 0.05, 10_019, id="one more costs 20"),
        pytest.param(3, 0.9, 3, id="3 / 4 <= .9 < 3 / 3"),
        pytest.param(1, 0.99, 1, id="at least one"),
    ],
)
def test_resamples_needed(n, alpha, expected):
    assert resamples_needed(n, alpha=alpha) == expected


@given(st.integers(1, 300), st.sampled_from([0.001, 0.01, 0.05, 0.1]))
def test_with_the_fewest_resamples_holm_can_just_reject(n, alpha):
    # The smallest p-value among n - 1 that are 1
    least = resamples_needed(n, alpha=alpha)

    assert holm_p_values([1 / (least + 1)] + [1.0] * (n - 1))[0] <= alpha * (1 + 1e-12)
    if least > 1:
        assert holm_p_values([1 / least] + [1.0] * (n - 1))[0] > alpha


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: holm_p_values([0.1, 1.1]), "holm_p_values: p_values"),
        (lambda: holm_p_values([[0.1]]), "holm_p_values: p_values"),
        (lambda: benjamini_hochberg_p_values([-1.0]), "benjamini_hochberg_p_values: p_values"),
        (lambda: resamples_needed(0), "resamples_needed: n_comparisons"),
        (lambda: resamples_needed(3, alpha=5), "resamples_needed: alpha"),
    ],
)
def test_bad_arguments_say_what_is_allowed(call, place, assert_message):
    with pytest.raises(OptionError) as caught:
        call()
    assert_message(caught.value, place)
