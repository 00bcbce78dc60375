"""The three bootstraps against SciPy, small cases worked by hand, and their symmetries."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import resampling
from ragbench.stats.resampling import bca_bootstrap, percentile_bootstrap, studentized_bootstrap
from tests.stats.strategies import differences

ALL = [percentile_bootstrap, bca_bootstrap, studentized_bootstrap]
SKEWED = np.random.default_rng(3).exponential(0.2, 60)


@pytest.mark.parametrize(
    ("ours", "method"), [(percentile_bootstrap, "percentile"), (bca_bootstrap, "BCa")]
)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_agrees_with_scipy(scipy_stats, ours, method, confidence):
    # Within the error of 20,000 resamples: a limit moves by about 0.02 standard errors
    oracle = scipy_stats.bootstrap(
        (SKEWED,), np.mean, n_resamples=20_000, confidence_level=confidence, method=method, rng=1
    ).confidence_interval

    limits = ours(SKEWED, confidence=confidence, resamples=20_000)

    assert limits == pytest.approx(oracle, abs=0.08 * SKEWED.std() / np.sqrt(60))


def test_studentized_agrees_with_its_definition():
    # Mean - t* s / sqrt n, resample by resample, with NumPy's own mean and std
    rng = np.random.default_rng(7)
    n, error = len(SKEWED), SKEWED.std(ddof=1) / np.sqrt(len(SKEWED))
    draws = SKEWED[rng.integers(0, n, (20_000, n))]
    t = (draws.mean(axis=1) - SKEWED.mean()) / (draws.std(axis=1, ddof=1) / np.sqrt(n))
    upper, lower = np.quantile(t, [0.025, 0.975])

    limits = studentized_bootstrap(SKEWED, resamples=20_000)

    expected = (SKEWED.mean() - lower * error, SKEWED.mean() - upper * error)
    assert limits == pytest.approx(expected, abs=0.12 * error)


@pytest.mark.parametrize(
    ("confidence", "place"),
    [
        pytest.param(0.95, 2, id="80 x .025"),
        pytest.param(0.9, 4, id="80 x .05"),
        pytest.param(0.999, 1, id="80 x .0005: the extremes"),
    ],
)
def test_the_order_statistics_leave_out_the_same_number_on_each_side(
    monkeypatch, confidence, place
):
    monkeypatch.setattr(resampling, "_student", lambda block: np.arange(1.0, 80.0))

    lower, upper = studentized_bootstrap([0.0, 1.0], resamples=79, confidence=confidence)

    error = 0.5  # sd sqrt(1/2), n 2
    assert lower == pytest.approx(0.5 - error * (80 - place))
    assert upper == pytest.approx(0.5 - error * place)


@pytest.mark.parametrize("ours", ALL)
def test_blocks_do_not_change_the_limits(monkeypatch, ours):
    whole = ours(SKEWED, resamples=500)
    monkeypatch.setattr(resampling, "_BLOCK_BYTES", 7 * 60 * 8)

    assert ours(SKEWED, resamples=500) == whole


@pytest.mark.parametrize("ours", ALL)
def test_the_seed_decides(ours):
    assert ours(SKEWED, seed=1, resamples=200) == ours(SKEWED, seed=1, resamples=200)
    assert ours(SKEWED, seed=1, resamples=200) != ours(SKEWED, seed=2, resamples=200)


@pytest.mark.parametrize("ours", ALL)
@given(sample=differences(), power=st.integers(-300, 300))
@settings(max_examples=16)
def test_limits_scale_with_the_values(ours, sample, power):
    # By powers of two, which lose no digit; from 1e-90 to 1e90
    values = np.where(np.abs(sample) < 1e-30, 0.0, sample)
    plain = ours(values, resamples=100)

    scaled = ours(values * 2.0**power, resamples=100)

    assert np.array(scaled) / 2.0**power == pytest.approx(np.array(plain), rel=1e-9, abs=1e-12)


@given(differences())
@settings(max_examples=16)
def test_studentized_limits_mirror_each_other(sample):
    values = np.array(sample)
    low, high = studentized_bootstrap(values, resamples=100)

    # the spread of the smallest floats is no number, and its limits are none
    np.testing.assert_equal(studentized_bootstrap(-values, resamples=100), (-high, -low))


@pytest.mark.parametrize("ours", ALL)
def test_equal_values_have_no_width(ours):
    for value, n in itertools.product([0.1, 0.0, -1e300], [1, 2, 7]):
        assert ours([value] * n) == (value, value), n


@pytest.mark.parametrize("ours", ALL)
def test_no_value_has_no_limits(ours):
    assert np.isnan(ours([])).all()


def test_a_resample_without_spread_is_infinitely_far():
    # One of 3 values differs: 8 of 27 resamples are all 0, below the mean without spread
    low, high = studentized_bootstrap([0.0, 0.0, 1.0])

    assert high == np.inf
    assert low < 1 / 3


@pytest.mark.parametrize("ours", ALL)
@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([0.1, np.nan], {}),
        ([0.1, np.inf], {}),
        ([0.1, -1e308, 1e308], {}),
        ([[0.1]], {}),
        ([0.1], {"confidence": 1.0}),
        ([0.1], {"confidence": 0.0}),
        ([0.1], {"resamples": 0}),
        ([0.1], {"resamples": 10.0}),
        ([0.1], {"seed": -1}),
        ([0.1], {"seed": True}),
    ],
)
def test_bad_arguments_say_what_is_allowed(ours, values, options, assert_message):
    with pytest.raises(OptionError) as caught:
        ours(values, **options)
    assert_message(caught.value)
