"""Retrievers of the user's own: `type: "python:package.module:Name"`, or a live object.

`Name` is a class (made with the options of the YAML), an object with `retrieve(queries, top_k)`,
or a plain function `(question, top_k)`, to which the options are passed as keywords.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.registry import adapt
from ragbench.retrieve.base import Retriever
from ragbench.types import Query


class CallableRetriever:
    """A plain function `(question, top_k) -> hits` as a retriever.

    Attributes:
        asks_one_by_one: Tells the caller that a batch saves nothing, so that one question that
            fails does not make it ask the others again.
    """

    asks_one_by_one = True

    def __init__(self, function: Any) -> None:
        self._function = function

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[Any]:
        """Ask the function each question."""
        return [self._function(query.text, top_k) for query in queries]


def as_retriever(target: Any, options: Mapping[str, Any], owner: str) -> Retriever:
    """Make a retriever of a class, an object or a function; see `ragbench.registry.adapt`."""
    made: Retriever = adapt(
        target,
        options,
        owner,
        methods=("retrieve", "combine"),
        wrap=CallableRetriever,
        arguments="(question, top_k)",
    )
    return made
