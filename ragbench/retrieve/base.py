"""What a retriever is: anything that ranks documents for a batch of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ragbench.types import Document, Query, Retrieved, ScoredDocument

Hits = list[ScoredDocument] | Retrieved
"""One query's answer, best first."""


class Retriever(Protocol):
    """Ranks documents for queries.

    Scores are optional: the ORDER of the returned list is the ranking. A retriever may also have

    - `index(corpus)`, called once before the first query;
    - `query_ids`, a set: the only queries it has an answer to, as a run file;
    - `ranks_by_score = True`: its order is that of its scores, ties by document id descending, so
      that its scores stand in the run as they are;
    - `asks_one_by_one = True`: a batch saves it nothing, so that queries are timed one by one;
    - `is_opaque = True`: its code or data cannot be seen from here, so that a call gets a time
      limit, and a new run asks it again unless its entry has a `version`;
    - `notes`, sentences on what was odd about its documents, its queries or its hits, read after
      the last query.
    """

    def retrieve(self, queries: Sequence[Query], top_k: int) -> Sequence[Hits]:
        """Return for each query, in order, at most `top_k` hits, best first."""
        ...


@runtime_checkable
class Indexing(Protocol):
    """A retriever that wants to see the corpus before it answers."""

    def index(self, corpus: Sequence[Document]) -> None:
        """Read the documents; called once, before any `retrieve`."""
        ...


@runtime_checkable
class Combining(Protocol):
    """A retriever that makes its ranking of the rankings of others: fusion, feedback, reranking.

    Its sources are retrievers of the same experiment; each is asked once, whoever uses it.
    """

    sources: Sequence[str]
    """Names of the retrievers that it reads, in order."""
    depth: int | None
    """Hits that it takes from each; None takes `top_k`."""

    def combine(
        self,
        queries: Sequence[Query],
        rankings: Sequence[Sequence[Sequence[ScoredDocument]]],
        top_k: int,
    ) -> Sequence[Hits]:
        """Return for each query, in order, at most `top_k` hits, best first.

        Args:
            queries: The n queries.
            rankings: For each source, n lists of hits, best first, with their texts where the
                corpus or the source has them.
            top_k: How many are wanted.
        """
        ...


@runtime_checkable
class Borrowing(Protocol):
    """A retriever over others that searches with them itself: it gets them when they are ready."""

    def borrow(self, retrievers: Sequence[Retriever]) -> None:
        """Take the retrievers that `sources` names, indexed; called once, before `combine`."""
        ...
