"""What the statistics of agreement share: the interval, its coverage, undefined values."""

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
    found = statistic(table)
    assume(not np.isnan(found.value))

    again = [statistic(np.delete(table, row, axis=0)).value for row in range(len(table))]

    np.testing.assert_allclose(found.without, again, atol=1e-9)


@pytest.mark.costly
@pytest.mark.parametrize("statistic", PAIRED)
@settings(max_examples=16)
@given(pair=rated(min_size=3))
def test_the_interval_is_around_the_value_and_has_a_width(statistic, pair):
    found = agreement(statistic, *pair)

    if found.rule == "undefined":
        assert found.reason
    else:
        assert -1 <= found.lower <= found.value <= found.upper <= 1
        assert found.lower < found.upper


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
    ("statistic", "x", "y", "reason"),
    [
        pytest.param(cohen_kappa, [1, 1, 1], [1, 1, 1], "gives 1 to all 3 items", id="both"),
        pytest.param(cohen_kappa, [1, 2, 1], [2, 2, 2], "gives 2 to all 3 items", id="one rater"),
        pytest.param(spearman, [1, 1, 1], [1, 2, 3], "all 3 items have one value", id="rho"),
        pytest.param(pearson, [2, 2], [1, 2], "all 2 items have one value", id="r"),
        pytest.param(
            pearson,
            [0.1 + 0.2, 0.3, 0.3],
            [1, 2, 4],
            "the same value but for rounding",
            id="r, 0.3",
        ),
        pytest.param(kendall_tau_b, [1], [1], "one item has no order", id="one item"),
        pytest.param(roc_auc, [0.1, 0.4], [1, 1], "all 2 items are good", id="one class"),
        pytest.param(roc_auc, [], [], "no item has two", id="nothing"),
        pytest.param(krippendorff_alpha, [3, 3], [3, np.nan], "all 2 ratings are 3", id="alpha"),
        pytest.param(krippendorff_alpha, [3], [np.nan], "no item has two", id="no pair"),
        pytest.param(raw_agreement, [np.nan], [1], "no item has two ratings", id="raw"),
    ],
)
def test_undefined_is_nan_with_the_reason(statistic, x, y, reason):
    found = agreement(statistic, x, y)

    assert np.isnan([found.value, found.lower, found.upper]).all()
    assert found.rule == "undefined"
    assert reason in found.reason
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["value"] is None


def test_a_mean_without_groups_is_nan_with_the_reason():
    found = mean_correlation(spearman, np.array([[1, 1], [1, 2], [2, 3]]), list("aab")).mean

    assert np.isnan([found.value, found.lower, found.upper]).all()
    assert found.reason.startswith("0 groups with a correlation: 3 are the fewest")


@pytest.mark.parametrize("statistic", PAIRED)
@pytest.mark.parametrize("n", [4, 10, 100])
def test_perfect_agreement_is_not_certainty(statistic, n):
    x = np.arange(n) % 2.0

    found = agreement(statistic, x, x)

    assert found.value == 1
    assert found.rule == "plus_two"
    assert found.lower < 1 - 1 / n
    assert found.upper == 1


def test_perfect_order_of_few_systems_is_not_certainty_either():
    x = np.arange(5.0)

    found = agreement(pearson, x, x, rare=False)

    assert (found.value, found.rule, found.upper) == (1, "plus_two", 1)
    assert found.lower < 0.8


def test_two_items_have_no_interval():
    found = agreement(cohen_kappa, [1, 2], [1, 2])

    assert (found.value, found.rule) == (1.0, "undefined")
    assert found.reason == "number of items: 2; 3 are the fewest for an interval"


def test_items_of_one_query_are_no_independent_witnesses():
    """Each item ten times over: the same value, and the interval of the ten-fold fewer queries."""
    rng = np.random.default_rng(3)
    x = rng.integers(1, 5, 60).astype(float)
    y = np.clip(x + rng.integers(-1, 2, 60), 1, 4)
    single = agreement(cohen_kappa, x, y)
    repeated = [np.repeat(each, 10) for each in (x, y, np.arange(60))]

    careless = agreement(cohen_kappa, *repeated[:2])
    grouped = agreement(cohen_kappa, *repeated[:2], groups=repeated[2])

    assert grouped.value == pytest.approx(single.value, abs=1e-12)
    assert grouped.upper - grouped.lower == pytest.approx(single.upper - single.lower, rel=0.02)
    assert careless.upper - careless.lower < (single.upper - single.lower) / 2.5


def test_several_pairs_are_averaged_and_an_undefined_one_is_named():
    x, y, z = np.array([[1, 2, 1, 2, 2, 1], [1, 2, 2, 2, 2, 1], [1, 1, 1, 1, 1, 1.0]])
    pairs = [np.column_stack(pair) for pair in ((x, y), (x, x), (x, z))]

    found = mean_agreement(cohen_kappa, pairs, level="nominal")

    assert found.value == pytest.approx((cohen_kappa(pairs[0]).value + 1) / 2)
    assert found.reason == "1 of 3 left out: a rater gives 1 to all 6 items"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_correlation(pearson, np.eye(2), [1]), "allowed: a group for each of 2"),
        (lambda: agreement(spearman, [1, 2], [1, 2], groups=[1]), "allowed: a group for each of 2"),
        (lambda: agreement(spearman, [1, 2], [1, 2], confidence=95), "a number between 0 and 1"),
    ],
)
def test_bad_arguments_say_what_is_allowed(call, message):
    with pytest.raises(OptionError, match=message):
        call()


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
    """300 samples of few systems: covered, and narrower than with two opposite ones added."""
    rng = np.random.default_rng(2)
    tables = [_bell(rho)(rng, n) for _ in range(300)]
    plain, padded = (
        [mean_agreement(pearson, [t], level="interval", rare=rare) for t in tables]
        for rare in (False, True)
    )

    assert np.mean([each.lower <= rho <= each.upper for each in plain]) >= 0.92
    widths = [np.mean([each.upper - each.lower for each in of]) for of in (plain, padded)]
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
    """300 samples of 50: standard error 1.3 points."""
    rng = np.random.default_rng(1)
    found = [
        mean_agreement(statistic, [draw(rng, 50)], level="ordinal", span=span) for _ in range(300)
    ]
    found = [each for each in found if not np.isnan(each.value)]

    assert np.mean([each.lower <= truth <= each.upper for each in found]) >= 0.94
