"""Corrected means: worked by hand, coverage by simulation, what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats.mean import ppi_difference, ppi_mean

LABELS, JUDGED = [0.0, 1.0] * 10, [0.2, 0.6] * 10


def test_hand_worked(scipy_stats):
    # All judged: variance .04 x 100 / 99; covariance of labels and judge .1 x 20 / 19.
    # lambda = (.1 x 20 / 19) / (1.25 x .04 x 100 / 99) = 2.0842; the judge is the same elsewhere,
    # so the mean stays .5. Residuals 0 - .2 lambda and 1 - .6 lambda: half their distance is .5 -
    # .2 lambda = .0832.
    estimate = ppi_mean(LABELS, JUDGED, [0.2, 0.6] * 40, random=True)

    weight = (0.1 * 20 / 19) / (1.25 * 0.04 * 100 / 99)
    variance = (0.5 - 0.2 * weight) ** 2 / 19 + weight**2 * 0.04 * 80 / 79 / 80
    half = scipy_stats.t.ppf(0.975, 19) * variance**0.5
    assert estimate.weight == pytest.approx(weight)
    assert estimate.mean == pytest.approx(0.5)
    assert (estimate.lower, estimate.upper) == pytest.approx((0.5 - half, 0.5 + half))
    alone = scipy_stats.ttest_1samp(LABELS, 0.0).confidence_interval(0.95)
    assert (estimate.labels_lower, estimate.labels_upper) == pytest.approx((alone.low, alone.high))
    assert estimate.width_ratio == pytest.approx(2 * half / (alone.high - alone.low))


def test_a_judge_that_is_stricter_elsewhere_moves_the_mean():
    # The judge's mean is .4 on the labelled items, .3 elsewhere: lambda x -.1
    estimate = ppi_mean(LABELS, JUDGED, [0.2, 0.2, 0.2, 0.6] * 20, random=True)

    assert estimate.mean == pytest.approx(0.5 - 0.1 * estimate.weight)
    assert estimate.judge_mean == pytest.approx((20 * 0.4 + 80 * 0.3) / 100)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("noise", "ratio"),
    [pytest.param(0.05, (0.3, 0.6), id="good judge"), pytest.param(9.0, (0.9, 1.05), id="none")],
)
def test_covers_as_often_as_it_says(noise, ratio):
    # 400 samples: standard error 1.1 points. The judge is biased by .2 and compressed.
    rng = np.random.default_rng(0)
    covered, ratios = [], []
    for _ in range(400):
        y = rng.beta(2, 1, 600)
        f = 0.7 * y + 0.2 + noise * rng.normal(size=600)
        estimate = ppi_mean(y[:60], f[:60], f[60:], random=True, range=(0, 1))
        covered.append(estimate.lower <= 2 / 3 <= estimate.upper)
        ratios.append(estimate.width_ratio)

    assert 0.925 <= np.mean(covered) <= 0.98
    assert ratio[0] <= np.mean(ratios) <= ratio[1]


def lenient(y, u):
    """Pass all that people pass, and 7 in 10 of the others."""
    return np.where(y == 1, 1.0, u < 0.7)


def harsh(y, u):
    """Fail all that people fail, and 3 in 10 of the others."""
    return np.where(y == 0, 0.0, u > 0.3)


def noisy(y, u):
    """Turn 2 in 10 verdicts of people."""
    return np.where(u < 0.2, 1 - y, y)


def exact(y, u):
    """Pass what people pass."""
    return y


JUDGES, RATES = [lenient, harsh, noisy, exact], [0.5, 0.7, 0.9, 0.97]


# 16 of 48 combinations, so that each judge meets each rate and each number of labels. The three
# that missed most often when all were run are among them.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("judge", "passed", "n"),
    [
        (judge, passed, (40, 100, 200)[(i + j) % 3])
        for i, judge in enumerate(JUDGES)
        for j, passed in enumerate(RATES)
    ],
)
def test_misses_seldom_where_labels_are_skewed(judge, passed, n):
    # Bar: 6.5 %; 200 samples, se 1.7 points. Student's t alone misses in up to 18 %.
    rng, missed = np.random.default_rng(n), 0
    for _ in range(200):
        y = (rng.random(n + 500) < passed).astype(float)
        f = judge(y, rng.random(n + 500)).astype(float)
        estimate = ppi_mean(y[:n], f[:n], f[n:], random=True, range=(0, 1))
        missed += not estimate.lower <= passed <= estimate.upper

    assert missed / 200 <= 0.065 + 2 * 0.0174


@given(
    pairs=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([0, 0.25, 0.5, 1.0])), min_size=25, max_size=60
    ),
    shift=st.floats(-1, 1),
)
@settings(max_examples=16)
def test_a_constant_added_to_the_judge_changes_nothing(pairs, shift):
    y, f = np.array(pairs).T
    unlabelled = np.append(f[20:], 0.3)
    one = ppi_mean(y[:20], f[:20], unlabelled, random=True, range=(0, 1))
    other = ppi_mean(y[:20], f[:20] + shift, unlabelled + shift, random=True, range=(0, 1))

    assert other.mean == pytest.approx(one.mean, abs=1e-6)
    assert (other.lower, other.upper) == pytest.approx((one.lower, one.upper), abs=1e-6)


def test_a_constant_judge_leaves_the_labels_alone():
    estimate = ppi_mean(LABELS, [0.5] * 20, [0.5] * 100, random=True)

    assert (estimate.mean, estimate.weight, estimate.width_ratio) == (0.5, 0.0, pytest.approx(1.0))


def test_equal_labels_are_not_certainty():
    estimate = ppi_mean([1.0] * 20, JUDGED, [0.6] * 30, random=True, range=(0, 1))

    assert (estimate.mean, estimate.upper) == (1.0, 1.0)
    assert 0.8 < estimate.lower < 0.9


def test_equal_labels_without_ends_have_no_limits():
    estimate = ppi_mean([1.0] * 20, JUDGED, [0.6] * 30, random=True).to_dict()

    assert estimate["interval"] == [None, None]
    assert estimate["width_ratio"] is None


def test_the_difference_is_the_mean_of_differences():
    b, a = np.array(LABELS), np.array(LABELS)[::-1]
    f, g = np.array(JUDGED), np.full(20, 0.4)
    unlabelled = np.array([0.2, 0.6] * 40), np.array([0.4, 0.1] * 40)

    ours = ppi_difference((b, a), (f, g), unlabelled, random=True, range=(0, 1))

    assert ours == ppi_mean(b - a, f - g, unlabelled[0] - unlabelled[1], random=True, range=(-1, 1))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"random": False}, "ppi_mean: random"),
        ({"labels": LABELS[1:]}, "ppi_mean: labels"),
        ({"judged": JUDGED[1:]}, "ppi_mean: judged"),
        ({"unlabelled": [0.5]}, "ppi_mean: unlabelled"),
        ({"labels": [*LABELS[1:], np.nan]}, "ppi_mean: labels"),
        ({"confidence": 95}, "ppi_mean: confidence"),
    ],
)
def test_refusals(change, place, assert_message):
    arguments = {"labels": LABELS, "judged": JUDGED, "unlabelled": [0.2, 0.6], "random": True}
    with pytest.raises(OptionError) as caught:
        ppi_mean(**{**arguments, **change})
    assert_message(caught.value, place)


def test_the_difference_needs_the_same_queries(assert_message):
    with pytest.raises(OptionError) as caught:
        ppi_difference((LABELS, [1.0]), (JUDGED, JUDGED), (JUDGED, JUDGED), random=True)
    assert_message(caught.value, "ppi_difference: labels")
