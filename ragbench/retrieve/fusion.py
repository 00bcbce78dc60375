"""Fusion of several rankings by ranks or by scores: `type: fusion`, `retrievers: [bm25, dense]`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Literal

from msgspec import structs

from ragbench.errors import AdapterError, OptionError
from ragbench.registry import Option
from ragbench.retrieve.base import Rankings, Retriever
from ragbench.types import Query, ScoredDocument
from ragbench.types.checks import id_bytes
from ragbench.types.documents import record_ids

Method = Literal["rrf", "isr", "weighted", "combsum", "combmnz"]


class Fusion(Retriever):
    """Fuse the rankings of other retrievers into one.

    `rrf` adds 1 / (k + rank); `isr` adds 1 / rank², and multiplies the sum by the number of
    rankings with the document; `weighted` and `combsum` add scores, scaled from 0 to 1 in each
    ranking of a query; `combmnz` multiplies their sum by that number. The weight of a retriever
    multiplies what its ranking adds. A ranking without a document adds 0 to it. Scores that rise
    within a ranking may be distances, so that n, n - 1, ... 1 replace them there. Ties go to the
    larger document id; a repeated hit counts once, at its best rank. The constructor raises
    OptionError for an option that the method does not use, too. `combine` raises AdapterError for a
    hit without a finite score if scores are added.

    Example:
        `b` is second in one ranking and first in the other: 1/62 + 1/61.

        >>> fusion = Fusion(retrievers=["bm25", "dense"])
        >>> hits = [[ScoredDocument(id) for id in ids] for ids in ("ab", "bc")]
        >>> [fused] = fusion.combine([Query("q", "?")], [hits[:1], hits[1:]], top_k=3)
        >>> [(hit.id, round(hit.score, 4)) for hit in fused]
        [('b', 0.0325), ('a', 0.0164), ('c', 0.0161)]

    References:
        Cormack, Clarke and Buettcher (2009), Reciprocal Rank Fusion Outperforms Condorcet and
        Individual Rank Learning Methods.
        Fox and Shaw (1994), Combination of Multiple Searches (CombSUM, CombMNZ).
        Mourão, Martins and Magalhães (2015), Multimodal medical information retrieval with
        unsupervised rank fusion (inverse square rank, ISR).
    """

    same_results = "it computes its ranking from those of its sources: repeat these"
    ranks_by_score = True
    asks_one_by_one = True
    depth_option = "depth: {top_k}"

    def __init__(
        self,
        *,
        retrievers: Annotated[
            list[str], Option("Names of two or more retrievers.", refers_to="retriever")
        ],
        method: Annotated[
            Method, Option("`rrf` and `isr` use only ranks, the others add scores.")
        ] = "rrf",
        k: Annotated[
            int, Option("rrf: larger values give the first ranks less weight.", ge=0)
        ] = 60,
        weights: Annotated[
            list[float] | None,
            Option("rrf, isr, weighted: a number >= 0 for each retriever; default: equal ones."),
        ] = None,
        normalize: Annotated[
            Literal["min_max"] | None,
            Option(
                "Scale of a query's scores before they are added, from 0 to 1; not for rrf "
                "and isr; default: min_max."
            ),
        ] = None,
        depth: Annotated[
            int | None, Option("Hits used from each retriever; default: top_k.", ge=1)
        ] = None,
    ) -> None:
        self.sources: Sequence[str] = list(retrievers)
        self.depth = depth
        self.method, self.k = method, k
        if len(self.sources) < 2:
            raise OptionError("fusion", "retrievers", retrievers, "two retrievers or more")
        if method in ("rrf", "isr") and normalize is not None:
            allowed = f"left out: {method} uses ranks only; or method weighted, combsum, combmnz"
            raise OptionError("fusion", "normalize", normalize, allowed)
        if method in ("combsum", "combmnz") and weights is not None:
            allowed = "no weights; or method weighted, rrf, isr"
            raise OptionError("fusion", "weights", weights, allowed)
        self.weights = [1.0] * len(self.sources) if weights is None else list(map(float, weights))
        if len(self.weights) != len(self.sources) or not all(map(math.isfinite, self.weights)):
            allowed = f"{len(self.sources)} numbers, one for each retriever"
            raise OptionError("fusion", "weights", weights, allowed)
        if min(self.weights) < 0 or not any(self.weights):
            raise OptionError("fusion", "weights", weights, "numbers >= 0, not all of them 0")

    def combine(
        self, queries: Sequence[Query], rankings: Rankings, top_k: int
    ) -> list[list[ScoredDocument]]:
        """Return for each query the `top_k` documents with the highest fused scores.

        All hits of `rankings` count: a run cuts them at `depth`. A hit keeps the text and title of
        the first ranking that has its text.

        Raises:
            AdapterError: A method that adds scores meets a hit without a finite score.
        """
        fused = []
        for position in range(len(queries)):
            fused.append(self._fuse([ranking[position] for ranking in rankings], top_k))
        return fused

    def _fuse(
        self, rankings: Sequence[Sequence[ScoredDocument]], top_k: int
    ) -> list[ScoredDocument]:
        """Return the fused ranking of a query, best first."""
        parts: dict[str, list[float]] = {}
        hits: dict[str, ScoredDocument] = {}
        for source, ranking in enumerate(rankings):
            for identifier, part in self._parts(source, ranking).items():
                parts.setdefault(identifier, []).append(self.weights[source] * part)
            for hit in ranking:
                if (first := hits.get(hit.id)) is None or first.text is None:
                    hits[hit.id] = hit
        # exactly rounded sums: the order of the retrievers breaks no tie
        scores = {}
        for identifier, terms in parts.items():
            scores[identifier] = math.fsum(terms)
            if self.method in ("combmnz", "isr"):
                scores[identifier] *= len(terms)
        # ids tie by their bytes, as in trec_eval
        best = sorted(scores, key=lambda doc: (scores[doc], id_bytes(doc)), reverse=True)
        return [
            structs.replace(hits[identifier], score=scores[identifier])
            for identifier in best[:top_k]
        ]

    def _parts(self, source: int, ranking: Sequence[ScoredDocument]) -> Mapping[str, float]:
        """Return the unweighted addend of each document of one ranking: document id -> number."""
        if self.method in ("rrf", "isr"):
            parts = {}
            for rank, document in enumerate(dict.fromkeys(record_ids(ranking)), start=1):
                parts[document] = 1 / rank**2 if self.method == "isr" else 1 / (self.k + rank)
            return parts
        scores: dict[str, float] = {}
        for hit in ranking:
            if hit.score is None or not math.isfinite(hit.score):
                problem = f"'{self.sources[source]}' gives {hit.id!r} the score {hit.score}"
                allowed = "numbers; method: rrf uses ranks only"
                raise AdapterError(f"fusion: {problem}, allowed: {allowed}")
            # a repeated hit counts at its first score, the best one of scores that fall
            scores.setdefault(hit.id, hit.score)
        # scores that rise somewhere contradict the order, which then counts; a tie does not
        if any(later > earlier for earlier, later in pairwise(scores.values())):
            scores = dict(zip(scores, map(float, range(len(scores), 0, -1)), strict=True))
        return scaled(scores)


def scaled(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores of one query's ranking from 0, the lowest, to 1, the highest.

    `scores` is document id -> score; the scores and their span must be finite. Equal scores do not
    tell documents apart: all get 0. The order of the documents stays; empty stays empty.

    Example:
        >>> scaled({"a": 3.0, "b": 2.0, "c": 1.0})
        {'a': 1.0, 'b': 0.5, 'c': 0.0}

    References:
        Montague and Aslam (2001), Relevance Score Normalization for Metasearch.
    """
    lowest = min(scores.values(), default=0.0)
    span = max(scores.values(), default=0.0) - lowest
    if span == 0:
        return dict.fromkeys(scores, 0.0)
    return {document: (score - lowest) / span for document, score in scores.items()}
