"""Win rates of pairs by hand, their ranking, and what limits it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.method import Method
from ragbench.comparison.preferences import ComparedPair, compare_preferences
from ragbench.records.codec import to_json
from ragbench.signature import Signature
from ragbench.types import Cause, ScoreColumn
from tests.lazy import Lazy

scipy = Lazy("scipy.stats")

METHOD = Method(resamples=1000)
NAN = math.nan


def compared(*arguments):
    return to_json(compare_preferences(*arguments))


def pair(system, other, values, cause=Cause.TIMEOUT):
    values = np.array(values, dtype=float)
    causes = np.where(np.isnan(values), cause, Cause.SCORED).astype(np.uint8)
    return ComparedPair(system, other, ScoreColumn("pairwise", values, causes, Signature("p")))


def test_counts_and_win_rate_by_hand():
    # (3 wins + 2 ties / 2) / 6; two failed, which could have been lost or won: 4/8 to 6/8
    family = compared([pair("a", "b", [1, 1, 1, 0.5, 0.5, 0, NAN, NAN])], METHOD)
    (entry,) = family["comparisons"]

    assert [entry[key] for key in ("wins", "ties", "losses", "n")] == [3, 2, 1, 6]
    assert entry["win_rate"] == pytest.approx(4 / 6)
    assert (entry["failed"], entry["not_applicable"]) == ({"timeout": 2}, 0)
    assert entry["bounds"] == pytest.approx([4 / 8, 6 / 8])
    assert entry["interval"][0] < entry["win_rate"] < entry["interval"][1]
    assert family["win_matrix"] == {
        "a": {"b": pytest.approx(4 / 6)},
        "b": {"a": pytest.approx(2 / 6)},
    }


@pytest.mark.parametrize(("wins", "losses"), [(9, 1), (6, 4), (10, 0), (3, 3)])
def test_without_ties_the_p_value_is_that_of_the_sign_test(wins, losses):
    family = compared([pair("a", "b", [1] * wins + [0] * losses)], METHOD)

    p = family["comparisons"][0]["p"]
    assert p == pytest.approx(scipy.binomtest(wins, wins + losses).pvalue)


def test_a_ranking_of_three():
    rows = [
        pair("a", "b", [1, 1, 1, 0]),
        pair("a", "c", [1, 1, 1, 0.5]),
        pair("b", "c", [1, 1, 0, 1]),
    ]
    family = compared(rows, METHOD)

    assert [(s["system"], s["rank"]) for s in family["systems"]] == [("a", 1), ("b", 2), ("c", 3)]
    assert [s["win_rate"] for s in family["systems"]] == pytest.approx([6.5 / 8, 4 / 8, 1.5 / 8])
    assert (family["rule"], family["notes"]) == ("mle", [])
    assert [(s["wins"], s["ties"], s["losses"]) for s in family["systems"]] == [
        (6, 1, 1), (4, 0, 4), (1, 1, 6),
    ]  # fmt: skip


def test_equal_systems_share_a_rank():
    family = compared([pair("a", "b", [1, 0, 0.5])], METHOD)

    assert [system["rank"] for system in family["systems"]] == [1, 1]


def test_one_that_never_lost_is_said():
    family = compared([pair("a", "b", [1, 1, 1])], METHOD)

    assert family["rule"] == "plus_tie"
    assert "never lost" in family["notes"][0]
    assert math.isfinite(family["systems"][0]["strength"])


def test_what_no_comparison_connects_has_no_rank(assert_message):
    nothing = [NAN, NAN]
    rows = [pair("a", "b", [1, 0]), pair("a", "c", nothing), pair("b", "c", nothing)]
    family = compared(rows, METHOD)

    assert [system["rank"] for system in family["systems"]] == [None, None, None]
    assert family["systems"][2]["strength"] is None
    assert_message(family["notes"][0])
    assert "a, b; c" in family["notes"][0]
    assert family["comparisons"][1]["win_rate"] is None
    assert family["win_matrix"]["c"] == {}


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, NAN]), min_size=1, max_size=12))
@settings(max_examples=30)
def test_the_other_side_has_the_rest(values):
    (one,) = compared([pair("a", "b", values)], METHOD)["comparisons"]
    turned = [1 - value for value in values]
    (other,) = compared([pair("b", "a", turned)], METHOD)["comparisons"]

    assert (one["wins"], one["losses"], one["ties"]) == (
        other["losses"], other["wins"], other["ties"],
    )  # fmt: skip
    assert one["wins"] + one["ties"] + one["losses"] == one["n"]
    if one["n"]:
        assert one["win_rate"] + other["win_rate"] == pytest.approx(1)
        assert one["p"] == pytest.approx(other["p"])
