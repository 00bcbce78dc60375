"""Sentence embeddings by sentence-transformers, by folder or hub name, here and on workers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragbench.embed import base as embed
from ragbench.embed.encoders import Batches
from ragbench.executors.base import Executor, Task

if TYPE_CHECKING:
    from ragbench.types import FloatArray


_ROWS = 4096  # vectors that are doubles at a time


def dot_products(vectors: embed.Vectors, vector: embed.Vectors) -> FloatArray:
    """Return the dot product of each row with a vector, in doubles.

    Products of floats are exact in doubles, and a row's sum is taken in one order whatever the
    other rows are: equal rows have equal values, which a matrix product does not promise.

    Example:
        >>> import numpy as np
        >>> dot_products(np.eye(2, dtype=np.float32), np.array([3, 4], dtype=np.float32))
        array([3., 4.])
    """
    import numpy as np

    found = np.empty(len(vectors), dtype=np.float64)
    doubles = vector.astype(np.float64)
    for start in range(0, len(vectors), _ROWS):
        products = vectors[start : start + _ROWS] * doubles
        found[start : start + _ROWS] = products.sum(axis=1)
    return found


def normalize_rows(vectors: embed.Vectors) -> None:
    """Give each row the length 1, in place; a row of zeros stays.

    Example:
        >>> import numpy as np
        >>> vectors = np.array([[3, 4], [0, 0]], dtype=np.float32)
        >>> normalize_rows(vectors)
        >>> vectors.tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    import numpy as np

    for start in range(0, len(vectors), _ROWS):
        block = vectors[start : start + _ROWS].astype(np.float64)
        lengths = np.sqrt((block * block).sum(axis=1, keepdims=True))
        vectors[start : start + _ROWS] = block / np.where(lengths > 0, lengths, 1.0)


EXTRA = "dense"
PACKAGES = {"sentence_transformers": "sentence-transformers"}
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"

_BATCH_TOKENS = 65536  # a GPU needs large batches to be busy


class SentenceTransformerEmbedder(embed.Embedder):
    """An embedder on sentence-transformers; loaded once, used often, from any thread."""

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        owner: str = "embedder",
        device: embed.Device = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        embed.need_packages(owner, EXTRA, PACKAGES)
        checkpoint = embed.find_checkpoint(owner, model)
        chosen = embed.choose_device(owner, device)
        self.identity = checkpoint.identity
        self._model = _load(checkpoint, chosen)
        self._model.eval()
        prompts = self._model.prompts or {}
        self.prompts = {role: prompts.get(role) or "" for role in ("query", "document")}
        # None for a folder: there the identity says it all
        self.revision = getattr(self._model[0].auto_model.config, "_commit_hash", None) or ""
        self.limit = self._model.max_seq_length
        self._batches = Batches(chosen, batch_tokens, _BATCH_TOKENS)
        self.manner = self._batches.manner
        self._lock = threading.Lock()
        # let threads take turns in the tokeniser, which notes in itself where to cut and pad
        module = self._model[0]
        lock = threading.RLock()  # one of them may call the other
        for name in ("preprocess", "tokenize"):  # by version of sentence-transformers
            if (read := getattr(module, name, None)) is not None:
                setattr(module, name, _holding(lock)(read))

    def _encode(
        self, texts: Sequence[str], prompt: str, normalize: bool, advance: embed.Advance
    ) -> list[embed.Vectors]:
        with self._lock:
            lengths = self._lengths(texts, prompt)
            read = [min(length, self.limit or length) for length in lengths]

            def compute(batch: list[int]) -> embed.Vectors:
                found: embed.Vectors = self._model.encode(
                    [embed.as_unicode(texts[position]) for position in batch],
                    prompt=prompt,  # given, if empty: else a default of the model's would join in
                    batch_size=len(batch),
                    normalize_embeddings=normalize,
                    show_progress_bar=False,
                )
                return found

            return self._batches.apply(compute, read, advance)

    def count_tokens(self, texts: Sequence[str], *, prompt: str = "") -> list[int]:
        """Return how many tokens each text has, before it is cut to what the model can read."""
        with self._lock:
            return self._lengths(texts, prompt)

    def _lengths(self, texts: Sequence[str], prompt: str) -> list[int]:
        if not texts:
            return []
        found = self._model.tokenizer(
            [embed.as_unicode(prompt + text) for text in texts], truncation=False, verbose=False
        )
        return [len(ids) for ids in found["input_ids"]]


def shared_embedder(
    owner: str, model: str, *, device: embed.Device = "auto", batch_tokens: int | None = None
) -> SentenceTransformerEmbedder:
    """Return a model that stays loaded: the next call gets the same one."""
    embed.need_packages(owner, EXTRA, PACKAGES)
    identity = check_model(owner, model).identity
    return _embedder(model, identity, embed.choose_device(owner, device), batch_tokens)


@functools.lru_cache(maxsize=2)
def _embedder(
    model: str,
    identity: str,  # so that a folder whose content has changed is loaded again
    device: embed.Device,
    batch_tokens: int | None,
) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(model, device=device, batch_tokens=batch_tokens)


def check_model(owner: str, model: str) -> embed.Checkpoint:
    """See whether a model can be had, before its weights are read."""
    checkpoint = embed.find_checkpoint(owner, model)
    if checkpoint.folder is None:
        checkpoint.config()
    return checkpoint


def is_sentence_transformers(checkpoint: embed.Checkpoint) -> bool:
    """Whether a model says how sentences become vectors; other encoders only say it of tokens."""
    from sentence_transformers.util import is_sentence_transformer_model

    name = str(checkpoint.folder or checkpoint.name)
    if is_sentence_transformer_model(name, local_files_only=True):
        return True
    return checkpoint.folder is None and bool(is_sentence_transformer_model(name))


@contextmanager
def _holding(lock: threading.RLock) -> Iterator[None]:
    with lock:
        yield


def _load(checkpoint: embed.Checkpoint, device: str) -> Any:
    from sentence_transformers import SentenceTransformer

    return checkpoint.load(lambda name, where: SentenceTransformer(name, device=device, **where))


_FACTS = ("identity", "revision", "prompts", "limit", "manner")
_BLOCK, _COUNTED_BLOCK = 64, 512  # texts


class RemoteEmbedder(embed.Embedder):
    """An embedder on workers; its vectors are bit for bit those of one in this process."""

    def __init__(self, executor: Executor, owner: str, model: str, **options: Any) -> None:
        self._executor = executor
        given = {"owner": owner, "model": model, **options}
        asking = Task(owner, shared_embedder, given, _facts_of_block)
        [facts] = executor.map_all(asking, ["facts of the model"], 1)
        self._task = replace(asking, facts=_facts_of, expected=facts)
        for name in _FACTS:
            setattr(self, name, facts[name])

    def _encode(
        self, texts: Sequence[str], prompt: str, normalize: bool, advance: embed.Advance
    ) -> embed.Vectors:
        import numpy as np

        task = replace(self._task, apply=functools.partial(_encode_block, prompt))
        vectors = np.stack(self._executor.map_all(task, texts, _BLOCK, advance))
        if normalize:
            normalize_rows(vectors)
        return vectors

    def count_tokens(self, texts: Sequence[str], *, prompt: str = "") -> list[int]:
        """Return how many tokens each text has, before it is cut to what the model can read."""
        task = replace(self._task, apply=functools.partial(_count_block, prompt))
        return self._executor.map_all(task, texts, _COUNTED_BLOCK)


def _facts_of(embedder: SentenceTransformerEmbedder) -> dict[str, Any]:
    return {name: getattr(embedder, name) for name in _FACTS}


def _facts_of_block(embedder: SentenceTransformerEmbedder, block: list[str]) -> list[Any]:
    return [_facts_of(embedder)]


def _encode_block(
    prompt: str, embedder: SentenceTransformerEmbedder, texts: list[str]
) -> Sequence[embed.Vectors]:
    return list(embedder.encode(texts, prompt=prompt, normalize=False))


def _count_block(prompt: str, embedder: SentenceTransformerEmbedder, texts: list[str]) -> list[int]:
    return embedder.count_tokens(texts, prompt=prompt)
