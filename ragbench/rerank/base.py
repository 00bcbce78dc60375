"""What a reranker is: anything that puts the hits of another retriever in a better order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ragbench.types import Query, ScoredDocument


class Reranker(Protocol):
    """Orders the first hits of another retriever anew.

    The ORDER of what it returns is the ranking; scores are optional. It may have
    `asks_one_by_one = True`, as retrievers have it.
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

    def combine(
        self,
        queries: Sequence[Query],
        rankings: Sequence[Sequence[Sequence[ScoredDocument]]],
        top_k: int,
    ) -> Sequence[Sequence[ScoredDocument]]:
        """Order the hits of the one source."""
        return self.reranker.rerank(queries, rankings[0], top_k)
