"""Early looks: published bounds, simulated error of all looks together, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import difference_interval, interim_interval, look_sizes, spending_bounds


@pytest.mark.parametrize(
    ("looks", "published"),
    [
        (1, [1.9600]),
        (2, [2.9626, 1.9686]),
        (3, [3.7103, 2.5114, 1.9930]),
        (4, [4.3326, 2.9631, 2.3590, 2.0141]),
        (5, [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
    ],
)
def test_agrees_with_published_bounds(looks, published):
    """Reboussin, DeMets, Kim and Lan (2000), Controlled Clinical Trials 21: equal looks, 5 %."""
    sizes = [100 * look for look in range(1, looks + 1)]

    assert spending_bounds(sizes) == pytest.approx(published, abs=2e-4)


@pytest.mark.parametrize("sizes", [[20, 40, 60, 80, 100], [10, 55, 60, 100], [1, 1000]])
def test_all_looks_together_err_as_often_as_one(sizes):
    """40,000 Brownian paths at the looks: two-sided 5 %, se .11 points."""
    steps = np.diff(sizes, prepend=0)
    paths = np.cumsum(
        np.random.default_rng(1).normal(0, np.sqrt(steps), (40_000, len(sizes))), axis=1
    )

    beyond = np.abs(paths) / np.sqrt(sizes) > spending_bounds(sizes)

    assert beyond.any(axis=1).mean() == pytest.approx(0.05, abs=0.0045)


@pytest.mark.costly
@given(st.integers(1, 7), st.floats(0.8, 0.99))
@settings(max_examples=25, deadline=None)
def test_bounds_of_even_looks_fall_to_hardly_more_than_a_single_one(looks, confidence):
    (single,) = spending_bounds([1], confidence=confidence)
    bounds = spending_bounds([*range(1, looks + 1)], confidence=confidence)

    assert list(bounds) == sorted(bounds, reverse=True)
    assert single - 1e-9 <= bounds[-1] <= 1.15 * single
    assert bounds[0] <= 8.0


@given(st.integers(1, 3_000), st.integers(1, 9))
def test_looks_are_even_and_end_with_all(n, looks):
    sizes = look_sizes(n, looks=looks)

    assert sizes[-1] == n
    assert len(sizes) == min(n, looks)
    steps = np.diff(sizes, prepend=0)
    assert steps.min() >= 1
    assert steps.max() - steps.min() <= 1


def test_a_look_has_the_interval_of_its_bound():
    d = np.random.default_rng(2).normal(0.05, 0.2, 150)

    found = interim_interval(d, 2.2898, seed=4)

    same = difference_interval(d, confidence=0.977968, seed=4)
    assert (found.lower, found.upper) == pytest.approx((same.lower, same.upper), abs=1e-3)
    single = difference_interval(d, seed=4)
    assert found.lower < single.lower < single.upper < found.upper


@pytest.mark.parametrize("d", [[0.0] * 20, [0.1] * 20, [0.0] * 19 + [1.0]])
def test_even_the_first_look_has_a_width(d):
    found = interim_interval(d, 4.877)

    assert -1 <= found.lower < found.mean < found.upper <= 1


@pytest.mark.slow
def test_intervals_of_all_looks_hold_together():
    """400 runs of sparse losses, 5 looks at 200 queries each; se 1.1 points.

    With each look at 95 %, some 14 % of all runs would leave the truth out.
    """
    rng, sizes, missed = np.random.default_rng(3), look_sizes(200), 0
    bounds = spending_bounds(sizes)
    for _ in range(400):
        d = (rng.random(200) < 0.3) * rng.choice([-1.0, -0.5, 0.5], 200)
        looks = [
            interim_interval(d[:n], bound, resamples=1_000)
            for n, bound in zip(sizes, bounds, strict=True)
        ]
        missed += any(not look.lower <= -0.1 <= look.upper for look in looks)

    assert missed / 400 <= 0.065


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: look_sizes(0), "look_sizes: n: found 0"),
        (lambda: look_sizes(9, looks=0), "look_sizes: looks: found 0"),
        (lambda: spending_bounds([]), r"sizes: found \[\], allowed: rising numbers"),
        (lambda: spending_bounds([5, 5]), r"sizes: found \[5, 5\]"),
        (lambda: spending_bounds([0, 5]), r"sizes: found \[0, 5\]"),
        (lambda: spending_bounds([5], confidence=1), "confidence: found 1"),
        (lambda: interim_interval([0.1], 0), "bound: found 0, allowed: a number above 0"),
        (lambda: interim_interval([0.1], 8.1), "bound: found 8.1"),
    ],
)
def test_bad_arguments_say_what_is_allowed(call, message):
    with pytest.raises(OptionError, match=message):
        call()
