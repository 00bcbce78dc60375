"""Meaning of plain words, against the YAML 1.2 core schema and Python's own numbers."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.config.tree import ScalarError, resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("no", "no", id="a word, not false"),
        pytest.param("on", "on", id="a word, not true"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        pytest.param("1e-3", 1e-3, id="a number without a point"),
        pytest.param("2_000_000", 2_000_000, id="_ in integers"),
        pytest.param("1_000.5", "1_000.5", id="_ in floats is none"),
        pytest.param("12:30:45", "12:30:45", id="not sexagesimal"),
        pytest.param("2024-01-31", "2024-01-31", id="not a date"),
        ("0o17", 15),
        ("0xff", 255),
        ("-.inf", -math.inf),
        (".5", 0.5),
        ("1.", 1.0),
        ("+3", 3),
        ("0", 0),
        ("-0", 0),
        ("1__0", "1__0"),
        ("_1", "_1"),
        ("1_", "1_"),
        ("0.10", 0.1),
        ("v7", "v7"),
        ("-", "-"),
    ],
)
def test_hand_worked(text, value):
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_not_a_number():
    assert math.isnan(resolve(".nan"))


@pytest.mark.parametrize(("text", "hint"), [("012", "12, or '012'"), ("-007", "-7, or '-007'")])
def test_leading_zero_is_unclear(text, hint):
    with pytest.raises(ScalarError, match="leading zero") as caught:
        resolve(text)
    assert caught.value.allowed.startswith(hint)


def test_endless_digits_are_refused():
    with pytest.raises(ScalarError, match="5000 characters"):
        resolve("9" * 5000)


@settings(max_examples=30)
@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_writes_reads_back(number):
    if len(str(number)) < 300:
        assert resolve(repr(number)) == number
        assert type(resolve(repr(number))) is type(number)


@given(st.text(max_size=20))
def test_any_word_is_something_or_unclear(text):
    try:
        value = resolve(text)
    except ScalarError:
        assert text.lstrip("+-").startswith("0")
    else:
        assert value is None or isinstance(value, str | int | float)
