"""A model that reads query and document at once: `type: cross_encoder`, on transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from ragbench.embed.base import BatchTokens, ComputeDevice, Model
from ragbench.embed.checkpoint import find_checkpoint
from ragbench.embed.cross_encoder import PairScorer, shared_pair_scorer
from ragbench.embed.encoders import truncation_notes
from ragbench.embed.remote import RemotePairScorer
from ragbench.rerank.base import Reranker, hit_texts
from ragbench.types import Query, ScoredDocument

_OWNER = "reranker 'cross_encoder'"
DEFAULT_MODEL = "cross-encoder/ms-marco-MiniLM-L6-v2"


class CrossEncoder(Reranker):
    """Order hits by the score that a cross-encoder gives the query with each of them.

    The score is the model's own number, on no scale; hits with equal scores stay as they were.
    A document is its title and its text; a pair that is too long for the model is cut.

    References:
        Nogueira and Cho (2019), Passage Re-ranking with BERT.
    """

    computes = True
    packages = ("transformers", "torch")
    definition = 2  # pairs are computed alone

    def __init__(
        self,
        *,
        model: Model = DEFAULT_MODEL,
        device: ComputeDevice = "auto",
        batch_tokens: BatchTokens = None,
    ) -> None:
        find_checkpoint("cross_encoder", model)
        options: dict[str, Any] = {"device": device, "batch_tokens": batch_tokens}
        self._open: Callable[[], PairScorer | RemotePairScorer] = lambda: (
            shared_pair_scorer(_OWNER, model, **options)
            if self.pool is None
            else RemotePairScorer(self.pool, _OWNER, model, **options)
        )
        self._scorer: PairScorer | RemotePairScorer | None = None
        self._truncated: dict[str, tuple[int, int]] = {}

    @property
    def notes(self) -> list[str]:
        """How many pairs of query and passage are longer than the model reads."""
        if self._scorer is None:
            return []
        truncated = sum(cut for cut, _ in self._truncated.values())
        pairs = sum(total for _, total in self._truncated.values())
        lost = "; the end of the longer text is not read"
        return truncation_notes(
            truncated, pairs, "pairs of query and passage", self._scorer.limit, lost
        )

    def load(self) -> None:
        """Load the model."""
        self._scorer = self._open()

    def rerank(
        self, queries: Sequence[Query], hits: Sequence[Sequence[ScoredDocument]], top_k: int
    ) -> list[list[ScoredDocument]]:
        """Return for each query, in order, at most `top_k` of its hits, best first."""
        asked = list(zip(queries, hits, strict=True))
        pairs = [
            (query.text, text)
            for query, found in asked
            for text in hit_texts(query, found, "cross_encoder")
        ]
        self._scorer = self._scorer or self._open()
        read = iter(self._scorer.read(pairs))
        ranked = []
        for query, found in asked:
            pieces = list(islice(read, len(found)))
            # by query: one that is asked again counts once
            self._truncated[query.id] = sum(piece.truncated for piece in pieces), len(pieces)
            scored = [
                replace(hit, score=piece.score) for hit, piece in zip(found, pieces, strict=True)
            ]
            ranked.append(sorted(scored, key=lambda hit: -(hit.score or 0.0))[:top_k])
        return ranked
