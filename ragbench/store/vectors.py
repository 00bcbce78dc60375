"""Vectors on disk by content: what a model has encoded once is not encoded again.

One SQLite file: a row with the vector of a text, and one with its number of tokens. Against flat
files of blocks it costs 6 % of space, and a kill at any moment, two processes at once and a text in
the middle of a changed corpus need no code.
"""

from __future__ import annotations

import hashlib
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import DataError
from ragbench.store.database import DatabaseFile, connect_as_allowed, open_shared
from ragbench.store.kinds import FileKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

VECTORS_FILE = "embeddings.sqlite"
VECTORS = FileKind(
    noun="cache of embeddings",
    table="vectors",
    columns="key BLOB PRIMARY KEY, vector BLOB NOT NULL, checksum BLOB NOT NULL",
    application_id=0x52414745,  # 'RAGE'
    version=2,
    remedy="its texts will be encoded again",
    content="vector",
    rows="vectors",
    checksum_bytes=8,
    # 100,000 vectors of 384 numbers take 163 MB, of which 154 are numbers; 208 with pages of 4096
    page_bytes=65536,
    survives_power_cut=False,  # what is lost is computed again
    further={"lengths": "key BLOB PRIMARY KEY, tokens INTEGER NOT NULL"},
)
_AT_ONCE = 500  # rows of a query: SQLite before 3.32 takes 999 variables


class DamagedVectors(UserWarning):
    """Stored vectors whose checksums do not fit; their texts are encoded again."""


class UnstoredVectors(UserWarning):
    """Vectors that are used, but cannot be stored where the cache may only be read."""


def vector_key(identity: str, prompt: str, text: str) -> bytes:
    """Return the key of a text's vector: what the vector depends on, hashed."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (identity, prompt, text):
        written = part.encode("utf-8", "surrogatepass")
        digest.update(len(written).to_bytes(8, "big"))  # so that no border can move
        digest.update(written)
    return digest.digest()


class EmbeddingCache(DatabaseFile):
    """A file of vectors; several processes and threads may share it.

    Those of others, `also`, are only read, where it lacks a key. One of them that is not there has
    nothing; one that cannot be used is named and left out.
    """

    def __init__(self, path: str | Path, also: Sequence[Path] = ()) -> None:
        path = Path(path)
        connection, writable = connect_as_allowed(path, VECTORS)
        super().__init__(path, VECTORS, connection, writable=writable)
        self._told = False
        self._files: list[DatabaseFile] = [self]
        for other in also:
            if other.is_file():
                with self._reading(other):
                    self._files.append(open_shared(other, VECTORS))

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        """Warn of another's file that cannot be read, and go on without it."""
        try:
            yield
        except DataError as error:
            if path == self.path:
                raise
            text = f"{error}; its vectors are left out"
            warnings.warn(DamagedVectors(text), stacklevel=4)

    def find(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, Vectors]]:
        """Yield the keys that are there, each with its vector, in any order."""
        missing = dict.fromkeys(keys)
        for file in self._files:
            damaged: list[bytes] = []
            with self._reading(file.path):
                for key, vector in _whole(file, list(missing), damaged):
                    del missing[key]
                    yield key, vector
            if damaged and file.writable:
                self._write("DELETE FROM vectors WHERE key = ?", [(key,) for key in damaged])

    def count(self, keys: Sequence[bytes]) -> int:
        """Return how many of the keys are there; no vector is read, nor whether it is whole."""
        found: set[bytes] = set()
        for file in self._files:
            missing = [key for key in keys if key not in found]
            with self._reading(file.path):
                found.update(key for (key,) in _rows(file, "key FROM vectors", missing))
        return len(found)

    def store(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Put vectors on disk, all or none; one that is there already stays."""
        contents = [(key, vector.astype("<f4").tobytes()) for key, vector in vectors.items()]
        rows = [(key, content, VECTORS.checksum(key, content)) for key, content in contents]
        self._write("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)

    def lengths(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return how many tokens texts have, by key, as far as that was stored."""
        found: dict[bytes, int] = {}
        for file in self._files:
            missing = [key for key in keys if key not in found]
            with self._reading(file.path):
                for key, tokens in _rows(file, "key, tokens FROM lengths", missing):
                    # they have no checksum, but what is no number is left out
                    if isinstance(tokens, int) and tokens >= 0:
                        found[key] = tokens
        return found

    def store_lengths(self, lengths: Mapping[bytes, int]) -> None:
        """Put numbers of tokens on disk, all or none; one that is there already stays."""
        self._write("INSERT OR IGNORE INTO lengths VALUES (?, ?)", list(lengths.items()))

    def _write(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if not self.writable:
            if not self._told:
                self._told = True
                text = f"{self.path}: may only be read; new vectors are computed, but not stored"
                warnings.warn(UnstoredVectors(text), stacklevel=4)
            return
        self.write(lambda connection: connection.executemany(statement, rows))

    def close(self) -> None:
        """Close all files."""
        for other in self._files[1:]:
            other.close()
        super().close()


def _whole(
    file: DatabaseFile, keys: Sequence[bytes], damaged: list[bytes]
) -> Iterator[tuple[bytes, Vectors]]:
    """Yield keys with their vectors; those whose checksum does not fit are told and noted."""
    import numpy as np

    for key, vector, expected in _rows(file, "key, vector, checksum FROM vectors", keys):
        if VECTORS.fits(key, vector, expected):
            yield key, np.frombuffer(vector, dtype="<f4")
        else:
            damaged.append(key)
    if damaged:
        text = f"{file.path}: {len(damaged)} stored vectors are damaged; they are computed again"
        warnings.warn(DamagedVectors(text), stacklevel=5)


def _rows(file: DatabaseFile, columns: str, keys: Sequence[bytes]) -> Iterator[Any]:
    for start in range(0, len(keys), _AT_ONCE):
        part = keys[start : start + _AT_ONCE]
        query = f"SELECT {columns} WHERE key IN ({', '.join('?' * len(part))})"
        # all of a part at once: the lock must not be held while somebody uses a row
        yield from file.use(partial(_fetched, query=query, keys=part))


def _fetched(connection: sqlite3.Connection, query: str, keys: Sequence[bytes]) -> list[Any]:
    return connection.execute(query, keys).fetchall()
