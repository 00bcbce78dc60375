"""Any retriever that indexes, over chunks of the documents: `{type: bm25, chunk: {...}}`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ragbench.embed.base import Encodings
from ragbench.errors import OptionError
from ragbench.retrieve.base import IndexSearch, Retriever
from ragbench.retrieve.python import declared, first_documents, read_hits
from ragbench.text.chunk import Chunker, Chunking
from ragbench.types import Document, Query, Retrieved, ScoredDocument


def with_chunks(retriever: Any, chunking: Chunking) -> Chunked:
    """Return the retriever over chunks; it is indexed by the one that is returned."""
    known = declared(retriever)
    if not known.indexes:
        found = type(retriever).__name__
        raise OptionError("chunk", "", found, "a retriever that indexes the corpus")
    return Chunked(known, Chunker(chunking))


class Chunked(Retriever):
    """Ranks chunks; each hit has its text and says of which `document` it is a chunk.

    `top_k` counts documents, so that small chunks are looked at as deep as large ones: the hits
    are the best chunks, down to the one that brings the last document.
    """

    indexes = True

    def __init__(self, retriever: Retriever, chunker: Chunker) -> None:
        self.retriever, self._chunker = retriever, chunker
        self.ranks_by_score = retriever.ranks_by_score
        self.asks_one_by_one = retriever.asks_one_by_one
        self.computes = retriever.computes
        retriever.unit = "chunks"
        self._chunks: dict[str, tuple[Document, str]] = {}
        self._lost_text: list[str] = []

    @property
    def notes(self) -> list[str]:
        """How much text a splitter left out, where it did, and what the retriever itself notes."""
        return [*self._lost_text, *self.retriever.notes]

    @property
    def encodings(self) -> Encodings | None:
        """How many texts the retriever has had encoded so far."""
        return self.retriever.encodings

    def load(self) -> None:
        """Let the retriever get ready, and keep what it computes where this one would."""
        self.load_inner(self.retriever)

    def index(self, corpus: Sequence[Document]) -> None:
        """Cut the documents, and let the retriever index the chunks."""
        chunks = [(chunk, each.id) for each in corpus for chunk in self._chunker.chunks_of(each)]
        self._chunks = {chunk.id: (chunk, document) for chunk, document in chunks}
        self._lost_text = self._lost(corpus)
        done, told = 0, 0

        def tell(n: int) -> None:
            """Tell of documents what the retriever tells of chunks."""
            nonlocal done, told
            done += n
            documents = len(corpus) * done // max(1, len(chunks))
            self.advance(documents - told)
            told = documents

        if self.executor is not None:
            number = {document.id: row for row, document in enumerate(corpus)}
            documents = [number[self._chunks[chunk.id][1]] for chunk, _ in chunks]
            self.retriever.chunk_of = np.array(documents, np.int64)
        self.retriever.advance = tell
        self.retriever.index([chunk for chunk, _ in chunks])

    def keeps_index(self, corpus: Sequence[Document]) -> bool:
        """Whether the retriever would keep that of the documents: chunks have about their text."""
        return self.retriever.keeps_index(corpus)

    def index_search(self, top_k: int) -> IndexSearch | None:
        """Return how workers search the index of the chunks."""
        search = self.retriever.index_search(top_k)
        if search is None:
            return None

        def read(found: Any, request: Any) -> Retrieved:
            hits = search.read(found, request)
            return replace(hits, documents=[self._described(hit) for hit in hits.documents])

        return search._replace(read=read)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[Retrieved]:
        """Return for each query the best chunks, of at most `top_k` documents."""
        found: dict[int, Retrieved] = {}
        waiting, depth = list(range(len(queries))), top_k
        while waiting:
            depth *= 2
            answers = self.retriever.retrieve([queries[each] for each in waiting], depth)
            hungry = []
            for position, answer in zip(waiting, answers, strict=True):
                read = read_hits(answer, depth)
                hits = [self._described(hit) for hit in read.documents]
                found[position] = Retrieved(first_documents(hits, top_k), read.queries)
                # as many as were asked for, and still of too few documents: there may be more
                if len(hits) >= depth and len({hit.document for hit in hits}) < top_k:
                    hungry.append(position)
            waiting = hungry
        return [found[position] for position in range(len(queries))]

    def _lost(self, corpus: Sequence[Document]) -> list[str]:
        """What chunks certainly lack, white space aside; overlaps may hide some of it."""
        kept = dict.fromkeys((document.id for document in corpus), 0)
        for chunk, document in self._chunks.values():
            kept[document] += len("".join(chunk.text.split()))
        missing = [len("".join(document.text.split())) - kept[document.id] for document in corpus]
        lost = [count for count in missing if count > 0]
        if not lost:
            return []
        return [
            f"chunks lack text of {len(lost)} of {len(corpus)} documents, {sum(lost)} characters"
        ]

    def _described(self, hit: ScoredDocument) -> ScoredDocument:
        """The hit with its text and its document; an id that is no chunk's stays as it is."""
        if hit.id not in self._chunks:
            return hit
        chunk, document = self._chunks[hit.id]
        return replace(
            hit, text=chunk.text, title=chunk.title, metadata=chunk.metadata, document=document
        )
