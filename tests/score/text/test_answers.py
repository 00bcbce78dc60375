"""Exact match, token F1 and contains: against the rules of SQuAD, by hand, and by property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.text.squad import contains, exact_match, token_f1
from tests.conformance.oracles import squad_f1, squad_tokens

answers = st.text("abt he.,'A1 ", max_size=12)


@given(answers, st.lists(answers, min_size=1, max_size=3))
def test_agrees_with_squad(prediction, references):
    assert token_f1(prediction, references) == max(squad_f1(prediction, r) for r in references)
    if prediction.strip():
        equal = any(squad_tokens(prediction) == squad_tokens(r) for r in references)
        assert exact_match(prediction, references) == float(equal)


@given(answers, answers)
def test_what_matches_exactly_is_contained_and_has_f1_of_one(prediction, reference):
    if exact_match(prediction, reference) and squad_tokens(reference):
        assert contains(prediction, reference) == token_f1(prediction, reference) == 1.0
    if contains(prediction, reference):
        assert token_f1(prediction, reference) > 0


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        pytest.param("The cat.", "cat", (1, 1, 1), id="article and full stop"),
        pytest.param("a black cat", "cat", (0, 2 / 3, 1), id="2 * 1/2 * 1 / (3/2)"),
        pytest.param("I know", "no", (0, 0, 0), id="no is not in know"),
        pytest.param("Café", "Cafe\u0301", (1, 1, 1), id="composed and decomposed"),
        pytest.param("", "", (0, 0, 0), id="an empty prediction is 0"),
        pytest.param("", "cat", (0, 0, 0), id="empty prediction"),
        pytest.param("cat", "the", (0, 0, 0), id="reference without a word"),
        pytest.param("b a c", "b c", (1, 1, 1), id="article in between"),
        pytest.param("b d c", "b c", (0, 0.8, 0), id="not in a row"),
    ],
)
def test_hand_worked(prediction, reference, expected):
    scores = (f(prediction, reference) for f in (exact_match, token_f1, contains))
    assert tuple(scores) == pytest.approx(expected)


@pytest.mark.parametrize("function", [exact_match, token_f1, contains])
def test_no_reference(function):
    with pytest.raises(OptionError, match=rf"{function.__name__}: references: found \[\]"):
        function("a", [])
