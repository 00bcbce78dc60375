"""The relative increase of a cost: against its definition, simulated truths, and properties."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from ragbench.errors import OptionError
from ragbench.stats import increase_interval, queries_for

TIMES = st.integers(20, 60).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(0.1, 100), min_size=n, max_size=n)] * 2)
)


def ratio_of_medians(now, before, axis):
    first = {"axis": axis, "method": "inverted_cdf"}
    return np.quantile(now, 0.5, **first) / np.quantile(before, 0.5, **first)


def drawn(n, seed, correlation=0.8):
    """Two log-normal times of each query, of which the same queries are slow."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((2, n))
    z[1] = correlation * z[0] + math.sqrt(1 - correlation**2) * z[1]
    return np.exp(0.5 * z)


def test_quantiles_agree_with_scipys_paired_bootstrap():
    now, before = drawn(201, seed=3)
    oracle = bootstrap(
        (now, before), ratio_of_medians, paired=True, method="percentile", n_resamples=4000, rng=1
    ).confidence_interval

    found = increase_interval(now, before, quantile=0.5, resamples=4000)

    assert found.lower == pytest.approx(oracle.low - 1, abs=0.02)
    assert found.upper == pytest.approx(oracle.high - 1, abs=0.02)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        pytest.param([3, 1] * 10, [1, 3] * 10, 0.0, id="40 / 40 - 1"),
        pytest.param([4, 1] * 10, [1, 3] * 10, 0.25, id="50 / 40 - 1"),
        pytest.param([1, 0] * 10, [1, 3] * 10, -0.75, id="10 / 40 - 1"),
    ],
)
def test_totals_worked_by_hand(now, before, expected):
    found = increase_interval(now, before)

    assert found.increase == pytest.approx(expected)
    assert found.lower < expected < found.upper
    assert found.rule == "ratio"


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("quantile", [None, 0.5])
def test_one_factor_on_every_query_is_a_number(factor, quantile):
    before = np.linspace(1, 2, 7)

    found = increase_interval(factor * before, before, quantile=quantile)

    assert found.rule == "same_factor"
    assert found[:3] == pytest.approx((factor - 1,) * 3)


def test_what_was_free_and_is_not_has_no_increase():
    assert math.isnan(increase_interval([1.0] * 30, [0.0] * 30).increase)
    assert increase_interval([0.0] * 30, [0.0] * 30).rule == "same_factor"


@pytest.mark.parametrize(("quantile", "least"), [(None, 20), (0.5, 20), (0.95, 100)])
def test_few_queries_say_nothing(quantile, least):
    now, before = drawn(least, seed=5)

    few = increase_interval(now[1:], before[1:], quantile=quantile, resamples=500)
    enough = increase_interval(now, before, quantile=quantile, resamples=500)

    assert queries_for(quantile) == least
    assert math.isnan(few.lower)
    assert math.isnan(few.upper)
    assert enough.lower < enough.upper


@pytest.mark.costly
@pytest.mark.parametrize(("quantile", "n"), [(None, 30), (0.5, 20), (0.95, 100)])
def test_the_truth_is_left_out_as_rarely_as_stated(quantile, n):
    """Equal times: of 300 intervals 7.5 miss on each side; 2 standard errors more are allowed."""
    found = [
        increase_interval(*drawn(n, seed), quantile=quantile, resamples=400) for seed in range(300)
    ]

    # of log-normal totals, whose right tail a sample rarely has, more are missed: see the limit
    most = 13 if quantile is not None else 17
    assert sum(each.lower > 0 for each in found) <= most
    assert sum(each.upper < 0 for each in found) <= most


@given(TIMES, st.sampled_from([None, 0.5]), st.sampled_from([2.0, 0.25]))
@settings(max_examples=30)
def test_the_unit_does_not_matter(times, quantile, unit):
    now, before = (np.array(each) for each in times)

    found = increase_interval(now, before, quantile=quantile, resamples=200)
    other = increase_interval(now * unit, before * unit, quantile=quantile, resamples=200)

    assert other[:3] == pytest.approx(found[:3], rel=1e-9, abs=1e-9, nan_ok=True)
    assert not found.lower > found.increase
    assert not found.upper < found.increase


def test_clusters_are_drawn_whole():
    """Copies of a query add nothing: 20 clusters of 10 equal queries are 20 queries."""
    now, before = drawn(20, seed=8)
    labels = np.repeat(np.arange(20), 10)

    alone = increase_interval(now, before, quantile=0.5, resamples=1000)
    copied = increase_interval(
        np.repeat(now, 10), np.repeat(before, 10), quantile=0.5, clusters=labels, resamples=1000
    )
    blind = increase_interval(
        np.repeat(now, 10), np.repeat(before, 10), quantile=0.5, resamples=1000
    )

    assert copied[1:3] == pytest.approx(alone[1:3], abs=0.1)
    assert blind.upper - blind.lower < 0.6 * (copied.upper - copied.lower)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"system": [-1.0, 1.0]}, "system: found -1.0, allowed: numbers from 0"),
        ({"baseline": [1.0, math.inf]}, "baseline"),
        ({"confidence": 1.5}, "confidence: found 1.5"),
        ({"resamples": 0, "quantile": 0.5}, "resamples: found 0, allowed: an integer >= 1"),
        ({"quantile": 1}, "quantile: found 1, allowed: a number between 0 and 1"),
        ({"quantile": -0.1}, "quantile: found -0.1, allowed: a number between 0 and 1"),
        ({"baseline": [1.0]}, "baseline: found 1, allowed: 2 amounts, one for each of the system"),
        ({"seed": -1, "quantile": 0.5}, "seed: found -1, allowed: an integer >= 0"),
    ],
)
def test_bad_options_say_what_is_allowed(options, message):
    given_options = {"system": [1.0, 2.0], "baseline": [1.0, 3.0], **options}

    with pytest.raises(OptionError, match=message):
        increase_interval(**given_options)
