"""Means from labels with unequal probabilities: by hand, by all draws, against PPI, simulated."""

import itertools

import numpy as np
import pytest

from ragbench.errors import OptionError
from ragbench.stats import (
    allocate_labels,
    ppi_difference,
    ppi_mean,
    stratified_ppi_difference,
    stratified_ppi_mean,
)

WITHOUT_REFERENCE = {
    "allocate_labels": "the shares of its formula, worked by hand",
    "stratified_ppi_mean": "all draws of small data, and PPI in a single stratum",
    "stratified_ppi_difference": "all draws of small data, and PPI in a single stratum",
}

NO_LABEL = float("nan")


def test_hand_worked(scipy_stats):
    # Two strata of 30 and 10 items, 10 labels each; the judge gives everything .5.
    # A constant judge has lambda 0: .75 x 2/10 + .25 x 5/10 = .275. Spread of the first stratum:
    # (1.6 + .25) / (9 + 1), above 1.6 / 9; of the second 2.5 / 9. The second is labelled
    # completely.
    labels = [1.0] * 2 + [0.0] * 8 + [NO_LABEL] * 20 + [1.0, 0.0] * 5
    strata = [0] * 30 + [1] * 10

    mean = stratified_ppi_mean(labels, [0.5] * 40, strata)

    first = (1.6 + 0.25) / (9 + 1)
    # the ten corrections have the mean square (30 / 10)^2 x spread; they sum to 0 in a stratum, so
    # that no cross terms with the predictions are left
    corrections = 10 * 3**2 * first + 2.5
    squares = 30 * (0.2 - 0.275) ** 2 + 10 * (0.5 - 0.275) ** 2
    variance = (squares + corrections) / 39 / 40
    half = scipy_stats.t.ppf(0.975, 9) * variance**0.5
    assert (mean.weight, mean.n_labels, mean.n_judged) == (0.0, 20, 40)
    assert mean.mean == pytest.approx(0.75 * 0.2 + 0.25 * 0.5)
    assert (mean.lower, mean.upper) == pytest.approx((mean.mean - half, mean.mean + half))


def test_the_mean_over_all_draws_is_the_mean_of_all_labels():
    # 20 sure answers, all labelled, and two strata of 4 and 3 with two labels each: 18 draws
    rng = np.random.default_rng(4)
    labels, judged = rng.random((2, 27)).round(2)
    sizes = (4, 3)
    starts = (20, 24)
    # any constant lambda is unbiased: a constant judge gives 0
    judged[:] = 0.5
    means = []
    for chosen in itertools.product(
        *(
            itertools.combinations(range(start, start + size), 2)
            for start, size in zip(starts, sizes, strict=True)
        )
    ):
        drawn = labels.copy()
        drawn[20:] = NO_LABEL
        for place in itertools.chain(*chosen):
            drawn[place] = labels[place]
        means.append(stratified_ppi_mean(drawn, judged, [0] * 20 + [1] * 4 + [2] * 3).mean)

    assert len(means) == 18
    assert np.mean(means) == pytest.approx(labels.mean(), abs=1e-14)


def test_one_stratum_is_the_classical_estimate():
    # Lambda and mean of PPI++: 1 + n / N times the overall mean is that over the other items
    rng = np.random.default_rng(7)
    judged = rng.random(120)
    labels = (judged + rng.normal(0, 0.3, 120)).clip(0, 1)

    classical = ppi_mean(labels[:40], judged[:40], judged[40:], random=True)
    uniform = stratified_ppi_mean([*labels[:40], *[NO_LABEL] * 80], judged, [0] * 120)

    assert uniform.mean == pytest.approx(classical.mean, abs=1e-12)
    assert uniform.weight == pytest.approx(classical.weight * (1 + 40 / 80), abs=1e-12)
    assert uniform.upper - uniform.lower == pytest.approx(
        classical.upper - classical.lower, rel=0.1
    )


def test_the_difference_uses_both_labels_of_a_query():
    # Equal labels on the same queries differ by 0 with certainty; on other queries they do not
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, 200).astype(float)
    first, other = labels.copy(), labels.copy()
    first[40:], other[:160] = NO_LABEL, NO_LABEL
    judged, strata = [0.5] * 200, [0] * 200

    paired = stratified_ppi_difference((first, first), (judged, judged), (strata, strata))
    apart = stratified_ppi_difference((first, other), (judged, judged), (strata, strata))

    assert (paired.mean, paired.lower, paired.upper) == (0.0, 0.0, 0.0)
    assert apart.upper - apart.lower > 0.3


def test_a_difference_of_random_questions_is_the_classical_estimate():
    # Lambda and mean of PPI++ for differences: labels and scores of both systems go together
    rng = np.random.default_rng(3)
    quality = rng.random(120)
    labels = (quality[:, None] + rng.normal(0, 0.3, (120, 2))).clip(0, 1)
    judged = (labels + quality[:, None] + rng.normal(0, 0.4, (120, 2))) / 2
    drawn = np.where(np.arange(120)[:, None] < 40, labels, NO_LABEL)

    classical = ppi_difference(
        tuple(labels[:40].T), tuple(judged[:40].T), tuple(judged[40:].T), random=True
    )
    uniform = stratified_ppi_difference(tuple(drawn.T), tuple(judged.T), ([0] * 120, [0] * 120))

    assert uniform.mean == pytest.approx(classical.mean, abs=1e-12)
    assert uniform.weight == pytest.approx(classical.weight * (1 + 40 / 80), abs=1e-12)
    assert uniform.upper - uniform.lower == pytest.approx(
        classical.upper - classical.lower, rel=0.1
    )


def test_expected_errors_of_two_systems_do_not_cancel():
    # Labels that are all right say nothing about errors on other questions, of neither system.
    # The spread of a stratum is .02 / 20 labels, times (1 / 20 - 1 / 100) and twice for two
    # systems; as for one system below, the total counts 1 / 20 in place of it.
    labels, judged = [1.0] * 20 + [NO_LABEL] * 80, [1.0] * 100

    one = stratified_ppi_mean(labels, judged, [0] * 100)
    two = stratified_ppi_difference((labels, labels), (judged, judged), ([0] * 100, [0] * 100))

    assert two.upper - two.lower == pytest.approx(2**0.5 * (one.upper - one.lower))
    assert one.upper - one.lower > 0.02


def test_labels_that_never_differ_do_not_make_certain():
    mean = stratified_ppi_mean([1.0] * 20 + [NO_LABEL] * 80, [1.0] * 100, [0] * 100, range=(0, 1))

    assert (mean.mean, mean.upper) == (1.0, 1.0)
    assert 0.97 < mean.lower < 0.999


@pytest.mark.costly
def test_intervals_hold_the_truth_where_a_sure_judge_errs():
    # 150 samples of 1,000 answers; the judge is unsure of a quarter, 5 % of the rest is wrong
    rng = np.random.default_rng(11)
    hits, errors = 0, []
    for _ in range(150):
        labels = (rng.random(1000) < 0.7).astype(float)
        unsure = rng.random(1000) < 0.25
        is_wrong = rng.random(1000) < 0.05
        judged = np.where(unsure, 0.5, np.abs(labels - 0.01 - 0.98 * is_wrong))
        strata = np.where(unsure, 1, np.where(judged > 0.5, 2, 0))
        drawn = np.full(1000, NO_LABEL)
        for stratum, n in ((0, 15), (1, 30), (2, 25)):
            places = rng.choice(np.flatnonzero(strata == stratum), n, replace=False)
            drawn[places] = labels[places]
        mean = stratified_ppi_mean(drawn, judged, strata, range=(0, 1))
        hits += mean.lower <= 0.7 <= mean.upper
        errors.append(mean.mean - 0.7)

    assert hits >= 140, "93 % of 150"
    assert abs(np.mean(errors)) < 3 * np.std(errors) / 150**0.5


@pytest.mark.parametrize(
    ("sizes", "spreads", "n", "counts"),
    [
        ([75, 25], [0.1, 0.5], 40, [18, 22]),  # 75 x .1 : 25 x .5; .2 x .75 + .8 x .375 = .45
        ([50, 50], [0, 0], 10, [5, 5]),  # nothing is known: by size
        ([97, 3], [0.0, 0.5], 20, [17, 3]),  # three items are the most of the small one
        ([90, 10], [0.5, 0.0], 20, [17, 3]),  # at least three
    ],
)
def test_allocation(sizes, spreads, n, counts):
    assert allocate_labels(sizes, spreads, n).tolist() == counts


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: allocate_labels([5, 5], [1, 1], 5), "allocate_labels: n"),
        (
            lambda: stratified_ppi_mean([1.0] * 19, [1.0] * 19, [0] * 19),
            "stratified_ppi_mean: labels",
        ),
        (
            lambda: stratified_ppi_mean([1.0] * 20, [1.0] * 21, [0] * 20),
            "stratified_ppi_mean: labels",
        ),
        (
            lambda: stratified_ppi_mean(
                [1.0] * 20 + [NO_LABEL] * 9, [1.0] * 29, [0] * 19 + [1] * 10
            ),
            "stratified_ppi_mean: labels",
        ),
        (
            lambda: stratified_ppi_mean([2.0] * 20, [1.0] * 20, [0] * 20, range=(0, 1)),
            "stratified_ppi_mean: labels",
        ),
        (
            lambda: stratified_ppi_difference(
                ([1.0] * 20, [1.0] * 21), ([1.0] * 20, [1.0] * 21), ([0] * 20, [0] * 21)
            ),
            "stratified_ppi_difference: judged",
        ),
    ],
)
def test_refusals(call, place, assert_message):
    with pytest.raises(OptionError) as caught:
        call()
    assert_message(caught.value, place)
