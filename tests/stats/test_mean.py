"""The interval of one mean: SciPy for Wilson and t, hand-worked values, coverage, degenerates."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats.mean import mean_interval
from ragbench.stats.resampling import bca_bootstrap, percentile_bootstrap
from ragbench.stats.student import t_quantile
from tests.stats.strategies import binary, scores

UNBOUNDED = (0.0, np.inf)


@given(hits=binary(), confidence=st.sampled_from([0.5, 0.9, 0.95, 0.999]))
@settings(max_examples=16)
def test_binary_values_agree_with_scipy(scipy_stats, hits, confidence):
    oracle = scipy_stats.binomtest(int(sum(hits)), len(hits)).proportion_ci(confidence, "wilson")

    ours = mean_interval(hits, confidence=confidence)

    assert ours.rule == "wilson"
    assert (ours.lower, ours.upper) == pytest.approx((oracle.low, oracle.high), abs=1e-12)


@given(values=scores(min_size=2, max_size=19), confidence=st.sampled_from([0.9, 0.95, 0.999]))
@settings(max_examples=16)
def test_unbounded_values_agree_with_scipy(scipy_stats, values, confidence):
    assume(np.std(values) > 1e-6)
    oracle = scipy_stats.ttest_1samp(values, 0.0).confidence_interval(confidence)

    ours = mean_interval(values, range=(-np.inf, np.inf), confidence=confidence)

    assert ours.rule == "t"
    # the quantiles of SciPy 1.15, the last for Python 3.10, are off by 2e-11; ours by 1e-15
    near = 1e-10 * (1 + oracle.high - oracle.low)
    assert (ours.lower, ours.upper) == pytest.approx((oracle.low, oracle.high), rel=1e-9, abs=near)


@given(values=scores())
@settings(max_examples=16)
def test_bounded_values_are_t_with_two_pseudo_queries(scipy_stats, values):
    ours = mean_interval(values)
    assume(ours.rule == "plus_two")
    oracle = scipy_stats.ttest_1samp([*values, 0.0, 1.0], 0.0).confidence_interval(0.95)

    # the quantiles of SciPy 1.15, the last for Python 3.10, are off by 1e-11; ours by 1e-15
    assert ours.lower == pytest.approx(max(oracle.low, 0.0), abs=1e-10)
    assert ours.upper == pytest.approx(min(oracle.high, 1.0), abs=1e-10)
    assert ours.mean == pytest.approx(np.mean(values), abs=1e-12)


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        pytest.param([1.0], {}, (1 / (1 + 3.8415), 1.0), id="1 of 1: n / (n + z^2)"),
        pytest.param([0.0] * 4, {}, (0.0, 3.8415 / 7.8415), id="0 of 4: z^2 / (n + z^2)"),
        pytest.param(
            [0.5], {}, (0.0, 1.0), id="0, .5, 1: mean .5, sd .5, t(2) 4.30: .5 -+ 1.24, clipped"
        ),
        pytest.param(
            [0.5] * 8, {}, (0.5 - 0.16861, 0.5 + 0.16861), id="sd sqrt(.5/9), t(9) 2.2622, n 10"
        ),
        pytest.param(
            [-1.0, 1.0, 1.0, 1.0],
            {"range": (-1, 1)},
            (2 * 0.30064 - 1, 2 * 0.95441 - 1),
            id="3 of 4 hits, stretched to -1..1",
        ),
        pytest.param(
            [10.0, 14.0], {"range": UNBOUNDED}, (0.0, 12 + 25.4124), id="12 -+ 12.706 x 2, clipped"
        ),
    ],
)
def test_hand_worked(values, options, expected):
    ours = mean_interval(values, **options)

    assert (ours.lower, ours.upper) == pytest.approx(expected, abs=5e-5)
    assert ours.n == len(values)


@pytest.mark.parametrize(
    ("method", "bootstrap"), [("percentile", percentile_bootstrap), ("bca", bca_bootstrap)]
)
def test_bootstraps_on_request(method, bootstrap):
    values = [0.0, 0.2, 0.9, 1.0]
    limits = bootstrap(values, confidence=0.9, resamples=300, seed=4)

    ours = mean_interval(values, method=method, confidence=0.9, resamples=300, seed=4)

    assert (ours.lower, ours.upper, ours.rule) == (*limits, method)


@pytest.mark.parametrize("method", ["default", "percentile", "bca"])
@given(
    values=st.one_of(
        scores(), st.builds(lambda v, n: [v] * n, st.floats(0, 1), st.integers(1, 50))
    ),
    confidence=st.sampled_from([0.05, 0.95]),
)
@settings(max_examples=16)
def test_never_of_zero_width_and_always_around_the_mean(method, values, confidence):
    ours = mean_interval(values, method=method, confidence=confidence, resamples=50)

    assert 0 <= ours.lower <= ours.mean <= ours.upper <= 1
    assert ours.lower < ours.upper or ours.rule in ("percentile", "bca")


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize(("value", "rule"), [(1.0, "wilson"), (0.4, "plus_two")])
def test_equal_values_cannot_be_resampled(method, value, rule):
    values = [value] * 30
    ours = mean_interval(values, method=method)

    assert ours == mean_interval(values)
    assert ours.rule == rule


@given(scores(min_size=2), st.randoms(use_true_random=False))
@settings(max_examples=16)
def test_order_of_queries_changes_nothing(values, random):
    shuffled = random.sample(values, len(values))
    one, other = mean_interval(values), mean_interval(shuffled)

    assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), abs=1e-12)


@given(scores(), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
@settings(max_examples=16)
def test_limits_move_with_the_range(values, low, width):
    moved = np.minimum(low + width * np.array(values), low + width)
    one, other = mean_interval(values), mean_interval(moved, range=(low, low + width))
    assume(other.rule == one.rule)  # rounding can make a value an end of the range

    expected = low + width * np.array([one.lower, one.mean, one.upper])
    tolerance = 1e-6 * max(width, abs(low) * 1e-6)
    assert (other.lower, other.mean, other.upper) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_huge_and_tiny_values_neither_overflow_nor_vanish(size):
    one = mean_interval([1.0, 2.0, 4.0], range=UNBOUNDED)
    other = mean_interval(np.array([1.0, 2.0, 4.0]) * size, range=UNBOUNDED)

    assert other.upper / size == pytest.approx(one.upper)
    assert other.mean / size == pytest.approx(one.mean)


@pytest.mark.parametrize(
    ("values", "range"),
    [
        pytest.param([], (0.0, 1.0), id="no value"),
        pytest.param([], UNBOUNDED, id="no value, no bound"),
        pytest.param([3.0], UNBOUNDED, id="one value, no bound"),
        pytest.param([3.0, 3.0, 3.0], UNBOUNDED, id="equal values, no bound"),
        pytest.param([3.0], (-np.inf, 5.0), id="one bound is none"),
    ],
)
def test_undefined_is_nan(values, range):
    ours = mean_interval(values, range=range)

    assert ours.rule == "undefined"
    assert np.isnan([ours.lower, ours.upper]).all()
    assert ours.mean == 3.0 if values else np.isnan(ours.mean)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("draw", "mean", "least"),
    [
        pytest.param(lambda rng: rng.random(50) < 0.9, 0.9, 0.93, id="hit .90: t has 87.8 %"),
        pytest.param(lambda rng: rng.random(50) < 0.97, 0.97, 0.91, id="hit .97: t has 77.2 %"),
        pytest.param(
            lambda rng: np.where(rng.random(50) < 0.9, 1.0, rng.random(50)),
            0.95,
            0.94,
            id="90 % ones, else uniform: t has 89 %",
        ),
    ],
)
def test_covers_as_often_as_it_says(draw, mean, least):
    # 2,000 samples: standard error half a point
    rng = np.random.default_rng(0)
    intervals = [mean_interval(draw(rng).astype(float)) for _ in range(2_000)]

    covered = np.mean([i.lower <= mean <= i.upper for i in intervals])

    assert least <= covered <= 0.995
    assert np.mean([i.upper - i.lower for i in intervals]) < 0.2


@pytest.mark.parametrize(
    ("values", "options", "place"),
    [
        ([0.5, np.nan], {}, "mean_interval: values"),
        ([0.5, 1.01], {}, "mean_interval: values"),
        ([-0.1], {"range": UNBOUNDED}, "mean_interval: values"),
        ([0.5], {"range": (1.0, 1.0)}, "mean_interval: range"),
        ([0.5], {"range": (0.0, np.nan)}, "mean_interval: range"),
        ([0.5], {"confidence": 95}, "mean_interval: confidence"),
        ([0.5], {"method": "t"}, "mean_interval: method"),
    ],
)
def test_bad_arguments_say_what_is_allowed(values, options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        mean_interval(values, **options)
    assert_message(caught.value, place)


def test_a_rounding_error_above_the_range_is_let_through():
    assert mean_interval([1.0 + 1e-7, 0.5]).upper == 1.0


@given(scores(), st.sampled_from(["default", "percentile", "bca"]))
@settings(max_examples=16, deadline=None)
def test_a_cluster_per_query_is_no_cluster(values, method):
    if not set(values) <= {0.0, 1.0}:  # Wilson's interval has no clusters
        alone = mean_interval(values, method=method, resamples=200)
        clustered = mean_interval(
            values, method=method, resamples=200, clusters=[*range(len(values))]
        )
        assert (clustered.lower, clustered.upper) == pytest.approx((alone.lower, alone.upper))
        assert (clustered.mean, clustered.n, clustered.rule) == (alone.mean, alone.n, alone.rule)


def test_copies_of_a_query_do_not_narrow_a_mean():
    # Eight questions in ten paraphrases: the interval of eight values, t with two more
    values = np.array([0.2, 0.9, 0.4, 0.7, 0.1, 0.6, 0.8, 0.5])
    copies, labels = np.repeat(values, 10), np.repeat(np.arange(8), 10)

    clustered, eight = mean_interval(copies, clusters=labels), mean_interval(values)

    assert (clustered.lower, clustered.upper) == pytest.approx((eight.lower, eight.upper))
    assert clustered.n == 80
    alone = mean_interval(copies)
    assert clustered.upper - clustered.lower > 2 * (alone.upper - alone.lower)


def test_one_cluster_of_an_unbounded_range_has_a_mean_without_limits():
    interval = mean_interval([1.0, 3.0], range=UNBOUNDED, clusters=["a", "a"])

    assert (interval.mean, interval.rule) == (2.0, "undefined")
    assert math.isnan(interval.lower)
    assert math.isnan(interval.upper)


def test_hits_in_clusters_are_no_wilson_interval():
    interval = mean_interval([1.0] * 30, clusters=["a", "b", "c"] * 10)

    assert interval.rule == "plus_two"
    assert interval.lower < 0.7
    assert mean_interval([1.0], range=UNBOUNDED, clusters=["a"]).rule == "undefined"


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 50, 200])
def test_means_of_skewed_times_are_seldom_missed(n):
    # Log-normal times, sd 1 of the log. Bar: 8 %; 300 samples, se 1.6 points; t misses in 15 %.
    rng, missed, by_t, truth = np.random.default_rng(n), 0, 0, math.exp(0.5)
    for seed in range(300):
        times = rng.lognormal(0, 1, n)
        interval = mean_interval(times, range=UNBOUNDED, resamples=500, seed=seed)
        t = t_quantile(0.975, n - 1) * times.std(ddof=1) / math.sqrt(n)
        missed += not interval.lower <= truth <= interval.upper
        by_t += abs(times.mean() - truth) > t

    assert interval.rule == "studentized"
    assert missed / 300 <= 0.08 + 2 * 0.016
    assert missed < by_t


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        pytest.param(np.arange(19.0), "t", id="19 values"),
        pytest.param(np.arange(21.0), "studentized", id="21 values, 20 unlike their median"),
        pytest.param(np.arange(500.0), "t", id="500 values"),
        pytest.param([1.0] * 100 + [2.0] * 19, "t", id="19 of 119 unlike the median"),
    ],
)
def test_skewed_values_are_resampled_where_that_says_more(values, rule):
    interval = mean_interval(values, range=UNBOUNDED)

    assert interval.rule == rule
    assert np.isfinite([interval.lower, interval.upper]).all()
