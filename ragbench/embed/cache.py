"""An embedder with a cache before it: only what is new is encoded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ragbench.embed import base as embed
from ragbench.embed.base import Advance, Embedder, Encodings, Vectors, tell_nobody
from ragbench.embed.sentence_transformers import (
    DEFAULT_MODEL,
    RemoteEmbedder,
    normalize_rows,
    shared_embedder,
)
from ragbench.errors import DataError
from ragbench.files import cache_folder
from ragbench.registry import Option
from ragbench.store.database import CACHE_FILE
from ragbench.store.vectors import EmbeddingCache, vector_key

if TYPE_CHECKING:
    from ragbench.executors.base import Executor

_AT_ONCE = 512  # texts between two writes: what a kill may cost
_COUNTED_AT_ONCE = 8192  # the same where nothing is encoded: some seconds


class CachedEmbedder:
    """An embedder that reads what it has encoded before; without a `path` it encodes everything.

    A vector is kept as the model gives it, before its length becomes 1, so that everything that
    uses the model shares it. Vectors of texts that were encoded alone have keys of their own: what
    is read is bit for bit what would be encoded, whatever was encoded before and with what. Of
    texts that are encoded in batches the last digits depend on the batch in which each was first.

    The files `also`, such as a team's, are only read, after this one.
    """

    def __init__(
        self,
        embedder: Embedder,
        path: Path | None,
        prompts: Mapping[str, str] | None = None,
        also: Sequence[Path] = (),
        at_once: int = _AT_ONCE,
    ) -> None:
        self._embedder, self._path, self._also = embedder, path, also
        self._at_once = at_once
        self.identity, self.revision = embedder.identity, embedder.revision
        self.prompts = embedder.prompts if prompts is None else prompts
        # How many texts the model has encoded so far; one that is there twice counts once.
        self.encoded = 0
        # How many texts were in the files.
        self.reused = 0
        self._seconds = 0.0

    @property
    def model(self) -> str:
        """What vectors depend on beside the prompt and the text."""
        manner = self._embedder.manner
        return f"{self.identity}@{self.revision}{manner and f' {manner}'}"

    @property
    def alone(self) -> bool:
        """Whether a vector depends on nothing but its text."""
        return bool(self._embedder.manner)

    @property
    def encodings(self) -> Encodings:
        """What was asked of it so far."""
        return Encodings(self.encoded + self.reused, self.reused, self._seconds)

    def encode(
        self,
        texts: Sequence[str],
        *,
        prompt: str = "",
        normalize: bool = True,
        advance: Advance = tell_nobody,
    ) -> Vectors:
        """Return a row for each text, in their order, of length 1 if so wanted."""
        import numpy as np

        keys = [vector_key(self.model, prompt, text) for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        rows = {key: row for row, key in enumerate(distinct)}
        vectors = np.empty((0, 0), dtype=np.float32)
        for key, vector in self._vectors(distinct, prompt, advance):
            if not len(vectors):  # only now is their width known
                vectors = np.empty((len(rows), len(vector)), dtype=np.float32)
            vectors[rows[key]] = vector
        advance(len(texts) - len(rows))  # the repeated ones
        if normalize:
            normalize_rows(vectors)
        return vectors if len(rows) == len(texts) else vectors[[rows[key] for key in keys]]

    @property
    def limit(self) -> int | None:
        """How many tokens the model can read; None where any number."""
        return self._embedder.limit

    def count_tokens(self, texts: Sequence[str], *, prompt: str = "") -> list[int]:
        """Return how many tokens each text has; nothing is encoded, what was counted is read."""
        if self._path is None:
            return list(self._embedder.count_tokens(texts, prompt=prompt))
        # whatever the manner: a text is as long either way
        model = f"{self.identity}@{self.revision}"
        keys = [vector_key(model, prompt, text) for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        with EmbeddingCache(self._path, self._also) as cache:
            lengths = cache.lengths(list(distinct))
            missing = [key for key in distinct if key not in lengths]
            for start in range(0, len(missing), _COUNTED_AT_ONCE):
                part = missing[start : start + _COUNTED_AT_ONCE]
                counts = self._embedder.count_tokens([distinct[key] for key in part], prompt=prompt)
                new = dict(zip(part, counts, strict=True))
                cache.store_lengths(new)
                lengths |= new
        return [lengths[key] for key in keys]

    def _vectors(
        self, texts: Mapping[str, str], prompt: str, advance: Advance
    ) -> Iterator[tuple[str, Vectors]]:
        """The vectors under their keys: first those of the files, then the new ones."""
        missing = dict(texts)
        # opened for each call, so that it needs no closing
        stored = None if self._path is None else EmbeddingCache(self._path, self._also)
        with nullcontext() if stored is None else stored as cache:
            for key, vector in cache.find(list(texts)) if cache is not None else ():
                del missing[key]
                yield key, vector
            self.reused += len(texts) - len(missing)
            advance(len(texts) - len(missing))
            keys = list(missing)
            for start in range(0, len(keys), self._at_once):
                part = keys[start : start + self._at_once]
                vectors = self._encode([missing[key] for key in part], prompt, advance)
                new = dict(zip(part, vectors, strict=True))
                if cache is not None:
                    cache.store(new)
                yield from new.items()

    def _encode(self, texts: Sequence[str], prompt: str, advance: Advance) -> Vectors:
        import numpy as np

        start = time.perf_counter()
        vectors = self._embedder.encode(texts, prompt=prompt, normalize=False, advance=advance)
        self._seconds += time.perf_counter() - start
        self.encoded += len(texts)
        broken = ~np.isfinite(vectors).all(axis=1)
        if broken.any():
            text = texts[int(broken.argmax())]
            found = f"model {self.identity}: the vector of {text[:60]!r} is not finite"
            raise DataError(found, allowed="a model with undamaged weights")
        return vectors


@dataclass(frozen=True, kw_only=True)
class EmbedderOptions:
    """How texts become vectors."""

    model: embed.Model = DEFAULT_MODEL
    query_prompt: Annotated[
        str | None, Option("Text put before a query; null: the prompt of the model.")
    ] = None
    document_prompt: Annotated[
        str | None, Option("Text put before a document; null: the prompt of the model.")
    ] = None
    device: embed.ComputeDevice = "auto"
    batch_tokens: embed.BatchTokens = None
    cache: Annotated[
        bool, Option("Whether vectors are kept in .ragbench, so that no text is encoded twice.")
    ] = True

    def open(
        self, owner: str, folders: Sequence[Path] = (), executor: Executor | None = None
    ) -> CachedEmbedder:
        """Load the model, here or on workers, with a cache of vectors before it.

        `owner` is how messages name who has the options. Vectors are kept in the first of
        `folders`, the others are only read; without any it is `.ragbench` here, or where
        `RAGBENCH_CACHE` says.
        """
        how: dict[str, Any] = {"device": self.device, "batch_tokens": self.batch_tokens}
        embedder = (
            shared_embedder(owner, self.model, **how)
            if executor is None
            else RemoteEmbedder(executor, owner, self.model, **how)
        )
        given = {"query": self.query_prompt, "document": self.document_prompt}
        prompts = {
            role: embedder.prompts[role] if prompt is None else prompt
            for role, prompt in given.items()
        }
        own, *others = (folder / CACHE_FILE for folder in folders or (cache_folder(),))
        at_once = _AT_ONCE * (1 if executor is None else executor.workers)
        return CachedEmbedder(embedder, own if self.cache else None, prompts, others, at_once)
