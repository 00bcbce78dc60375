"""Generators of the user's own: `type: "python:package.module:Name"`, or a live object.

`Name` is a class (made with the options of the YAML), an object with
`generate(question, contexts)`, or a plain function of the same two arguments, to which the
options are passed as keywords.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.generate.base import Generator, QueryGenerator
from ragbench.registry import adapt
from ragbench.types import Document, Prediction


class CallableGenerator:
    """A plain function `(question, contexts) -> answer` as a generator."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction | str:
        """Ask the function."""
        answer: Prediction | str = self._function(question, contexts)
        return answer


def as_generator(target: Any, options: Mapping[str, Any], owner: str) -> Generator | QueryGenerator:
    """Make a generator of a class, an object or a function; see `ragbench.registry.adapt`."""
    made: Generator | QueryGenerator = adapt(
        target,
        options,
        owner,
        methods=("generate", "generate_for"),
        wrap=CallableGenerator,
        arguments="(question, contexts)",
    )
    return made
