"""Columns of decimals against `float`, bit by bit."""

import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench.data.files.trec_text import read_decimals, read_integers, read_number

digits = st.text("0123456789", max_size=24)
decimals = (
    st.floats(allow_nan=False).map(repr)
    | st.floats(0, 1).map(repr)
    | st.builds(
        lambda sign, a, b: f"{sign}{a}.{b}", st.sampled_from(["", "-", "+"]), digits, digits
    )
    | st.builds(lambda sign, a: f"{sign}{a}", st.sampled_from(["", "-"]), digits)
)


def column(texts, prefix=b"q Q0 .d1 "):
    """Lay texts out as a file does: with other text before, a space between, padding after."""
    raw = [text.encode() for text in texts]
    lengths = np.array([*map(len, raw)], np.int64)
    starts = len(prefix) + np.cumsum(lengths + 1) - lengths - 1
    data = np.frombuffer(prefix + b" ".join(raw) + b" " + bytes(8), np.uint8)
    return data, starts, starts + lengths


def is_number(text):
    return read_number(text.encode()) is not None


@settings(max_examples=30)
@given(st.lists(decimals.filter(is_number), max_size=20))
@example(["1e-45", "-0.0", "1e38", "1e400", "inf", "-inf", ".5", "5.", "0.1", "00.10", "-.5"])
@example(["9007199254740993", "9007199254740992.5", "99999999.9999999999", "0.1234567890123456789"])
def test_reads_what_float_reads(texts):
    expected = np.array([*map(float, texts)], np.float64)
    for prefix in (b"q Q0 .d1 ", b""):
        numbers = read_decimals(*column(texts, prefix))
        assert numbers.view(np.int64).tolist() == expected.view(np.int64).tolist(), (
            "-0.0 is not 0.0"
        )


def test_numbers_beside_the_borders_of_rounding():
    # Half-way between two doubles, and one digit off it, where one division rounds wrongly
    rng = random.Random(4)
    texts = []
    for _ in range(2000):
        low = rng.uniform(0, 10 ** rng.randrange(-3, 6))
        border = (Fraction(low) + Fraction(float(np.nextafter(low, np.inf)))) / 2
        exact = str(Decimal(border.numerator) / Decimal(border.denominator))
        if "E" not in exact:
            texts.append(exact[: rng.randrange(15, 22)])

    assert read_decimals(*column(texts)).tolist() == [*map(float, texts)]


@pytest.mark.parametrize("least", [-9, 0])
@pytest.mark.parametrize("places", [0, 1, 4, 6, 7, 8, 9, 17])
def test_columns_of_one_width_with_a_few_others(places, least):
    # Most files hold one number of digits after the point, and now and then a wider number
    rng = random.Random(places)
    texts = [f"{rng.uniform(least, 99):.{places}f}" for _ in range(1000)]
    texts[17], texts[500] = f"{-123456:.{places}f}", f"{12345678:.{places}f}"

    mixed_widths = [[], ["1e-45"], ["-0.0"], [".5"], ["7"]]
    for column_of in (texts[:15], *([*texts, *other] for other in mixed_widths)):
        expected = np.array([*map(float, column_of)])
        numbers = read_decimals(*column(column_of))
        assert numbers.view(np.int64).tolist() == expected.view(np.int64).tolist()


@pytest.mark.parametrize("wrong", ["1x.000000", "1.0000x0", "1.2.3000000", "-.", "1 .000000"])
def test_a_wrong_one_among_many_of_one_width(wrong):
    texts = [f"{n}.000000" for n in range(500)]

    assert read_decimals(*column([*texts, wrong, *texts])) is None


@pytest.mark.parametrize("places", range(1, 8))
def test_a_digit_in_the_place_of_the_point(places):
    texts = [f"{n % 7}.{n:0{places}d}"[: places + 2] for n in range(500)]

    no_point = "7" * (places + 2)
    assert read_decimals(*column([*texts, no_point]))[-1] == float(no_point)
    for wrong in "/:,\x7f":
        assert read_decimals(*column([*texts, f"1{wrong}{'0' * places}", *texts])) is None


NO_NUMBERS = "nan NaN 1_0 x - . -. 1.2.3 1-2 --1 1e 12a.5 0x1 1,5 1.5_0 1..5 \u0661 +-1"


@pytest.mark.parametrize("text", NO_NUMBERS.split())
def test_what_is_no_number(text):
    assert read_number(text.encode()) is None
    assert read_decimals(*column(["1.5", text, "2"])) is None


@given(st.lists(st.integers(-99_999_999, 99_999_999), max_size=9))
def test_reads_integers(numbers):
    assert read_integers(*column(map(str, numbers))).tolist() == numbers


@pytest.mark.parametrize("text", ["1.5", "x", "-", "+1", "123456789", "1_0", "--1", "1e1"])
def test_integers_that_are_left_to_others(text):
    assert read_integers(*column(["1", text])) is None
