"""`numeric_match`: against Python's decimals in five styles, by hand, and its causes."""

import math
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragbench as rb
from ragbench.errors import OptionError
from ragbench.types import Cause
from tests.conformance.reference import Pairs, Reference
from tests.score.text.scoring import score_texts

# separators of groups and of decimals: English, German, French, Swiss, and none
STYLES = [(",", "."), (".", ","), ("\u202f", ","), ("’", "."), ("", ".")]


def write(number: Decimal, style: tuple[str, str]) -> str:
    """Return a decimal in a style; Python writes its groups."""
    return f"{number:,}".translate(str.maketrans({",": style[0], ".": style[1]}))


def by_decimals(times: int) -> Pairs:
    """Yield values beside those of Python's decimals, for numbers that are near each other."""
    source = Random(5)
    for _ in range(500 * times):
        # two decimals: a group has three digits, so that each number has one reading
        gold = Decimal(source.randrange(-(10**7), 10**7, 7)).scaleb(-2)
        number = gold + Decimal(source.choice([-10, -1, 0, 1, 10])).scaleb(-2)
        least = Decimal(source.choice(["0", "0.01", "0.05"]))
        texts = [write(n, source.choice(STYLES)) for n in (number, gold)]
        ours = rb.numeric_match(f"It was {texts[0]}.", texts[1], abs=float(least))
        yield ours, float(abs(number - gold) <= least)


CONFORMS_TO = [Reference("numeric_match", "Python's `decimal`, in five styles", 0.0, by_decimals)]


@pytest.mark.parametrize(
    ("prediction", "reference", "options", "value"),
    [
        pytest.param("It rose from 3 to 5.", "5", {}, 1, id="the last number"),
        pytest.param("5, up from 3.", "5", {}, 0, id="the last number is another one"),
        pytest.param("5, up from 3.", "5", {"which": "any"}, 1, id="any number"),
        pytest.param("About 1,500.", "1500", {}, 1, id="a comma groups"),
        pytest.param("About 1.234.", "1234", {}, 1, id="first reading"),
        pytest.param("About 1.234.", "1,234", {}, 1, id="both readings"),
        pytest.param("About 1.234.", "1.2340", {}, 1, id="second reading"),
        pytest.param("About 1.500.", "1.6", {"rel": 0.1}, 1, id="second reading and a tolerance"),
        pytest.param("110", "100", {"rel": 0.1}, 1, id="|110 - 100| = 0.1 * 100"),
        pytest.param("100", "110", {"rel": 0.09}, 0, id="|100 - 110| > 0.09 * 110"),
        pytest.param("-110", "-100", {"rel": 0.1}, 1, id="a tolerance of a negative number"),
        pytest.param("0.4", "0.3", {"abs": 0.1}, 1, id="0.1 by its digits, not as a float"),
        pytest.param("0.41", "0.3", {"abs": 0.1}, 0, id="0.11 > 0.1"),
        pytest.param("5", "4", {"rel": 0.1, "abs": 1}, 1, id="the larger tolerance counts"),
        pytest.param("-5", "5", {}, 0, id="a minus"),
        pytest.param("1e3", "1000", {}, 1, id="an exponent"),
        pytest.param("1/2", "0.5", {}, 1, id="a fraction"),
        pytest.param("2½", "2.5", {}, 1, id="a whole number and a fraction"),
        pytest.param("33.5 %", "33.5", {}, 1, id="percent as they are"),
        pytest.param("33.5 %", "0.335", {}, 0, id="percent are no share"),
        pytest.param("33.5 %", "0.335", {"percent": "share"}, 1, id="percent as a share"),
        pytest.param("0.335", "33.5 %", {"percent": "share"}, 1, id="a share in the prediction"),
        pytest.param("33.5", "33.5 %", {"percent": "share"}, 0, id="33.5 is no share"),
        pytest.param("5 ‰", "0.5 %", {"percent": "share"}, 1, id="per mille"),
        pytest.param("It takes 5-10 days", "10", {}, 1, id="a range: its last number"),
        pytest.param("It takes 5-10 days", "5", {"which": "any"}, 1, id="a range has two numbers"),
        pytest.param("5km", "5", {}, 1, id="a unit"),
        pytest.param("the 3rd", "3", {}, 1, id="an ordinal"),
        pytest.param("COVID-19", "19", {}, 0, id="an identifier is no number"),
        pytest.param("version 2.1.0", "2.1", {"which": "any"}, 0, id="a version is no number"),
        pytest.param("none", "0", {}, 0, id="no number in the prediction"),
        pytest.param("", "0", {}, 0, id="an empty prediction"),
        pytest.param("5", ["3", "five", "5"], {}, 1, id="any reference"),
        pytest.param("9" * 5000, "9", {"which": "any"}, 0, id="more digits than Python converts"),
        pytest.param("1e999", "1e-999", {"rel": 0.5}, 0, id="beyond floats"),
    ],
)
def test_worked_by_hand(prediction, reference, options, value):
    assert rb.numeric_match(prediction, reference, **options) == value


@pytest.mark.parametrize("reference", ["five", "", "COVID-19", ["five", "at 10:30"]])
def test_a_reference_without_a_number_has_no_value(reference):
    assert math.isnan(rb.numeric_match("5", reference))


def test_the_cause_of_a_reference_comes_before_that_of_an_answer():
    (column,) = score_texts(
        ["5", "5", None, None, ""], [["5"], ["five"], ["five"], ["5"], ["5"]], ["numeric_match"]
    )

    assert column.causes.tolist() == [
        *(Cause.SCORED, Cause.NO_NUMBER, Cause.NO_NUMBER, Cause.NO_ANSWER, Cause.SCORED)
    ]
    assert column.values[[0, 4]].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"which": "first"}, "which: found 'first'"),
        ({"rel": -0.1}, "rel: found -0.1"),
        ({"abs": -1}, "abs: found -1"),
        ({"percent": "yes"}, "percent: found 'yes'"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(OptionError, match=f"numeric_match: {message}"):
        rb.numeric_match("5", "5", **options)


def test_options_are_in_the_signature():
    (column,) = score_texts(["5"], [["5"]], ["numeric_match(rel=0.01,which=any)"])

    assert str(column.signature).startswith(
        "numeric_match|references:any|which:any|rel:0.01|abs:0.0|percent:number|gold:"
    )


@given(st.decimals(-(10**9), 10**9, places=2), st.sampled_from(STYLES), st.sampled_from(STYLES))
def test_a_number_matches_itself_and_not_a_cent_more(number, style, other):
    answer = f"It is {write(number, style)} in all."

    assert rb.numeric_match(answer, write(number, other)) == 1.0
    assert rb.numeric_match(answer, write(number + Decimal("0.01"), other)) == 0.0
    assert rb.numeric_match(answer, write(number + Decimal("0.01"), other), abs=0.01) == 1.0
