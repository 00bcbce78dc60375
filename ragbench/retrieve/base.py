"""Retriever: the protocol of all components that rank documents for a batch of queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ragbench.embed.component import SearchComponent
from ragbench.types import Document, IntArray, Query, Retrieved, Run, ScoredDocument
from ragbench.types.records import PoolStatistics

# The hits of one query, best first.
Hits = list[ScoredDocument] | Retrieved
# For each source, a list of hits for each query, best first.
Rankings = Sequence[Sequence[Sequence[ScoredDocument]]]


class IndexSearch(NamedTuple):
    """Functions by which worker processes search an index in files of this machine.

    `index_search` of a retriever returns it. `make` and `find` are called in a worker, so that they
    and `options` are picklable; `request` and `read` are called in this process.

    Attributes:
        make: Opens the index in a worker; called with `options` as keywords.
        options: Keyword arguments of `make`; they are sent to the worker.
        find: Searches the open index for one request, in the worker.
        request: Builds the request of a query from the query and the hits of each source.
        read: Builds the hits from the result of `find` and the request.
    """

    make: Callable[..., Any]
    options: Mapping[str, Any]
    find: Callable[[Any, Any], Any]
    request: Callable[[Query, Sequence[Sequence[ScoredDocument]]], Any]
    read: Callable[[Any, Any], Retrieved]


class Retriever(SearchComponent):
    """Protocol of retrievers, with a default for every part but `retrieve` or `combine`.

    Built-in retrievers inherit it. An object of the user needs only `retrieve`, and any other part
    that it wants to change: `ragbench.retrieve.python.to_retriever` wraps it.

    Scores are optional: the order of the returned list is the ranking. A retriever that combines
    others (`sources`) implements `combine` instead of `retrieve`.

    `retrieve` and `combine` raise NotImplementedError unless a subclass defines them.

    Attributes:
        ranks_by_score: True if the ranking is sorted by score, ties by document id descending; a
            run file then holds the scores unchanged.
        indexes: True if it has a method `index`, which is called once, before the first query.
        borrows: True if it has a method `borrow`, which is called once with the retriever objects
            of its sources, after they are indexed.
        sources: Names of the retrievers whose rankings it combines, in order. A run asks each of
            them once, even if several retrievers share it.
        depth: Number of hits that it takes from each source; None takes `top_k`.
        keeps_tail: True if the hits of its one source below `depth` follow its own.
        depth_option: Option of the user's code that sets the number of hits, with `{top_k}`, for
            the warning on short rankings; empty if unknown.
        query_ids: Ids of the queries that it can rank, such as those of a run file; None ranks any
            query.
        unit: Plural noun for the indexed texts in notes.
        pool_statistics: Documents whose statistics weigh the terms of a query with a pool.
        chunk_of: Document number of each indexed chunk; set before `index_search`, whose `top_k`
            then counts documents. None if each row of the index is a document.
        advance: Called while `index` runs with the number of further documents that are done.
    """

    ranks_by_score: bool = False
    indexes: bool = False
    borrows: bool = False
    sources: Sequence[str] = ()
    depth: int | None = None
    keeps_tail: bool = False
    depth_option: str = ""
    query_ids: Collection[str] | None = None
    unit: Literal["documents", "chunks"] = "documents"
    pool_statistics: PoolStatistics = "corpus"
    chunk_of: IntArray | None = None
    # staticmethod: a plain function as a class attribute would become a method
    advance: Callable[[int], None] = staticmethod(lambda n: None)

    def __init_subclass__(cls, **options: Any) -> None:
        """Set `indexes` and `borrows` by the methods of the class."""
        super().__init_subclass__(**options)
        cls.indexes = cls.index is not Retriever.index
        cls.borrows = cls.borrow is not Retriever.borrow

    def recorded(self) -> Run | None:
        """Return complete stored rankings, sorted best first, so that no query need be asked.

        A query that the rankings lack counts as missing. The default, None, leaves all rankings to
        `retrieve`.
        """
        return None

    def index(self, corpus: Sequence[Document]) -> None:
        """Index the documents; called once before any `retrieve`.

        Subclasses raise DataError for a corpus that they cannot index.
        """

    def index_search(self, top_k: int) -> IndexSearch | None:
        """Return the functions by which workers search the index; None if only `retrieve` can.

        It is asked after `index`. `top_k` is the largest number of hits, or with `chunk_of` of
        documents.
        """
        return None

    def borrow(self, retrievers: Sequence[Retriever]) -> None:
        """Keep the indexed retrievers of `sources`; called once before any `combine`.

        They are in the order of `sources`.
        """

    def retrieve(self, queries: Sequence[Query], top_k: int) -> Sequence[Hits]:
        """Return at most `top_k` hits for each query, best first, in the order of the queries.

        A query without hits has an empty list. Hits outside `query.pool` are dropped and counted,
        so that a retriever should search the documents of the pool alone.
        """
        raise NotImplementedError

    def combine(self, queries: Sequence[Query], rankings: Rankings, top_k: int) -> Sequence[Hits]:
        """Return at most `top_k` hits for each query, built from the rankings of the sources.

        Args:
            queries: The n queries.
            rankings: For each source, the hits of each of the n queries, best first; with texts if
                the corpus or the source has them.
            top_k: Largest number of hits of a query.
        """
        raise NotImplementedError
