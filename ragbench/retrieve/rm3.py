"""Relevance feedback over BM25: `type: rm3, retriever: bm25`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

from ragbench.errors import DataError, OptionError
from ragbench.registry import Option
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.bm25 import BM25
from ragbench.types import Query, Retrieved, ScoredDocument

_CLAUSE = "{}^{:.4f}"  # as Lucene writes a weighted term


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

    def combine(
        self,
        queries: Sequence[Query],
        rankings: Sequence[Sequence[Sequence[ScoredDocument]]],
        top_k: int,
    ) -> list[Retrieved]:
        """Return for each query what the expanded query finds, and that query."""
        if self._bm25 is None:
            raise DataError("rm3: there is no index to search", allowed="call borrow first")
        [first_hits] = rankings
        return [
            self._search_again(self._bm25, query.text, hits, top_k)
            for query, hits in zip(queries, first_hits, strict=True)
        ]

    def _search_again(
        self, bm25: BM25, question: str, hits: Sequence[ScoredDocument], top_k: int
    ) -> Retrieved:
        feedback = [(bm25.term_counts(hit.id), hit.score or 0.0) for hit in hits[: self.documents]]
        model = relevance_model(feedback, self.terms)
        asked = _shares(Counter(bm25.terms(question)))
        weights = mixed(asked, model, self.original_weight) if model else asked
        best = sorted(weights, key=lambda term: (-weights[term], term))
        written = " ".join(_CLAUSE.format(term, weights[term]) for term in best)
        return Retrieved(bm25.search(weights, top_k), [written] if written else [])


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
