"""Apps of the user's own: `type: "python:package.module:Name"`, or a live object.

`Name` is a class (made with the options of the YAML), an object with `answer(question)`, a chain of
LangChain, or a plain function of a question, to which the options are passed as keywords.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragbench.generate.answer import read_answer
from ragbench.generate.apps.base import App
from ragbench.generate.apps.langchain import LangchainApp
from ragbench.registry import adapt
from ragbench.types import Prediction


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
