"""Rerankers of the user's own: `type: "python:package.module:Name"` with `retriever:`.

`Name` is a class (made with the options of the YAML), an object with `rerank(queries, hits,
top_k)`, or a plain function `(question, hits)` that returns the hits in a better order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.registry import adapt
from ragbench.rerank.base import Reranker
from ragbench.types import Query, ScoredDocument


class CallableReranker(Reranker):
    """A plain function `(question, hits) -> hits` as a reranker."""

    asks_one_by_one = True

    def __init__(self, function: Any) -> None:
        self._function = function

    def rerank(
        self, queries: Sequence[Query], hits: Sequence[Sequence[ScoredDocument]], top_k: int
    ) -> list[Any]:
        """Ask the function for each query."""
        return [
            self._function(query.text, list(found))
            for query, found in zip(queries, hits, strict=True)
        ]


class OwnReranker(Reranker):
    """An object of the user's own with what it lacks of a reranker: it is looked at here alone."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.asks_one_by_one = bool(getattr(made, "asks_one_by_one", False))

    @property
    def notes(self) -> Sequence[str]:
        """What the object notes, where it does."""
        return list(getattr(self.made, "notes", ()))

    def load(self) -> None:
        """Tell the object where to keep things, and let it get ready, where it wants to."""
        if hasattr(self.made, "cache_folder"):
            self.made.cache_folder = self.cache_folder
        if callable(getattr(self.made, "load", None)):
            self.made.load()

    def rerank(
        self, queries: Sequence[Query], hits: Sequence[Sequence[ScoredDocument]], top_k: int
    ) -> Any:
        """Let the object order the hits."""
        return self.made.rerank(queries, hits, top_k)


def declared(made: Any) -> Reranker:
    """Return a reranker of which all is known that a run asks."""
    return made if isinstance(made, Reranker) else OwnReranker(made)


def as_reranker(target: Any, options: Mapping[str, Any], owner: str) -> Reranker:
    """Make a reranker of a class, an object or a function; see `ragbench.registry.adapt`."""
    made = adapt(
        target,
        options,
        owner,
        methods=("rerank",),
        wrap=CallableReranker,
        arguments="(question, hits)",
        of_method="(queries, hits, top_k)",
    )
    return declared(made)
