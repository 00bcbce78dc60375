"""Nearest neighbours of sentence embeddings: `type: dense`, on sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any, Literal

import numpy as np

from ragbench.embed import base as embed
from ragbench.embed.cache import CachedEmbedder, EmbedderOptions
from ragbench.embed.encoders import count_longer, truncation_notes
from ragbench.embed.sentence_transformers import EXTRA, PACKAGES
from ragbench.errors import DataError, OptionError
from ragbench.files import cache_folder
from ragbench.registry import Option, declared_options, options_of
from ragbench.retrieve import nearest
from ragbench.retrieve.base import Retriever
from ragbench.signature import fingerprint
from ragbench.store.arrays import WORTH_KEEPING, Arrays, ArrayStore, ArrayWriter
from ragbench.types import Document, IntArray, Query, ScoredDocument
from ragbench.types.documents import full_texts, hash_documents, record_ids
from ragbench.types.lookups import take_items

_OWNER = "retriever 'dense'"
_FORMAT = "2"  # part of the key: change it with the files of a stored matrix
_LISTS = "lists.faiss"
_BLOCK = 8192  # documents whose texts and vectors are in memory at a time


class DenseOptions(EmbedderOptions):
    """Options of the model, of the comparison of vectors, and of the index."""

    similarity: Annotated[
        Literal["cosine", "dot"], Option("Similarity of a query and a document.")
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
            f"faiss: number of lists to search; null is {nearest.DEFAULT_PROBES}. "
            "More lists miss less.",
            ge=1,
        ),
    ] = None


# Options that the key of a stored matrix holds in another form, or that affect only the search. All
# further options of a subclass are part of the key.
_NOT_IN_MATRIX = frozenset(declared_options(DenseOptions))


class Dense(Retriever):
    """Rank documents by the similarity of their vectors to the vector of the query.

    The vector of a document is that of its title and text, cut at the limit of the model. Every
    document has a similarity, so that a query has `top_k` hits if the corpus is that large; ties go
    to the larger document id. Search compares the query with all vectors; `index: faiss` compares
    it with some. Stored vectors are read from the cache, whichever component encoded them: the
    latency of a query then does not include the model.

    Options are those of `DenseOptions`, all with a default: the model with its prompts, device,
    batches and cache, and `similarity`, `normalize`, `index` and `probes`. `index` comes before
    `retrieve`, which raises DataError without it. Vectors are stored in `cache_folder`; None means
    `RAGBENCH_CACHE`, else `.ragbench`. Vectors in `cache_also` are read, too.

    References:
        Reimers and Gurevych (2019), Sentence-BERT: Sentence Embeddings using Siamese
        BERT-Networks.
    """

    same_results = "equal texts have equal vectors"
    ranks_by_score = True
    packages = ("sentence-transformers", "transformers", "torch", "faiss-cpu")
    definition = 3  # 2 encoded each text alone, which gives other last digits

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
        self._queries: dict[str, str] = {}
        cosine = chosen.similarity == "cosine"
        self._normalize = cosine if chosen.normalize is None else chosen.normalize
        self._kind, self._stores = chosen.index, chosen.cache
        self._probes = chosen.probes or nearest.DEFAULT_PROBES
        self._open: Callable[[], CachedEmbedder] = lambda: chosen.open(_OWNER, self)
        self._embedder: CachedEmbedder | None = None
        self._index: nearest.Exact | nearest.InvertedFile | None = None

    @property
    def notes(self) -> list[str]:
        """Notes on documents and queries that are longer than the model reads.

        One note is on documents, and one on queries, of which each id counts once.
        """
        embedder = self._embedder
        if embedder is None or self._index is None:
            return []
        is_chunked = self.unit == "chunks"
        remedy = "smaller ones would fit" if is_chunked else "a chunk block would cut them"
        lost = f"; their end is not searched; {remedy}"
        total = len(self._ids)
        notes = truncation_notes(self._truncated, total, self.unit, embedder.limit, lost)
        queries = list(self._queries.values())
        truncated = _count_truncated(embedder, queries, "query")
        lost = "; their end is not read"
        return notes + truncation_notes(truncated, len(queries), "queries", embedder.limit, lost)

    def check(self) -> None:
        """Raise `MissingExtra` without sentence-transformers, or without faiss for `index: faiss`.

        Loads nothing.
        """
        embed.need_packages(_OWNER, EXTRA, PACKAGES)
        if self._kind == "faiss":
            embed.need_packages(_OWNER, "faiss", {"faiss": "faiss-cpu"})

    def index(self, corpus: Sequence[Document]) -> None:
        """Encode the documents whose vectors are not stored, and prepare the search.

        Replaces an earlier index.

        Raises:
            DataError: The corpus is empty, the model cannot be loaded or returns a vector that is
                not finite, or the vectors cannot be stored.
            MissingExtra: A package is not installed.
            OptionError: The model or the device does not exist.
            AdapterError: On workers, an error of the model.
        """
        if not corpus:
            raise DataError("dense: there is no document", allowed="a corpus with text")
        self.check()  # before the corpus is encoded, which may take hours
        embedder = self._embedder = self._embedder or self._open()
        self._ids, self._rows = record_ids(corpus), dict[str, int]()
        longest: float | None = None
        matrix = self._stored_matrix(embedder, corpus)
        if matrix is None:
            texts = _texts(corpus)
            self._vectors = self._encode(embedder, texts, "document", self.advance)
            self._truncated = _count_truncated(embedder, texts, "document")
            self._id_ranks = nearest.id_ranks(self._ids)
        else:
            self._vectors, self._id_ranks = matrix["vectors"], matrix["id_ranks"]
            [self._truncated] = matrix["truncated"].tolist()
            longest = float(matrix["longest"].max())
        is_exact = self._kind == "exact"
        self._index = (
            nearest.Exact(self._vectors, longest) if is_exact else self._inverted_file(matrix)
        )

    def _inverted_file(self, matrix: Arrays | None) -> nearest.InvertedFile:
        """Return the lists of faiss, stored beside a stored matrix; None builds them in memory."""
        lists = None
        if matrix is not None:
            key = fingerprint([_FORMAT, version("faiss-cpu"), matrix.path.name], 32)

            def write(writer: ArrayWriter) -> None:
                """Write an inverted file of the vectors into the folder of a new array."""
                nearest.InvertedFile(self._vectors, self._probes).write(writer.folder / _LISTS)

            label = f"faiss of {len(self._ids):,} {self.unit}"
            lists = self._arrays.ensure("index", label, key, write)
        file = None if lists is None else lists.path / _LISTS
        return nearest.InvertedFile(self._vectors, self._probes, file)

    @property
    def _arrays(self) -> ArrayStore:
        """Return the store of matrices and indexes."""
        return ArrayStore(self.cache_folder or cache_folder(), self.cache_also)

    def _stored_matrix(self, embedder: CachedEmbedder, corpus: Sequence[Document]) -> Arrays | None:
        """Return the stored vectors of a corpus, encoded and stored first if they are missing."""
        content = hash_documents(corpus)
        if not self._stores or content.size < WORTH_KEEPING:
            return None
        options = []
        for name, value in options_of(self).items():
            if name not in _NOT_IN_MATRIX:
                options.append(f"{name}={value}")
        model = (embedder.model, embedder.prompts["document"], str(self._normalize), content.key)
        key = fingerprint([_FORMAT, *model, *options], 32)
        label = f"{embedder.identity} of {len(corpus):,} {self.unit}"
        return self._arrays.ensure("matrix", label, key, partial(self._write, embedder, corpus))

    def _write(
        self, embedder: CachedEmbedder, corpus: Sequence[Document], writer: ArrayWriter
    ) -> None:
        """Encode a corpus block by block and write its matrix."""
        truncated = 0
        # a vector may depend on the other texts of its batch: then the corpus is one block
        size = _BLOCK if embedder.independent else len(corpus)
        with writer.open_array("vectors") as vectors, writer.open_array("longest") as longest:
            for start in range(0, len(corpus), size):
                texts = _texts(corpus[start : start + size])
                block = self._encode(embedder, texts, "document", self.advance)
                vectors.append(block)
                longest.append(np.array([nearest.longest_of(block)]))
                truncated += _count_truncated(embedder, texts, "document")
        writer.add("id_ranks", nearest.id_ranks(record_ids(corpus)))
        writer.add("truncated", np.array([truncated]))

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return the `top_k` most similar documents of each query, best first.

        Fewer if the corpus or the pool of the query is smaller, or if the lists that faiss searches
        hold fewer. Equal similarities are ordered by document id, largest first; no queries give an
        empty list. All documents of a pool are compared, also with faiss.

        Raises:
            DataError: No corpus has been indexed, a vector of a query is not finite, the corpus
                lacks a document of a pool, or the cache file cannot be read or written.
        """
        if self._index is None or self._embedder is None:
            raise DataError("dense: there is no corpus to search", allowed="call index first")
        if not queries:
            return []
        texts = [query.text for query in queries]
        vectors = self._encode(self._embedder, texts, "query")
        # by id: a query that is asked twice counts once in the notes
        self._queries.update(zip(record_ids(queries), texts, strict=True))
        pools = [self._pool_rows(query.pool) for query in queries]
        whole = []
        for row, pool in enumerate(pools):
            if pool is None:
                whole.append(row)
        searched = vectors if len(whole) == len(pools) else vectors[whole]
        of_all = iter(self._index.candidates(searched, top_k) if whole else ())
        hits = []
        for vector, pool in zip(vectors, pools, strict=True):
            hits.append(self._rank(vector, next(of_all) if pool is None else pool, top_k))
        return hits

    def _pool_rows(self, pool: Sequence[str] | None) -> IntArray | None:
        """Return the rows of the documents of a pool; None for the whole corpus."""
        if pool is None:
            return None
        if not self._rows:
            self._rows = dict(zip(self._ids, range(len(self._ids)), strict=True))
        if unknown := [name for name in pool if name not in self._rows]:
            raise DataError(f"dense: no document {unknown[0]!r}", allowed="an indexed id")
        return np.array(take_items(self._rows, pool), dtype=np.int64)

    def _rank(self, query: embed.Vectors, rows: IntArray, top_k: int) -> list[ScoredDocument]:
        """Return the best of the candidate rows by exact similarity, best first."""
        scores = nearest.score_candidates(self._vectors, query, rows)
        best = nearest.best_rows(rows, scores, self._id_ranks, top_k)
        hits = []
        for row, score in zip(rows[best].tolist(), scores[best].tolist(), strict=True):
            hits.append(ScoredDocument(self._ids[row], score))
        return hits

    def _encode(
        self,
        embedder: CachedEmbedder,
        texts: Sequence[str],
        role: Literal["query", "document"],
        advance: embed.Advance = embed.ignore_progress,
    ) -> embed.Vectors:
        return embedder.encode(
            texts, prompt=embedder.prompts[role], normalize=self._normalize, advance=advance
        )


def _texts(documents: Sequence[Document]) -> list[str]:
    return full_texts(documents)


def _count_truncated(
    embedder: CachedEmbedder, texts: Sequence[str], role: Literal["query", "document"]
) -> int:
    """Return the number of texts that are longer than the model reads."""
    lengths = embedder.count_tokens(texts, prompt=embedder.prompts[role])
    return count_longer(lengths, embedder.limit)
