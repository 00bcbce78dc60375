"""What a retriever is: anything that ranks documents for a batch of queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ragbench.embed.component import SearchComponent
from ragbench.types import Document, IntArray, Query, Retrieved, Run, ScoredDocument

# One query's answer, best first.
Hits = list[ScoredDocument] | Retrieved
# For each source, a list of hits for each query, best first.
Rankings = Sequence[Sequence[Sequence[ScoredDocument]]]


class IndexSearch(NamedTuple):
    """How workers search the index of a retriever, which lies in files of this machine.

    Attributes:
        make: Opens the index in a worker; called with `options`.
        find: Searches the open index for one request.
        request: Returns the request of a query, given the hits of each source.
        read: Returns the hits, given what `find` returned and the request.
    """

    make: Callable[..., Any]
    options: Mapping[str, Any]
    find: Callable[[Any, Any], Any]
    request: Callable[[Query, Sequence[Sequence[ScoredDocument]]], Any]
    read: Callable[[Any, Any], Retrieved]


class Retriever(SearchComponent):
    """Ranks documents for queries: all that a run asks of a retriever, with what is usual.

    Built-in retrievers inherit it. One of the user's own need not: it is any object with `retrieve`
    and what it has of the rest, and `ragbench.retrieve.python.declared` wraps it once.

    Scores are optional: the ORDER of the returned list is the ranking. A retriever over others
    (`sources`) has `combine` in the place of `retrieve`.

    Attributes:
        ranks_by_score: Whether its order is that of its scores, ties by document id descending, so
            that its scores stand in the run as they are.
        indexes: Whether it reads the corpus: `index` is called once before the first query.
        borrows: Whether it searches with its sources itself: `borrow` is called once, when they are
            ready.
        sources: Names of the retrievers whose rankings it combines, in order; each is asked once,
            whoever uses it.
        depth: Hits that it takes from each source; None takes `top_k`.
        query_ids: The only queries that it has an answer to, as a run file; None answers any.
        unit: What its notes call what is indexed.
        chunk_of: Row of what is indexed -> number of the document that it is a chunk of; set before
            `index_search`, whose `top_k` then counts documents. None: each row is a document.
        advance: Told while `index` runs how many further documents are done.
    """

    ranks_by_score: bool = False
    indexes: bool = False
    borrows: bool = False
    sources: Sequence[str] = ()
    depth: int | None = None
    query_ids: Collection[str] | None = None
    unit: Literal["documents", "chunks"] = "documents"
    chunk_of: IntArray | None = None
    advance: Callable[[int], None] = staticmethod(lambda n: None)  # or it would be a method

    def recorded(self) -> Run | None:
        """Return the rankings of a retriever that has them all, and is not asked; else None.

        A row is an id that run files hold and a score; the rows of a query are best first.
        """
        return None

    def index(self, corpus: Sequence[Document]) -> None:
        """Read the documents; called once where it `indexes`, before any `retrieve`."""

    def keeps_index(self, corpus: Sequence[Document]) -> bool:
        """Whether the index of such a corpus lies in files, so that there is an `index_search`."""
        return False

    def index_search(self, top_k: int) -> IndexSearch | None:
        """Return how workers search its index; None where only the retriever itself can."""
        return None

    def borrow(self, retrievers: Sequence[Retriever]) -> None:
        """Take the retrievers that `sources` names, indexed; called once where it `borrows`."""

    def retrieve(self, queries: Sequence[Query], top_k: int) -> Sequence[Hits]:
        """Return for each query, in order, at most `top_k` hits, best first."""
        raise NotImplementedError

    def combine(self, queries: Sequence[Query], rankings: Rankings, top_k: int) -> Sequence[Hits]:
        """Return for each query, in order, at most `top_k` hits, best first.

        Args:
            queries: The n queries.
            rankings: What the sources found for them, with texts where the corpus or the source has
                them.
            top_k: How many are wanted.
        """
        raise NotImplementedError
