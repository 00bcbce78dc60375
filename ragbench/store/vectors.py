"""Vectors on disk by content: what a model has encoded once is not encoded again.

One SQLite file: a row with the vector of a text, and one with its number of tokens. Against flat
files of blocks it costs 6 % of space, and a kill at any moment, two processes at once and a text in
the middle of a changed corpus need no code.
"""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.store.database import FileKind, open_database

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

FILE_NAME = "embeddings.sqlite"
VECTORS = FileKind(
    noun="cache of embeddings",
    table="vectors",
    columns="key BLOB PRIMARY KEY, vector BLOB NOT NULL, checksum BLOB NOT NULL",
    application_id=0x52414745,  # 'RAGE'
    version=2,
    remedy="its texts will be encoded again",
    # 100,000 vectors of 384 numbers take 163 MB, of which 154 are numbers; 208 with pages of 4096
    page_bytes=65536,
    survives_power_cut=False,  # what is lost is computed again
    further={"lengths": "key BLOB PRIMARY KEY, tokens INTEGER NOT NULL"},
)
_AT_ONCE = 500  # rows of a query: SQLite before 3.32 takes 999 variables


class DamagedVectors(UserWarning):
    """Stored vectors whose checksums do not fit; their texts are encoded again."""


def vector_key(identity: str, prompt: str, text: str) -> bytes:
    """Return the key of a text's vector: what the vector depends on, hashed.

    Example:
        >>> vector_key("m", "query: ", "x") == vector_key("m", "", "query: x")
        False
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (identity, prompt, text):
        written = part.encode("utf-8", "surrogatepass")
        digest.update(len(written).to_bytes(8, "big"))  # so that no border can move
        digest.update(written)
    return digest.digest()


class EmbeddingCache:
    """A file of vectors; several processes and threads may share it.

    Args:
        path: The file; made where there is none.

    Raises:
        DataError: The file is no cache, is damaged, or was written by a newer version.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> key = vector_key("m", "", "a text")
        >>> with EmbeddingCache(Path(tempfile.mkdtemp()) / "embeddings.sqlite") as cache:
        ...     cache.store({key: np.array([0.5, 2.0], dtype=np.float32)})
        ...     [vector.tolist() for _, vector in cache.find([key, b"another"])], len(cache)
        ([[0.5, 2.0]], 1)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._file = open_database(self.path, VECTORS)

    def find(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, Vectors]]:
        """Yield the keys that are there, each with its vector, in any order."""
        import numpy as np

        damaged: list[bytes] = []
        for start in range(0, len(keys), _AT_ONCE):
            for key, vector, expected in self._rows(keys[start : start + _AT_ONCE]):
                if _checksum(key, vector) == expected:
                    yield key, np.frombuffer(vector, dtype="<f4")
                else:
                    damaged.append(key)
        if damaged:
            self._drop(damaged)

    def _rows(self, keys: Sequence[bytes]) -> list[Any]:
        marks = ", ".join("?" * len(keys))
        with self._lock, self._file.guarded() as connection:
            return connection.execute(
                f"SELECT key, vector, checksum FROM vectors WHERE key IN ({marks})", keys
            ).fetchall()

    def _drop(self, keys: Sequence[bytes]) -> None:
        with self._lock, self._file.transaction() as connection:
            connection.executemany("DELETE FROM vectors WHERE key = ?", [(key,) for key in keys])
        text = f"{self.path}: {len(keys)} stored vectors are damaged; they are computed again"
        warnings.warn(DamagedVectors(text), stacklevel=4)

    def store(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Put vectors on disk, all or none; one that is there already stays.

        Raises:
            DataError: The file cannot be written.
        """
        rows = [
            (key, content, _checksum(key, content))
            for key, content in ((key, v.astype("<f4").tobytes()) for key, v in vectors.items())
        ]
        with self._lock, self._file.transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)

    def lengths(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return how many tokens texts have, by key, as far as that was stored."""
        found: dict[bytes, int] = {}
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(part))
            with self._lock, self._file.guarded() as connection:
                found.update(
                    connection.execute(
                        f"SELECT key, tokens FROM lengths WHERE key IN ({marks})", part
                    ).fetchall()
                )
        return found

    def store_lengths(self, lengths: Mapping[bytes, int]) -> None:
        """Put numbers of tokens on disk, all or none; one that is there already stays.

        Raises:
            DataError: The file cannot be written.
        """
        with self._lock, self._file.transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO lengths VALUES (?, ?)", list(lengths.items())
            )

    def damaged(self) -> Iterator[bytes]:
        """Yield the keys of all vectors whose checksum does not fit; nothing is removed."""
        with self._lock, self._file.guarded() as connection:
            for key, vector, expected in connection.execute(
                "SELECT key, vector, checksum FROM vectors"
            ):
                if _checksum(key, vector) != expected:
                    yield key

    def __len__(self) -> int:
        """Count the vectors in the file."""
        with self._lock, self._file.guarded() as connection:
            return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> EmbeddingCache:
        """Return the cache itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()


def _checksum(key: bytes, vector: bytes) -> bytes:
    return hashlib.blake2b(vector, key=key, digest_size=8).digest()
