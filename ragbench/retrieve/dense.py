"""Nearest neighbours of sentence embeddings: `type: dense`, on sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any, Literal

import numpy as np

from ragbench.embed import base as embed
from ragbench.embed.cache import CachedEmbedder, EmbedderOptions
from ragbench.embed.encoders import count_longer, truncation_notes
from ragbench.errors import DataError, OptionError
from ragbench.files import cache_folder
from ragbench.registry import Option, declared_options, options_of
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.nearest import (
    DEFAULT_PROBES,
    Exact,
    InvertedFile,
    best_rows,
    id_ranks,
    longest_of,
    score_candidates,
)
from ragbench.signature import fingerprint
from ragbench.store.arrays import WORTH_KEEPING, Arrays, ArrayStore, ArrayWriter
from ragbench.types import Document, IntArray, Query, ScoredDocument
from ragbench.types.packed_documents import content_of, ids_of

_OWNER = "retriever 'dense'"
_FORMAT = "1"
_LISTS = "lists.faiss"
_AT_ONCE = 8192  # documents whose texts and vectors are in memory


@dataclass(frozen=True, kw_only=True)
class DenseOptions(EmbedderOptions):
    """How vectors are compared."""

    similarity: Annotated[
        Literal["cosine", "dot"], Option("How a query and a document are compared.")
    ] = "cosine"
    normalize: Annotated[
        bool | None,
        Option("Whether vectors are scaled to length 1 first; null: for cosine, not for dot."),
    ] = None
    index: Annotated[
        Literal["exact", "faiss"],
        Option("exact compares with every vector; faiss is faster for millions, but misses some."),
    ] = "exact"
    probes: Annotated[
        int | None,
        Option(
            f"faiss: number of lists that are searched; null is {DEFAULT_PROBES}. More find more.",
            ge=1,
        ),
    ] = None


# Options that the key of a matrix has in another form, or that only the search depends on; those of
# a subclass are in it.
_NOT_IN_MATRIX = frozenset(declared_options(DenseOptions))


class Dense(Retriever):
    """Rank documents by the similarity of their vectors to the query's.

    A document is its title and its text, cut where the model can read no further. Every document
    has a similarity, so that a query always gets top_k of them; ties go to the larger document id.
    What was encoded once, with whatever retriever, is read from the cache: how long a query takes
    then says nothing about the model. Search looks at every vector; `faiss` looks at some of them.

    Vectors are kept in `cache_folder`; None is `.ragbench`, or what `RAGBENCH_CACHE` names. Those
    in `cache_also` are read, too.

    References:
        Reimers and Gurevych (2019), Sentence-BERT: Sentence Embeddings using Siamese
        BERT-Networks.
    """

    ranks_by_score = True
    indexes = True
    computes = True
    packages = ("sentence-transformers", "transformers", "torch", "faiss-cpu")
    definition = 2  # texts are encoded alone

    declares = DenseOptions

    def __init__(self, **options: Any) -> None:
        chosen = DenseOptions(**options)
        embed.find_checkpoint("dense", chosen.model)
        if chosen.similarity == "cosine" and chosen.normalize is False:
            allowed = "true or null with similarity cosine; similarity: dot takes false"
            raise OptionError("dense", "normalize", chosen.normalize, allowed)
        if chosen.index == "exact" and chosen.probes is not None:
            allowed = "null with index exact, or index: faiss"
            raise OptionError("dense", "probes", chosen.probes, allowed)
        self._truncated = 0
        self._asked: dict[str, str] = {}
        cosine = chosen.similarity == "cosine"
        self._normalize = cosine if chosen.normalize is None else chosen.normalize
        self._kind, self._keeps = chosen.index, chosen.cache
        self._probes = chosen.probes or DEFAULT_PROBES
        self._open: Callable[[], CachedEmbedder] = lambda: chosen.open(
            _OWNER, (self.cache_folder or cache_folder(), *self.cache_also), self.executor
        )
        self._embedder: CachedEmbedder | None = None
        self._index: Exact | InvertedFile | None = None

    @property
    def encodings(self) -> embed.Encodings | None:
        """How many texts it has had encoded so far, and how many of them were in the cache."""
        return None if self._embedder is None else self._embedder.encodings

    @property
    def notes(self) -> list[str]:
        """How many documents and queries are longer than the model reads; counted when asked."""
        embedder = self._embedder
        if embedder is None or self._index is None:
            return []
        remedy = (
            "a chunk block would cut them" if self.unit == "documents" else "smaller ones would fit"
        )
        queries = list(self._asked.values())
        return [
            *truncation_notes(
                self._truncated,
                len(self._ids),
                self.unit,
                embedder.limit,
                f"; their end is not searched; {remedy}",
            ),
            *truncation_notes(
                _count_truncated(embedder, queries, "query"),
                len(queries),
                "queries",
                embedder.limit,
                "; their end is not read",
            ),
        ]

    def index(self, corpus: Sequence[Document]) -> None:
        """Encode the documents, as far as the cache lacks them."""
        if not corpus:
            raise DataError("dense: there is no document", allowed="a corpus with text")
        if self._kind == "faiss":
            embed.need_packages(_OWNER, "faiss", {"faiss": "faiss-cpu"})
        embedder = self._embedder = self._embedder or self._open()
        self._ids = ids_of(corpus)
        longest: float | None = None
        known, kept = embedder.encodings.texts, self._kept(embedder, corpus)
        if kept is None:
            texts = [document.full_text for document in corpus]
            self._vectors = self._encode(embedder, texts, "document", self.advance)
            self._truncated = _count_truncated(embedder, texts, "document")
            self._id_ranks = id_ranks(self._ids)
        else:
            self._vectors, self._id_ranks = kept["vectors"], kept["id_ranks"]
            self._truncated, distinct = kept["counts"].tolist()
            longest = float(kept["longest"].max())
            if embedder.encodings.texts == known:  # none was asked for
                embedder.reused += distinct
        self._index = Exact(self._vectors, longest) if self._kind == "exact" else self._sorted(kept)

    def _sorted(self, kept: Arrays | None) -> InvertedFile:
        """The lists of faiss; of a matrix in the cache they are kept, too."""
        lists = None
        if kept is not None:
            key = fingerprint([_FORMAT, version("faiss-cpu"), kept.path.name], 32)

            def write(writer: ArrayWriter) -> None:
                InvertedFile(self._vectors, self._probes).write(writer.folder / _LISTS)

            of = f"faiss of {len(self._ids):,} {self.unit}"
            lists = self._arrays.kept("index", of, key, write)
        file = None if lists is None else lists.path / _LISTS
        return InvertedFile(self._vectors, self._probes, file)

    @property
    def _arrays(self) -> ArrayStore:
        return ArrayStore(self.cache_folder or cache_folder(), self.cache_also)

    def _kept(self, embedder: CachedEmbedder, corpus: Sequence[Document]) -> Arrays | None:
        """The matrix of a corpus in the cache, put there first where it is lacking."""
        content = content_of(corpus)
        if not self._keeps or content.size < WORTH_KEEPING:
            return None
        more = [f"{n}={v}" for n, v in options_of(self).items() if n not in _NOT_IN_MATRIX]
        known = (embedder.model, embedder.prompts["document"], str(self._normalize), content.key)
        chosen = (*known, *more)
        of = f"{embedder.identity} of {len(corpus):,} {self.unit}"
        write = partial(self._write, embedder, corpus)
        return self._arrays.kept("matrix", of, fingerprint([_FORMAT, *chosen], 32), write)

    def _write(
        self, embedder: CachedEmbedder, corpus: Sequence[Document], writer: ArrayWriter
    ) -> None:
        truncated, known = 0, embedder.encodings.texts
        # what is computed in batches depends on what else was asked for
        size = _AT_ONCE if embedder.alone else len(corpus)
        with writer.growing("vectors") as vectors, writer.growing("longest") as longest:
            for start in range(0, len(corpus), size):
                texts = [document.full_text for document in corpus[start : start + size]]
                encoded = self._encode(embedder, texts, "document", self.advance)
                vectors.append(encoded)
                longest.append(np.array([longest_of(encoded)]))
                truncated += _count_truncated(embedder, texts, "document")
        writer.add("id_ranks", id_ranks(ids_of(corpus)))
        writer.add("counts", np.array([truncated, embedder.encodings.texts - known]))

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Rank the indexed documents for each query."""
        if self._index is None or self._embedder is None:
            raise DataError("dense: there is no corpus to search", allowed="call index first")
        if not queries:
            return []
        vectors = self._encode(self._embedder, [query.text for query in queries], "query")
        self._asked.update((query.id, query.text) for query in queries)
        found = self._index.candidates(vectors, top_k)
        return [
            self._rank(vector, rows, top_k) for vector, rows in zip(vectors, found, strict=True)
        ]

    def _rank(self, query: embed.Vectors, rows: IntArray, top_k: int) -> list[ScoredDocument]:
        scores = score_candidates(self._vectors, query, rows)
        best = best_rows(rows, scores, self._id_ranks, top_k)
        return [
            ScoredDocument(self._ids[row], float(score))
            for row, score in zip(rows[best], scores[best], strict=True)
        ]

    def _encode(
        self,
        embedder: CachedEmbedder,
        texts: Sequence[str],
        role: Literal["query", "document"],
        advance: embed.Advance = embed.tell_nobody,
    ) -> embed.Vectors:
        return embedder.encode(
            texts, prompt=embedder.prompts[role], normalize=self._normalize, advance=advance
        )


def _count_truncated(
    embedder: CachedEmbedder, texts: Sequence[str], role: Literal["query", "document"]
) -> int:
    lengths = embedder.count_tokens(texts, prompt=embedder.prompts[role])
    return count_longer(lengths, embedder.limit)
