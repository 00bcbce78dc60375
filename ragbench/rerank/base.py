"""What a reranker is: anything that puts the hits of another retriever in a better order.

One of the user's own is `type: "python:package.module:Name"` with `retriever:`. `Name` is a class
(made with the options of the YAML), an object with `rerank(queries, hits, top_k)`, or a plain
function `(question, hits)` that returns the hits in a better order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.embed.component import SearchComponent
from ragbench.errors import AdapterError
from ragbench.registry import OwnComponent, adapt
from ragbench.types import Document, Query, ScoredDocument

# The hits of each query, best first.
HitLists = Sequence[Sequence[ScoredDocument]]
# What a reranker of the user's own has one of.
RERANKER_METHODS = ("rerank",)


class Reranker(SearchComponent):
    """Orders the first hits of another retriever anew: all that a run asks of one.

    The ORDER of what it returns is the ranking; scores are optional. Built-in rerankers inherit
    it; `as_reranker` wraps those of the user's own.
    """

    def rerank(self, queries: Sequence[Query], hits: HitLists, top_k: int) -> HitLists:
        """Return for each query, in order, at most `top_k` of its hits, best first.

        Args:
            queries: The n queries.
            hits: At most `depth` for each query, with their texts where the corpus or the first
                retriever has them.
            top_k: How many are wanted.
        """
        raise NotImplementedError


def hit_texts(query: Query, hits: Sequence[ScoredDocument], owner: str) -> list[str]:
    """Return title and text of each hit, as retrievers index documents."""
    for hit in hits:
        if hit.text is None:
            raise AdapterError(
                f"{owner}: hit '{hit.id}' of query '{query.id}' has no text, allowed: hits of the "
                "corpus, or with texts of their own"
            )
    return [Document(hit.id, hit.text or "", hit.title or "").full_text for hit in hits]


class CallableReranker(Reranker):
    """A plain function `(question, hits) -> hits` as a reranker."""

    asks_one_by_one = True

    def __init__(self, function: Any) -> None:
        self._function = function

    def rerank(self, queries: Sequence[Query], hits: HitLists, top_k: int) -> list[Any]:
        """Ask the function for each query."""
        return [
            self._function(query.text, list(found))
            for query, found in zip(queries, hits, strict=True)
        ]


class OwnReranker(OwnComponent, Reranker):
    """An object of the user's own as a reranker."""

    takes = frozenset(("asks_one_by_one", "load", "cache_folder", "cache_also", "rerank"))


def declared(made: Any) -> Reranker:
    """Return a reranker of which all is known that a run asks."""
    return made if isinstance(made, Reranker) else OwnReranker(made)


def as_reranker(target: Any, options: Mapping[str, Any], owner: str) -> Reranker:
    """Make a reranker of a class, an object or a function; see `ragbench.registry.adapt`."""
    made = adapt(
        target,
        options,
        owner,
        methods=RERANKER_METHODS,
        wrap=CallableReranker,
        arguments="(question, hits)",
        of_method="(queries, hits, top_k)",
    )
    return declared(made)
