"""Agreement on two levels against scikit-learn, worked by hand, and in simulations."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import mean_interval
from ragbench.stats.two_levels import mean_of_shares, two_level_agreement
from tests.lazy import Lazy

metrics = Lazy("sklearn.metrics")


def _expected(judge, people, rare):
    """The statistics by scikit-learn; NaN where a denominator is 0."""
    undefined = {"zero_division": math.nan}
    of_rare = {"pos_label": rare == "pass", **undefined}
    recalls = [metrics.recall_score(people, judge, pos_label=of, **undefined) for of in (1, 0)]
    return {
        "tpr": recalls[0],
        "tnr": recalls[1],
        "balanced_accuracy": np.mean(recalls),
        "precision": metrics.precision_score(people, judge, **of_rare),
        "recall": metrics.recall_score(people, judge, **of_rare),
        "f1": metrics.f1_score(people, judge, **of_rare),
    }


def assert_like_scikit_learn(agreement, judge, people):
    """Every statistic and count is the one of scikit-learn."""
    for name, expected in _expected(judge, people, agreement.rare).items():
        assert agreement.statistics[name].value == pytest.approx(expected, abs=1e-12, nan_ok=True)
    table = metrics.confusion_matrix(people, judge, labels=[1, 0])
    assert [[*of.values()] for of in agreement.confusion.values()] == table.tolist()


pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@settings(max_examples=40)
@given(pairs, st.integers(1, 4))
def test_agrees_with_scikit_learn(drawn, size):
    judge, people = map(list, zip(*drawn, strict=True))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clusters = [place // size for place in range(len(drawn))]
        agreement = two_level_agreement(judge, people, clusters=clusters)
        assert_like_scikit_learn(agreement, judge, people)

    for of in agreement.statistics.values():
        if not math.isnan(of.value):
            assert 0 <= of.lower <= of.value <= of.upper <= 1
            assert of.lower < of.upper
            assert of.reason == ""
        else:
            assert of.reason


@settings(max_examples=20)
@given(pairs)
def test_swapped_levels_swap_both_shares(drawn):
    judge, people = np.array(drawn).T

    plain, swapped = two_level_agreement(judge, people), two_level_agreement(~judge, ~people)

    for name, other in (("tpr", "tnr"), ("balanced_accuracy", "balanced_accuracy")):
        ours, theirs = plain.statistics[name], swapped.statistics[other]
        assert (ours.value, ours.lower, ours.upper) == pytest.approx(
            (theirs.value, theirs.lower, theirs.upper), nan_ok=True
        )


# people pass 6 and fail 4; the judge finds 5 of the passes and 3 of the fails
PEOPLE = [True] * 6 + [False] * 4
JUDGE = [True] * 5 + [False] * 4 + [True]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("tpr", 5 / 6, id="5 of 6 passes"),
        pytest.param("tnr", 3 / 4, id="3 of 4 fails"),
        pytest.param("balanced_accuracy", 19 / 24, id="(5/6 + 3/4) / 2"),
        pytest.param("precision", 3 / 4, id="3 of 4 fails of the judge"),
        pytest.param("recall", 3 / 4, id="of the rare level: TNR"),
        pytest.param("f1", 6 / 8, id="2 x 3 / (2 x 3 + 1 + 1)"),
    ],
)
def test_hand_worked(name, value):
    agreement = two_level_agreement(JUDGE, PEOPLE)

    assert agreement.rare == "fail"
    assert agreement.statistics[name].value == pytest.approx(value)


def test_shares_have_wilsons_interval_and_f1_that_of_its_share():
    statistics = two_level_agreement(JUDGE, PEOPLE).statistics

    wilson = mean_interval([1.0] * 5 + [0.0])
    assert (statistics["tpr"].lower, statistics["tpr"].upper) == (wilson.lower, wilson.upper)
    # both fail 3 of the 5 answers that one of them fails
    share = mean_interval([1.0] * 3 + [0.0] * 2)
    limits = [2 * end / (1 + end) for end in (share.lower, share.upper)]
    assert [statistics["f1"].lower, statistics["f1"].upper] == pytest.approx(limits)


def test_labels_that_vary_together_have_wider_intervals():
    judge, people = np.repeat(JUDGE, 4), np.repeat(PEOPLE, 4)
    clusters = np.repeat(range(10), 4)

    alone, together = (two_level_agreement(judge, people, clusters=of) for of in (None, clusters))

    for name, of in alone.statistics.items():
        other = together.statistics[name]
        assert other.value == of.value
        assert other.upper - other.lower > of.upper - of.lower


def test_equally_frequent_levels_and_a_level_that_is_asked_for():
    assert two_level_agreement([True, False], [True, False]).rare == "fail"
    of_passes = two_level_agreement(JUDGE, PEOPLE, rare="pass")
    assert of_passes.statistics["recall"] == of_passes.statistics["tpr"]


@pytest.mark.parametrize(
    ("clusters", "passing", "tpr", "tnr"),
    [(1, 0.8, 0.9, 0.6), (1, 0.93, 0.95, 0.95), (4, 0.5, 0.7, 0.7)],
)
def test_the_interval_of_balanced_accuracy_covers(clusters, passing, tpr, tnr):
    rng = np.random.default_rng(3)
    n, covered, total = 100, 0, 0
    for _ in range(200):
        shared = np.repeat(rng.random((2, n // clusters)), clusters, axis=1)
        drawn = np.where(rng.random((2, n)) < (clusters > 1) / 2, shared, rng.random((2, n)))
        people = drawn[0] < passing
        is_right = drawn[1] < np.where(people, tpr, tnr)
        groups = np.arange(n) // clusters
        agreement = two_level_agreement(people == is_right, people, clusters=groups)
        balanced = agreement.statistics["balanced_accuracy"]
        total += not math.isnan(balanced.value)
        covered += balanced.lower <= (tpr + tnr) / 2 <= balanced.upper

    assert covered >= 0.9 * total


def test_a_mean_of_shares_needs_all_of_them():
    statistics = two_level_agreement([True, True], [True, True]).statistics

    mean = mean_of_shares([statistics["tpr"], statistics["tnr"]])

    assert math.isnan(mean.value)
    assert mean.reason == statistics["tnr"].reason


@pytest.mark.parametrize(
    ("judge", "people", "options"),
    [
        ([True], [True, False], {}),
        ([[True]], [[True]], {}),
        ([True], [True], {"clusters": ["a", "b"]}),
        ([True], [True], {"confidence": 1.0}),
    ],
    ids=["numbers of labels", "a table", "numbers of clusters", "confidence"],
)
def test_refuses(judge, people, options, assert_message):
    with pytest.raises(OptionError) as caught:
        two_level_agreement(judge, people, **options)

    assert_message(caught.value)
