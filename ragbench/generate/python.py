"""Generators and apps of the user's own: `type: "python:package.module:Name"`, or a live object.

`Name` is a class (made with the options of the YAML), an object with the method of a generator or
an app, or a plain function of the same arguments, to which the options are passed as keywords.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.generate.answer import read_answer
from ragbench.generate.base import App, Generator, QueryGenerator
from ragbench.generate.langchain import LangchainApp
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


class CallableApp:
    """A plain function `(question) -> answer` as an app."""

    is_opaque = True

    def __init__(self, function: Any) -> None:
        self._function = function

    def answer(self, question: str) -> Prediction:
        """Ask the function.

        Raises:
            AdapterError: It returns no answer; see `ragbench.generate.answer.read_answer`.
        """
        return read_answer(self._function(question))


def as_app(target: Any, options: Mapping[str, Any], owner: str) -> App:
    """Make an app of a class, an object, a chain or a function; see `ragbench.registry.adapt`."""
    made: Any = adapt(
        target,
        options,
        owner,
        methods=("answer", "invoke", "ainvoke"),
        wrap=CallableApp,
        arguments="(question)",
    )
    if callable(own := getattr(made, "answer", None)):
        return made if isinstance(made, (LangchainApp, CallableApp)) else CallableApp(own)
    return LangchainApp(client=made)
