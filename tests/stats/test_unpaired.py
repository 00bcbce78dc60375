"""The difference of two means over different queries, against Newcombe's table and Welch's t."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import unpaired_interval
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
        ((6, 7), (2, 7), (0.0582, 0.8062)),
        ((5, 56), (0, 29), (-0.0381, 0.1926)),
        ((0, 10), (0, 20), (-0.1611, 0.2775)),
        ((0, 10), (0, 10), (-0.2775, 0.2775)),
        ((10, 10), (0, 20), (0.6791, 1.0)),
        ((10, 10), (0, 10), (0.6075, 1.0)),
    ],
)
def test_hits_have_the_intervals_of_newcombes_table_ii(first, second, limits):
    """Newcombe (1998), Statistics in Medicine 17, p. 877: method 10, contrasts (a) to (h)."""
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
    """Limits of one .5, cut to the range, are 0 and 1: sqrt(.5^2 + .5^2) = .7071."""
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


def test_scores_without_a_bound():
    interval = unpaired_interval([1.0, 4.0, 2.0], [20.0, 31.0, 25.0], (0.0, math.inf))

    assert interval.upper < 0
    assert interval.p < 0.05


@pytest.mark.parametrize(("x", "y"), [([], [1.0]), ([1.0], []), ([], [])])
def test_an_empty_sample_says_nothing(x, y):
    assert all(map(math.isnan, unpaired_interval(x, y)))


def test_a_value_outside_the_range_is_refused():
    with pytest.raises(OptionError, match="values"):
        unpaired_interval([0.5, 1.5], [0.5])
