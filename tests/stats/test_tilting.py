"""The tilting interval: its distributions against a solver, its tails against drawing them."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import score_interval, tilting_interval
from ragbench.stats.score_intervals import crossing, tail_distance, tilt_to_mean, tilted
from tests.stats.strategies import differences

FEW = np.array([-0.5, -0.5, -0.3, 0.2] + [0.0] * 46)
MANY = np.random.default_rng(4).normal(-0.02, 0.15, 80).clip(-1, 1)


def null(d, limit):
    """The distribution on the path from d to -1 that has the mean `limit`."""
    values, counts = np.unique(np.append(-1.0, d), return_counts=True)
    counts[0] -= 1
    shares = counts / len(d)

    def mean(place):
        return 2 * tilted((values + 1) / 2, shares, place).mean - 1

    place = crossing(lambda x: limit - mean(x), 0.0, 1.0, guess=0.5, within=1e-13)
    return values, shares, tilted((values + 1) / 2, shares, place).weights


@pytest.mark.costly
@pytest.mark.parametrize("d", [FEW, MANY], ids=["few changed", "all changed"])
def test_no_distribution_with_that_mean_fits_better(scipy_optimize, d):
    # Against a solver that looks for the weights themselves
    limit = tilting_interval(d)[0]
    values, shares, weights = null(d, limit)
    is_observed = shares > 0

    def unlikely(w):
        return -float(shares[is_observed] @ np.log(np.maximum(w[is_observed], 1e-300)))

    optimum = scipy_optimize.minimize(
        unlikely,
        np.maximum(weights, 1e-6) * 0.9 + 0.1 / len(weights),
        bounds=[(0, 1)] * len(weights),
        constraints=[
            {"type": "eq", "fun": lambda w: w.sum() - 1},
            {"type": "eq", "fun": lambda w: w @ values - limit},
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )

    assert weights @ values == pytest.approx(limit, abs=1e-9)
    assert unlikely(weights) <= optimum.fun + 1e-6


@pytest.mark.parametrize("d", [FEW, MANY], ids=["few changed", "all changed"])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_a_limit_has_the_tail_of_its_confidence(d, confidence):
    # No loss is larger than the largest of the sample, so that none is unseen
    limit = tilting_interval(d, largest=(-d.min(), 1.0), confidence=confidence)[0]
    values, counts = np.unique((d - d.min()).round(10), return_counts=True)
    shares = counts / len(d)
    at_limit = tilt_to_mean(values, shares, limit - d.min())

    distance = tail_distance(at_limit, float(values @ shares), len(d))
    assert distance == pytest.approx(NormalDist().inv_cdf((1 + confidence) / 2), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("d", [FEW, MANY], ids=["few changed", "all changed"])
def test_at_a_limit_the_observed_mean_is_as_rare_as_it_says(d):
    # 20,000 samples from the distribution of the lower limit, se .0011; half of the ties count
    limit = tilting_interval(d)[0]
    assert limit < 0, "so that it allows for a loss of everything"
    values, _, weights = null(d, limit)
    counts = np.random.default_rng(1).multinomial(len(d), weights / weights.sum(), 20_000)
    means = counts @ values / len(d)

    above = np.mean(means > d.mean() + 1e-9) + np.mean(np.abs(means - d.mean()) <= 1e-9) / 2

    assert above == pytest.approx(0.025, abs=0.004)


@pytest.mark.parametrize(
    ("lost", "gained", "n"), [(60, 60, 1_000), (100, 50, 1_000), (110, 0, 1_000), (50, 60, 200)]
)
def test_hits_have_the_limits_that_counting_gives(lost, gained, n):
    d = [-1.0] * lost + [1.0] * gained + [0.0] * (n - lost - gained)
    counted = score_interval(lost, gained, n)

    assert tilting_interval(d) == pytest.approx(counted, abs=1e-2 * (counted[1] - counted[0]))


@pytest.mark.parametrize("value", [0.0, 0.3, -1.0])
def test_equal_differences_leave_an_unseen_one_its_chance(value):
    # Only samples without an unseen one are as high: (1 - p)^n, three quarters of it
    unseen = 1 - (0.025 / 0.75) ** (1 / 50)
    low, high = tilting_interval([value] * 50)

    end = -abs(value) if value > 0 else -1.0
    assert low == pytest.approx(value + unseen * (end - value))
    end = abs(value) if value < 0 else 1.0
    assert high == pytest.approx(value + unseen * (end - value))


def test_a_difference_that_is_next_to_nothing_changes_next_to_nothing():
    same = tilting_interval([0.0] * 100)

    assert tilting_interval([-1e-6] + [0.0] * 99) == pytest.approx(same, abs=1e-4)


def test_normal_differences_have_nearly_the_t_interval(scipy_stats):
    # From enough queries on; 3.4 / n of the range is what it allows for beyond
    d = np.random.default_rng(2).normal(0.03, 0.25, 1_000).clip(-1, 1)
    t = scipy_stats.ttest_1samp(d, 0.0).confidence_interval(0.95)

    assert tilting_interval(d) == pytest.approx((t.low, t.high), abs=0.03 * (t.high - t.low))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "rare"), [pytest.param(50, 0.05, id="n 50"), pytest.param(150, 0.02, id="n 150")]
)
def test_covers_where_few_lose_all_and_many_a_little(n, rare):
    # Plain t leaves the truth out in up to 35 % of such samples; se of 150: 1.8 points
    rng, covered = np.random.default_rng(n), 0
    for _ in range(150):
        noise = np.where(rng.random(n) < 0.5, rng.normal(0, 0.05, n).clip(-0.2, 0.2), 0.0)
        low, high = tilting_interval(np.where(rng.random(n) < rare, -1.0, noise))
        covered += low <= -rare <= high

    assert covered / 150 >= 0.94


@given(differences(min_size=2), st.sampled_from([0.5, 0.95, 0.99]))
@settings(max_examples=16)
def test_limits_hold_the_mean_mirror_and_scale(d, confidence):
    low, high = tilting_interval(d, confidence=confidence)

    assert -1 <= low <= np.mean(d) + 1e-9
    assert np.mean(d) - 1e-9 <= high <= 1
    assert high - low > 0.1 / len(d)
    assert tilting_interval([-x for x in d], confidence=confidence) == (-high, -low)
    scaled = tilting_interval([4 * x for x in d], largest=4.0, confidence=confidence)
    assert scaled == pytest.approx((4 * low, 4 * high), abs=1e-8)


@given(differences(min_size=2))
@settings(max_examples=16)
def test_more_confidence_is_wider(d):
    low, high = tilting_interval(d)
    wider = tilting_interval(d, confidence=1 - 1e-6)

    assert wider[0] <= low + 1e-8
    assert high <= wider[1] + 1e-8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tilting_interval([0.5, 1.5]), "differences: found 1.5"),
        (lambda: tilting_interval([0.5], largest=0.0), "largest: found 0.0"),
        (lambda: tilting_interval([0.5], confidence=2), "confidence: found 2"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(OptionError, match=message):
        call()


def test_one_difference_and_none():
    assert tilting_interval([0.3], largest=2.0) == (-2.0, 2.0)
    assert all(math.isnan(limit) for limit in tilting_interval([]))


def test_the_tail_grows_as_the_mean_of_nearly_equal_values_falls():
    # Near an unseen loss the slope of the saddlepoint is steep, and easily missed
    values, shares = np.array([0.0, 0.5, 0.503]), np.array([0.0, 0.5, 0.5])
    mean = float(values @ shares)
    distances = []
    for place in np.linspace(0.9, 0.999, 100):
        distances.append(tail_distance(tilted(values, shares, float(place)), mean, 2))

    assert np.diff(distances).min() > 0


@pytest.mark.parametrize("mean", [1e-6, 0.2, 0.299, 0.35, 0.4499])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_distribution_with_a_mean_lies_on_the_path(mean, share):
    # Values .2 and .7, of mean .45: 0 has a weight of its own below a mean of .311
    values, rest = np.array([0.0, 0.2, 0.7]), (1 - share) / 2
    shares = np.array([share, rest, rest])
    mean *= 1 - share
    place = crossing(lambda x: mean - tilted(values, shares, x).mean, 0, 1, guess=0.5, within=1e-13)
    distribution = tilt_to_mean(values, shares, mean)

    assert distribution.mean == pytest.approx(mean, rel=1e-12)
    assert distribution.weights.sum() == pytest.approx(1, rel=1e-12)
    path = tilted(values, shares, place).weights
    assert distribution.weights == pytest.approx(path, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize(("mean", "weights"), [(0.0, [1, 0, 0]), (0.9, [0.25, 0.5, 0.25])])
def test_a_mean_beyond_the_path_has_its_nearest_end(mean, weights):
    shares = np.array([0.25, 0.5, 0.25])

    assert tilt_to_mean(np.array([0.0, 0.2, 0.7]), shares, mean).weights.tolist() == weights


@pytest.mark.parametrize("scale", [0.4, 0.75, 0.99])
def test_a_limit_that_excludes_0_scales_with_the_differences(scale):
    # The limit allows for unseen differences as large as the largest of the sample, not 1
    d = np.array([1, 1, 1, 0.9, 0.9, 0.5, 0.8, 1, 0.7, 0.9, 0.3, 1])
    low, _ = tilting_interval(d)

    assert tilting_interval(scale * d)[0] == pytest.approx(scale * low, abs=1e-9)
    assert tilting_interval(-scale * d)[1] == pytest.approx(-scale * low, abs=1e-9)
