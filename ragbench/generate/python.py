"""Generators and apps of the user's own: `type: "python:package.module:Name"`, or a live object.

`Name` is a class (made with the options of the YAML), an object with the method of a generator or
an app, or a plain function of the same arguments, to which the options are passed as keywords.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.generate.answer import read_answer
from ragbench.generate.base import App, AskingGenerator, Generator
from ragbench.generate.langchain import LangchainApp
from ragbench.registry import adapt
from ragbench.types import Document, Prediction, Query


class CallableGenerator(Generator):
    """A plain function `(question, contexts) -> answer` as a generator."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def generate(self, question: str, contexts: Sequence[Document]) -> Any:
        """Ask the function."""
        return self._function(question, contexts)


class OwnGenerator(Generator):
    """An object of the user's own with what it lacks of a generator: it is looked at here alone."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.is_stored = not hasattr(made, "generate")
        self.query_ids = getattr(made, "query_ids", None)

    @property
    def temperature(self) -> float | None:
        """That of the object, where it says."""
        found: float | None = getattr(self.made, "temperature", None)
        return found

    @property
    def missing_key(self) -> str | None:
        """What the object lacks, where it says."""
        found: str | None = getattr(self.made, "missing_key", None)
        return found

    @property
    def asks(self) -> AskingGenerator | None:
        """The object, where it asks models for replies."""
        return self.made if isinstance(self.made, AskingGenerator) else None

    def check(self) -> None:
        """Let the object look, where it can."""
        if callable(check := getattr(self.made, "check", None)):
            check()

    def check_samples(self, samples: int) -> None:
        """Let the object refuse, where it can."""
        if callable(check := getattr(self.made, "check_samples", None)):
            check(samples)

    def generate_for(self, query: Query, contexts: Sequence[Document]) -> Any:
        """Ask the object."""
        if hasattr(self.made, "generate_for"):
            return self.made.generate_for(query, contexts)
        return self.made.generate(query.text, contexts)

    def generate_sample(self, query: Query, contexts: Sequence[Document], sample: int) -> Any:
        """Ask the object; of its first answer, as if there were no others."""
        if sample and hasattr(self.made, "generate_sample"):
            return self.made.generate_sample(query, contexts, sample)
        return self.generate_for(query, contexts)


def declared(made: Any) -> Generator:
    """Return a generator of which all is known that a run asks."""
    return made if isinstance(made, Generator) else OwnGenerator(made)


def as_generator(target: Any, options: Mapping[str, Any], owner: str) -> Any:
    """Make a generator of a class, an object or a function; see `ragbench.registry.adapt`."""
    return adapt(
        target,
        options,
        owner,
        methods=("generate", "generate_for"),
        wrap=CallableGenerator,
        arguments="(question, contexts)",
    )


class CallableApp:
    """A plain function `(question) -> answer` as an app."""

    is_opaque = True

    def __init__(self, function: Any) -> None:
        self._function = function

    def answer(self, question: str) -> Prediction:
        """Ask the function."""
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
