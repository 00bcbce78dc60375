"""Numbers for people: three significant digits, whatever the number."""

import math
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragbench.records.causes import CauseFlow, CauseMove
from ragbench.report.text import (
    difference,
    failed_line,
    flow_lines,
    listed,
    percent,
    probability,
    significant,
)
from ragbench.types.display import printable

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0.4020000001, "0.402", id="no digits of the computer"),
        pytest.param(1, "1.00", id="one"),
        pytest.param(0.9996, "1.00", id="rounds up into the next power"),
        pytest.param(0, "0.00", id="zero"),
        pytest.param(-0.0, "0.00", id="no negative zero"),
        pytest.param(0.05, "0.0500", id="three digits behind the zeros"),
        pytest.param(0.000123456, "0.000123", id="small"),
        pytest.param(0.0000123456, "1.23e-05", id="tiny"),
        pytest.param(12.345, "12.3", id="above one"),
        pytest.param(123456.7, "123457", id="whole digits are never dropped"),
        pytest.param(1234567, "1.23e+06", id="large"),
        pytest.param(-0.4567, "-0.457", id="negative"),
        pytest.param(None, "-", id="no value"),
    ],
)
def test_hand_worked(value, text):
    assert significant(value) == text


@given(finite)
@example(9.995e-5)
@example(999999.7)
def test_reads_back_within_half_of_the_third_digit(value):
    # The oracle is exact decimal arithmetic.
    exact, printed = Decimal(value), Decimal(significant(value))

    if value == 0:
        assert printed == 0
    else:
        third_digit = Decimal(10) ** (exact.adjusted() - 2)
        assert abs(exact - printed) <= third_digit / 2
        digits = significant(value).lstrip("-").partition("e")[0].replace(".", "").lstrip("0")
        assert len(digits) >= 3


@given(finite, st.tuples(finite, finite))
def test_differences_share_their_decimals(value, ends):
    text, ends_text = difference(value, ends)
    numbers = [text, *ends_text.strip("[]").split(", ")]

    assert all(number[0] in "+-" for number in numbers)
    assert len({len(number.partition(".")[2].partition("e")[0]) for number in numbers}) == 1


@pytest.mark.parametrize(
    ("value", "ends", "expected"),
    [
        (0.0441, (0.02299, 0.0656), ("+0.044", "[+0.023, +0.066]")),
        (0.00412, (-0.001, 0.009), ("+0.0041", "[-0.0010, +0.0090]")),
        (0.0, (-0.01, 0.01), ("+0.000", "[-0.010, +0.010]")),
        (-0.0, None, ("+0.00", "")),
        (-0.3, (-0.4, -0.2), ("-0.300", "[-0.400, -0.200]")),
        (12.34, (-1.0, 30.0), ("+12.3", "[-1.0, +30.0]")),
    ],
)
def test_differences_by_hand(value, ends, expected):
    assert difference(value, ends) == expected


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.31, "0.31"), (0.0495, "0.050"), (0.00061, "0.0006"), (0.00009, "<0.0001"), (1, "1.0"),
     (0, "<0.0001"), (None, "-")],
)  # fmt: skip
def test_p_values(p, text):
    assert probability(p) == text


@given(st.text())
def test_printable_text_is_one_inert_line(text):
    printed = printable(text)

    assert printed.isprintable()
    assert printed.encode("utf-8").decode("utf-8") == printed
    assert printable(printed) == printed


def test_percent_and_lists():
    assert [percent(x) for x in (0.95, 0.995, 0.999)] == ["95 %", "99.5 %", "99.9 %"]
    assert [listed(list(words)) for words in ("", "a", "ab", "abc")] == [
        "", "a", "a and b", "a, b and c",
    ]  # fmt: skip
    assert math.isclose(float(significant(math.pi)), 3.14)


HASH = "58c86c02cbd8"


def test_moves_of_repeats_are_whole_questions():
    lost = CauseMove(before="right", after="not_used", queries=("q1", "q2"), n=1.0)
    gained = CauseMove(before="refused", after="right", queries=("q3",), n=1 / 3)
    flow = CauseFlow(system="new", baseline="old", moves=(lost, gained), same=10 + 2 / 3)

    head, *moves = flow_lines(flow)

    part = "(in some repeats)"
    assert f"1 {part} became right, 2 {part} no longer right; 3 {part} moved, 9 did not" in head
    assert moves[0].startswith(f"2 {part} right")


def test_a_hash_stands_nowhere_without_its_question():
    move = CauseMove(before="right", after="not_used", queries=(HASH, "q2"))
    flow = CauseFlow(system="new", baseline="old", moves=(move,), same=10)

    [_, line] = flow_lines(flow, {HASH: "Which moon is hot?", "q2": "Which is icy?"})

    assert line.endswith(": 'Which moon is hot?', q2 'Which is icy?'")


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        ((), ""),
        ((1, 2), "failed: 2 of s1, 1 of s0"),
        ((1, 1, 1, 1), "failed: 1 of s0, 1 of s1, 1 of s2, 1 of s3"),
        ((1, 2, 3, 4, 5), "failed: 15 of 5 systems: 5 of s4, 4 of s3, 3 of s2, ..."),
    ],
)
def test_failures_of_many_systems_are_one_number(numbers, line):
    assert failed_line((n, f"s{place}") for place, n in enumerate(numbers)) == line
