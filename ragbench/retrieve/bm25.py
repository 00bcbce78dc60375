"""BM25 over the corpus by bm25s: `type: bm25`; with relevance feedback: `type: rm3`."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from ragbench.errors import DataError, OptionError
from ragbench.registry import Option, options_of
from ragbench.retrieve.base import IndexSearch, Rankings, Retriever
from ragbench.retrieve.nearest import best_rows, id_ranks
from ragbench.signature import fingerprint
from ragbench.store.arrays import WORTH_KEEPING, Arrays, ArrayStore, ArrayWriter
from ragbench.text.analyzer import Analyzer
from ragbench.types import Document, FloatArray, IntArray, Query, Retrieved, ScoredDocument
from ragbench.types.packed_documents import content_of, ids_of

if TYPE_CHECKING:
    import bm25s

_FORMAT = "1"
# What the library has of a matrix of scores, term by term.
_SCORES = ("data", "indices", "indptr")

Variant = Literal["lucene", "robertson", "atire", "bm25l", "bm25+"]

_CLAUSE = "{}^{:.4f}"  # as Lucene writes a weighted term


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
        self._folder: Path | None = None
        self._analyze = Analyzer(stemmer=stemmer, stopwords=stopwords, language=language)
        self._ids: Sequence[str] = ()
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
            self._open(kept)
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

    def keeps_index(self, corpus: Sequence[Document]) -> bool:
        """Whether the corpus is worth it."""
        return content_of(corpus).size >= WORTH_KEEPING

    def _open(self, kept: Arrays) -> None:
        index = self._empty()
        index.scores = {name: kept[name] for name in _SCORES}
        index.scores["num_docs"] = len(kept["id_ranks"])
        index.vocab_dict = {term: number for number, term in enumerate(kept.texts("terms"))}
        index.nonoccurrence_array = kept.get("absent")

        self._index, self._id_ranks, self._folder = index, kept["id_ranks"], kept.path

    def index_search(self, top_k: int) -> IndexSearch | None:
        """Return how workers map the index and search it."""
        if self._folder is None:
            return None
        chunks = None if self.chunk_of is None else self._kept_chunks(self.chunk_of)
        if self.chunk_of is not None and chunks is None:
            return None
        options = {
            "bm25": type(self),
            "options": options_of(self),
            "folder": self._folder.absolute(),
            "chunks": None if chunks is None else chunks.path.absolute(),
        }
        return IndexSearch(
            _open_index,
            options,
            partial(_search_index, top_k),
            lambda query, hits: query.text,
            lambda found, request: Retrieved(self._hits(*found)),
        )

    def _kept_chunks(self, chunk_of: IntArray) -> Arrays | None:
        """The documents of chunks in the cache, beside their index; None where it is only read."""
        if self.cache_folder is None:
            return None
        store, data = ArrayStore(self.cache_folder, self.cache_also), chunk_of.tobytes()
        of, key = f"documents of {len(chunk_of):,} chunks", fingerprint([_FORMAT, data], 32)
        return store.kept("index", of, key, lambda writer: writer.add("chunk_of", chunk_of))

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
        options = [f"{name}={value}" for name, value in sorted(options_of(self).items())]
        # the tokeniser's identity has the content of a file of stop words
        parts = (type(self).__name__, *options, self._analyze.identity, content.key)
        key = fingerprint([_FORMAT, version("bm25s"), *parts], 32)
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

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Rank the indexed documents for each query."""
        return [self._hits(*self._rank(query.text, top_k)) for query in queries]

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
        return self._hits(*self._rank_weighted(weights, top_k))

    def _rank_weighted(
        self, weights: Mapping[str, float], top_k: int
    ) -> tuple[IntArray, FloatArray]:
        index = self._built()
        absent, floor = index.nonoccurrence_array, 0.0
        scores: FloatArray = np.zeros(len(self._id_ranks))
        for term, weight in weights.items():
            for token in index.get_tokens_ids([term]):
                scores += weight * index.get_scores_from_ids([token])
                floor += 0.0 if absent is None else weight * float(absent[token])
        return self._best(scores, floor, top_k)

    def _built(self) -> bm25s.BM25:
        if self._index is None:
            raise DataError("bm25: there is no corpus to search", allowed="call index first")
        return self._index

    def _rank(self, question: str, top_k: int) -> tuple[IntArray, FloatArray]:
        """The rows of the best documents in the corpus, and their scores, best first."""
        index = self._built()
        tokens = index.get_tokens_ids(self._analyze(question))
        if not tokens:
            return np.empty(0, dtype=np.int64), np.empty(0)
        scores = index.get_scores_from_ids(tokens)
        # bm25l and bm25+ give every document something for a term that it lacks
        absent = index.nonoccurrence_array
        floor = 0.0 if absent is None else absent[np.asarray(tokens)].sum()
        return self._best(scores, floor, top_k)

    def _rank_chunks(
        self, question: str, top_k: int, chunk_of: IntArray
    ) -> tuple[IntArray, FloatArray]:
        """The rows of the best chunks, down to the one that brings the last document."""
        depth = 2 * top_k
        while True:
            rows, scores = self._rank(question, depth)
            first = np.sort(np.unique(chunk_of[rows], return_index=True)[1])
            if len(first) >= top_k:
                return rows[: first[top_k - 1] + 1], scores[: first[top_k - 1] + 1]
            if len(rows) < depth:
                return rows, scores
            depth *= 2

    def _best(self, scores: FloatArray, floor: float, top_k: int) -> tuple[IntArray, FloatArray]:
        """The documents with the highest scores above the floor, ties by id descending."""
        rows = np.flatnonzero(scores > floor)
        if len(rows) > top_k:
            # all that tie with the k-th stay in, so that the id decides among them
            kth = np.partition(scores[rows], -top_k)[-top_k]
            rows = rows[scores[rows] >= kth]
        best = rows[best_rows(rows, scores[rows], self._id_ranks, top_k)]
        return best, scores[best]

    def _hits(self, rows: IntArray, scores: FloatArray) -> list[ScoredDocument]:
        found = zip(rows.tolist(), scores.tolist(), strict=True)
        return [ScoredDocument(self._ids[row], score) for row, score in found]


def _open_index(
    bm25: type[BM25], options: Mapping[str, Any], folder: Path, chunks: Path | None
) -> tuple[BM25, IntArray | None]:
    """Map an index, and the numbers of the documents of its chunks, in a worker."""
    copy = bm25(**options)
    copy._open(Arrays(folder))
    return copy, None if chunks is None else Arrays(chunks)["chunk_of"]


def _search_index(
    top_k: int, index: tuple[BM25, IntArray | None], request: str | Mapping[str, float]
) -> tuple[IntArray, FloatArray]:
    """Return the rows and scores of the best hits for a question, or for weighted terms."""
    bm25, chunk_of = index
    if not isinstance(request, str):
        return bm25._rank_weighted(request, top_k)
    if chunk_of is None:
        return bm25._rank(request, top_k)
    return bm25._rank_chunks(request, top_k, chunk_of)


class RM3(Retriever):
    """Search again with BM25, with the words of the documents that it found first.

    The first hits are taken as relevant. Each of them votes for its `terms` most frequent terms,
    in the share that a term has in it, with a weight that is its score; the `terms` terms with
    the most votes, as shares, are mixed with those of the query. Equal terms go by alphabet. Stop
    words, stems and scores are those of the BM25 that it searches with. The new query is returned
    with the hits, as `term^weight ...`; a question that finds nothing at first finds nothing.

    Unlike Anserini's, terms of more than a tenth of the documents are not left out: stop words
    are gone already, and a corpus may be small.

    References:
        Lavrenko and Croft (2001), Relevance-Based Language Models.
        Abdul-Jaleel et al. (2004), UMass at TREC 2004: Novelty and HARD (RM3).
        Yang, Fang and Lin (2017), Anserini: Enabling the Use of Lucene for Information Retrieval
        Research (BM25's scores in place of query likelihoods; the defaults).
    """

    ranks_by_score = True
    asks_one_by_one = True
    borrows = True

    def __init__(
        self,
        *,
        retriever: Annotated[
            str, Option("The bm25 retriever whose index is searched again.", refers_to="retriever")
        ],
        terms: Annotated[int, Option("Number of terms that expand the query.", ge=1)] = 10,
        documents: Annotated[
            int, Option("Number of first hits that are assumed to be relevant.", ge=1)
        ] = 10,
        original_weight: Annotated[
            float, Option("Weight of the original terms in the new query.", ge=0, le=1)
        ] = 0.5,
    ) -> None:
        self.sources: Sequence[str] = [retriever]
        self.depth: int | None = documents
        self.terms, self.documents, self.original_weight = terms, documents, original_weight
        self._bm25: BM25 | None = None

    def borrow(self, retrievers: Sequence[Retriever]) -> None:
        """Take the BM25 that `retriever` names, indexed."""
        [bm25] = retrievers
        if not isinstance(bm25, BM25):
            found = f"{self.sources[0]} ({type(bm25).__name__})"
            raise OptionError("rm3", "retriever", found, "a retriever of type bm25, not chunked")
        self._bm25 = bm25

    def keeps_index(self, corpus: Sequence[Document]) -> bool:
        """Whether the BM25 does, whose index is searched again."""
        return content_of(corpus).size >= WORTH_KEEPING

    def index_search(self, top_k: int) -> IndexSearch | None:
        """Return how workers search the index of the BM25 for the expanded query."""
        search = None if self._bm25 is None else self._bm25.index_search(top_k)
        if search is None:
            return None
        read = search.read
        return search._replace(
            request=self._expanded,
            read=lambda found, weights: _of_weights(read(found, weights).documents, weights),
        )

    def _expanded(self, query: Query, hits: Sequence[Sequence[ScoredDocument]]) -> dict[str, float]:
        """Return the expanded query: term -> weight."""
        bm25, [first_hits] = self._borrowed(), hits
        feedback = [
            (bm25.term_counts(hit.id), hit.score or 0.0) for hit in first_hits[: self.documents]
        ]
        model = relevance_model(feedback, self.terms)
        asked = _shares(Counter(bm25.terms(query.text)))
        return mixed(asked, model, self.original_weight) if model else asked

    def combine(self, queries: Sequence[Query], rankings: Rankings, top_k: int) -> list[Retrieved]:
        """Return for each query what the expanded query finds, and that query."""
        bm25, [found] = self._borrowed(), rankings
        weighted = [
            self._expanded(query, [hits]) for query, hits in zip(queries, found, strict=True)
        ]
        return [_of_weights(bm25.search(weights, top_k), weights) for weights in weighted]

    def _borrowed(self) -> BM25:
        if self._bm25 is None:
            raise DataError("rm3: there is no index to search", allowed="call borrow first")
        return self._bm25


def _of_weights(hits: Sequence[ScoredDocument], weights: Mapping[str, float]) -> Retrieved:
    """Hits with the query of weighted terms that has found them."""
    best = sorted(weights, key=lambda term: (-weights[term], term))
    written = " ".join(_CLAUSE.format(term, weights[term]) for term in best)
    return Retrieved(hits, [written] if written else [])


def relevance_model(
    feedback: Sequence[tuple[Mapping[str, int], float]], terms: int
) -> dict[str, float]:
    """Estimate how likely relevant documents are to use each term: RM1, cut and rescaled.

    `feedback` has the term counts and the weight of each document; `terms` terms are kept of each
    and in the end. Shares add up to 1, most likely first; empty without documents.

    Example:
        `fox`: 2 * 2/3 + 1 * 1/2, `red`: 2 * 1/3, `hen`: 1 * 1/2; then divided by their sum, 3.

        >>> found = relevance_model([({"fox": 2, "red": 1}, 2.0), ({"fox": 1, "hen": 1}, 1.0)], 9)
        >>> {term: round(share, 4) for term, share in found.items()}
        {'fox': 0.6111, 'red': 0.2222, 'hen': 0.1667}
    """
    votes: dict[str, float] = {}
    for counts, weight in feedback:
        for term, share in _shares(_first(counts, terms)).items():
            votes[term] = votes.get(term, 0.0) + share * weight
    return _shares(_first({term: vote for term, vote in votes.items() if vote > 0}, terms))


def mixed(
    asked: Mapping[str, float], model: Mapping[str, float], original_weight: float
) -> dict[str, float]:
    """Mix two distributions over terms; terms that end at 0 are left out.

    Example:
        >>> mixed({"fox": 1.0}, {"fox": 0.5, "hen": 0.5}, 0.6)
        {'fox': 0.8, 'hen': 0.2}
    """
    weights = {
        term: original_weight * asked.get(term, 0.0) + (1 - original_weight) * model.get(term, 0.0)
        for term in dict.fromkeys([*asked, *model])
    }
    return {term: weight for term, weight in weights.items() if weight > 0}


def _first(weights: Mapping[str, float], count: int) -> dict[str, float]:
    best = sorted(weights, key=lambda term: (-weights[term], term))[:count]
    return {term: weights[term] for term in best}


def _shares(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {term: weight / total for term, weight in weights.items()}
