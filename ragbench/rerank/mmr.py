"""Maximal marginal relevance, for relevant hits that differ from each other: `type: mmr`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import structs

from ragbench.embed import base as embed
from ragbench.embed.cache import CachedEmbedder, EmbedderOptions
from ragbench.embed.sentence_transformers import EXTRA, PACKAGES, dot_products
from ragbench.errors import AdapterError
from ragbench.registry import Option
from ragbench.rerank.base import HitLists, Reranker, hit_texts
from ragbench.types import FloatArray, Query, ScoredDocument
from ragbench.types.display import quoted_start


class MMROptions(EmbedderOptions):
    """Options of the model, and the weight of relevance against diversity: keywords of `MMR`."""

    lambda_mult: Annotated[
        float,
        Option("Weight of relevance: 1 ranks by relevance only, 0 by diversity only.", ge=0, le=1),
    ] = 0.5
    relevance: Annotated[
        Literal["similarity", "scores"],
        Option("similarity: to the query; scores: the retriever's, scaled to 0..1 per query."),
    ] = "similarity"


class MMR(Reranker):
    """Select hits one by one: the most relevant one that is least similar to the selected ones.

    Similarities are cosines of the model's vectors; stored vectors are read from the cache. The
    score of a hit is its marginal relevance when it was selected; the order is the ranking.

    Options are those of `MMROptions`: the model and its cache, `lambda_mult` and `relevance`.
    Vectors are stored in `cache_folder`; None means `RAGBENCH_CACHE`, else `.ragbench`. Vectors in
    `cache_also` are read, too.

    References:
        Carbonell and Goldstein (1998), The Use of MMR, Diversity-Based Reranking for Reordering
        Documents and Producing Summaries.
    """

    same_results = "equal texts have equal vectors"
    packages = ("sentence-transformers", "transformers", "torch")
    definition = 3  # 2 encoded each text alone, which gives other last digits

    declares = MMROptions

    def __init__(self, **options: Any) -> None:
        chosen = MMROptions(**options)
        embed.find_checkpoint("mmr", chosen.model)
        self.lambda_mult = chosen.lambda_mult
        self._by_scores = chosen.relevance == "scores"
        self._open: Callable[[], CachedEmbedder] = lambda: chosen.open("reranker 'mmr'", self)
        self._embedder: CachedEmbedder | None = None

    def check(self) -> None:
        """Raise `MissingExtra` if sentence-transformers is not installed."""
        embed.need_packages("reranker 'mmr'", EXTRA, PACKAGES)

    def load(self) -> None:
        """Load the model; an error here ends the run before the first query.

        Raises:
            MissingExtra: sentence-transformers is not installed.
            OptionError: The model or the device does not exist.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
            AdapterError: On workers, any of these.
        """
        self._embedder = self._open()

    def rerank(self, queries: Sequence[Query], hits: HitLists, top_k: int) -> HitLists:
        """Return for each query at most `top_k` of its hits, in the order of their selection.

        The score of a hit becomes its marginal relevance. The first call loads the model.

        Raises:
            AdapterError: A hit has no text, or no finite score with `relevance: scores`.
            DataError: The model returns a vector that is not finite, or the cache file cannot be
                read or written.
        """
        batch = list(zip(queries, hits, strict=True))
        texts, scores = list[str](), list[FloatArray]()
        for query, ranking in batch:
            texts += hit_texts(query, ranking, "mmr")
            if self._by_scores:
                scores.append(_scaled_scores(query, ranking))
        embedder = self._embedder = self._embedder or self._open()
        vectors = embedder.encode(texts, prompt=embedder.prompts["document"])
        questions = [] if self._by_scores else [query.text for query in queries]
        question_vectors = embedder.encode(questions, prompt=embedder.prompts["query"])
        rankings, start = [], 0
        for position, (_, ranking) in enumerate(batch):
            hit_vectors = vectors[start : start + len(ranking)]
            start += len(ranking)
            if self._by_scores:
                relevance = scores[position]
            else:
                relevance = dot_products(hit_vectors, question_vectors[position])
            similarity = partial(_similarities, hit_vectors)
            selection = marginal_relevance(relevance, similarity, self.lambda_mult, top_k)
            rankings.append(
                [structs.replace(ranking[row], score=value) for row, value in selection]
            )
        return rankings


def _similarities(vectors: embed.Vectors, row: int) -> FloatArray:
    """Return the cosine of one vector with all."""
    return dot_products(vectors, vectors[row])


def marginal_relevance(
    relevance: FloatArray, similarity: Callable[[int], FloatArray], lambda_mult: float, top_k: int
) -> list[tuple[int, float]]:
    """Select items one by one by maximal marginal relevance, at most `top_k`.

    The next item has the largest lambda * relevance - (1 - lambda) * (its largest similarity to a
    selected item). For the first item that similarity is 0. The first of equal items is selected.

    Args:
        relevance: Relevance of each of the n items.
        similarity: Returns the similarities of all items to one item; called once per selection.
        lambda_mult: Weight of relevance, from 0 to 1.
        top_k: Largest number of selected items.

    Returns:
        Index and marginal relevance of each selected item, in the order of selection.

    References:
        Carbonell and Goldstein (1998), 2.
    """
    is_open = np.ones(len(relevance), dtype=bool)
    nearest = np.zeros(len(relevance))
    selection: list[tuple[int, float]] = []
    while len(selection) < min(top_k, len(relevance)):
        value = lambda_mult * relevance - (1 - lambda_mult) * nearest
        best = int(np.argmax(np.where(is_open, value, -np.inf)))
        similarities = similarity(best)
        # a similarity may be negative: the first ones replace the 0 instead of a maximum with it
        nearest = np.maximum(nearest, similarities) if selection else similarities
        is_open[best] = False
        selection.append((best, float(value[best])))
    return selection


def _scaled_scores(query: Query, hits: Sequence[ScoredDocument]) -> FloatArray:
    """Return the scores scaled from 0 for the lowest to 1 for the highest; 1 if all are equal."""
    for hit in hits:
        if hit.score is None or not np.isfinite(hit.score):
            raise AdapterError(
                f"mmr: hit '{hit.id}' of query '{query.id}' {quoted_start(query.text)} has the "
                f"score {hit.score}, allowed with relevance: scores: a number"
            )
    scores = np.array([hit.score for hit in hits], dtype=np.float64)
    low, high = scores.min(initial=np.inf), scores.max(initial=-np.inf)
    return (scores - low) / (high - low) if high > low else np.ones(len(hits))
