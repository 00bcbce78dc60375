"""Student's t against SciPy, closed forms and its own symmetry."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats.student import t_quantile, t_sf

DEGREES = [1, 1.5, 2, 3, 9, 39.9, 40, 199, 1_000, 10_000, 1_000_000]
PROBABILITIES = [1.1e-10, 1e-6, 0.001, 0.025, 0.2, 0.4, 0.5, 0.6, 0.8, 0.975, 0.999999, 1 - 1.1e-10]


@pytest.mark.costly
@pytest.mark.parametrize("df", DEGREES)
def test_quantile_agrees_with_scipy(scipy_stats, df):
    quantiles = [t_quantile(p, df) for p in PROBABILITIES]

    oracle = scipy_stats.t.ppf(PROBABILITIES, df).tolist()
    assert quantiles == pytest.approx(oracle, rel=1e-10, abs=1e-15)


@pytest.mark.costly
@pytest.mark.parametrize("df", DEGREES)
def test_tail_areas_agree_with_scipy(scipy_stats, df):
    # Relative to the area, so that a tail of 1e-200 counts as much as the middle
    values = [-40.0, -3.0, -1.7, -1e-3, 0.0, 0.3, 1.0, 1.96, 6.0, 1e3]
    upper, lower = scipy_stats.t.sf(values, df).tolist(), scipy_stats.t.cdf(values, df).tolist()

    assert [t_sf(t, df) for t in values] == pytest.approx(upper, rel=1e-10, abs=1e-300)
    assert [t_sf(-t, df) for t in values] == pytest.approx(lower, rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("df", [39.9, 40, 60])
def test_no_step_where_the_gamma_ratio_becomes_a_series(scipy_stats, df):
    assert t_sf(1.96, df) == pytest.approx(scipy_stats.t.sf(1.96, df), rel=3e-13, abs=0)


@pytest.mark.parametrize(
    ("p", "df", "expected"),
    [
        pytest.param(0.75, 1, 1.0, id="df 1 is Cauchy: tan(pi / 4)"),
        pytest.param(
            0.975, 2, 0.95 / math.sqrt(2 * 0.975 * 0.025), id="df 2: (2p-1)/sqrt(2p(1-p))"
        ),
        pytest.param(0.5, 7, 0.0, id="the median"),
        pytest.param(0.975, 9, 2.262157, id="as printed in tables"),
    ],
)
def test_hand_worked(p, df, expected):
    assert t_quantile(p, df) == pytest.approx(expected, abs=5e-7)


@given(st.floats(1e-9, 1 - 1e-9), st.floats(1, 1e5))
@settings(max_examples=16)
def test_quantile_and_area_undo_each_other(p, df):
    assert t_sf(-t_quantile(p, df), df) == pytest.approx(p, rel=1e-9)


@given(st.floats(-1e200, 1e200), st.floats(1, 1e6))
@settings(max_examples=16)
def test_both_sides_make_one(t, df):
    assert t_sf(t, df) + t_sf(-t, df) == pytest.approx(1.0, abs=1e-15)
    assert 0 <= t_sf(t, df) <= 1


@pytest.mark.parametrize("t", [1e-9, 1e-157, 1e-320])
def test_close_to_the_median(t):
    # Df 1: 1/2 - t / pi. SciPy 1.17 gives 1/2 there.
    assert t_sf(t, 1) == pytest.approx(0.5 - t / math.pi, abs=1e-16)


def test_nothing_lies_beyond_infinity():
    assert t_sf(math.inf, 5) == 0
    assert t_sf(-math.inf, 5) == 1


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: t_quantile(0.0, 5), "t_quantile: p"),
        (lambda: t_quantile(1.0, 5), "t_quantile: p"),
        (lambda: t_quantile(math.nan, 5), "t_quantile: p"),
        (lambda: t_quantile(0.9, 0), "t_quantile: df"),
        (lambda: t_sf(1.0, math.inf), "t_sf: df"),
        (lambda: t_sf(math.nan, 5), "t_sf: t"),
    ],
)
def test_bad_options_say_what_is_allowed(call, place, assert_message):
    with pytest.raises(OptionError) as caught:
        call()
    assert_message(caught.value, place)
