"""Vectors of texts in a cache, by content: a text that a model has encoded is not encoded again."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.store.database import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

_KIND = "embed"
# Keys of the rows, and their labels.
_VECTORS, _LENGTHS = "vectors of texts", "numbers of tokens"


class UnstoredVectors(UserWarning):
    """Vectors that are used, but cannot be stored where the cache may only be read."""


def vector_key(identity: str, prompt: str, text: str) -> str:
    """Return the key of a text's vector: a hash of all that the vector depends on."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (identity, prompt, text):
        written = part.encode("utf-8", "surrogatepass")
        digest.update(len(written).to_bytes(8, "big"))  # so that no border can move
        digest.update(written)
    return digest.hexdigest()


class EmbeddingCache:
    """The vectors and numbers of tokens of a cache file; further files `also` are only read."""

    def __init__(self, path: str | Path, also: Sequence[Path] = ()) -> None:
        self._store = Store(path, also)
        self._has_warned = False

    def find(self, keys: Sequence[str]) -> Iterator[tuple[str, Vectors]]:
        """Yield the keys that are stored, each with its vector, in any order."""
        import numpy as np

        for key, blob in self._store.find(_KIND, _VECTORS, keys):
            yield key, np.frombuffer(blob, dtype="<f4")

    def store(self, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors, all or none; a vector that is stored already stays."""
        self._put(
            _VECTORS, {key: vector.astype("<f4").tobytes() for key, vector in vectors.items()}
        )

    def lengths(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the numbers of tokens that are stored, by key."""
        rows = self._store.find(_KIND, _LENGTHS, keys)
        return {key: int.from_bytes(blob, "big") for key, blob in rows}

    def store_lengths(self, lengths: Mapping[str, int]) -> None:
        """Store numbers of tokens, all or none; a number that is stored already stays."""
        self._put(_LENGTHS, {key: n.to_bytes(8, "big") for key, n in lengths.items()})

    def _put(self, key: str, blobs: Mapping[str, bytes]) -> None:
        if not self._store.writable:
            if not self._has_warned:
                self._has_warned = True
                text = f"{self._store.path}: may only be read; new vectors are not stored"
                warnings.warn(UnstoredVectors(text), stacklevel=4)
            return
        # what a power cut loses is computed again
        self._store.put(_KIND, key, blobs, since=0.0, durable=False)
        self._store.note_use(_KIND, key, key)

    def close(self) -> None:
        """Close the files."""
        self._store.close()

    def __len__(self) -> int:
        return self._store.count(_KIND, _VECTORS)

    def __enter__(self) -> EmbeddingCache:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
