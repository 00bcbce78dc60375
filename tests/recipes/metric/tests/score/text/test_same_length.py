"""`same_length` against values worked by hand, and what it refuses."""

import pytest
from ragbench.score.text.same_length import same_length

from ragbench.errors import OptionError


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
