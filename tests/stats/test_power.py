"""Planning against SciPy's noncentral t, and its own definition: the smallest n that is enough."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats.power import minimum_detectable_difference, noncentral_t_sf, queries_needed


@pytest.mark.costly
@pytest.mark.parametrize("df", [1, 2, 3.5, 10, 99, 5_000, 1_000_000])
def test_power_agrees_with_scipy(scipy_stats, df):
    for confidence, noncentrality in itertools.product(
        [0.5, 0.9, 0.95, 0.999], [0.0, 0.3, 2.8, 6.0, 30.0]
    ):
        t = float(scipy_stats.t.ppf((1 + confidence) / 2, df))
        oracle = scipy_stats.nct.sf(t, df, noncentrality)

        power = noncentral_t_sf(t, df, noncentrality)
        assert power == pytest.approx(oracle, abs=1e-8), (confidence, noncentrality)


@given(st.floats(-1e4, 1e4), st.floats(1, 1e6), st.floats(-50, 50))
@settings(max_examples=16)
def test_both_tails_make_one(t, df, noncentrality):
    # P(T > t) at +d is P(T < -t) at -d
    total = noncentral_t_sf(t, df, noncentrality) + noncentral_t_sf(-t, df, -noncentrality)

    assert total == pytest.approx(1.0, abs=1e-9)


def test_an_infinite_difference_always_shows():
    assert noncentral_t_sf(5.0, 3, math.inf) == 1
    assert noncentral_t_sf(5.0, 3, -math.inf) == 0


@pytest.mark.parametrize(("sd", "distance"), [(0.1, 0.01), (0.2, 0.05), (0.3, 0.02), (0.3, 0.5)])
@pytest.mark.parametrize(("confidence", "power"), [(0.95, 0.8), (0.9, 0.95)])
def test_smallest_number_that_is_enough(scipy_stats, distance, sd, confidence, power):
    def oracle(n):
        t = scipy_stats.t.ppf((1 + confidence) / 2, n - 1)
        return scipy_stats.nct.sf(t, n - 1, distance / sd * math.sqrt(n))

    n = queries_needed(distance, sd, confidence=confidence, power=power)

    assert oracle(n) >= power
    assert n == 2 or oracle(n - 1) < power


@pytest.mark.parametrize(
    ("distance", "sd", "expected"),
    [
        pytest.param(0.05, 0.2, 128, id="4^2 (1.96 + .84)^2 = 125.6, and 1.92 for t"),
        pytest.param(0.05, 0.1, 34, id="2^2 (1.96 + .84)^2 = 31.4, and 1.92 for t"),
        pytest.param(0.05, 0.0, 2, id="no spread: the fewest with an interval"),
        pytest.param(10.0, 0.001, 2, id="so far that two suffice"),
        pytest.param(0.0, 0.2, None, id="no distance: never"),
        pytest.param(0.05, math.nan, None, id="no spread known: never"),
        pytest.param(1e-300, 1.0, None, id="beyond counting: never"),
    ],
)
def test_hand_worked(distance, sd, expected):
    assert queries_needed(distance, sd) == expected


def test_millions_of_queries_meet_the_exact_search():
    # The shortcut above a million, against the search just below it
    below, above = queries_needed(0.1, 35.6), queries_needed(0.1, 35.8)

    assert below < 1_000_000 < above
    normal = (1.959963985 + 0.841621234) ** 2
    assert below == pytest.approx(normal * 356**2 + 1.92, abs=1.01)
    assert above == pytest.approx(normal * 358**2 + 1.92, abs=1.01)


def test_an_observed_distance_below_a_tenth_of_its_error_is_noise():
    # Sd 1 over 100 queries: standard error .1, so the line is at .01
    assert queries_needed(0.0099, 1.0, n_observed=100) is None
    assert queries_needed(0.0101, 1.0, n_observed=100) == queries_needed(0.0101, 1.0)


@given(st.floats(1e-3, 10), st.floats(0.01, 1), st.floats(-300, 300))
@settings(max_examples=16)
def test_only_the_ratio_counts(distance, sd, power):
    scale = 2.0 ** round(power)

    assert queries_needed(distance * scale, sd * scale) == queries_needed(distance, sd)


@given(st.integers(2, 5_000), st.floats(0.01, 1))
@settings(max_examples=16)
def test_the_detectable_difference_is_detected(n, sd):
    # At that difference about n queries are needed; the t formula errs on the safe side
    mdd = minimum_detectable_difference(sd, n)

    assert queries_needed(mdd, sd) == pytest.approx(n, abs=max(2.0, 0.03 * n))


@pytest.mark.parametrize(
    ("sd", "n", "expected"),
    [
        pytest.param(1.0, 100, 0.282948, id="(1.98422 + .84526) / 10"),
        pytest.param(0.0, 100, 0.0, id="no spread"),
        pytest.param(1.0, 1, math.nan, id="one query"),
        pytest.param(1.0, 0, math.nan, id="no query"),
        pytest.param(math.nan, 9, math.nan, id="no spread known"),
    ],
)
def test_minimum_detectable_difference(sd, n, expected):
    assert minimum_detectable_difference(sd, n) == pytest.approx(expected, abs=5e-6, nan_ok=True)


def test_power_is_what_repeated_trials_show():
    # 5,000 trials of 34 queries, d = .5 sd: standard error .6 points around 80 %
    trials = np.random.default_rng(0).normal(0.05, 0.1, (5_000, queries_needed(0.05, 0.1)))
    lower = trials.mean(1) - 2.0345 * trials.std(1, ddof=1) / math.sqrt(34)

    assert np.mean(lower > 0) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: queries_needed(-0.1, 1), "queries_needed: distance"),
        (lambda: queries_needed(0.1, -1.0), "queries_needed: sd"),
        (lambda: queries_needed(0.1, 1, power=1.0), "queries_needed: power"),
        (lambda: queries_needed(0.1, 1, confidence=0), "queries_needed: confidence"),
        (lambda: queries_needed(0.1, 1, n_observed=0), "queries_needed: n_observed"),
        (lambda: minimum_detectable_difference(-1.0, 9), "minimum_detectable_difference: sd"),
        (lambda: minimum_detectable_difference(1.0, -9), "minimum_detectable_difference: n"),
        (
            lambda: minimum_detectable_difference(1.0, 9, power=2),
            "minimum_detectable_difference: power",
        ),
        (lambda: noncentral_t_sf(math.inf, 9, 1.0), "noncentral_t_sf: t"),
        (lambda: noncentral_t_sf(1.0, 0.5, 1.0), "noncentral_t_sf: df"),
        (lambda: noncentral_t_sf(1.0, 5, math.nan), "noncentral_t_sf: noncentrality"),
    ],
)
def test_bad_options_say_what_is_allowed(call, place, assert_message):
    with pytest.raises(OptionError) as caught:
        call()
    assert_message(caught.value, place)
