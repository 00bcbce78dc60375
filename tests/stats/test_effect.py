"""The effect size's interval: the normal theory's width, a simulation, what it cannot say."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

from ragbench.errors import OptionError
from ragbench.stats import effect_size, effect_size_interval
from tests.stats.strategies import differences


def test_has_the_width_of_the_normal_theory():
    # Standard error sqrt((1 + d^2 / 2) / n) for a large normal sample
    d = np.random.default_rng(2).normal(0.8, 1.0, 20_000)

    low, high = effect_size_interval(d)

    assert (high - low) / (2 * 1.96) == pytest.approx(math.sqrt((1 + 0.32) / 20_000), rel=0.03)


def test_agrees_with_scipys_bootstrap(scipy_stats):
    rng = np.random.default_rng(4)
    d = (rng.random(300) < 0.4) * rng.choice([-1.0, -0.5, 0.5], 300, p=[0.5, 0.3, 0.2])
    oracle = scipy_stats.bootstrap(
        (d,),
        lambda x, axis: x.mean(axis=axis) / x.std(axis=axis, ddof=1),
        n_resamples=4_000,
        method="basic",
        rng=rng,
    ).confidence_interval

    assert effect_size_interval(d) == pytest.approx((oracle.low, oracle.high), abs=0.02)


@pytest.mark.costly
def test_covers_as_often_as_it_says():
    # 2,000 samples of 100 skewed differences: mean -.5 of sd 1; se .5 points
    rng = np.random.default_rng(5)
    limits = np.array([effect_size_interval(0.5 - rng.exponential(1, 100)) for _ in range(2_000)])

    assert np.mean((limits[:, 0] <= -0.5) & (limits[:, 1] >= -0.5)) == pytest.approx(0.95, abs=0.02)


@given(differences())
@settings(max_examples=16)
def test_holds_the_effect_and_mirrors_it(d):
    low, high = effect_size_interval(d)
    effect = effect_size(d)

    assert math.isnan(low) == math.isnan(high) == math.isnan(effect)
    if not math.isnan(effect):
        assert low <= effect <= high
        assert effect_size_interval([-x for x in d]) == pytest.approx((-high, -low))


def test_copies_of_a_query_do_not_narrow_it():
    d = np.array([0.1, 0.4, -0.2, 0.3, 0.05, 0.2])
    copies, labels = np.repeat(d, 5), np.repeat(np.arange(6), 5)

    low, high = effect_size_interval(copies, clusters=labels)
    alone = effect_size_interval(copies)

    assert high - low > 2 * (alone[1] - alone[0])


@pytest.mark.parametrize("d", [[], [0.5], [0.5, 0.5]])
def test_no_spread_no_interval(d):
    assert np.isnan(effect_size_interval(d)).all()


def test_bad_arguments_say_what_is_allowed(assert_message):
    with pytest.raises(OptionError) as caught:
        effect_size_interval([0.1], confidence=2)
    assert_message(caught.value, "effect_size_interval: confidence")
