"""The betting confidence sequence: a plain loop over means, simulated coverage at any time."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import betting_interval
from tests.stats.strategies import differences

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases


def most_capital(d, mean, alpha=0.05):
    """What a gambler on more than `mean` has at best, query by query from 1."""
    capital, best, total, squares, variance = 1.0, 1.0, 0.5, 0.25, 0.25
    for t, x in enumerate(((value + 1) / 2 for value in d), start=1):
        stake = math.sqrt(2 * math.log(2 / alpha) / (variance * t * math.log(1 + t)))
        capital *= 1 + min(stake, 0.5 / mean) * (x - mean)
        best = max(best, capital)
        total += x
        squares += (x - total / (t + 1)) ** 2
        variance = squares / (t + 1)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_definition(seed):
    """At both limits a gambler has made exactly 2 / alpha of 1."""
    d = np.random.default_rng(seed).uniform(-1, 1, 400) ** 3

    low, high = betting_interval(d)

    assert most_capital(d, (low + 1) / 2) == pytest.approx(40, rel=1e-6)
    assert most_capital(-d, (1 - high) / 2) == pytest.approx(40, rel=1e-6)


def test_all_lost_by_hand():
    """The stake is cut at half the capital: 1 + .5 (1 - m) / m, 10 times, is 40 at m = .5095."""
    low, _ = betting_interval([1.0] * 10)

    m = 0.5 / (40 ** (1 / 10) - 0.5)
    assert low == pytest.approx(2 * m - 1, abs=1e-9)


@pytest.mark.parametrize("kind", ["normal", "sparse", "hits"])
def test_seldom_leaves_the_truth_out_at_any_time(kind):
    """400 runs of 400 queries, se 1.1 points; what is left out stays out: the end shows all."""
    rng, missed = np.random.default_rng(5), 0
    for _ in range(400):
        if kind == "normal":
            d, truth = np.clip(rng.normal(-0.05, 0.2, 400), -1, 1), -0.05
        elif kind == "sparse":
            d, truth = (rng.random(400) < 0.1) * -0.5, -0.05
        else:
            d, truth = (rng.random(400) < 0.2) * rng.choice([-1.0, 1.0], 400), 0.0
        low, high = betting_interval(d)
        missed += not low <= truth <= high

    assert missed / 400 <= 0.06


@given(differences(), st.integers(0, 60))
@settings(max_examples=50)
def test_more_queries_never_widen_it(d, n):
    low, high = betting_interval(d)
    before = betting_interval(d[:n])

    assert -1 <= before[0] <= low + 1e-12
    assert high - 1e-12 <= before[1] <= 1


@given(differences())
@settings(max_examples=50)
def test_mirrors(d):
    low, high = betting_interval(d)

    assert betting_interval([-x for x in d]) == pytest.approx((-high, -low), abs=1e-9)


def test_no_query_says_nothing():
    assert betting_interval([], range=(0, 2)) == pytest.approx((-2, 2))


def test_knows_its_scale():
    d = np.random.default_rng(6).normal(0.2, 0.2, 200)

    low, high = betting_interval(d, range=(-1, 3))
    assert betting_interval(d / 4) == pytest.approx((low / 4, high / 4))


@pytest.mark.parametrize(
    ("d", "options", "message"),
    [
        ([1.5], {}, "differences: found 1.5, allowed: numbers from -1 to 1"),
        ([np.nan], {}, "differences: found '1 of 1 not finite'"),
        ([0.1], {"range": (0, math.inf)}, "two finite ends: bets need a bound"),
        ([0.1], {"confidence": 0}, "confidence: found 0"),
    ],
)
def test_bad_arguments_say_what_is_allowed(d, options, message):
    with pytest.raises(OptionError, match=f"betting_interval: .*{message}"):
        betting_interval(d, **options)
