"""An embedder with a cache before it: only new texts are encoded."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated, Any

from ragbench.embed import base as embed
from ragbench.embed import sentence_transformers
from ragbench.embed.base import Advance, Embedder, Vectors, ignore_progress
from ragbench.embed.component import SearchComponent
from ragbench.errors import DataError
from ragbench.files import cache_folder
from ragbench.registry import Option, OptionSet
from ragbench.store.database import CACHE_FILE, Store

# The kind of the rows in the store, and their keys, which `ragbench cache` prints as labels.
CACHE_KIND, VECTOR_ROWS, LENGTH_ROWS = "embed", "vectors of texts", "numbers of tokens"
_VECTOR_BLOCK = 512  # texts between two writes: a kill loses at most these
_LENGTH_BLOCK = 8192  # tokens are counted faster than texts are encoded: some seconds of work


class UnstoredVectors(UserWarning):
    """Warning that new vectors are used but not stored, because the cache is read-only."""


class CachedEmbedder:
    """An embedder that reads stored vectors first; without a `path` it encodes every text.

    The cache holds vectors as the model returns them, before normalisation, so that all components
    with the same model share them. Vectors that depend on their own text only have keys of their
    own: reading them gives the same bits as encoding. The last digits of other vectors depend on
    the batch in which a text was first encoded. It is no `Embedder`, but has the same methods; the
    cache file is opened anew for each call. `EmbedderOptions.open` makes it. `encode` returns the
    vectors, `count_tokens` the lengths of texts; raises DataError if the cache file cannot be read.

    Attributes:
        identity: Name of the model, part of the key of a vector.
        revision: Revision of the model, part of the key too.
        prompts: Text put before a text, by its role: `query`, `document`.
    """

    def __init__(
        self,
        embedder: Embedder,
        path: Path | None,
        prompts: Mapping[str, str] | None = None,
        also: Sequence[Path] = (),
        block_size: int = _VECTOR_BLOCK,
    ) -> None:
        """Take the model and the files; nothing is opened yet.

        Args:
            embedder: The model.
            path: Cache file that is read and written; None stores nothing.
            prompts: Replace the prompts of the model; None keeps them.
            also: Cache files that are only read, after `path`, and not without one.
            block_size: Number of texts that are encoded between two writes.
        """
        self._embedder, self._path, self._also = embedder, path, also
        self._block_size = block_size
        self.identity, self.revision = embedder.identity, embedder.revision
        self.prompts = embedder.prompts if prompts is None else prompts

    @property
    def model(self) -> str:
        """Part of a vector's key that names model, revision and manner of encoding."""
        manner = self._embedder.manner
        return f"{self.identity}@{self.revision}{manner and f' {manner}'}"

    @property
    def independent(self) -> bool:
        """True if a vector depends on its own text only, not on the batch."""
        return bool(self._embedder.manner)

    @property
    def limit(self) -> int | None:
        """Number of tokens that the model reads; None means without limit."""
        return self._embedder.limit

    def encode(
        self,
        texts: Sequence[str],
        *,
        prompt: str = "",
        normalize: bool = True,
        advance: Advance = ignore_progress,
    ) -> Vectors:
        """Return the vectors of texts from the cache, and encode and store those that it lacks.

        Arguments and result are those of `Embedder.encode`. A row of zeros is not scaled.

        Raises:
            DataError: A vector is not finite, or the cache file cannot be read or written.
        """
        import numpy as np

        keys = [vector_key(self.model, prompt, text) for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        rows = dict(zip(distinct, range(len(distinct)), strict=True))
        vectors = np.empty((0, 0), dtype=np.float32)

        def encode_block(block: Sequence[str]) -> Iterator[bytes]:
            """Yield the vectors of a block of texts as bytes."""
            return (row.astype("<f4").tobytes() for row in self._compute(block, prompt, advance))

        blobs = self._blobs(VECTOR_ROWS, distinct, self._block_size, encode_block, advance)
        for key, blob in blobs:
            vector = np.frombuffer(blob, dtype="<f4")
            if not len(vectors):  # the first vector tells the width
                vectors = np.empty((len(rows), len(vector)), dtype=np.float32)
            vectors[rows[key]] = vector
        advance(len(texts) - len(rows))  # the repeated ones
        if normalize:
            sentence_transformers.normalize_rows(vectors)
        return vectors if len(rows) == len(texts) else vectors[list(map(rows.__getitem__, keys))]

    def count_tokens(self, texts: Sequence[str], *, prompt: str = "") -> list[int]:
        """Return the number of tokens of each text with its prompt, without encoding the text.

        Numbers are stored and read like vectors; texts are not cut to the limit of the model.
        """
        # without the manner of encoding: it does not change the number of tokens
        model = f"{self.identity}@{self.revision}"
        keys = [vector_key(model, prompt, text) for text in texts]
        distinct = dict(zip(keys, texts, strict=True))

        def count_block(block: Sequence[str]) -> Iterator[bytes]:
            """Yield the numbers of tokens of a block of texts as bytes."""
            counts = self._embedder.count_tokens(block, prompt=prompt)
            return (count.to_bytes(8, "big") for count in counts)

        blobs = dict(self._blobs(LENGTH_ROWS, distinct, _LENGTH_BLOCK, count_block))
        return [int.from_bytes(blobs[key], "big") for key in keys]

    def _blobs(
        self,
        label: str,
        texts: Mapping[str, str],
        block_size: int,
        compute: Callable[[Sequence[str]], Iterable[bytes]],
        report_stored: Callable[[int], None] = ignore_progress,
    ) -> Iterator[tuple[str, bytes]]:
        """Yield a blob for each key of `texts`: first the stored ones, then computed blocks."""
        missing = dict(texts)
        # opened for each call, so that an embedder needs no `close`
        store = None if self._path is None else Store(self._path, self._also)
        with nullcontext() if store is None else closing(store):
            for key, blob in store.find(CACHE_KIND, label, list(texts)) if store else ():
                del missing[key]
                yield key, blob
            report_stored(len(texts) - len(missing))
            keys = list(missing)
            for start in range(0, len(keys), block_size):
                block = keys[start : start + block_size]
                computed = compute(list(map(missing.__getitem__, block)))
                blobs = dict(zip(block, computed, strict=True))
                if store is not None and store.writable:
                    # not durable: vectors that a power cut loses are computed again
                    store.put(CACHE_KIND, label, blobs, since=0.0, durable=False)
                    store.note_use(CACHE_KIND, label, label)
                elif store is not None and start == 0:
                    text = f"{self._path}: may only be read; new vectors are not stored"
                    warnings.warn(UnstoredVectors(text), stacklevel=3)
                yield from blobs.items()

    def _compute(self, texts: Sequence[str], prompt: str, advance: Advance) -> Vectors:
        """Return new vectors of the model; raise `DataError` if one is not finite."""
        import numpy as np

        vectors = self._embedder.encode(texts, prompt=prompt, normalize=False, advance=advance)
        broken = ~np.isfinite(vectors).all(axis=1)
        if broken.any():
            text = texts[int(broken.argmax())]
            problem = f"model {self.identity}: the vector of {text[:60]!r} is not finite"
            raise DataError(problem, allowed="a model with undamaged weights")
        return vectors


def vector_key(model: str, prompt: str, text: str) -> str:
    """Return the key of a text's vector: a hash of model, prompt and text.

    It has 32 hexadecimal digits.

    Example:
        >>> vector_key("m", "ab", "c") == vector_key("m", "a", "bc")
        False
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (model, prompt, text):
        # surrogatepass: a text that is no Unicode has a key, too
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))  # else "ab" + "c" would equal "a" + "bc"
        digest.update(data)
    return digest.hexdigest()


class EmbedderOptions(OptionSet):
    """Options of the model that turns texts into vectors; `open` returns it behind a cache."""

    model: embed.Model = sentence_transformers.DEFAULT_MODEL
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

    def open(self, owner: str, component: SearchComponent | None = None) -> CachedEmbedder:
        """Return the model with a cache of vectors before it, loaded here or on workers.

        Args:
            owner: Name of the component in messages, such as `retriever 'dense'`.
            component: Component whose cache folders and workers are used: vectors are stored in
                `cache_folder`, and those in `cache_also` are only read. Without a component or a
                `cache_folder`, they are stored in `RAGBENCH_CACHE`, else in `.ragbench` in the
                working directory.

        Raises:
            OptionError: The model or the device does not exist.
            MissingExtra: The packages of the extra are not installed.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
            AdapterError: On workers, any of these.
        """
        component = SearchComponent() if component is None else component
        executor = component.executor
        options: dict[str, Any] = {"device": self.device, "batch_tokens": self.batch_tokens}
        embedder: Embedder
        if executor is None:
            embedder = sentence_transformers.shared_embedder(owner, self.model, **options)
        else:
            embedder = sentence_transformers.RemoteEmbedder(executor, owner, self.model, **options)
        prompts = dict(embedder.prompts)
        if self.query_prompt is not None:
            prompts["query"] = self.query_prompt
        if self.document_prompt is not None:
            prompts["document"] = self.document_prompt
        folder = component.cache_folder or cache_folder()
        return CachedEmbedder(
            embedder,
            folder / CACHE_FILE if self.cache else None,
            prompts,
            [folder / CACHE_FILE for folder in component.cache_also],
            # every worker gets a share of a block
            _VECTOR_BLOCK * (1 if executor is None else executor.workers),
        )
