"""What a reranker is: anything that puts the hits of another retriever in a better order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ragbench.errors import AdapterError
from ragbench.types import Document, Query, ScoredDocument


class Reranker(Protocol):
    """Orders the first hits of another retriever anew.

    The ORDER of what it returns is the ranking; scores are optional. It may have
    `asks_one_by_one = True` and `notes`, as retrievers have them.
    """

    def rerank(
        self, queries: Sequence[Query], hits: Sequence[Sequence[ScoredDocument]], top_k: int
    ) -> Sequence[Sequence[ScoredDocument]]:
        """Return for each query, in order, at most `top_k` of its hits, best first.

        Args:
            queries: The n queries.
            hits: n lists, best first, at most `depth` long, with their texts where the corpus or
                the first retriever has them.
            top_k: How many are wanted.
        """
        ...


@runtime_checkable
class Loading(Protocol):
    """A reranker that needs a model: what is in the way should end the run, not fail a query."""

    def load(self) -> None:
        """Get ready; called once, before any `rerank`, which loads by itself where it was not."""
        ...


class Reranked:
    """A reranker as a retriever over the one whose hits it orders: `ragbench.retrieve.Combining`.

    Args:
        reranker: What orders.
        retriever: Name of the retriever that finds.
        depth: How many of its hits are ordered.
    """

    def __init__(self, reranker: Reranker, retriever: str, depth: int | None) -> None:
        self.reranker, self.sources, self.depth = reranker, (retriever,), depth
        self.asks_one_by_one = bool(getattr(reranker, "asks_one_by_one", False))

    @property
    def notes(self) -> list[str]:
        """What the reranker says of the hits that it ordered."""
        return list(getattr(self.reranker, "notes", ()))

    def combine(
        self,
        queries: Sequence[Query],
        rankings: Sequence[Sequence[Sequence[ScoredDocument]]],
        top_k: int,
    ) -> Sequence[Sequence[ScoredDocument]]:
        """Order the hits of the one source."""
        return self.reranker.rerank(queries, rankings[0], top_k)

    def load(self) -> None:
        """Let the reranker get ready, where it has to."""
        if isinstance(self.reranker, Loading):
            self.reranker.load()


def hit_texts(query: Query, hits: Sequence[ScoredDocument], owner: str) -> list[str]:
    """Return title and text of each hit, as retrievers index documents.

    Raises:
        AdapterError: A hit has no text: neither its retriever nor the corpus has one.

    Example:
        >>> hit_texts(Query("q", "?"), [ScoredDocument("d", 1.0, "text", "Title")], "mmr")
        ['Title text']
    """
    for hit in hits:
        if hit.text is None:
            raise AdapterError(
                f"{owner}: hit '{hit.id}' of query '{query.id}' has no text, allowed: hits of the "
                "corpus, or with texts of their own"
            )
    return [Document(hit.id, hit.text or "", hit.title or "").full_text for hit in hits]
