"""Paired differences: the second interval of each rule, by hand and by simulated coverage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats.difference import (
    difference_interval,
    effect_size,
    excludes_zero,
    paired_differences,
)
from ragbench.stats.resampling import (
    bca_bootstrap,
    percentile_bootstrap,
    studentized_bootstrap,
)
from tests.stats.strategies import differences

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

UNBOUNDED = (0.0, math.inf)
Z = 1.959963985


def spread(n_changed, n, size=0.5):
    """Differences of which n_changed are not 0, no two of these equal."""
    return np.concatenate((np.linspace(-size, 2 * size, n_changed), np.zeros(n - n_changed)))


@pytest.mark.parametrize(
    ("d", "rule"),
    [
        pytest.param([0.0], "identical", id="one query"),
        pytest.param([0.0] * 300, "identical", id="no change"),
        pytest.param([1e-16, -1e-16, 0.0], "identical", id="a rounding error is no change"),
        pytest.param([0.1], "tilting", id="one change of one"),
        pytest.param([1.0, -1.0, 0.0], "score", id="hits"),
        pytest.param([1.0 - 1e-15, 0.0], "score", id="a hit but for rounding"),
        pytest.param([1.0, -0.5, 0.0], "tilting", id="a hit and a graded loss"),
        pytest.param([1.0] * 150 + [-1.0] * 100 + [0.0] * 50, "score", id="many hits"),
        pytest.param(spread(20, 300), "tilting", id="20 changed"),
    ],
)
def test_the_rule_depends_on_what_changed(d, rule):
    ours = difference_interval(d)

    assert ours.rule == rule
    assert ours.n == len(d)
    assert ours.n_changed == np.count_nonzero(np.abs(d) > 1e-12)


@pytest.mark.parametrize(
    ("n_changed", "rule"),
    [
        pytest.param(19, "undefined", id="19 changed"),
        pytest.param(20, "studentized", id="20 changed"),
    ],
)
def test_without_a_bound_it_depends_on_how_many_changed(n_changed, rule):
    assert difference_interval(spread(n_changed, 300), range=UNBOUNDED).rule == rule


@pytest.mark.parametrize("d", [spread(40, 80), -(spread(25, 60) ** 2)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_studentized_is_the_union_with_t(scipy_stats, d, confidence):
    t = scipy_stats.ttest_1samp(d, 0.0).confidence_interval(confidence)
    bootstrap = studentized_bootstrap(d, confidence=confidence, resamples=999, seed=5)

    ours = difference_interval(d, range=UNBOUNDED, confidence=confidence, resamples=999, seed=5)

    assert ours.lower == pytest.approx(min(t.low, bootstrap[0]), abs=1e-12)
    assert ours.upper == pytest.approx(max(t.high, bootstrap[1]), abs=1e-12)
    assert ours.sd == pytest.approx(np.std(d, ddof=1))


@pytest.mark.parametrize(
    ("d", "options", "expected"),
    [
        pytest.param([0.3], {}, (-1.0, 1.0), id="one query: anything is possible"),
        pytest.param([0.0], {"range": (1, 5)}, (-4.0, 4.0), id="one query: the whole width"),
        pytest.param([0.0] * 100, {}, (-0.033440, 0.033440), id="1 - (.025 / .75)^(1/100)"),
        pytest.param([0.0] * 100, {"range": (0, 10)}, (-0.3344, 0.3344), id="ten times as wide"),
    ],
)
def test_hand_worked(d, options, expected):
    ours = difference_interval(d, **options)

    assert (ours.lower, ours.upper) == pytest.approx(expected, abs=5e-5)


def test_identical_leaves_out_what_the_rule_of_three_leaves_out():
    # A share above 3.7 / n would have shown with probability .975; three quarters of that: 3.4
    for n in (100, 1_000, 100_000):
        assert difference_interval(np.zeros(n)).upper == pytest.approx(3.4 / n, rel=0.02)


@pytest.mark.parametrize("n", [12, 20, 40])
def test_small_gains_exclude_no_losses_that_unchanged_queries_leave_open(n):
    # Sixty in a hundred gain .03: unseen losses are as likely as without these gains
    unchanged = difference_interval(np.zeros(n))
    gains = difference_interval(np.r_[np.full(6 * n // 10, 0.03), np.zeros(n - 6 * n // 10)])
    losses = difference_interval(np.r_[np.full(6 * n // 10, -0.03), np.zeros(n - 6 * n // 10)])

    assert gains.lower < unchanged.lower + 0.05
    assert (losses.lower, losses.upper) == (-gains.upper, -gains.lower)


@pytest.mark.parametrize(("n", "drop"), [(20, 0.02)])
def test_small_gains_beside_rare_total_losses_seldom_exclude_the_true_drop(n, drop):
    # By the true drop as margin a gate passed in up to 45 % of such samples; se of 150: 1.3
    rng, passed, lost = np.random.default_rng(n), 0, drop + 0.6 * 0.03
    for _ in range(150):
        u, gains = rng.random(n), rng.uniform(0.01, 0.05, n)
        d = np.where(u < lost, -1.0, np.where(u < lost + 0.6, gains, 0.0))
        passed += difference_interval(d).lower > -drop

    assert passed / 150 <= 0.035 + 2 * 0.013


@given(differences())
@settings(max_examples=16)
def test_never_of_zero_width_and_always_around_the_mean(d):
    ours = difference_interval(d, resamples=100)

    assert -1 <= ours.lower <= ours.mean <= ours.upper <= 1
    assert ours.upper - ours.lower > 1e-6 / len(d)
    assert ours.sd > 0


@given(differences(min_size=20))
@settings(max_examples=16)
def test_limits_mirror_where_the_systems_change_places(d):
    one = difference_interval(d, resamples=100)
    other = difference_interval(-np.array(d), resamples=100)

    assert (other.lower, other.mean, other.upper) == (-one.upper, -one.mean, -one.lower)


@given(differences(), st.integers(-300, 300))
@settings(max_examples=16)
def test_limits_scale_with_the_range(d, power):
    scale = 2.0**power
    one = difference_interval(d, resamples=100)
    other = difference_interval(np.array(d) * scale, range=(0.0, scale), resamples=100)

    assert other.rule == one.rule
    assert other.lower / scale == pytest.approx(one.lower, abs=1e-12)
    assert other.upper / scale == pytest.approx(one.upper, abs=1e-12)


@given(differences(max_size=19), st.randoms(use_true_random=False))
@settings(max_examples=16)
def test_order_of_queries_changes_nothing_without_resampling(d, random):
    one = difference_interval(d)
    other = difference_interval(random.sample(d, len(d)))

    assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), abs=1e-12)


def test_arguments_are_not_modified():
    d = np.array([1e-15, 0.5, -0.5])
    difference_interval(d)

    assert d.tolist() == [1e-15, 0.5, -0.5]


@pytest.mark.parametrize(
    ("d", "rule"),
    [
        pytest.param([], "undefined", id="no query"),
        pytest.param([120.0], "undefined", id="one query"),
        pytest.param(spread(19, 300, 80.0), "undefined", id="19 changed"),
        pytest.param([7.0] * 19, "undefined", id="19 changed, by the same"),
        pytest.param([0.0] * 50, "identical", id="none changed"),
    ],
)
def test_an_unbounded_measure_with_few_changes_has_no_limits(d, rule):
    ours = difference_interval(d, range=UNBOUNDED)

    assert ours.rule == rule
    assert np.isnan([ours.lower, ours.upper]).all()
    assert math.isnan(ours.mean) if len(d) == 0 else ours.mean == pytest.approx(np.mean(d))


@pytest.mark.parametrize("n", [20, 50, 300])
def test_equal_changes_of_an_unbounded_measure_leave_unseen_ones_open(n):
    # As for n unchanged hits, with unseen differences of 2 - 4 and 2 + 4:
    # half a width is four times the limit of unchanged hits
    ours = difference_interval([2.0] * n, range=UNBOUNDED)

    half = 4 * (1 - (0.025 / 0.75) ** (1 / n))
    assert (ours.mean, ours.rule) == (2.0, "near_constant")
    assert (ours.lower, ours.upper) == pytest.approx((2 - half, 2 + half), abs=1e-4)
    assert ours.lower > 0
    assert excludes_zero([2.0] * n, range=UNBOUNDED)


def test_a_cluster_of_most_queries_has_nearly_equal_changes_too():
    clusters = np.repeat(np.arange(26), [1] * 25 + [60])
    changes = np.where(clusters == 25, 3.0, 1.0)

    ours = difference_interval(changes, range=(0, np.inf), clusters=clusters)

    assert (ours.rule, ours.n_clusters) == ("near_constant", 26)
    assert ours.lower < ours.mean < ours.upper
    assert ours.mean == pytest.approx((25 * 1 + 60 * 3) / 85)


def test_nearly_equal_changes_scale_and_mirror_also_in_clusters():
    # 19 of 60 clusters of two differ from the others, which all changed by 3
    d = np.repeat(np.r_[np.full(41, 3.0), np.linspace(2.0, 4.0, 19)], 2)
    ours = difference_interval(d, range=UNBOUNDED, clusters=np.repeat(np.arange(60), 2))
    alone = difference_interval(d[::2], range=UNBOUNDED)

    assert (ours.rule, ours.n_clusters) == ("near_constant", 60)
    assert (ours.lower, ours.upper) == pytest.approx((alone.lower, alone.upper))
    mirrored = difference_interval(-1e6 * d[::2], range=UNBOUNDED)
    assert (-mirrored.upper, -mirrored.lower) == pytest.approx(
        (1e6 * alone.lower, 1e6 * alone.upper)
    )


@pytest.mark.parametrize("n", [25, 40, 60])
@pytest.mark.parametrize("unseen", [-2.0, 0.0, 6.0], ids="most +2, others {:+g}".format)
def test_nearly_equal_changes_miss_their_mean_seldom(n, unseen):
    # Exact: the number of other changes is binomial, and gives the interval
    counts = np.arange(n + 1)
    ends = []
    for k in counts.tolist():
        d = np.r_[np.full(n - k, 2.0), np.full(k, unseen)]
        interval = difference_interval(d, range=UNBOUNDED, resamples=200)
        ends.append((interval.lower, interval.upper))
    lower, upper = np.array(ends).T
    for share in (0.01, 0.03, 0.1, 0.2, 0.3):
        chances = binomial(counts, n, share)
        mean = 2 + share * (unseen - 2)
        assert chances[lower > mean].sum() <= 0.045
        assert chances[upper < mean].sum() <= 0.045


def binomial(counts, n, share):
    """Chances of these numbers of successes in n trials."""
    chances = [math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in counts.tolist()]
    return np.array(chances)


def test_a_bound_costs_little_where_enough_changed():
    # Limits of the bootstrap and of tilting, which also allows for what was not seen
    d = spread(40, 80, 0.3)
    bounded = difference_interval(d)
    unbounded = difference_interval(d * 1e6, range=UNBOUNDED)

    assert unbounded.rule == "studentized"
    width = unbounded.upper - unbounded.lower
    assert (bounded.upper - bounded.lower) * 1e6 == pytest.approx(width, rel=0.25)


def hits(rng, n, lost, won):
    """Hits lost and won by independent queries, with these probabilities."""
    u = rng.random(n)
    return (u < won).astype(float) - (u > 1 - lost)


@pytest.mark.parametrize(
    ("n", "lost", "won", "at_most", "n_samples"),
    [
        pytest.param(50, 0.04, 0.0, 1.0, 800, id="4/0, n 50: t has 86.5 %"),
        pytest.param(50, 0.96, 0.0, 1.0, 800, id="96/0, n 50: t has 86.5 %"),
        pytest.param(200, 0.04, 0.0, 1.0, 800, id="4/0, n 200: t has 90.0 %"),
        pytest.param(300, 0.25, 0.25, 0.98, 150, id="25/25, n 300: 95 %"),
    ],
)
def test_covers_as_often_as_it_says(n, lost, won, at_most, n_samples):
    rng = np.random.default_rng(1)
    covered = np.empty(n_samples)
    for i in range(n_samples):
        ours = difference_interval(hits(rng, n, lost, won), resamples=300, seed=i)
        covered[i] = ours.lower <= won - lost <= ours.upper

    error = math.sqrt(0.95 * 0.05 / n_samples)
    assert 0.95 - 3 * error < covered.mean() <= at_most


@pytest.mark.parametrize(
    ("system", "baseline", "expected"),
    [
        pytest.param([0.5, 1.0], [0.25, 1.0], [0.25, 0.0], id="system minus baseline"),
        pytest.param([0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2], [0.0, 0.0], id="rounding is no change"),
        pytest.param([1e-20, 1e9 + 1], [0.0, 1e9], [1e-20, 1.0], id="small beside nothing is not"),
        pytest.param([np.nan, 1.0], [1.0, np.nan], [np.nan, np.nan], id="not scored"),
        pytest.param([[1.0, 2.0], [3.0, 4.0]], [[1.0], [1.0]], [[0, 1], [2, 3]], id="two columns"),
        pytest.param(0.1 + 0.2, 0.3, 0.0, id="single numbers"),
    ],
)
def test_paired_differences(system, baseline, expected):
    np.testing.assert_array_equal(paired_differences(system, baseline), expected)


def test_effect_size_agrees_with_the_t_statistic(scipy_stats):
    d = spread(30, 60)

    assert effect_size(d) * math.sqrt(60) == pytest.approx(scipy_stats.ttest_1samp(d, 0).statistic)
    assert effect_size(d * 1e200) == pytest.approx(effect_size(d))
    assert effect_size(-d) == -effect_size(d)


@pytest.mark.parametrize("d", [[], [0.1], [0.1] * 9, [0.0, 0.0]])
def test_effect_size_needs_spread(d):
    assert math.isnan(effect_size(d))


@pytest.mark.parametrize(
    ("d", "options", "place"),
    [
        ([0.5, np.nan], {}, "difference_interval: differences"),
        ([1.5], {}, "difference_interval: differences"),
        ([-4.1], {"range": (1, 5)}, "difference_interval: differences"),
        ([0.5], {"range": (1, 0)}, "difference_interval: range"),
        ([0.5], {"confidence": 1}, "difference_interval: confidence"),
        ([0.5], {"resamples": 0}, "difference_interval: resamples"),
        ([0.5], {"seed": -1}, "difference_interval: seed"),
    ],
)
def test_bad_arguments_say_what_is_allowed(d, options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        difference_interval(d, **options)
    assert_message(caught.value, place)


def test_percentile_and_bca_on_request():
    d = np.random.default_rng(8).normal(0.05, 0.2, 200)

    for method, bootstrap in (("percentile", percentile_bootstrap), ("bca", bca_bootstrap)):
        interval = difference_interval(d, method=method, resamples=500, seed=3)
        assert interval.rule == method
        assert (interval.lower, interval.upper) == pytest.approx(
            bootstrap(d, resamples=500, seed=3)
        )


@given(differences(), st.sampled_from(["percentile", "bca"]))
@settings(max_examples=16, deadline=None)
def test_no_method_gives_an_interval_without_width(d, method):
    interval = difference_interval(d, method=method, resamples=50)

    assert interval.lower < interval.upper


def test_unknown_methods_are_refused(assert_message):
    with pytest.raises(OptionError) as caught:
        difference_interval([0.1], method="bayes")
    assert_message(caught.value, "difference_interval: method")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_zero_is_excluded_exactly_where_the_whole_interval_excludes_it(data):
    # For grades, hits, equal differences and clusters, near and far from the limit
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n = data.draw(st.sampled_from([1, 2, 5, 12, 30, 80, 250]))
    grades = data.draw(st.sampled_from([2, 5, 21, 1000])) - 1
    shift = data.draw(st.floats(-0.3, 0.3))
    share = data.draw(st.sampled_from([0.1, 0.5, 1.0]))
    baseline = np.round(rng.random(n) * grades) / grades
    noise = data.draw(st.sampled_from([0.0, 0.05, 0.3])) * rng.standard_normal(n)
    moved = np.where(rng.random(n) < share, baseline + shift + noise, baseline)
    system = np.round(np.clip(moved, 0, 1) * grades) / grades
    clusters = data.draw(st.sampled_from([None, rng.integers(0, max(n // 3, 1), n)]))
    is_bounded = data.draw(st.sampled_from([True, True, True, False]))
    options = {
        "baseline": baseline,
        "range": (0.0, 1.0 if is_bounded else math.inf),
        "confidence": data.draw(st.sampled_from([0.8, 0.95, 0.999])),
        "clusters": clusters,
        "resamples": 200,
    }
    d = paired_differences(system, baseline)

    interval = difference_interval(d, **options)

    assert excludes_zero(d, **options) == (interval.lower > 0 or interval.upper < 0)
