"""Retrieval over chunks of the documents, by any retriever that indexes: `chunk: {...}`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.errors import OptionError
from ragbench.retrieve.base import IndexSearch, Retriever
from ragbench.retrieve.python import PoolParameter, first_documents, read_hits, to_retriever
from ragbench.text.chunk import Chunker, Chunking
from ragbench.types import Document, Query, Retrieved, ScoredDocument


def with_chunks(retriever: Any, chunking: Chunking) -> Chunked:
    """Return a retriever that cuts the corpus into chunks and indexes them in the given one.

    `chunking` says how to cut; an object of the user is wrapped first.

    Raises:
        OptionError: The given retriever does not index the corpus, the tokeniser does not exist, or
            the code of the user does not take the options.
        AdapterError: The factory of a splitter fails, or returns no splitter.
        MissingExtra: A tokeniser without transformers.
        DataError: The code of the user cannot be imported.
    """
    inner = to_retriever(retriever)
    if not inner.indexes:
        name = type(retriever).__name__
        raise OptionError("chunk", "", name, "a retriever that indexes the corpus")
    return Chunked(inner, Chunker(chunking))


class Chunked(Retriever):
    """Retriever of chunks; each hit has the text of its chunk and the id of its `document`.

    `top_k` counts documents, so that small and large chunks cover the same number of documents: the
    hits are the best chunks, down to the first chunk of the `top_k`-th document. `with_chunks`
    makes it. It sets `unit` of its retriever. `index` comes before `retrieve`, which returns a
    `Retrieved` per query; errors of the retriever pass through.
    """

    def __init__(self, retriever: Retriever, chunker: Chunker) -> None:
        self.retriever, self._chunker = retriever, chunker
        self.ranks_by_score = retriever.ranks_by_score
        self.asks_one_by_one = retriever.asks_one_by_one
        retriever.unit = "chunks"
        self._chunks: dict[str, tuple[Document, str]] = {}
        self._chunks_of: dict[str, list[str]] = {}
        self._lost_text: list[str] = []

    @property
    def notes(self) -> list[str]:
        """Notes of the retriever, after a note on text that no chunk contains."""
        return [*self._lost_text, *self.retriever.notes]

    def check(self) -> None:
        """Raise `MissingExtra` if a package of the retriever is not installed."""
        self.retriever.check()

    def load(self) -> None:
        """Load the retriever, with the cache folders and workers of this one."""
        self.load_inner(self.retriever)

    def index(self, corpus: Sequence[Document]) -> None:
        """Cut the documents into chunks and let the retriever index them."""
        self._chunks, self._chunks_of = {}, {}
        chunks, document_numbers = list[Document](), list[int]()
        for row, document in enumerate(corpus):
            for chunk in self._chunker.chunks_of(document):
                chunks.append(chunk)
                document_numbers.append(row)
                self._chunks[chunk.id] = (chunk, document.id)
        self._lost_text = self._note_lost_text(corpus)
        done_chunks, done_documents = 0, 0

        def advance(count: int) -> None:
            """Convert progress in chunks to progress in documents, and report it."""
            nonlocal done_chunks, done_documents
            done_chunks += count
            documents = len(corpus) * done_chunks // max(1, len(chunks))
            self.advance(documents - done_documents)
            done_documents = documents

        # only workers need the table: this process reads the document of a hit off `_chunks`
        if self.executor is not None:
            self.retriever.chunk_of = np.array(document_numbers, np.int64)
        self.retriever.advance, self.retriever.pool_statistics = advance, self.pool_statistics
        self.retriever.index(chunks)

    def index_search(self, top_k: int) -> IndexSearch | None:
        """Return the functions by which workers search the chunks; None if the index is not stored.

        Their hits have the text and the document of the chunk.
        """
        search = self.retriever.index_search(top_k)
        if search is None:
            return None

        def request(query: Query, hits: Sequence[Sequence[ScoredDocument]]) -> Any:
            """Return the request of a query whose pool are chunks."""
            return search.request(self._with_chunk_pool(query), hits)

        def read(result: Any, request: Any) -> Retrieved:
            """Return a result with the documents of its chunks."""
            hits = search.read(result, request)
            return structs.replace(hits, documents=list(map(self._with_text, hits.documents)))

        return search._replace(request=request, read=read)

    def _with_chunk_pool(self, query: Query) -> Query:
        """Return a query whose pool are the chunks of its documents, if it has a pool."""
        if query.pool is None:
            return query
        if not self._chunks_of:
            for chunk, document in self._chunks.values():
                self._chunks_of.setdefault(document, []).append(chunk.id)
        chunks = chain.from_iterable(self._chunks_of.get(name, ()) for name in query.pool)
        return replace(query, pool=tuple(chunks))

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[Retrieved]:
        """Return for each query the best chunks of at most `top_k` documents, best first.

        The retriever is asked again with twice the depth while its hits have too few documents.
        Replies are checked as by `read_hits`.
        """
        results: dict[int, Retrieved] = {}
        queries = [*map(self._with_chunk_pool, queries)]
        pools = []
        for query in queries:
            pools.append(None if query.pool is None else frozenset(query.pool))
        pool_of = PoolParameter(self.retriever.retrieve)
        open_positions, depth = list(range(len(queries))), top_k
        while open_positions:
            # at least twice as deep: a document often has several of the best chunks
            depth *= 2
            batch = list(map(queries.__getitem__, open_positions))
            pool_of_call = pool_of.keywords([query.pool for query in batch])
            replies = self.retriever.retrieve(batch, depth, **pool_of_call)
            short = []
            for position, reply in zip(open_positions, replies, strict=True):
                pool = pools[position]
                is_inside = None if pool is None else partial(_is_in, pool)
                retrieved = read_hits(reply, depth, is_inside)
                hits = list(map(self._with_text, retrieved.documents))
                first, n_outside = first_documents(hits, top_k), retrieved.n_outside
                results[position] = Retrieved(first, retrieved.queries, n_outside)
                # a full ranking with too few documents: a deeper one may have more
                if len(hits) >= depth and len({hit.document for hit in hits}) < top_k:
                    short.append(position)
            open_positions = short
        return list(map(results.__getitem__, range(len(queries))))

    def _note_lost_text(self, corpus: Sequence[Document]) -> list[str]:
        """Return a note on text that no chunk contains; empty if no loss is certain."""
        # counted without white space: text that overlapping chunks repeat may hide a loss
        covered = Counter[str]()
        for chunk, document_id in self._chunks.values():
            covered[document_id] += len("".join(chunk.text.split()))
        lost = []
        for document in corpus:
            missing = len("".join(document.text.split())) - covered[document.id]
            if missing > 0:
                lost.append(missing)
        if not lost:
            return []
        return [
            f"chunks lack text of {len(lost)} of {len(corpus)} documents, {sum(lost)} characters"
        ]

    def _with_text(self, hit: ScoredDocument) -> ScoredDocument:
        """Return the hit with the text and document of its chunk; unchanged if it is no chunk."""
        if hit.id not in self._chunks:
            return hit
        chunk, document = self._chunks[hit.id]
        return structs.replace(
            hit, text=chunk.text, title=chunk.title, metadata=chunk.metadata, document=document
        )


def _is_in(pool: frozenset[str], hit: ScoredDocument) -> bool:
    """Return True for a hit of a pool."""
    return hit.id in pool
