"""Cross-encoder, a model that reads query and document together: `type: cross_encoder`."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from msgspec import structs

from ragbench.embed import base as embed
from ragbench.embed.batches import Batches
from ragbench.embed.encoders import token_limit, truncation_notes
from ragbench.embed.sentence_transformers import EXTRA, PACKAGES
from ragbench.errors import OptionError, Phrase
from ragbench.executors.base import Executor, Task
from ragbench.rerank.base import HitLists, Reranker, hit_texts
from ragbench.types import Query
from ragbench.types.lookups import take_items

_TOKENIZED = 4096  # pairs whose tokens are in memory at a time
_BLOCK = 256  # pairs of one task of a worker: enough to share batches
_ONE_SCORE = "a cross-encoder: a model with one score for a pair"

Pair = tuple[str, str]


class PairScore(NamedTuple):
    """Score of a pair of query and passage, as `PairScorer.read` returns it.

    Attributes:
        score: The output of the model; only the order of scores means something.
        truncated: True if the pair was longer than the model reads, and was cut.
    """

    score: float
    truncated: bool


class PairScorer:
    """Cross-encoder on transformers; loaded once, safe to use from several threads.

    Scores are the outputs of the model before any sigmoid: in 0..1 the best ones would be equal. A
    model with several outputs is not refused: the first one is the score. `shared_pair_scorer`
    checks the number of outputs, and that the packages are installed. `read` returns the score of
    each (query, passage) pair.

    Attributes:
        limit: Number of tokens that the model reads; None means without limit.
        device: `cpu` or `cuda`.
    """

    def __init__(
        self, checkpoint: embed.Checkpoint, device: str, batch_tokens: int | None = None
    ) -> None:
        """Load the model.

        `batch_tokens` is the number of tokens of a batch, padding included; None takes a number for
        the device.

        Raises:
            OptionError: The checkpoint has no weights for the score of a pair, or does not exist.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
            ImportError: torch or transformers is not installed.
        """
        self._tokenizer, model, absent = checkpoint.load_model("AutoModelForSequenceClassification")
        if absent:  # transformers would draw them at random
            model_name = Phrase(
                f"{checkpoint.name!r} (without the weights {', '.join(absent[:3])})"
            )
            raise OptionError(checkpoint.owner, "model", model_name, _ONE_SCORE)
        self.limit = token_limit(self._tokenizer, model)
        self.device, self._model = device, model.float().eval().to(device)
        self._batches = Batches(device, batch_tokens, limit=self.limit)
        # a tokeniser stores its truncation as state: two threads must not use it at once
        self._lock = threading.Lock()

    def read(self, pairs: Sequence[Pair]) -> list[PairScore]:
        """Return the score of each (query, passage) pair, in order; higher is better.

        A pair that is longer than the model reads is cut, the longer text first. Equal pairs are
        computed once per call.
        """
        scores: dict[Pair, PairScore] = {}
        distinct = list(dict.fromkeys(pairs))
        for start in range(0, len(distinct), _TOKENIZED):
            scores.update(self._score(distinct[start : start + _TOKENIZED]))
        return list(map(scores.__getitem__, pairs))

    def _score(self, pairs: Sequence[Pair]) -> dict[Pair, PairScore]:
        """Return pair -> its score, computed in batches of equal length."""
        with self._lock:
            tokens = self._tokens(pairs, cut=self.limit is not None)
            lengths = list(map(len, tokens["input_ids"]))
            # only a pair of exactly the limit may have been cut: the others are not tokenised again
            is_full = [length == self.limit for length in lengths]
            truncated = self._longer(list(itertools.compress(pairs, is_full)))
            values = self._batches.apply(functools.partial(self._forward, tokens), lengths)
        scores = {}
        for pair, value in zip(pairs, values, strict=True):
            scores[pair] = PairScore(value, pair in truncated)
        return scores

    def _longer(self, pairs: Sequence[Pair]) -> set[Pair]:
        """Return the pairs that are longer than the model reads, of pairs that fill its limit."""
        if not pairs:
            return set()
        lengths = map(len, self._tokens(pairs, cut=False)["input_ids"])
        return {pair for pair, length in zip(pairs, lengths, strict=True) if length != self.limit}

    def _tokens(self, pairs: Sequence[Pair], *, cut: bool) -> Any:
        """Return the tokens of pairs, cut to the limit of the model if `cut` is set."""
        queries, passages = zip(*pairs, strict=True)
        return self._tokenizer(
            list(map(embed.as_unicode, queries)),
            list(map(embed.as_unicode, passages)),
            truncation=cut,
            max_length=self.limit if cut else None,
            verbose=False,
        )

    def _forward(self, tokens: Any, batch: Sequence[int], length: int) -> list[float]:
        """Return the scores of a batch, padded to a length."""
        import torch

        rows = {}
        for name, column in tokens.items():
            rows[name] = take_items(column, batch)
        padded = self._tokenizer.pad(
            rows, "max_length", length, return_tensors="pt", verbose=False
        ).to(self.device)
        with torch.inference_mode():
            values: list[float] = self._model(**padded).logits[:, 0].cpu().tolist()
        return values


def shared_pair_scorer(
    owner: str, model: str, *, device: embed.Device = "auto", batch_tokens: int | None = None
) -> PairScorer:
    """Return a cross-encoder that stays loaded: the next call with these arguments gets it again.

    `owner`, the name of the component in messages, is one of them. The last one stays loaded; a
    folder with changed content is loaded anew. `batch_tokens` is the number of tokens of a batch,
    padding included; None takes a number for the device.

    Raises:
        MissingExtra: The packages of the extra are not installed.
        OptionError: The model does not exist, or it has more than one score for a pair; the device
            is cuda without a GPU.
        DataError: The model is not in the cache of the hub, and the hub cannot be reached.
    """
    embed.need_packages(owner, EXTRA, PACKAGES)
    checkpoint = embed.find_checkpoint(owner, model)
    if (labels := checkpoint.config().num_labels) != 1:  # before the weights are read
        model_name = Phrase(f"{checkpoint.name!r} (with {labels} labels)")
        raise OptionError(owner, "model", model_name, _ONE_SCORE)
    return _scorer(
        checkpoint, checkpoint.identity, embed.choose_device(owner, device), batch_tokens
    )


@functools.lru_cache(maxsize=1)
def _scorer(
    checkpoint: embed.Checkpoint,
    identity: str,  # part of the key: a folder with changed content is loaded again
    device: str,
    batch_tokens: int | None,
) -> PairScorer:
    return PairScorer(checkpoint, device, batch_tokens)


class RemotePairScorer:
    """Cross-encoder on worker processes, with the methods of `PairScorer`.

    The first worker loads the model at once. An error of ragbench there, such as a model that does
    not exist, is raised here as AdapterError, any other error as RuntimeError. `read` returns the
    score of each pair. `options` are those of `shared_pair_scorer`.

    Attributes:
        limit: Number of tokens that the model reads; None means without limit.
    """

    def __init__(self, executor: Executor, owner: str, model: str, **options: Any) -> None:
        self._executor = executor
        arguments = {"owner": owner, "model": model, **options}
        self._task = Task(owner, shared_pair_scorer, arguments, PairScorer.read)
        # a block of one dummy item: the model is loaded on a worker only
        limit = replace(self._task, apply=_limit_of_block)
        self.limit: int | None = executor.map_all(limit, ["limit of the model"], 1)[0]

    def read(self, pairs: Sequence[Pair]) -> list[PairScore]:
        """Return the score of each pair, in order; equal pairs are computed once.

        A worker that ended twice during a block is a WorkerEnded.
        """
        distinct = list(dict.fromkeys(pairs))
        results = self._executor.map_all(self._task, distinct, _BLOCK)
        scores = dict(zip(distinct, results, strict=True))
        return take_items(scores, pairs)


def _limit_of_block(scorer: PairScorer, block: list[str]) -> list[int | None]:
    return [scorer.limit]


_OWNER = "reranker 'cross_encoder'"
DEFAULT_MODEL = "cross-encoder/ms-marco-MiniLM-L6-v2"


class CrossEncoder(Reranker):
    """Order hits by the score that a cross-encoder gives to the query with each of them.

    The score is the output of the model, on no fixed scale; hits with equal scores keep their
    order. A document is its title and its text; a pair that is too long for the model is cut.
    `load`, or else the first `rerank`, loads the model.

    References:
        Nogueira and Cho (2019), Passage Re-ranking with BERT.
    """

    same_results = "its model scores a pair the same each time"
    packages = ("transformers", "torch")
    definition = 3  # 2 computed each pair alone, which gives other last digits

    def __init__(
        self,
        *,
        model: embed.Model = DEFAULT_MODEL,
        device: embed.ComputeDevice = "auto",
        batch_tokens: embed.BatchTokens = None,
    ) -> None:
        embed.find_checkpoint("cross_encoder", model)
        settings: dict[str, Any] = {"device": device, "batch_tokens": batch_tokens}

        def open_scorer() -> PairScorer | RemotePairScorer:
            """Return the scorer of this process, or one that asks the workers."""
            if self.executor is None:
                return shared_pair_scorer(_OWNER, model, **settings)
            return RemotePairScorer(self.executor, _OWNER, model, **settings)

        self._open = open_scorer
        self._scorer: PairScorer | RemotePairScorer | None = None
        self._truncated: dict[str, tuple[int, int]] = {}

    @property
    def notes(self) -> list[str]:
        """Notes on pairs that are longer than the model reads.

        A query that is asked twice counts once.
        """
        if self._scorer is None:  # no query has been reranked
            return []
        truncated = pairs = 0
        for n_cut, n_pairs in self._truncated.values():
            truncated += n_cut
            pairs += n_pairs
        lost = "; the end of the longer text is not read"
        return truncation_notes(
            truncated, pairs, "pairs of query and passage", self._scorer.limit, lost
        )

    def check(self) -> None:
        """Raise `MissingExtra` if sentence-transformers is not installed."""
        embed.need_packages(_OWNER, EXTRA, PACKAGES)

    def load(self) -> None:
        """Load the model; an error here ends the run before the first query.

        Raises:
            MissingExtra: The packages of the extra are not installed.
            OptionError: The model or the device does not exist, or the model has more than one
                score for a pair.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
            AdapterError: On workers, any of these.
        """
        self._scorer = self._open()

    def rerank(self, queries: Sequence[Query], hits: HitLists, top_k: int) -> HitLists:
        """Return for each query at most `top_k` of its hits, highest score first.

        Equal scores keep the order of the hits. The first call loads the model, with the errors of
        `load`.

        Raises:
            AdapterError: A hit has no text, or workers cannot load the model.
            ValueError: There are not as many lists of hits as queries.
        """
        batch = list(zip(queries, hits, strict=True))
        pairs = []
        for query, query_hits in batch:
            for text in hit_texts(query, query_hits, "cross_encoder"):
                pairs.append((query.text, text))
        self._scorer = self._scorer or self._open()
        all_scores = iter(self._scorer.read(pairs))
        ranked = []
        for query, query_hits in batch:
            scores = list(islice(all_scores, len(query_hits)))
            # by id: a query that is asked twice counts once in the notes
            self._truncated[query.id] = sum(score.truncated for score in scores), len(scores)
            scored = []
            for hit, pair in zip(query_hits, scores, strict=True):
                scored.append(structs.replace(hit, score=pair.score))
            ranked.append(sorted(scored, key=lambda hit: -(hit.score or 0.0))[:top_k])
        return ranked
