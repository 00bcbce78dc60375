"""Generators of the user's own."""

import re
from pathlib import Path

from ragbench.generate.python import as_generator, declared
from ragbench.types import Document


def test_a_function_with_options():
    def answer(question, contexts, suffix):
        return f"{question} {len(contexts)}{suffix}"

    generator = as_generator(answer, {"suffix": "!"}, "generator 'mine'")

    assert generator.generate("how many?", [Document("a"), Document("b")]) == "how many? 2!"


def test_an_object_with_the_methods_that_the_docs_name_is_a_generator_that_asks():
    page = Path(__file__).parents[2] / "docs" / "adapters.md"
    _, _, section = page.read_text(encoding="utf-8").partition(
        "Your own generator can use stored replies"
    )
    names = re.findall(r"`(\w+)\(\w*\)`", section.partition("\n\n")[0])
    methods = dict.fromkeys(["generate", *names], lambda self, *arguments: None)

    generator = type("Mine", (), methods)()

    assert declared(generator).asks
    del methods[names[1]]
    assert not declared(type("Mine", (), methods)()).asks
