"""BM25 over the corpus: `type: bm25`, on the bm25s library."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from ragbench.errors import DataError
from ragbench.registry import Option
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.nearest import best_rows, id_ranks
from ragbench.signature import fingerprint
from ragbench.store.arrays import WORTH_KEEPING, Arrays, ArrayStore, ArrayWriter
from ragbench.text.analyze import Analyzer
from ragbench.types import Document, FloatArray, IntArray, Query, ScoredDocument
from ragbench.types.packed_documents import content_of, ids_of

if TYPE_CHECKING:
    import bm25s

_FORMAT = "1"
_SCORES = ("data", "indices", "indptr")
"""What the library has of a matrix of scores, term by term."""

Variant = Literal["lucene", "robertson", "atire", "bm25l", "bm25+"]


class BM25(Retriever):
    """Rank documents by BM25 over their title and text.

    Scores are sums of doubles, ties go to the larger document id, and a document that shares no
    term with the query is not returned. Indexing is linear in the corpus, one query costs one
    pass over the postings of its terms.

    References:
        Robertson and Zaragoza (2009), The Probabilistic Relevance Framework: BM25 and Beyond.
        Kamphuis et al. (2020), Which BM25 Do You Mean? (the variants).
    """

    ranks_by_score = True
    asks_one_by_one = True
    indexes = True

    def __init__(
        self,
        *,
        k1: Annotated[
            float, Option("How much repeated terms add; 0 counts only whether a term occurs.", ge=0)
        ] = 0.9,
        b: Annotated[
            float,
            Option("How much the length of a document is normalised; 0 is not at all.", ge=0, le=1),
        ] = 0.4,
        variant: Annotated[Variant, Option("Which BM25 formula.")] = "lucene",
        stemmer: Annotated[
            Literal["porter", "snowball", "none"], Option("How words are reduced to stems.")
        ] = "porter",
        stopwords: Annotated[
            str,
            Option(
                "Stop words: a built-in list, a file with a word per line, or none.",
                refers_to="path_or_name",
            ),
        ] = "english",
        language: Annotated[
            str, Option("ISO 639-1 code of the texts; picks the tokeniser.")
        ] = "en",
    ) -> None:
        self.k1, self.b, self.variant = k1, b, variant
        self._analyze = Analyzer(stemmer=stemmer, stopwords=stopwords, language=language)
        self._ids: list[str] = []
        self._corpus: Sequence[Document] = ()
        self._rows: dict[str, int] = {}
        self._id_ranks: IntArray = np.empty(0, dtype=np.int64)
        self._index: bm25s.BM25 | None = None

    def index(self, corpus: Sequence[Document]) -> None:
        """Build the index, or take it from the cache; the scores are the same to the last bit."""
        kept = self._kept(corpus)
        if kept is None:
            self._index = self._made(corpus)
            self._id_ranks = id_ranks(ids_of(corpus))
        else:
            self._index, self._id_ranks = self._mapped(kept), kept["id_ranks"]
        self._corpus, self._ids, self._rows = corpus, ids_of(corpus), {}

    def _made(self, corpus: Sequence[Document]) -> bm25s.BM25:
        # term ids made here spare the library its own pass over the vocabulary
        vocabulary: dict[str, int] = {}
        term_id = vocabulary.setdefault
        terms = []
        for document in corpus:
            found = self._analyze(document.full_text)
            terms.append(array("i", [term_id(term, len(vocabulary)) for term in found]))
            self.advance(1)
        if not vocabulary:
            raise DataError("bm25: no document has a word", allowed="a corpus with text")
        index = self._empty()
        index.index((terms, vocabulary), show_progress=False)
        return index

    def _empty(self) -> bm25s.BM25:
        import bm25s

        # float64 and no compiled back end: the same scores on every machine
        return bm25s.BM25(
            k1=self.k1, b=self.b, method=self.variant, dtype="float64", auto_compile=False
        )

    def _kept(self, corpus: Sequence[Document]) -> Arrays | None:
        """The index of a corpus in the cache, put there first where it is lacking."""
        content = content_of(corpus)
        if self.cache_folder is None or content.size < WORTH_KEEPING:
            return None
        chosen = (self.k1, self.b, self.variant, self._analyze.identity, content.key)
        key = fingerprint([_FORMAT, version("bm25s"), *map(str, chosen)], 32)
        store = ArrayStore(self.cache_folder, self.cache_also)
        of = f"bm25 of {len(corpus):,} {self.unit}"
        return store.kept("index", of, key, partial(self._write, corpus))

    def _write(self, corpus: Sequence[Document], writer: ArrayWriter) -> None:
        index = self._made(corpus)
        for name in _SCORES:
            writer.add(name, index.scores[name])
        writer.add_texts("terms", index.vocab_dict)
        writer.add("id_ranks", id_ranks(ids_of(corpus)))
        if index.nonoccurrence_array is not None:
            writer.add("absent", index.nonoccurrence_array)

    def _mapped(self, kept: Arrays) -> bm25s.BM25:
        index = self._empty()
        index.scores = {name: kept[name] for name in _SCORES}
        index.scores["num_docs"] = len(kept["id_ranks"])
        index.vocab_dict = {term: number for number, term in enumerate(kept.texts("terms"))}
        index.nonoccurrence_array = kept.get("absent")
        return index

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Rank the indexed documents for each query."""
        index = self._built()
        return [self._rank(index, query.text, top_k) for query in queries]

    def terms(self, text: str) -> list[str]:
        """Return the index terms of a text: its words, without stop words, as stems."""
        return self._analyze(text)

    def term_counts(self, document_id: str) -> Counter[str]:
        """Return how often each index term occurs in an indexed document.

        Counted anew from its text: few documents are asked for, and an index that kept the counts
        of all of them would be twice as large.
        """
        if not self._rows:
            self._rows = {identifier: row for row, identifier in enumerate(self._ids)}
        if document_id not in self._rows:
            raise DataError(f"bm25: no document {document_id!r}", allowed="an indexed one")
        return Counter(self._analyze(self._corpus[self._rows[document_id]].full_text))

    def search(self, weights: Mapping[str, float], top_k: int) -> list[ScoredDocument]:
        """Rank the indexed documents for a query of weighted terms.

        A term of weight w adds w times what it adds to a plain query; unknown terms add nothing.
        """
        index = self._built()
        absent, floor = index.nonoccurrence_array, 0.0
        scores: FloatArray = np.zeros(len(self._ids))
        for term, weight in weights.items():
            for token in index.get_tokens_ids([term]):
                scores += weight * index.get_scores_from_ids([token])
                floor += 0.0 if absent is None else weight * float(absent[token])
        return self._best(scores, floor, top_k)

    def _built(self) -> bm25s.BM25:
        if self._index is None:
            raise DataError("bm25: there is no corpus to search", allowed="call index first")
        return self._index

    def _rank(self, index: bm25s.BM25, question: str, top_k: int) -> list[ScoredDocument]:
        tokens = index.get_tokens_ids(self._analyze(question))
        if not tokens:
            return []
        scores = index.get_scores_from_ids(tokens)
        # bm25l and bm25+ give every document something for a term that it lacks
        absent = index.nonoccurrence_array
        floor = 0.0 if absent is None else absent[np.asarray(tokens)].sum()
        return self._best(scores, floor, top_k)

    def _best(self, scores: FloatArray, floor: float, top_k: int) -> list[ScoredDocument]:
        """The documents with the highest scores above the floor, ties by id descending."""
        rows = np.flatnonzero(scores > floor)
        if len(rows) > top_k:
            # all that tie with the k-th stay in, so that the id decides among them
            kth = np.partition(scores[rows], -top_k)[-top_k]
            rows = rows[scores[rows] >= kth]
        best = rows[best_rows(rows, scores[rows], self._id_ranks, top_k)]
        return [ScoredDocument(self._ids[row], float(scores[row])) for row in best]
