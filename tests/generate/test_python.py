"""Generators of the user's own."""

from ragbench.generate.python import as_generator
from ragbench.types import Document


def test_a_function_with_options():
    def answer(question, contexts, suffix):
        return f"{question} {len(contexts)}{suffix}"

    generator = as_generator(answer, {"suffix": "!"}, "generator 'mine'")

    assert generator.generate("how many?", [Document("a"), Document("b")]) == "how many? 2!"
