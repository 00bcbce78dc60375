"""Losses that no query has shown: a query cannot lose more than its baseline has."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import (
    detectable_difference,
    difference_interval,
    excludes_zero,
    randomization_p_values,
    tilting_interval,
)


@st.composite
def pairs(draw):
    """Differences with the scores of their baseline, in [0, 1]."""
    n = draw(st.integers(2, 60))
    scores = st.sampled_from([0.0, 0.05, 0.1, 0.5, 0.9, 1.0]) | st.floats(0, 1, width=16)
    baseline = np.array(draw(st.lists(scores, min_size=n, max_size=n)))
    system = np.array(draw(st.lists(scores, min_size=n, max_size=n)))
    unchanged = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    return np.where(unchanged, 0.0, system - baseline), baseline


@pytest.mark.parametrize(
    ("n", "is_shown"),
    [
        pytest.param(30, False, id="3.4 / 30 of .64: .07"),
        pytest.param(300, True, id="3.4 / 300 of .44: .005"),
    ],
)
def test_equal_small_gains_are_shown_where_so_few_unseen_losses_would_not_undo_them(n, is_shown):
    interval = difference_interval([0.01] * n, baseline=[0.4] * n)

    largest = (0.4 * n + 20) / (n + 20)
    assert interval.largest[0] == pytest.approx(largest)
    share = 1 - (0.025 / 0.75) ** (1 / n)
    assert (interval.lower > 0) == is_shown == (share * largest < 0.01)
    # the range alone allows for more
    assert difference_interval([0.01] * n).lower < 0


def test_without_any_change_the_limits_are_a_share_of_what_the_baseline_has():
    interval = difference_interval([0.0] * 100, baseline=[0.2] * 50 + [0.0] * 50)

    share = 1 - (0.025 / 0.75) ** (1 / 100)
    assert interval.rule == "identical"
    assert interval.lower == pytest.approx(-share * (0.2 * 100 + 20) / 120)
    assert interval.upper == pytest.approx(share)


@given(pairs())
@settings(max_examples=40)
def test_a_baseline_only_narrows_the_interval(pair):
    d, baseline = pair
    alone, narrowed = difference_interval(d), difference_interval(d, baseline=baseline)

    # each limit is a root that is found within 1e-9
    rounding = 1e-8
    assert alone.lower - rounding <= narrowed.lower <= narrowed.mean
    assert narrowed.mean <= narrowed.upper <= alone.upper + rounding
    assert narrowed.lower < narrowed.upper
    unknown = difference_interval(d, baseline=[math.nan] * len(d))
    assert (unknown.lower, unknown.upper) == (alone.lower, alone.upper)


@given(pairs(), st.booleans())
@settings(max_examples=40)
def test_the_limits_mirror_each_other(pair, has_clusters):
    d, baseline = pair
    clusters = np.arange(len(d)) // 3 if has_clusters else None
    up = difference_interval(d, baseline=baseline, clusters=clusters)
    down = difference_interval(-d, baseline=1 - baseline, clusters=clusters)

    assert down.lower == pytest.approx(-up.upper, abs=1e-7)
    assert down.upper == pytest.approx(-up.lower, abs=1e-7)


@pytest.mark.parametrize("baseline", [[0.5], [[0.5, 0.5]]])
def test_there_is_a_score_of_the_baseline_for_each_query(baseline):
    with pytest.raises(OptionError, match="baseline"):
        difference_interval([0.1, 0.2], baseline=baseline)


@pytest.mark.parametrize("largest", [0.0, -1.0, math.inf, (1.0, 0.0), (math.nan, 1.0)])
def test_the_largest_differences_are_finite_and_above_0(largest):
    with pytest.raises(OptionError, match="largest"):
        tilting_interval([0.0, 0.0], largest=largest)


def small_gains_and_total_losses(rng, rows, n, *, losses):
    """Scores near 0; few lose all, as many as a sample may miss, and gains make the mean 0."""
    baseline = rng.beta(1, 15, (rows, n))
    lost = rng.random((rows, n)) < losses / n
    gain = losses / n / 16 / 0.6 / (1 - losses / n)
    gains = np.where(rng.random((rows, n)) < 0.6, 2 * gain * rng.random((rows, n)), 0.0)
    return np.where(lost, -baseline, np.minimum(gains, 1 - baseline)), baseline


@pytest.mark.slow
@pytest.mark.parametrize("losses", [2, 3.2, 5])
def test_near_0_rare_total_losses_are_allowed_for(losses):
    # 250 samples: 3.5 % and three standard errors are 7 %; Student's t is wrong in 10 to 35 %
    d, baseline = small_gains_and_total_losses(np.random.default_rng(2), 250, 60, losses=losses)
    n_above = 0
    for row, scores in zip(d, baseline, strict=True):
        n_above += row.mean() > 0 and excludes_zero(row, baseline=scores)

    assert n_above / 250 <= 0.07
    t = d.mean(1) / (d.std(1, ddof=1) / math.sqrt(60))
    assert np.mean(t > 2) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.05, 0.01])
@pytest.mark.parametrize("kind", ["dense", "sparse", "near 0"])
def test_a_promised_difference_is_shown_in_4_of_5_draws(kind, level):
    # 150 draws, standard error .033; the population has the promised mean
    rng = np.random.default_rng(3)
    n = 120
    if kind == "dense":
        like, baseline = rng.normal(0.04, 0.15, 400).clip(-0.5, 0.5), np.full(400, 0.5)
    elif kind == "sparse":
        like = np.where(rng.random(400) < 0.15, rng.normal(0.2, 0.3, 400).clip(-0.5, 0.5), 0.0)
        baseline = np.full(400, 0.5)
    else:
        baseline = rng.beta(1, 12, 400)
        like = np.maximum(rng.normal(0.01, 0.03, 400), -baseline)
    promise = detectable_difference(like, baseline=baseline, n=n, level=level)
    # so many copies of the differences that have more, or less, that the mean is the promised one
    weights = _weights(like, promise)
    n_shown = 0
    for _ in range(150):
        rows = rng.choice(400, n, p=weights)
        if like[rows].mean() > 0 and excludes_zero(like[rows], baseline=baseline[rows]):
            p = randomization_p_values(like[rows, np.newaxis], resamples=1_000, seed=1)[0]
            n_shown += p <= level

    assert 0.7 <= n_shown / 150 <= 0.92


def _weights(values, mean):
    """Return weights that give the values this mean, by exponential tilting."""
    low, high = -400.0, 400.0
    for _ in range(100):
        slope = (low + high) / 2
        weights = np.exp(slope * (values - values.mean()))
        weights /= weights.sum()
        low, high = (slope, high) if weights @ values < mean else (low, slope)
    return weights


@pytest.mark.parametrize(
    "differences",
    [
        pytest.param([0.0] * 50, id="nothing changed"),
        pytest.param([0.01] * 30, id="equal and too small"),
        pytest.param([0.5], id="one query"),
        pytest.param([], id="no query"),
    ],
)
def test_no_difference_is_promised_where_none_is_shown(differences):
    assert math.isnan(detectable_difference(differences))


def test_a_promise_is_on_the_side_of_the_mean_or_of_the_point():
    d = np.array([0.2, -0.1, 0.1, 0.0] * 30)

    assert detectable_difference(d) == pytest.approx(detectable_difference(-d))
    # losses are smaller than gains, and gains turned round are as large
    assert detectable_difference(d, beyond=0.0) > detectable_difference(d) > 0
    assert detectable_difference(d, beyond=-0.05) > 0.05


def test_more_queries_and_looser_levels_promise_smaller_differences():
    d = np.random.default_rng(5).normal(0, 0.2, 100).clip(-0.6, 0.6)
    promises = [detectable_difference(d, n=n, level=0.05) for n in (50, 100, 400)]

    assert promises == sorted(promises, reverse=True)
    assert detectable_difference(d, level=0.005) > promises[1]
    assert detectable_difference(d, range=(0.0, 2.0)) >= promises[1] - 1e-9


def test_no_promise_is_larger_than_the_range():
    # Clusters of unequal size have values beyond it
    d = [-1.0] * 6 + [0.0, 1.0, 0.0, 0.0, -1.0, 1.0]
    clusters = list("aaaaaabbcdef")

    promise = detectable_difference(d, clusters=clusters)

    assert math.isnan(promise) or 0 < promise <= 1
