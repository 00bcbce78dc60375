"""Retrievers of the user's own: `type: "python:package.module:Name"`, or a live object.

`Name` is a class (made with the options of the YAML), an object with `retrieve(queries, top_k)`,
or a plain function `(question, top_k)`, to which the options are passed as keywords. Objects of
LangChain, LlamaIndex and Haystack are told by what they have.
"""

from __future__ import annotations

import inspect
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
    """Make a retriever of a class, an object or a function; see `ragbench.registry.adapt`.

    An object of LangChain (`invoke`, `similarity_search`), LlamaIndex (`retrieve(question)`) or
    Haystack (`run(query=...)`) becomes one through the adapter of its library.
    """
    made: Retriever = adapt(
        target,
        options,
        owner,
        methods=("retrieve", "combine", *_FOREIGN),
        wrap=CallableRetriever,
        arguments="(question, top_k)",
        of_method="(queries, top_k)",
    )
    if callable(getattr(made, "retrieve", None)) and not _takes_one_question(made):
        return made
    if callable(getattr(made, "combine", None)):  # over others: `ragbench.retrieve.Combining`
        return made
    return _adapted(made)


_FOREIGN = ("aretrieve", "invoke", "ainvoke", "similarity_search", "run", "run_async")


def _adapted(made: Any) -> Retriever:
    """The adapter of the library that an object comes from, by its methods."""
    if any(hasattr(made, name) for name in ("retrieve", "aretrieve")):
        from ragbench.retrieve.llama_index import LlamaIndexRetriever

        return LlamaIndexRetriever(client=made)
    if any(hasattr(made, name) for name in ("invoke", "ainvoke", "similarity_search")):
        from ragbench.retrieve.langchain import LangchainRetriever

        return LangchainRetriever(client=made)
    if callable(made):  # `run` is a name that anything may have
        return CallableRetriever(made)
    from ragbench.retrieve.haystack import HaystackRetriever

    return HaystackRetriever(client=made)


def _takes_one_question(made: Any) -> bool:
    """Whether `retrieve` is LlamaIndex's, which takes a question and no `top_k`."""
    try:
        parameters = inspect.signature(made.retrieve).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return not takes_any and sum(parameter.kind in kinds for parameter in parameters) == 1
