"""Plans by the interval itself: their power by drawing, and what they are made of."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import (
    difference_interval,
    queries_needed,
    queries_to_exclude,
    score_interval,
)
from tests.stats.strategies import differences

RANDOM = np.random.default_rng(8)
NORMAL = RANDOM.normal(0, 0.2, 400).clip(-1, 1)
FEW_LOST = np.array([-0.8, -0.5, -0.4] + [0.0] * 17)
FEW_CHANGED = np.array([-0.5, 0.5, -0.2, 0.2] + [0.0] * 36)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "point"),
    [
        pytest.param(NORMAL, -0.05, id="all changed"),
        pytest.param(FEW_CHANGED, -0.05, id="few changed, equal: beyond 0"),
        pytest.param(FEW_LOST, -0.02, id="few lost: between 0 and the mean"),
        pytest.param(-FEW_LOST, 0.02, id="few gained"),
    ],
)
def test_the_power_is_what_was_asked_for(d, point):
    # 100 samples of so many queries; se 4 points
    n = queries_to_exclude(d, point)
    out = 0
    for _ in range(100):
        interval = difference_interval(RANDOM.choice(d, n))
        out += not interval.lower <= point <= interval.upper

    assert out / 100 == pytest.approx(0.8, abs=0.12)


@pytest.mark.costly
def test_hits_with_churn_have_the_power_by_counting(scipy_stats):
    # Of 100 queries one gains and one loses; `max_drop: 0.05`
    n = queries_to_exclude([1.0, -1.0] + [0.0] * 98, -0.05)

    power = sum(
        scipy_stats.multinomial.pmf([b, c, n - b - c], n, [0.01, 0.01, 0.98])
        for b in range(8)
        for c in range(8)
        if score_interval(b, c, n)[0] > -0.05
    )
    assert power == pytest.approx(0.8, abs=0.03)


def test_many_small_differences_need_what_the_t_test_needs():
    n = queries_to_exclude(NORMAL, float(NORMAL.mean()) - 0.02)

    assert n == pytest.approx(queries_needed(0.02, float(NORMAL.std())), rel=0.05)


def test_equal_differences_need_what_excludes_the_unseen():
    # (1 - p)^n, of which three quarters count: 3.4 / n for no change
    assert queries_to_exclude([0.0] * 5, -0.05) == math.ceil(math.log(30) / -math.log(0.95))


@pytest.mark.parametrize("d", [[], [0.1, 0.3], [0.2 + 1e-12] * 2])
def test_no_number_tells_the_mean_from_itself(d):
    assert queries_to_exclude(d, 0.2) is None


@given(differences(min_size=2), st.floats(-0.9, 0.9), st.sampled_from([0.5, 0.8, 0.95]))
@settings(max_examples=16)
def test_mirrors_and_scales(d, point, power):
    n = queries_to_exclude(d, point, power=power)

    mirrored = queries_to_exclude([-x for x in d], -point, power=power)
    scaled = queries_to_exclude([4 * x for x in d], 4 * point, largest=4.0, power=power)
    assert n == mirrored == scaled
    assert n is None or n >= 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: queries_to_exclude([0.5], -1.0), "point: found -1.0"),
        (lambda: queries_to_exclude([0.5], 0.0, largest=math.inf), "largest: found inf"),
        (lambda: queries_to_exclude([2.0], 0.0), "differences: found 2.0"),
        (lambda: queries_to_exclude([0.5], 0.0, power=1.0), "power: found 1.0"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(OptionError, match=message):
        call()
