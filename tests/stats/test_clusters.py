"""Clusters: sums by hand, SciPy's test on them, and intervals that cover though queries agree."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import cluster_sums, difference_interval, randomization_p_values
from tests.stats.strategies import difference_tables, differences

NAN = float("nan")


@pytest.mark.parametrize(
    ("d", "labels", "expected"),
    [
        pytest.param([1, 2, 3], "aba", [4, 2], id="1 + 3 and 2"),
        pytest.param([1, NAN, 3], "aab", [1, 3], id="what is not scored adds nothing"),
        pytest.param([NAN, NAN, 3], "aab", [NAN, 3], id="a cluster without a score has no sum"),
        pytest.param([0.1, 0.2, -0.3], "aaa", [0.0], id="rounding is no change"),
    ],
)
def test_hand_worked_sums(d, labels, expected):
    sums = cluster_sums(np.array(d, dtype=float)[:, None], list(labels))

    np.testing.assert_array_equal(sums[:, 0], expected)


@given(difference_tables(), st.integers(1, 4))
@settings(max_examples=16)
def test_sums_lose_nothing(table, n_labels):
    labels = np.arange(len(table)) % n_labels

    total = np.nansum(cluster_sums(table, labels), axis=0)

    np.testing.assert_allclose(total, np.nansum(table, axis=0), atol=1e-12)


@given(differences(), st.randoms(use_true_random=False))
@settings(max_examples=16)
def test_a_cluster_per_query_is_no_cluster(d, random):
    labels = random.sample(range(1000), len(d))

    alone, clustered = difference_interval(d), difference_interval(d, clusters=labels)

    assert clustered.n_clusters == clustered.n_units == len(d)
    assert alone.n_clusters is None
    assert alone.n_units == len(d)
    assert (clustered.mean, clustered.n_changed) == (alone.mean, alone.n_changed)
    if clustered.rule == alone.rule != "studentized":  # which draws rows in another order
        assert (clustered.lower, clustered.upper) == pytest.approx((alone.lower, alone.upper))


def test_the_t_interval_is_that_of_the_ratio(scipy_stats):
    # 60 clusters of equal size: the mean of their means, by SciPy
    rng = np.random.default_rng(1)
    d = np.repeat(rng.normal(0, 0.1, 60), 5) + rng.normal(0, 0.02, 300)
    labels = np.repeat(np.arange(60), 5)
    means = d.reshape(60, 5).mean(axis=1)
    low, high = scipy_stats.t.interval(0.95, 59, means.mean(), scipy_stats.sem(means))

    interval = difference_interval(d, clusters=labels, range=(0.0, math.inf))

    assert (interval.n, interval.n_clusters, interval.rule) == (300, 60, "studentized")
    assert interval.lower <= low < high <= interval.upper
    assert interval.upper - interval.lower == pytest.approx(high - low, rel=0.1)
    assert interval.sd == pytest.approx(means.std(ddof=1))


def test_ten_copies_of_a_query_are_no_evidence():
    d = np.repeat([0.1, 0.2, 0.05, 0.3], 10)
    labels = np.repeat(np.arange(4), 10)

    assert difference_interval(d).lower > 0
    assert difference_interval(d, clusters=labels).lower < 0
    assert randomization_p_values(cluster_sums(d[:, None], labels)).tolist() == [2 / 2**4]


def test_a_single_cluster_says_nothing():
    interval = difference_interval([0.1, 0.3], clusters=["a", "a"])

    assert (interval.lower, interval.upper, interval.n_clusters) == (-1.0, 1.0, 1)


def test_an_unseen_loss_may_be_that_of_the_largest_cluster():
    # 10 of 10 queries and 40 of 1, unchanged: (1 - p)^50 = .025 / .75, times 10 of 140
    labels = np.r_[np.repeat(np.arange(10), 10), np.arange(10, 50)]
    expected = (1 - (0.025 / 0.75) ** (1 / 50)) * 10 * 50 / 140

    unequal = difference_interval(np.zeros(140), clusters=labels)
    equal = difference_interval(np.zeros(500), clusters=np.repeat(np.arange(50), 10))

    assert unequal.rule == equal.rule == "identical"
    assert (unequal.lower, unequal.upper) == pytest.approx((-expected, expected))
    assert equal.upper == pytest.approx(difference_interval(np.zeros(50)).upper)


@pytest.mark.costly
@pytest.mark.parametrize("drop", [0.05, 0.1])
def test_large_clusters_that_lose_whole_seldom_hide_their_drop(drop):
    # 10 clusters of 10 queries lose all or none, 40 queries change by chance; se of 80: 1.8
    rng, labels = np.random.default_rng(3), np.r_[np.repeat(np.arange(10), 10), np.arange(10, 50)]
    passed = 0
    for _ in range(80):
        large = -1.0 * (rng.random(10) < drop * 140 / 100)
        u = rng.random(40)
        single = np.where(u < 0.04, -1.0, np.where(u < 0.08, 1.0, 0.0))
        d = np.r_[np.repeat(large, 10), single]
        passed += difference_interval(d, clusters=labels).lower > -drop

    assert passed / 80 <= 0.035 + 2 * 0.018


@pytest.mark.slow
def test_covers_though_the_queries_of_a_cluster_agree():
    # 40 clusters of 1 to 9 queries that share most of their difference; se of 60: 2.8 points
    rng = np.random.default_rng(9)
    covered = np.zeros(2)
    for _ in range(60):
        sizes = rng.integers(1, 10, 40)
        labels = np.repeat(np.arange(40), sizes)
        shared = rng.normal(-0.05, 0.1, 40)[labels]
        d = np.clip(shared + rng.normal(0, 0.05, len(labels)), -1, 1)
        for kind, clusters in enumerate((labels, None)):
            interval = difference_interval(d, clusters=clusters, resamples=400)
            covered[kind] += interval.lower <= -0.05 <= interval.upper

    assert covered[0] / 60 >= 0.92, "all: unseen losses of 9 queries are allowed for"
    assert covered[1] / 60 < 0.85, "without clusters the interval is far too narrow"


@pytest.mark.parametrize("method", ["default", "percentile", "bca"])
def test_equal_differences_have_no_spread_but_a_width(method):
    # Sums of .1 over clusters of other sizes differ by rounding alone
    interval = difference_interval(
        [0.1] * 30, clusters=["a"] * 7 + ["b"] * 20 + ["c"] * 3, method=method
    )

    assert interval.rule == "tilting"
    assert interval.upper - interval.lower > 0.5


def test_labels_are_one_per_query(assert_message):
    with pytest.raises(OptionError) as caught:
        cluster_sums([[0.1]] * 3, ["a", "b"])
    assert_message(caught.value, "cluster_sums: clusters")
    with pytest.raises(OptionError) as caught:
        difference_interval([0.1], clusters=[["a"]])
    assert_message(caught.value, "difference_interval: clusters")
