"""The difference of two means over different queries, against Newcombe's table and Welch's t."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import barnard_p_value, unpaired_interval
from tests.lazy import Lazy

scipy = Lazy("scipy.stats")

SCORES = st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0]), min_size=1, max_size=30)


def hits(count, n):
    return [1.0] * count + [0.0] * (n - count)


@pytest.mark.parametrize(
    ("first", "second", "limits"),
    [
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((5, 56), (0, 29), (-0.0381, 0.1926)),
        ((0, 10), (0, 20), (-0.1611, 0.2775)),
        ((0, 10), (0, 10), (-0.2775, 0.2775)),
        ((10, 10), (0, 20), (0.6791, 1.0)),
        ((10, 10), (0, 10), (0.6075, 1.0)),
    ],
)
def test_hits_have_the_intervals_of_newcombes_table_ii(first, second, limits):
    # Newcombe (1998), Statistics in Medicine 17, p. 877: method 10, contrasts (a) to (h).
    interval = unpaired_interval(hits(*first), hits(*second))

    assert (interval.lower, interval.upper) == pytest.approx(limits, abs=6e-5)


def test_many_graded_scores_have_the_interval_of_welch():
    rng = np.random.default_rng(5)
    x, y = rng.beta(2, 1, 4000), rng.beta(1, 2, 1000)
    welch = scipy.ttest_ind(x, y, equal_var=False)
    low, high = welch.confidence_interval()

    interval = unpaired_interval(x, y)

    assert interval.mean == pytest.approx(x.mean() - y.mean())
    assert (interval.lower, interval.upper) == pytest.approx((low, high), abs=6e-4)


def test_p_is_near_that_of_welch():
    rng = np.random.default_rng(6)
    x, y = 0.21 + 0.6 * rng.random(20_000), 0.2 + 0.6 * rng.random(5_000)

    reference = scipy.ttest_ind(x, y, equal_var=False).pvalue

    assert unpaired_interval(x, y).p == pytest.approx(reference, rel=0.05)
    assert 1e-4 < reference < 0.1


def test_limits_worked_by_hand():
    # Limits of one .5, cut to the range, are 0 and 1: sqrt(.5^2 + .5^2) = .7071
    interval = unpaired_interval([0.5], [0.5])

    assert (interval.lower, interval.upper) == pytest.approx((-(0.5**0.5), 0.5**0.5))
    assert interval.p == 1.0


@given(SCORES, SCORES)
@settings(max_examples=16)
def test_the_other_way_round_all_signs_turn(x, y):
    one, other = unpaired_interval(x, y), unpaired_interval(y, x)

    assert (one.mean, one.lower, one.upper) == pytest.approx(
        (-other.mean, -other.upper, -other.lower), abs=1e-12
    )
    assert one.p == pytest.approx(other.p, rel=0.01)
    assert -1 <= one.lower <= one.mean <= one.upper <= 1
    assert one.lower < one.upper


@given(SCORES, SCORES, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
@settings(max_examples=16)
def test_p_and_interval_agree(x, y, confidence):
    interval = unpaired_interval(x, y, confidence=confidence)
    if abs(interval.p / (1 - confidence) - 1) > 0.01:  # p is known to a fifth of a percent
        excludes = interval.lower > 0 or interval.upper < 0
        assert (interval.p < 1 - confidence) == excludes


@pytest.mark.parametrize("n", [19, 20])
def test_scores_without_a_bound_need_20_queries_of_each_system(n):
    # From 20 values on, the interval of one mean has a bootstrap beside t
    few, many = np.linspace(1, 4, n), np.linspace(20, 31, 100)

    for interval in (
        unpaired_interval(few, many, (0.0, math.inf)),
        unpaired_interval(-many, -few, (-math.inf, 0.0)),
    ):
        assert interval.mean == pytest.approx(-23)
        assert np.isnan(interval.p) == np.isnan(interval.upper) == (n < 20)
        assert n < 20 or (interval.upper < 0 and interval.p < 0.05)


def test_hits_that_the_exact_test_does_not_tell_apart():
    # 6 of 7 against 2 of 7: Newcombe's limits, .0582 and .8062, exclude 0; p is .0574
    interval = unpaired_interval(hits(6, 7), hits(2, 7))

    assert (interval.lower, interval.upper) == (0.0, pytest.approx(0.8062, abs=6e-5))
    assert interval.p == pytest.approx(barnard_p_value(6, 7, 2, 7))
    assert interval.p > 0.05


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        # at a rate of .5: each of 2^4 outcomes alike, two of them as far apart
        pytest.param((2, 2), (0, 2), 2 / 16, id="2 right, 2 wrong"),
        pytest.param((3, 3), (0, 3), 2 / 64, id="3 right, 3 wrong"),
        pytest.param((1, 2), (1, 2), 1.0, id="equal"),
        # a rate r of one query of either side: 2 r (1 - r), at most .5
        pytest.param((1, 1), (0, 1), 0.5, id="one of each"),
    ],
)
def test_exact_p_values_worked_by_hand(first, second, p):
    assert barnard_p_value(*first, *second) == pytest.approx(p, abs=2e-6)


@given(st.data())
@settings(max_examples=25)
def test_exact_p_values_are_those_of_scipy_near_the_observed_rate(data):
    # Rates that the counts exclude with 1 - 1e-6 may raise scipy's, never lower it
    n, m = data.draw(st.integers(2, 25)), data.draw(st.integers(2, 25))
    x, y = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))

    p = barnard_p_value(x, n, y, m)

    if x * m == y * n:
        assert p == 1.0
    else:
        theirs = scipy.barnard_exact([[x, y], [n - x, m - y]], pooled=True, n=128).pvalue
        # SciPy 1.17 loses outcomes that are as far apart but for rounding: 0 of 2 against 13 of 22
        # has .1217 there, and .1309 by adding up all outcomes at a rate of .5
        at_any_rate = max(_chance_at(rate, x, n, y, m) for rate in np.linspace(0, 1, 101))
        assert p <= max(theirs, at_any_rate) + 0.002
        at_pooled = _chance_at((x + y) / (n + m), x, n, y, m)
        assert p >= at_pooled - 0.002


def _chance_at(rate, x, n, y, m):
    """Return the chance of a pooled z as far from 0, by scipy's binomial, at a hit rate."""
    rows, columns = np.arange(n + 1.0)[:, np.newaxis], np.arange(m + 1.0)
    pooled = (rows + columns) / (n + m)
    with np.errstate(invalid="ignore"):
        z = np.abs(rows / n - columns / m) / np.sqrt(pooled * (1 - pooled))
    chances = np.outer(scipy.binom.pmf(rows[:, 0], n, rate), scipy.binom.pmf(columns, m, rate))
    return float(chances[np.nan_to_num(z) >= z[x, y] - 1e-9].sum())


def test_exact_p_values_turn_with_the_samples_and_with_hits():
    p = barnard_p_value(9, 12, 2, 7)

    assert barnard_p_value(2, 7, 9, 12) == pytest.approx(p)
    assert barnard_p_value(3, 12, 5, 7) == pytest.approx(p)
    assert barnard_p_value(5_100, 10_000, 4_900, 10_000) == pytest.approx(0.00468, abs=2e-4)


@pytest.mark.parametrize("counts", [(3, 2, 0, 1), (-1, 2, 0, 1), (0, 0, 0, 1), (1.5, 2, 0, 1)])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(OptionError, match="barnard_p_value"):
        barnard_p_value(*counts)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (2, 9)])
def test_equal_hit_rates_differ_in_at_most_5_percent_of_samples(n, m):
    # Summed over all outcomes. Newcombe's interval alone: 12.5, 3.1, 7.0, 6.2, 6.8, 6.1 %.
    is_shown = [
        [unpaired_interval(hits(x, n), hits(y, m)).p <= 0.05 for y in range(m + 1)]
        for x in range(n + 1)
    ]
    for rate in np.linspace(0.05, 0.95, 19):
        chances = np.outer(
            scipy.binom.pmf(range(n + 1), n, rate), scipy.binom.pmf(range(m + 1), m, rate)
        )
        assert chances[np.array(is_shown)].sum() <= 0.05


@pytest.mark.parametrize(("x", "y"), [([], [1.0]), ([1.0], []), ([], [])])
def test_an_empty_sample_says_nothing(x, y):
    assert all(map(math.isnan, unpaired_interval(x, y)))


def test_a_value_outside_the_range_is_refused():
    with pytest.raises(OptionError, match="values"):
        unpaired_interval([0.5, 1.5], [0.5])
