"""A model that reads query and document at once: `type: cross_encoder`, on transformers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from ragbench.embed import base as embed
from ragbench.embed.encoders import Batches, token_limit, truncation_notes
from ragbench.embed.sentence_transformers import EXTRA, PACKAGES
from ragbench.errors import OptionError
from ragbench.executors.base import Executor, Task
from ragbench.rerank.base import HitLists, Reranker, hit_texts
from ragbench.types import Query

_BATCH_TOKENS = 65536  # a GPU needs large batches to be busy
_AT_ONCE = 4096  # pairs that are tokens at a time
_BLOCK = 64  # pairs that a worker gets at once
_ONE_SCORE = "a cross-encoder: a model with one score for a pair"

Pair = tuple[str, str]


class PairScore(NamedTuple):
    """What a cross-encoder says of a pair."""

    score: float
    truncated: bool


class PairScorer:
    """A cross-encoder on transformers; loaded once, used often, from any thread.

    Scores are the model's own numbers before any squashing into 0..1, which would make the best
    ones equal; only their order means something.
    """

    def __init__(
        self, checkpoint: embed.Checkpoint, device: str, batch_tokens: int | None = None
    ) -> None:
        self._tokenizer, model, absent = checkpoint.load_model("AutoModelForSequenceClassification")
        if absent:
            found = f"{checkpoint.name} (without the weights {', '.join(absent[:3])})"
            raise OptionError(checkpoint.owner, "model", found, _ONE_SCORE)
        self.limit = token_limit(self._tokenizer, model)
        self.device, self._model = device, model.float().eval().to(device)
        self._batches = Batches(device, batch_tokens, _BATCH_TOKENS)
        # a tokeniser keeps its truncation in itself, and cannot be asked by two threads at once
        self._lock = threading.Lock()

    def read(self, pairs: Sequence[Pair]) -> list[PairScore]:
        """Return a score for each pair, higher is better, and whether the pair was cut.

        A pair that is longer than the model can read is cut, the longer text first. Equal pairs are
        computed once.
        """
        scores: dict[Pair, PairScore] = {}
        distinct = list(dict.fromkeys(pairs))
        for start in range(0, len(distinct), _AT_ONCE):
            scores.update(self._score(distinct[start : start + _AT_ONCE]))
        return [scores[pair] for pair in pairs]

    def _score(self, pairs: Sequence[Pair]) -> dict[Pair, PairScore]:
        with self._lock:
            tokens = self._tokens(pairs, cut=self.limit is not None)
            lengths = [len(ids) for ids in tokens["input_ids"]]
            full = [row for row, length in enumerate(lengths) if length == self.limit]
            truncated = self._longer([pairs[row] for row in full])
            values = self._batches.apply(functools.partial(self._forward, tokens), lengths)
        return {
            pair: PairScore(value, pair in truncated)
            for pair, value in zip(pairs, values, strict=True)
        }

    def _longer(self, pairs: Sequence[Pair]) -> set[Pair]:
        """Those that are longer than the model can read, of pairs that fill it."""
        if not pairs:
            return set()
        lengths = map(len, self._tokens(pairs, cut=False)["input_ids"])
        return {pair for pair, length in zip(pairs, lengths, strict=True) if length != self.limit}

    def _tokens(self, pairs: Sequence[Pair], *, cut: bool) -> Any:
        return self._tokenizer(
            [embed.as_unicode(pair[0]) for pair in pairs],
            [embed.as_unicode(pair[1]) for pair in pairs],
            truncation=cut,
            max_length=self.limit if cut else None,
            verbose=False,
        )

    def _forward(self, tokens: Any, batch: Sequence[int]) -> list[float]:
        import torch

        rows = {name: [column[row] for row in batch] for name, column in tokens.items()}
        padded = self._tokenizer.pad(rows, return_tensors="pt", verbose=False).to(self.device)
        with torch.inference_mode():
            values: list[float] = self._model(**padded).logits[:, 0].cpu().tolist()
        return values


def shared_pair_scorer(
    owner: str, model: str, *, device: embed.Device = "auto", batch_tokens: int | None = None
) -> PairScorer:
    """Return a cross-encoder that stays loaded: the next call gets the same one."""
    embed.need_packages(owner, EXTRA, PACKAGES)
    checkpoint = embed.find_checkpoint(owner, model)
    if (labels := checkpoint.config().num_labels) != 1:  # before the weights are read
        found = f"{checkpoint.name} (with {labels} labels)"
        raise OptionError(owner, "model", found, _ONE_SCORE)
    return _scorer(
        checkpoint, checkpoint.identity, embed.choose_device(owner, device), batch_tokens
    )


@functools.lru_cache(maxsize=1)
def _scorer(
    checkpoint: embed.Checkpoint,
    identity: str,  # so that a folder whose content has changed is loaded again
    device: str,
    batch_tokens: int | None,
) -> PairScorer:
    return PairScorer(checkpoint, device, batch_tokens)


class RemotePairScorer:
    """A cross-encoder on workers."""

    def __init__(self, executor: Executor, owner: str, model: str, **options: Any) -> None:
        self._executor = executor
        given = {"owner": owner, "model": model, **options}
        self._task = Task(owner, shared_pair_scorer, given, PairScorer.read)
        limit = replace(self._task, apply=_limit_of_block)
        self.limit: int | None = executor.map_all(limit, ["limit of the model"], 1)[0]

    def read(self, pairs: Sequence[Pair]) -> list[PairScore]:
        """Return the score of each pair and whether it was cut; equal pairs are computed once."""
        distinct = list(dict.fromkeys(pairs))
        results = self._executor.map_all(self._task, distinct, _BLOCK)
        scores = dict(zip(distinct, results, strict=True))
        return [scores[pair] for pair in pairs]


def _limit_of_block(scorer: PairScorer, block: list[str]) -> list[int | None]:
    return [scorer.limit]


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
        model: embed.Model = DEFAULT_MODEL,
        device: embed.ComputeDevice = "auto",
        batch_tokens: embed.BatchTokens = None,
    ) -> None:
        embed.find_checkpoint("cross_encoder", model)
        how: dict[str, Any] = {"device": device, "batch_tokens": batch_tokens}
        self._open: Callable[[], PairScorer | RemotePairScorer] = lambda: (
            shared_pair_scorer(_OWNER, model, **how)
            if self.executor is None
            else RemotePairScorer(self.executor, _OWNER, model, **how)
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

    def rerank(self, queries: Sequence[Query], hits: HitLists, top_k: int) -> HitLists:
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
