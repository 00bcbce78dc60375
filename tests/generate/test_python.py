"""Generators of the user's own, and what they may return."""

import pytest

from ragbench.errors import AdapterError
from ragbench.generate.python import as_generator, read_answer
from ragbench.types import Document, Prediction


def test_a_function_with_options():
    def answer(question, contexts, suffix):
        return f"{question} {len(contexts)}{suffix}"

    generator = as_generator(answer, {"suffix": "!"}, "generator 'mine'")

    assert generator.generate("how many?", [Document("a"), Document("b")]) == "how many? 2!"


def test_text_and_predictions_are_answers():
    prediction = Prediction("yes")

    assert read_answer("") == Prediction("")
    assert read_answer(prediction) is prediction


@pytest.mark.parametrize("answer", [None, 3, ["text"], Prediction(None), {"answer": "x"}])
def test_anything_else_is_refused(answer):
    with pytest.raises(AdapterError, match="instead of an answer, allowed: text"):
        read_answer(answer)
