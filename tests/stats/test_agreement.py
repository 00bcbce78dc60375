"""Properties of all statistics of agreement: interval, coverage, undefined values."""

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats.agreement import (
    cohen_kappa,
    krippendorff_alpha,
    mean_agreement,
    raw_agreement,
)
from ragbench.stats.correlation import (
    kendall_tau_b,
    mean_correlation,
    pearson,
    roc_auc,
    spearman,
)
from tests.lazy import Lazy
from tests.stats.strategies import rated

sklearn = Lazy("sklearn.metrics")

PAIRED = [raw_agreement, cohen_kappa, pearson, spearman, kendall_tau_b]


def agreement(statistic, x, y, **options):
    """The statistic of two raters, with its interval."""
    return mean_agreement(statistic, [np.column_stack((x, y))], "nominal", **options)


@given(rated())
@settings(max_examples=16)
def test_raw_agreement_agrees_with_scikit_learn(pair):
    table = np.column_stack(pair)

    assert raw_agreement(table).value == pytest.approx(sklearn.accuracy_score(*pair), abs=1e-12)


@pytest.mark.costly
@pytest.mark.parametrize("statistic", [*PAIRED, krippendorff_alpha])
@settings(max_examples=16)
@given(pair=rated(min_size=3))
def test_leaving_one_out_in_closed_form_is_computing_it_again(statistic, pair):
    table = np.column_stack(pair)
    coefficient = statistic(table)
    assume(not np.isnan(coefficient.value))

    again = [statistic(np.delete(table, row, axis=0)).value for row in range(len(table))]

    np.testing.assert_allclose(coefficient.without, again, atol=1e-9)


@pytest.mark.costly
@pytest.mark.parametrize("statistic", PAIRED)
@settings(max_examples=16)
@given(pair=rated(min_size=3))
def test_the_interval_is_around_the_value_and_has_a_width(statistic, pair):
    coefficient = agreement(statistic, *pair)

    if coefficient.rule == "undefined":
        assert coefficient.reason
    else:
        assert -1 <= coefficient.lower <= coefficient.value <= coefficient.upper <= 1
        assert coefficient.lower < coefficient.upper


@pytest.mark.costly
@pytest.mark.parametrize("statistic", PAIRED)
@settings(max_examples=16)
@given(pair=rated(), data=st.data())
def test_the_order_of_items_and_of_raters_changes_nothing(statistic, pair, data):
    x, y = pair
    order = data.draw(st.permutations(range(len(x))))
    one, other = (
        agreement(statistic, x, y).to_dict(),
        agreement(statistic, y[order], x[order]).to_dict(),
    )

    assert one["value"] == pytest.approx(other["value"], abs=1e-9)
    assert one["interval"] == pytest.approx(other["interval"], abs=1e-6)


@pytest.mark.parametrize("statistic", PAIRED)
def test_an_item_without_both_ratings_is_left_out(statistic):
    x, y = np.array([1, 2, 3, 3, 1, 2.0]), np.array([1, 2, 3, 2, 1, 1.0])

    with_gaps = agreement(statistic, [*x, np.nan, 3], [*y, 2, np.nan])

    assert with_gaps == agreement(statistic, x, y)
    assert with_gaps.n == 6


@pytest.mark.parametrize(
    ("statistic", "x", "y"),
    [
        pytest.param(cohen_kappa, [1, 1, 1], [1, 1, 1], id="both"),
        pytest.param(cohen_kappa, [1, 2, 1], [2, 2, 2], id="one rater"),
        pytest.param(spearman, [1, 1, 1], [1, 2, 3], id="rho"),
        pytest.param(pearson, [2, 2], [1, 2], id="r"),
        pytest.param(
            pearson,
            [0.1 + 0.2, 0.3, 0.3],
            [1, 2, 4],
            id="r, 0.3",
        ),
        pytest.param(kendall_tau_b, [1], [1], id="one item"),
        pytest.param(roc_auc, [0.1, 0.4], [1, 1], id="one class"),
        pytest.param(roc_auc, [], [], id="nothing"),
        pytest.param(krippendorff_alpha, [3, 3], [3, np.nan], id="alpha"),
        pytest.param(krippendorff_alpha, [3], [np.nan], id="no pair"),
        pytest.param(raw_agreement, [np.nan], [1], id="raw"),
    ],
)
def test_undefined_is_nan_with_the_reason(statistic, x, y, assert_message):
    coefficient = agreement(statistic, x, y)

    assert np.isnan([coefficient.value, coefficient.lower, coefficient.upper]).all()
    assert coefficient.rule == "undefined"
    assert_message(coefficient.reason)
    assert json.loads(json.dumps(coefficient.to_dict(), allow_nan=False))["value"] is None


def test_a_mean_without_groups_is_nan_with_the_reason(assert_message):
    coefficient = mean_correlation(spearman, np.array([[1, 1], [1, 2], [2, 3]]), list("aab")).mean

    assert np.isnan([coefficient.value, coefficient.lower, coefficient.upper]).all()
    assert_message(coefficient.reason)


@pytest.mark.parametrize("statistic", PAIRED)
@pytest.mark.parametrize("n", [4, 10, 100])
def test_perfect_agreement_is_not_certainty(statistic, n):
    x = np.arange(n) % 2.0

    coefficient = agreement(statistic, x, x)

    assert coefficient.value == 1
    assert coefficient.rule == "plus_two"
    assert coefficient.lower < 1 - 1 / n
    assert coefficient.upper == 1


def test_perfect_order_of_few_systems_is_not_certainty_either():
    x = np.arange(5.0)

    coefficient = agreement(pearson, x, x, rare=False)

    assert (coefficient.value, coefficient.rule, coefficient.upper) == (1, "plus_two", 1)
    assert coefficient.lower < 0.8


def test_two_items_have_no_interval(assert_message):
    coefficient = agreement(cohen_kappa, [1, 2], [1, 2])

    assert (coefficient.value, coefficient.rule) == (1.0, "undefined")
    assert_message(coefficient.reason)


def test_items_of_one_query_are_no_independent_witnesses():
    # Each item ten times: the same value, and the interval of a tenth of the items
    rng = np.random.default_rng(3)
    x = rng.integers(1, 5, 60).astype(float)
    y = np.clip(x + rng.integers(-1, 2, 60), 1, 4)
    single = agreement(cohen_kappa, x, y)
    repeated = [np.repeat(array, 10) for array in (x, y, np.arange(60))]

    careless = agreement(cohen_kappa, *repeated[:2])
    grouped = agreement(cohen_kappa, *repeated[:2], groups=repeated[2])

    assert grouped.value == pytest.approx(single.value, abs=1e-12)
    assert grouped.upper - grouped.lower == pytest.approx(single.upper - single.lower, rel=0.02)
    assert careless.upper - careless.lower < (single.upper - single.lower) / 2.5


def test_several_pairs_are_averaged_and_an_undefined_one_is_named(assert_message):
    x, y, z = np.array([[1, 2, 1, 2, 2, 1], [1, 2, 2, 2, 2, 1], [1, 1, 1, 1, 1, 1.0]])
    pairs = [np.column_stack(pair) for pair in ((x, y), (x, x), (x, z))]

    coefficient = mean_agreement(cohen_kappa, pairs, level="nominal")

    assert coefficient.value == pytest.approx((cohen_kappa(pairs[0]).value + 1) / 2)
    assert_message(coefficient.reason)


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: mean_correlation(pearson, np.eye(2), [1]), "mean_correlation: groups"),
        (lambda: agreement(spearman, [1, 2], [1, 2], groups=[1]), "agreement: groups"),
        (lambda: agreement(spearman, [1, 2], [1, 2], confidence=95), "agreement: confidence"),
    ],
)
def test_bad_arguments_say_what_is_allowed(call, place, assert_message):
    with pytest.raises(OptionError) as caught:
        call()
    assert_message(caught.value, place)


def _binary(copied, share):
    """A rater who gives 1 with some probability, and one who copies him or rolls his own die."""

    def draw(rng, n):
        y = (rng.random(n) < share).astype(float)
        x = np.where(rng.random(n) < copied, y, rng.random(n) < share)
        return np.column_stack((x, y))

    return draw


def _apart(rng, n):
    y = (rng.random(n) < 0.85).astype(float)
    return np.column_stack((np.round(rng.normal(size=n) + 2.5 * y, 1), y))


def _bell(rho):
    """Two normal variables with a correlation."""

    def draw(rng, n):
        x, noise = rng.normal(size=(2, n))
        return np.column_stack((x, rho * x + (1 - rho**2) ** 0.5 * noise))

    return draw


@pytest.mark.costly
@pytest.mark.parametrize(("n", "rho"), [(5, 0.9), (16, 0.5)])
def test_means_of_systems_need_no_added_items(n, rho):
    # 300 samples of few systems: covered, and narrower than with two opposite ones added
    rng = np.random.default_rng(2)
    tables = [_bell(rho)(rng, n) for _ in range(300)]
    plain, padded = (
        [mean_agreement(pearson, [t], level="interval", rare=rare) for t in tables]
        for rare in (False, True)
    )

    assert np.mean([coefficient.lower <= rho <= coefficient.upper for coefficient in plain]) >= 0.92
    widths = [
        np.mean([coefficient.upper - coefficient.lower for coefficient in of])
        for of in (plain, padded)
    ]
    assert widths[0] < widths[1]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("statistic", "draw", "truth", "span"),
    [
        pytest.param(pearson, _bell(0.9), 0.9, (-1, 1), id="r .9"),
        pytest.param(pearson, _binary(0.8, 0.9), 0.8, (-1, 1), id="r of two classes: phi"),
        pytest.param(cohen_kappa, _binary(0.8, 0.9), 0.8, (-1, 1), id="kappa .8: jackknife 80 %"),
        pytest.param(roc_auc, _apart, 0.9615, (0, 1), id="auc .96: jackknife has 89 %"),
    ],
)
def test_covers_as_often_as_it_says(statistic, draw, truth, span):
    # 300 samples of 50: standard error 1.3 points
    rng = np.random.default_rng(1)
    coefficients = [
        mean_agreement(statistic, [draw(rng, 50)], level="ordinal", span=span) for _ in range(300)
    ]
    coefficients = [coefficient for coefficient in coefficients if not np.isnan(coefficient.value)]

    assert (
        np.mean([coefficient.lower <= truth <= coefficient.upper for coefficient in coefficients])
        >= 0.94
    )
