"""Relevant, but not alike: maximal marginal relevance, `type: mmr`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from ragbench.embed import base as embed
from ragbench.embed.cache import CachedEmbedder, EmbedderOptions
from ragbench.embed.sentence_transformers import dot_products
from ragbench.errors import AdapterError
from ragbench.files import cache_folder
from ragbench.registry import Option
from ragbench.rerank.base import HitLists, Reranker, hit_texts
from ragbench.types import FloatArray, Query, ScoredDocument


@dataclass(frozen=True, kw_only=True)
class MMROptions(EmbedderOptions):
    """How relevance and unlikeness are weighed."""

    lambda_mult: Annotated[
        float,
        Option(
            "Weight of relevance: 1 ranks by relevance alone, 0 by unlikeness alone.", ge=0, le=1
        ),
    ] = 0.5
    relevance: Annotated[
        Literal["similarity", "scores"],
        Option("similarity: to the query; scores: the retriever's, put to 0..1 by query."),
    ] = "similarity"


class MMR(Reranker):
    """Take hits one by one: the most relevant that is least like those already taken.

    Similarities are cosines of the model's vectors, read from the cache where the model has
    encoded a text before. The score of a hit is its marginal relevance when it was taken; the
    order is the ranking.

    Vectors are kept in `cache_folder`; None is `.ragbench`, or what `RAGBENCH_CACHE` names. Those
    in `cache_also` are read, too.

    References:
        Carbonell and Goldstein (1998), The Use of MMR, Diversity-Based Reranking for Reordering
        Documents and Producing Summaries.
    """

    computes = True
    packages = ("sentence-transformers", "transformers", "torch")
    definition = 2  # texts are encoded alone

    declares = MMROptions

    def __init__(self, **options: Any) -> None:
        chosen = MMROptions(**options)
        embed.find_checkpoint("mmr", chosen.model)
        self.lambda_mult = chosen.lambda_mult
        self._by_scores = chosen.relevance == "scores"
        self._open: Callable[[], CachedEmbedder] = lambda: chosen.open(
            "reranker 'mmr'", (self.cache_folder or cache_folder(), *self.cache_also), self.executor
        )
        self._embedder: CachedEmbedder | None = None

    @property
    def encodings(self) -> embed.Encodings | None:
        """How many texts it has had encoded so far, and how many of them were in the cache."""
        return None if self._embedder is None else self._embedder.encodings

    def load(self) -> None:
        """Load the model."""
        self._embedder = self._open()

    def rerank(self, queries: Sequence[Query], hits: HitLists, top_k: int) -> HitLists:
        """Return for each query, in order, at most `top_k` of its hits, best first."""
        asked = list(zip(queries, hits, strict=True))
        texts = [text for query, found in asked for text in hit_texts(query, found, "mmr")]
        scores = [_scaled_scores(*each) if self._by_scores else None for each in asked]
        embedder = self._embedder = self._embedder or self._open()
        vectors = embedder.encode(texts, prompt=embedder.prompts["document"])
        wanted = [] if self._by_scores else [query.text for query in queries]
        questions = embedder.encode(wanted, prompt=embedder.prompts["query"])
        rankings, start = [], 0
        for position, (_, found) in enumerate(asked):
            mine = vectors[start : start + len(found)]
            start += len(found)
            relevance = scores[position]
            if relevance is None:
                relevance = dot_products(mine, questions[position])
            taken = marginal_relevance(relevance, _likeness(mine), self.lambda_mult, top_k)
            rankings.append([replace(found[row], score=value) for row, value in taken])
        return rankings


def _likeness(vectors: embed.Vectors) -> Callable[[int], FloatArray]:
    return lambda row: dot_products(vectors, vectors[row])


def marginal_relevance(
    relevance: FloatArray, similarity: Callable[[int], FloatArray], lambda_mult: float, top_k: int
) -> list[tuple[int, float]]:
    """Take items one by one by maximal marginal relevance, each with its value when it was taken.

    The next one has the largest lambda * relevance - (1 - lambda) * (its largest similarity to
    an item taken before); before the first, that similarity is 0. The first of equals is taken.
    `similarity` gets an item and returns how similar all are to it: one call for each item taken.

    References:
        Carbonell and Goldstein (1998), 2.
    """
    left = np.ones(len(relevance), dtype=bool)
    nearest = np.zeros(len(relevance))
    taken: list[tuple[int, float]] = []
    while len(taken) < min(top_k, len(relevance)):
        value = lambda_mult * relevance - (1 - lambda_mult) * nearest
        best = int(np.argmax(np.where(left, value, -np.inf)))
        likeness = similarity(best)
        # a similarity may be negative, so that the first one replaces the 0
        nearest = np.maximum(nearest, likeness) if taken else likeness
        left[best] = False
        taken.append((best, float(value[best])))
    return taken


def _scaled_scores(query: Query, hits: Sequence[ScoredDocument]) -> FloatArray:
    """The hits' scores, the lowest as 0 and the highest as 1, as similarities lie; 1 if equal."""
    for hit in hits:
        if hit.score is None or not np.isfinite(hit.score):
            raise AdapterError(
                f"mmr: hit '{hit.id}' of query '{query.id}' has the score {hit.score}, allowed "
                "with relevance scores: a number"
            )
    scores = np.array([hit.score for hit in hits], dtype=np.float64)
    low, high = scores.min(initial=np.inf), scores.max(initial=-np.inf)
    return (scores - low) / (high - low) if high > low else np.ones(len(hits))
