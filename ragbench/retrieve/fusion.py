"""Fusion of several rankings by ranks or by scores: `type: fusion`, `retrievers: [bm25, dense]`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from ragbench.errors import AdapterError, OptionError
from ragbench.registry import Option
from ragbench.retrieve.base import Rankings, Retriever
from ragbench.types import Query, ScoredDocument
from ragbench.types.checks import id_bytes

Method = Literal["rrf", "isr", "weighted", "combsum", "combmnz"]


class Fusion(Retriever):
    """Fuse the rankings of other retrievers into one.

    `rrf` adds 1 / (k + rank); `isr` adds 1 / rank², and multiplies the sum by the number of
    rankings with the document; `weighted` and `combsum` add scores, scaled by `normalize`;
    `combmnz` multiplies their sum by that number. The weight of a retriever multiplies what its
    ranking adds. A ranking without a document adds 0 to it; with `z_score` that is the score of the
    average document of that ranking. Ties go to the larger document id; a repeated hit counts once,
    at its best rank and score. OptionError for fewer than two retrievers, an option that the method
    does not use, `weights` or `lowest` that are not one finite number per retriever, and `weights`
    below 0 or all 0. A config checks `method`, `normalize`, `k` and `depth`, this class does not.
    `combine` raises AdapterError for a hit without a finite score if scores are added.

    Args:
        retrievers: Names of two or more retrievers.
        method: `rrf` and `isr` use only ranks, the others add scores.
        k: rrf: larger values give the first ranks less weight.
        weights: rrf, isr, weighted: a number >= 0 for each retriever; default: equal ones.
        normalize: Scale of a query's scores before they are added; not for rrf and isr; default:
            min_max.
        lowest: theoretical: the lowest possible score of each retriever; default: 0, right for
            bm25; a cosine has -1.
        depth: Hits used from each retriever; default: top_k.

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

    ranks_by_score = True
    asks_one_by_one = True

    def __init__(
        self,
        *,
        retrievers: Annotated[list[str], Option(refers_to="retriever")],
        method: Annotated[Method, Option()] = "rrf",
        k: Annotated[int, Option(ge=0)] = 60,
        weights: Annotated[list[float] | None, Option()] = None,
        normalize: Annotated[Normalization | None, Option()] = None,
        lowest: Annotated[list[float] | None, Option()] = None,
        depth: Annotated[int | None, Option(ge=1)] = None,
    ) -> None:
        self.sources: Sequence[str] = list(retrievers)
        self.depth = depth
        self.method, self.k = method, k
        if len(self.sources) < 2:
            raise OptionError("fusion", "retrievers", retrievers, "two retrievers or more")
        self._check_use(weights, normalize, lowest)
        self.normalize: Normalization = normalize or "min_max"
        count = len(self.sources)
        self.weights = _numbers("weights", weights, count, 1.0)
        if min(self.weights) < 0 or not any(self.weights):
            raise OptionError("fusion", "weights", weights, "numbers >= 0, not all of them 0")
        self.lowest = _numbers("lowest", lowest, count, 0.0)

    def _check_use(self, weights: object, normalize: Normalization | None, lowest: object) -> None:
        """Raise an `OptionError` for an option that the method does not use.

        None, or `normalize: none`, is no use of an option.
        """
        if self.method in ("rrf", "isr") and normalize not in (None, "none"):
            allowed = f"none: {self.method} uses ranks only; or method weighted, combsum, combmnz"
            raise OptionError("fusion", "normalize", normalize, allowed)
        if self.method in ("combsum", "combmnz") and weights is not None:
            allowed = "no weights; or method weighted, rrf, isr"
            raise OptionError("fusion", "weights", weights, allowed)
        if normalize != "theoretical" and lowest is not None:
            raise OptionError("fusion", "lowest", lowest, "left out; or normalize: theoretical")

    def combine(
        self, queries: Sequence[Query], rankings: Rankings, top_k: int
    ) -> list[list[ScoredDocument]]:
        """Return for each query the `top_k` documents with the highest fused scores.

        Best first, in the order of the queries; a query without hits has an empty list. All hits of
        `rankings` count: a run cuts them at `depth`. A hit keeps the text and title of the first
        ranking that has its text.

        Raises:
            AdapterError: A method that adds scores meets a hit without a finite score, or, with
                `normalize: theoretical`, a score below `lowest`.
        """
        return [
            self._fuse([ranking[position] for ranking in rankings], top_k)
            for position in range(len(queries))
        ]

    def _fuse(
        self, rankings: Sequence[Sequence[ScoredDocument]], top_k: int
    ) -> list[ScoredDocument]:
        """Return the fused ranking of a query, best first.

        At most `top_k`; AdapterError as `combine`.
        """
        parts: dict[str, list[float]] = {}
        hits: dict[str, ScoredDocument] = {}
        for source, ranking in enumerate(rankings):
            for identifier, part in self._parts(source, ranking).items():
                parts.setdefault(identifier, []).append(self.weights[source] * part)
            for hit in ranking:
                if (first := hits.get(hit.id)) is None or first.text is None:
                    hits[hit.id] = hit
        # exactly rounded sums: the order of the retrievers breaks no tie
        scores = {identifier: math.fsum(terms) for identifier, terms in parts.items()}
        if self.method in ("combmnz", "isr"):
            scores = {identifier: s * len(parts[identifier]) for identifier, s in scores.items()}
        # ids tie by their bytes, as in trec_eval
        best = sorted(scores, key=lambda doc: (scores[doc], id_bytes(doc)), reverse=True)
        return [replace(hits[identifier], score=scores[identifier]) for identifier in best[:top_k]]

    def _parts(self, source: int, ranking: Sequence[ScoredDocument]) -> Mapping[str, float]:
        """Return the unweighted addend of each document of one ranking: document id -> number.

        `source` is the number of its retriever, from 0. AdapterError for a score that is missing,
        not finite or below `lowest`. Empty for an empty ranking.
        """
        if self.method in ("rrf", "isr"):
            ranks = enumerate(dict.fromkeys(hit.id for hit in ranking), start=1)
            if self.method == "isr":
                return {doc: 1 / rank**2 for rank, doc in ranks}
            return {doc: 1 / (self.k + rank) for rank, doc in ranks}
        scores: dict[str, float] = {}
        for hit in ranking:
            if hit.score is None or not math.isfinite(hit.score):
                problem = f"'{self.sources[source]}' gives {hit.id!r} the score {hit.score}"
                allowed = "numbers; method: rrf uses ranks only"
                raise AdapterError(f"fusion: {problem}, allowed: {allowed}")
            # a repeated hit counts at its best score
            scores[hit.id] = max(hit.score, scores.get(hit.id, -math.inf))
        try:
            return normalized(scores, self.normalize, self.lowest[source])
        except OptionError as error:
            raise AdapterError(f"fusion: retriever '{self.sources[source]}': {error}") from error


def _numbers(name: str, values: Sequence[float] | None, count: int, default: float) -> list[float]:
    """Return the numbers of all retrievers; None gives each the default.

    `count` is the number of retrievers, `name` the option in the message. OptionError unless there
    is one finite number for each retriever; it may be negative.
    """
    if values is None:
        return [default] * count
    if len(values) != count or not all(math.isfinite(value) for value in values):
        raise OptionError("fusion", name, values, f"{count} numbers, one for each retriever")
    return [float(value) for value in values]


Normalization = Literal["min_max", "z_score", "theoretical", "none"]


def normalized(
    scores: Mapping[str, float], how: Normalization, lowest: float = 0.0
) -> dict[str, float]:
    """Return the scores of one query's ranking on a common scale; empty stays empty.

    If all hits have the same score, `min_max` and `z_score` return 0 for each, and `theoretical`
    does at the lowest score. The order of the documents stays.

    Args:
        scores: Document id -> score.
        how: `min_max`: the lowest score becomes 0, the highest 1. `z_score`: mean 0 and variance 1,
            of the hits as a population. `theoretical`: like min_max, but `lowest` becomes 0.
            `none`: unchanged.
        lowest: Lowest score that the retriever can give, for `theoretical`.

    Raises:
        OptionError: With `theoretical`, a score is below `lowest`.

    Example:
        >>> normalized({"a": 3.0, "b": 2.0, "c": 1.0}, "min_max")
        {'a': 1.0, 'b': 0.5, 'c': 0.0}
        >>> normalized({"a": 0.5, "b": 0.0}, "theoretical", lowest=-1.0)
        {'a': 1.0, 'b': 0.6666666666666666}

    References:
        Montague and Aslam (2001), Relevance Score Normalization for Metasearch.
        Bruch, Gai and Ingber (2023), An Analysis of Fusion Functions for Hybrid Retrieval
        (theoretical: there TMM).
    """
    if how == "none" or not scores:
        return dict(scores)
    if how == "z_score":
        mean = math.fsum(scores.values()) / len(scores)
        variance = math.fsum((score - mean) ** 2 for score in scores.values()) / len(scores)
        # equal scores have no variance; their rounded mean may differ from them by a bit
        equal = min(scores.values()) == max(scores.values())
        return _scaled(scores, mean, 0.0 if equal else math.sqrt(variance))
    bottom = min(scores.values())
    if how == "theoretical":
        if bottom < lowest:
            raise OptionError(
                "", "lowest", lowest, f"at most {bottom:g}, a score of one of its hits"
            )
        bottom = lowest
    return _scaled(scores, bottom, max(scores.values()) - bottom)


# equal scores (unit 0) do not tell the documents apart: all get 0
def _scaled(scores: Mapping[str, float], origin: float, unit: float) -> dict[str, float]:
    """Return the scores minus `origin`, divided by `unit`; all 0 if the unit is 0.

    Order is kept; no scores give an empty mapping.
    """
    if unit == 0:
        return dict.fromkeys(scores, 0.0)
    return {document: (score - origin) / unit for document, score in scores.items()}
