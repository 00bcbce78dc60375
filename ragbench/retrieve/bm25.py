"""BM25 over the corpus by bm25s: `type: bm25`; with relevance feedback: `type: rm3`."""

from __future__ import annotations

import itertools
import math
import warnings
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from weakref import WeakSet

import numpy as np

from ragbench.errors import DataError, OptionError
from ragbench.registry import Option, options_of
from ragbench.retrieve.base import IndexSearch, Rankings, Retriever
from ragbench.retrieve.nearest import best_rows, id_ranks
from ragbench.signature import fingerprint
from ragbench.store.arrays import WORTH_KEEPING, Arrays, ArrayStore, ArrayWriter
from ragbench.text.analyzer import Analyzer
from ragbench.types import Document, FloatArray, IntArray, Query, Retrieved, ScoredDocument
from ragbench.types.documents import Content, hash_documents, record_ids
from ragbench.types.lookups import take_items

if TYPE_CHECKING:
    import bm25s

_FORMAT = "1"  # part of the key: change it with the files of a stored index
# Arrays of the sparse score matrix of bm25s, by term (compressed sparse columns).
_SCORES = ("data", "indices", "indptr")

Variant = Literal["lucene", "robertson", "atire", "bm25l", "bm25+"]

_CLAUSE = "{}^{:.4f}"  # as Lucene writes a weighted term


class _CorpusTerms(NamedTuple):
    """Terms of a corpus, which indexes with other `k1` and `b` share."""

    key: str  # hash of the corpus
    terms: Sequence[array[int]]  # term numbers of each document
    vocabulary: Mapping[str, int]  # term -> its number


class BM25(Retriever):
    """Rank documents by BM25 over their title and text.

    Scores are sums of doubles, ties go to the larger document id, and a document that shares no
    term with the query is not returned. Indexing is linear in the corpus; a query costs one pass
    over the postings of its terms. `index` comes before every search, which raises DataError
    without it.

    References:
        Robertson and Zaragoza (2009), The Probabilistic Relevance Framework: BM25 and Beyond.
        Kamphuis et al. (2020), Which BM25 Do You Mean? (the variants).
    """

    same_results = "it counts words, and ranks the same each time"
    ranks_by_score = True
    asks_one_by_one = True

    def __init__(
        self,
        *,
        k1: Annotated[
            float, Option("Gain from repeated terms; 0 counts only whether a term occurs.", ge=0)
        ] = 0.9,
        b: Annotated[
            float, Option("Normalisation of document length; 0 is none, 1 is full.", ge=0, le=1)
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
        self._of_pool: tuple[tuple[str, ...], BM25 | None] = ((), None)
        self._id_ranks: IntArray = np.empty(0, dtype=np.int64)
        self._index: bm25s.BM25 | None = None
        self._terms: _CorpusTerms | None = None
        _waiting.add(self)

    def index(self, corpus: Sequence[Document]) -> None:
        """Build the index, or open the stored one; the scores are the same to the last bit.

        Replaces an earlier index. A large corpus is stored in `cache_folder`, if that is set.

        Raises:
            DataError: No document has a word, or the index cannot be written to the cache, as on a
                full disk.
        """
        content = hash_documents(corpus)
        _waiting.discard(self)
        arrays = self._stored_index(corpus, content)
        if arrays is None:
            self._index, self._folder = self._build(corpus, content.key), None
            self._id_ranks = id_ranks(record_ids(corpus))
        else:
            self._open(arrays)
        self._corpus, self._ids, self._rows = corpus, record_ids(corpus), {}
        self._terms, self._of_pool = None, ((), None)

    def _build(self, corpus: Sequence[Document], key: str) -> bm25s.BM25:
        """Return a new index of the words of all documents; raise `DataError` if there are none."""
        if self._terms is not None and self._terms.key == key:
            terms, vocabulary = self._terms.terms, dict(self._terms.vocabulary)
        else:
            terms, vocabulary = self._analyze_corpus(corpus)
            settings = self._analyze.settings
            peers = []
            for peer in list(_waiting):
                if peer._analyze.settings == settings:
                    peers.append(peer)
            if peers:
                # a copy: the library adds an empty term to its vocabulary
                shared = _CorpusTerms(key, terms, dict(vocabulary))
                for peer in peers:
                    peer._terms = shared
        index = self._new_library_index()
        index.index((terms, vocabulary), show_progress=False)
        return index

    def _analyze_corpus(
        self, corpus: Sequence[Document]
    ) -> tuple[list[array[int]], dict[str, int]]:
        """Return term numbers of documents, and term -> number; raise DataError without terms."""
        # term ids assigned here spare the library its own pass over the vocabulary
        vocabulary: dict[str, int] = {}
        terms = []
        texts = (document.full_text for document in corpus)
        for numbers in self._analyze.numbers(texts, vocabulary):
            terms.append(numbers)
            self.advance(1)
        if not vocabulary:
            allowed = "a corpus with text; or stopwords: none, where its words are stop words"
            raise DataError("bm25: no document has a word", allowed=allowed)
        return terms, vocabulary

    def _open(self, arrays: Arrays) -> None:
        """Use the arrays of a stored index, which the operating system maps into memory."""
        index = self._new_library_index()
        index.scores = {name: arrays[name] for name in _SCORES}
        index.scores["num_docs"] = len(arrays["id_ranks"])
        terms = arrays.texts("terms")
        index.vocab_dict = dict(zip(terms, range(len(terms)), strict=True))
        index.nonoccurrence_array = arrays.get("absent")

        self._index, self._id_ranks, self._folder = index, arrays["id_ranks"], arrays.path

    def index_search(self, top_k: int) -> IndexSearch | None:
        """Return the functions by which workers map the stored index and search it.

        They find at most `top_k` hits, with `chunk_of` the hits of `top_k` documents. The result is
        None before `index`, for an index that no cache has (the corpus is small, there is no cache
        folder, or it is read-only), and where each pool has statistics of its own.

        Raises:
            DataError: The table cannot be written, for example to a full disk, or a path is a link.
        """
        if self._folder is None or self.pool_statistics == "pool":
            return None
        chunks = None if self.chunk_of is None else self._stored_chunks(self.chunk_of)
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
            lambda query, hits: (query.text, self._pool_rows(query.pool)),
            lambda ranking, request: Retrieved(self._hits(*ranking)),
        )

    def _stored_chunks(self, chunk_of: IntArray) -> Arrays | None:
        """Return the stored document number of each chunk, for workers."""
        if self.cache_folder is None:
            return None
        store, data = ArrayStore(self.cache_folder, self.cache_also), chunk_of.tobytes()
        label, key = f"documents of {len(chunk_of):,} chunks", fingerprint([_FORMAT, data], 32)
        return store.ensure("index", label, key, lambda writer: writer.add("chunk_of", chunk_of))

    def _new_library_index(self) -> bm25s.BM25:
        """Return an empty index of bm25s with the options of this retriever."""
        with warnings.catch_warnings():
            # tqdm warns in a notebook without ipywidgets, and no progress bar of it is shown here
            warnings.filterwarnings("ignore", "IProgress not found")
            import bm25s

        # float64 and no compiled back end: the same scores on every machine
        return bm25s.BM25(
            k1=self.k1, b=self.b, method=self.variant, dtype="float64", auto_compile=False
        )

    def _stored_index(self, corpus: Sequence[Document], content: Content) -> Arrays | None:
        """Return the stored index of a corpus, built and stored first if it is missing."""
        if self.cache_folder is None or content.size < WORTH_KEEPING:
            return None
        options = []
        for name, value in sorted(options_of(self).items()):
            options.append(f"{name}={value}")
        # the tokeniser's identity covers the content of a stop word file: options hold its path
        parts = (type(self).__name__, *options, self._analyze.identity, content.key)
        key = fingerprint([_FORMAT, version("bm25s"), *parts], 32)
        store = ArrayStore(self.cache_folder, self.cache_also)
        label = f"bm25 of {len(corpus):,} {self.unit}"
        return store.ensure("index", label, key, partial(self._write, corpus, content.key))

    def _write(self, corpus: Sequence[Document], key: str, writer: ArrayWriter) -> None:
        """Build the index of a corpus with this hash and write its arrays."""
        index = self._build(corpus, key)
        for name in _SCORES:
            writer.add(name, index.scores[name])
        writer.add_texts("terms", index.vocab_dict)
        writer.add("id_ranks", id_ranks(record_ids(corpus)))
        if index.nonoccurrence_array is not None:
            writer.add("absent", index.nonoccurrence_array)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return at most `top_k` hits for each query, best first; none if no term matches.

        Equal scores are ordered by document id, largest first. A query with a pool has hits in its
        pool only.

        Raises:
            DataError: No corpus has been indexed, or it lacks a document of a pool.
        """
        hits = []
        for query in queries:
            index, rows = self._index_for(query.pool)
            hits.append(index._hits(*index._rank(query.text, top_k, rows)))
        return hits

    def _index_for(self, pool: Sequence[str] | None) -> tuple[BM25, IntArray | None]:
        """Return (index to search for a pool, the rows of the pool in it or None for all)."""
        if pool is None or self.pool_statistics == "corpus":
            return self, self._pool_rows(pool)
        if self._of_pool[0] != tuple(pool):
            rows = self._pool_rows(pool)
            documents = [] if rows is None else take_items(self._corpus, rows.tolist())
            index = None
            if any(self._analyze(document.full_text) for document in documents):
                index = type(self)(**options_of(self))
                index.index(documents)
            # the questions of one conversation share their pool
            self._of_pool = (tuple(pool), index)
        index = self._of_pool[1]
        # no document of the pool has a word: there is nothing to find
        return (self, np.empty(0, dtype=np.int64)) if index is None else (index, None)

    def _pool_rows(self, pool: Sequence[str] | None) -> IntArray | None:
        """Return the rows of the documents of a pool, ascending; None for the whole corpus."""
        if pool is None:
            return None
        return np.unique(np.array([*map(self._row_of, pool)], dtype=np.int64))

    def _row_of(self, document_id: str) -> int:
        """Return the row of an indexed document; raise `DataError` for an unknown id."""
        # on first use: only pools and relevance feedback look documents up by id
        if not self._rows:
            self._rows = dict(zip(self._ids, range(len(self._ids)), strict=True))
        if document_id not in self._rows:
            raise DataError(f"bm25: no document {document_id!r}", allowed="an indexed id")
        return self._rows[document_id]

    def terms(self, text: str) -> list[str]:
        """Return the index terms of a text: its words, without stop words, as stems.

        A repeated term comes again.
        """
        return self._analyze(text)

    def term_counts(self, document_id: str) -> Counter[str]:
        """Return the number of occurrences of each index term in an indexed document.

        An empty document gives an empty counter.

        Raises:
            DataError: No indexed document has the id, as before `index`.
        """
        # counted from the text: stored counts would double the index, and feedback asks for few
        return Counter(self._analyze(self._corpus[self._row_of(document_id)].full_text))

    def search(
        self, weights: Mapping[str, float], top_k: int, pool: Sequence[str] | None = None
    ) -> list[ScoredDocument]:
        """Return at most `top_k` hits, best first, for a query of weighted terms.

        A term of weight w adds w times its score in a plain query; unknown terms add nothing. Only
        documents with a score above that of a document without the terms are hits.

        Args:
            weights: Term -> weight; empty gives no hits.
            top_k: Largest number of hits.
            pool: Ids of the documents that may be hits; None for the whole corpus.

        Raises:
            DataError: No corpus has been indexed, or it lacks a document of the pool.
        """
        index, rows = self._index_for(pool)
        return index._hits(*index._rank_weighted(weights, top_k, rows))

    def _rank_weighted(
        self, weights: Mapping[str, float], top_k: int, pool: IntArray | None
    ) -> tuple[IntArray, FloatArray]:
        """Return rows and scores of the best documents for weighted terms, best first."""
        index = self._built()
        # documents without any query term have the floor as their score, see `_rank`
        absent, floor = index.nonoccurrence_array, 0.0
        scores: FloatArray = np.zeros(len(self._id_ranks) if pool is None else len(pool))
        for term, weight in weights.items():
            for token in index.get_tokens_ids([term]):
                scores += weight * self._scores([token], pool)
                floor += 0.0 if absent is None else weight * float(absent[token])
        return self._best(scores, floor, top_k, pool)

    def _scores(self, tokens: Sequence[int], pool: IntArray | None) -> FloatArray:
        """Return the scores of the rows of a pool for some terms; of all rows without a pool."""
        index = self._built()
        if pool is None:
            of_all: FloatArray = index.get_scores_from_ids(list(tokens))
            return of_all
        data, documents, starts = (index.scores[name] for name in _SCORES)
        scores: FloatArray = np.zeros(len(pool))
        # of one type, or NumPy would copy all postings
        rows = pool.astype(documents.dtype)
        for token in tokens:
            postings = slice(starts[token], starts[token + 1])
            # the rows of a term rise
            places = np.searchsorted(documents[postings], rows)
            in_range = np.flatnonzero(places < postings.stop - postings.start)
            places = postings.start + places[in_range]
            is_hit = documents[places] == rows[in_range]
            # in the order of the terms, as in a search of all rows: equal to the last bit
            scores[in_range[is_hit]] += data[places[is_hit]]
        if index.nonoccurrence_array is not None:
            scores += index.nonoccurrence_array[np.asarray(tokens)].sum()
        return scores

    def _built(self) -> bm25s.BM25:
        """Return the index; raise `DataError` before `index`."""
        if self._index is None:
            raise DataError("bm25: there is no corpus to search", allowed="call index first")
        return self._index

    def _rank(
        self, question: str, top_k: int, pool: IntArray | None
    ) -> tuple[IntArray, FloatArray]:
        """Return (corpus rows of the best documents, their scores), of those in `pool` if any."""
        index = self._built()
        tokens = index.get_tokens_ids(self._analyze(question))
        if not tokens:
            return np.empty(0, dtype=np.int64), np.empty(0)
        scores = self._scores(tokens, pool)
        # bm25l and bm25+ give every document a score above 0 for a term that it lacks
        absent = index.nonoccurrence_array
        floor = 0.0 if absent is None else absent[np.asarray(tokens)].sum()
        return self._best(scores, floor, top_k, pool)

    def _rank_chunks(
        self, question: str, top_k: int, chunk_of: IntArray, pool: IntArray | None
    ) -> tuple[IntArray, FloatArray]:
        """Return rows and scores of the best chunks, down to the first of the last document."""
        # deeper than top_k from the start: a document often has several of the best chunks
        depth = 2 * top_k
        while True:
            rows, scores = self._rank(question, depth, pool)
            first = np.sort(np.unique(chunk_of[rows], return_index=True)[1])
            if len(first) >= top_k:
                return rows[: first[top_k - 1] + 1], scores[: first[top_k - 1] + 1]
            if len(rows) < depth:
                return rows, scores
            depth *= 2

    def _best(
        self, scores: FloatArray, floor: float, top_k: int, pool: IntArray | None
    ) -> tuple[IntArray, FloatArray]:
        """Return (rows, scores) of the best documents above the floor, ties by id descending."""
        places = np.flatnonzero(scores > floor)
        if len(places) > top_k:
            # all that tie with the k-th stay in, so that the id decides among them
            kth = np.partition(scores[places], -top_k)[-top_k]
            places = places[scores[places] >= kth]
        rows = places if pool is None else pool[places]
        best = best_rows(rows, scores[places], self._id_ranks, top_k)
        return rows[best], scores[places[best]]

    def _hits(self, rows: IntArray, scores: FloatArray) -> list[ScoredDocument]:
        """Return the hits in some rows of the corpus with their scores."""
        ranking = zip(rows.tolist(), scores.tolist(), strict=True)
        hits = []
        for row, score in ranking:
            hits.append(ScoredDocument(self._ids[row], score))
        return hits


# retrievers that have no index yet: the first of them to read a corpus passes its terms on
_waiting: WeakSet[BM25] = WeakSet()


def _open_index(
    bm25: type[BM25], options: Mapping[str, Any], folder: Path, chunks: Path | None
) -> tuple[BM25, IntArray | None]:
    """Map the stored index, and the document number of each chunk, in a worker process."""
    copy = bm25(**options)
    copy._open(Arrays(folder))
    return copy, None if chunks is None else Arrays(chunks)["chunk_of"]


def _search_index(
    top_k: int,
    index: tuple[BM25, IntArray | None],
    request: tuple[str | Mapping[str, float], IntArray | None],
) -> tuple[IntArray, FloatArray]:
    """Return the rows and scores of the best hits for a question or weighted terms, and a pool."""
    bm25, chunk_of = index
    question, pool = request
    if not isinstance(question, str):
        return bm25._rank_weighted(question, top_k, pool)
    if chunk_of is None:
        return bm25._rank(question, top_k, pool)
    return bm25._rank_chunks(question, top_k, chunk_of, pool)


class RM3(Retriever):
    """Search twice with BM25: the second query is expanded with terms of the first hits.

    The first hits are assumed to be relevant. Each of them votes for its `terms` most frequent
    terms, in proportion to their frequency in it, weighted by its score. The `terms` terms with the
    most votes, scaled to a sum of 1, are mixed with the terms of the query. Terms with equal votes
    are ordered by alphabet. Stop words, stems and scores are those of the BM25 retriever. The hits
    carry the expanded query as `term^weight ...`; a query without first hits has no hits.

    Unlike Anserini, it keeps terms that occur in more than a tenth of the documents: stop words are
    removed already, and a corpus may be small. `borrow` must be called before `combine`, which
    raises DataError without it.

    References:
        Lavrenko and Croft (2001), Relevance-Based Language Models.
        Abdul-Jaleel et al. (2004), UMass at TREC 2004: Novelty and HARD (RM3).
        Yang, Fang and Lin (2017), Anserini: Enabling the Use of Lucene for Information Retrieval
        Research (BM25's scores in place of query likelihoods; the defaults).
    """

    same_results = "it counts words, and ranks the same each time"
    ranks_by_score = True
    asks_one_by_one = True

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
        """Keep the indexed BM25 retriever of `sources`.

        Raises:
            OptionError: The retriever is not of type bm25, or it indexes chunks.
            ValueError: There is not exactly one retriever.
        """
        [bm25] = retrievers
        if not isinstance(bm25, BM25):
            source = f"{self.sources[0]} ({type(bm25).__name__})"
            raise OptionError("rm3", "retriever", source, "a retriever of type bm25, not chunked")
        self._bm25 = bm25

    def index_search(self, top_k: int) -> IndexSearch | None:
        """Return the functions by which workers search the BM25 index for the expanded query.

        The result is None before `borrow`, and if the BM25 index is not stored.
        """
        search = None if self._bm25 is None else self._bm25.index_search(top_k)
        if search is None:
            return None
        read_hits, request_of = search.read, search.request

        def request(query: Query, hits: Sequence[Sequence[ScoredDocument]]) -> tuple[Any, Any]:
            """Return the request for the expanded query, with the rows of its pool."""
            return self._expanded(query, hits), request_of(query, hits)[1]

        def read(ranking: Any, request: tuple[Mapping[str, float], Any]) -> Retrieved:
            """Return the hits of a request, with its weighted terms."""
            return _with_query(read_hits(ranking, request).documents, request[0])

        return search._replace(request=request, read=read)

    def _expanded(self, query: Query, hits: Sequence[Sequence[ScoredDocument]]) -> dict[str, float]:
        """Return the expanded query, term -> weight; `hits` has the hits of the only source."""
        bm25, [first_hits] = self._borrowed(), hits
        feedback = []
        for hit in first_hits[: self.documents]:
            feedback.append((bm25.term_counts(hit.id), hit.score or 0.0))
        model = relevance_model(feedback, self.terms)
        original = _shares(Counter(bm25.terms(query.text)))
        return mixed(original, model, self.original_weight) if model else original

    def combine(self, queries: Sequence[Query], rankings: Rankings, top_k: int) -> list[Retrieved]:
        """Return the hits of each expanded query, with that query.

        `rankings` has one entry, the hits of BM25 for each query. A query has at most `top_k` hits,
        best first.

        Raises:
            DataError: `borrow` has not been called, or a first hit is not indexed.
        """
        bm25, [first_hits] = self._borrowed(), rankings
        retrieved = []
        for query, hits in zip(queries, first_hits, strict=True):
            weights = self._expanded(query, [hits])
            hits_of_query = bm25.search(weights, top_k, query.pool)
            retrieved.append(_with_query(hits_of_query, weights))
        return retrieved

    def _borrowed(self) -> BM25:
        """Return the BM25 retriever; raise `DataError` before `borrow`."""
        if self._bm25 is None:
            raise DataError("rm3: there is no index to search", allowed="call borrow first")
        return self._bm25


def _with_query(hits: Sequence[ScoredDocument], weights: Mapping[str, float]) -> Retrieved:
    """Return the hits with the weighted query as text, heaviest term first."""
    terms = _first(weights, len(weights))
    query = " ".join(itertools.starmap(_CLAUSE.format, terms.items()))
    return Retrieved(hits, [query] if query else [])


def relevance_model(
    feedback: Sequence[tuple[Mapping[str, int], float]], terms: int
) -> dict[str, float]:
    """Estimate the probability of each term in relevant documents: RM1, cut and rescaled.

    Equal shares are ordered by alphabet.

    Args:
        feedback: Term counts and weight of each document that is assumed to be relevant.
        terms: Number of terms that count of each document, and number of terms in the result.

    Returns:
        Term -> share, largest first; shares add up to 1. Empty if no document with a term has a
        weight above 0.

    Example:
        `fox`: 2 * 2/3 + 1 * 1/2, `red`: 2 * 1/3, `hen`: 1 * 1/2; then divided by their sum, 3.

        >>> shares = relevance_model([({"fox": 2, "red": 1}, 2.0), ({"fox": 1, "hen": 1}, 1.0)], 9)
        >>> {term: round(share, 4) for term, share in shares.items()}
        {'fox': 0.6111, 'red': 0.2222, 'hen': 0.1667}
    """
    votes: dict[str, float] = {}
    for counts, weight in feedback:
        for term, share in _shares(_first(counts, terms)).items():
            votes[term] = votes.get(term, 0.0) + share * weight
    shares = _shares(_first(votes, terms)) if any(votes.values()) else {}
    # a vote of 0, or one so small that its share is 0
    return {term: share for term, share in shares.items() if share > 0}


def mixed(
    original: Mapping[str, float], model: Mapping[str, float], original_weight: float
) -> dict[str, float]:
    """Return the weighted mean of two distributions over terms, without terms of weight 0.

    `original_weight` is the weight of `original`, from 0 to 1; `model` has the remaining weight.
    Terms of `original` come first.

    Example:
        >>> mixed({"fox": 1.0}, {"fox": 0.5, "hen": 0.5}, 0.6)
        {'fox': 0.8, 'hen': 0.2}
    """
    model_weight = 1 - original_weight
    weights = {}
    for term in [*original, *model]:
        weight = original_weight * original.get(term, 0.0) + model_weight * model.get(term, 0.0)
        if weight > 0:
            weights[term] = weight
    return weights


def _first(weights: Mapping[str, float], count: int) -> dict[str, float]:
    """Return the `count` heaviest terms, heaviest first."""
    # ties go by alphabet, so that the result does not depend on the order of the documents
    best = sorted(weights, key=lambda term: (-weights[term], term))[:count]
    return {term: weights[term] for term in best}


def _shares(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights scaled to a sum of 1; they must have a positive sum."""
    total = math.fsum(weights.values())
    shares = {}
    for term, weight in weights.items():
        shares[term] = weight / total
    return shares
