"""`same_length` against values worked by hand, and what it refuses."""

import pytest

from ragbench.errors import OptionError
from ragbench.score.text.same_length import same_length
from tests.conformance.reference import Reference


def by_str_split(times):
    for prediction, reference in [("a b", "c  d"), ("a", "b c"), ("", " ")] * times:
        yield same_length(prediction, reference), len(prediction.split()) == len(reference.split())


CONFORMS_TO = [Reference("same_length", "Python's `str.split`", 0.0, by_str_split)]


@pytest.mark.parametrize(
    ("prediction", "unit", "expected"),
    [
        pytest.param("a b", "words", 1.0, id="2 words, 2 words"),
        pytest.param("a b", "characters", 0.0, id="3 characters, 5 characters"),
    ],
)
def test_hand_worked(prediction, unit, expected):
    assert same_length(prediction, "ab cd", unit=unit) == expected


def test_a_declared_option_is_checked():
    with pytest.raises(OptionError, match="same_length: unit: found 'lines', allowed: words, char"):
        same_length("a", "b", unit="lines")
