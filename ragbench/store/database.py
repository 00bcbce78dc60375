"""SQLite files that several processes share, or that are only read: opened, checked, told apart.

The store of replies and the cache of vectors are such files. A kill at any moment leaves them
whole: every write is a transaction in a write-ahead log.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ragbench.errors import DataError

File = TypeVar("File", bound="DatabaseFile")

_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a database file is for."""

    noun: str
    """How messages name it: `store of replies`."""
    table: str
    columns: str
    application_id: int
    """Tells its files from those of others."""
    version: int
    remedy: str
    content: str = ""
    """The column that a row's checksum is of; empty where rows have none."""
    checksum_bytes: int = 16
    page_bytes: int = 4096
    """Size of a page: rows that nearly fill one leave the rest of it empty."""
    survives_power_cut: bool = True
    """Whether a commit waits for the disk; without it, a power cut may lose the last ones."""
    further: Mapping[str, str] = field(default_factory=dict)
    """Further tables with their columns; files of older versions get them when they are opened."""

    def checksum(self, key: str | bytes, content: bytes) -> bytes:
        """Return what tells a damaged row from a whole one, and from the row of another key."""
        name = (key.encode() if isinstance(key, str) else key)[:64]  # the longest that BLAKE2 takes
        return hashlib.blake2b(content, key=name, digest_size=self.checksum_bytes).digest()


class DatabaseFile:
    """One connection to a file, for which threads take turns; errors of SQLite name the file."""

    def __init__(self, path: Path, kind: FileKind, connection: sqlite3.Connection) -> None:
        self.path, self.kind, self._connection = path, kind, connection
        self._lock = threading.Lock()

    @contextmanager
    def guarded(self) -> Iterator[sqlite3.Connection]:
        """Give the connection; raise a `DataError` for what SQLite raises."""
        try:
            with self._lock:
                yield self._connection
        except sqlite3.DatabaseError as error:
            raise unusable(self.path, self.kind, error) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all that the block writes, or nothing of it."""
        with self.guarded() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def damaged(self) -> Iterator[str | bytes]:
        """Yield the keys of all rows whose checksum does not fit; nothing is removed."""
        kind = self.kind
        with self.guarded() as connection:
            rows = connection.execute(f"SELECT key, {kind.content}, checksum FROM {kind.table}")
            yield from (key for key, content, sum_ in rows if kind.checksum(key, content) != sum_)

    def __len__(self) -> int:
        with self.guarded() as connection:
            found = connection.execute(f"SELECT count(*) FROM {self.kind.table}").fetchone()
            return int(found[0])

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def __enter__(self: File) -> File:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_database(path: Path, kind: FileKind) -> DatabaseFile:
    """Open a file for reading and writing; make it where there is none."""
    return DatabaseFile(path, kind, connect(path, kind))


def connect(path: Path, kind: FileKind) -> sqlite3.Connection:
    """Connect to a file as `open_database` does."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _closed_if_refused(_connect(path)) as connection:
            # counts for a fresh file alone
            connection.execute(f"PRAGMA page_size={kind.page_bytes}")
            _use_wal(connection)
            level = "FULL" if kind.survives_power_cut else "NORMAL"
            connection.execute(f"PRAGMA synchronous={level}")
            _make_tables(connection, path, kind)
            return connection
    except (sqlite3.Error, OSError) as error:
        raise unusable(path, kind, error) from None


def open_shared(path: Path, kind: FileKind) -> DatabaseFile:
    """Open a file for reading alone, also in a folder that may not be written."""
    if not path.is_file():
        raise DataError(f"there is no such {kind.noun}", file=path)
    try:
        try:
            return _open_read_only(path, kind, "mode=ro")
        except sqlite3.OperationalError:
            # WAL wants to write an index beside the file: not possible where it may only be read
            return _open_read_only(path, kind, "mode=ro&immutable=1")
    except sqlite3.Error as error:
        raise unusable(path, kind, error) from None


def unusable(path: Path, kind: FileKind, error: sqlite3.Error | OSError) -> DataError:
    """Return the error that a file cannot be used, with what SQLite says and what to do."""
    if isinstance(error, (sqlite3.OperationalError, OSError)):
        return DataError(f"cannot be used as a {kind.noun}: {error}", file=path)
    return DataError(
        f"is damaged or no {kind.noun}: {error}", file=path, allowed=f"move it away; {kind.remedy}"
    )


def _open_read_only(path: Path, kind: FileKind, mode: str) -> DatabaseFile:
    with _closed_if_refused(_connect(f"{path.absolute().as_uri()}?{mode}")) as connection:
        _check_version(connection, path, kind)
        connection.execute(f"SELECT count(*) FROM (SELECT 1 FROM {kind.table} LIMIT 1)")
    return DatabaseFile(path, kind, connection)


def _connect(target: str | Path) -> sqlite3.Connection:
    """Connect to a path or a URI; every transaction is explicit, threads take turns by a lock."""
    return sqlite3.connect(
        target,
        timeout=_PATIENCE_S,
        isolation_level=None,
        check_same_thread=False,
        uri=isinstance(target, str),
    )


@contextmanager
def _closed_if_refused(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    except (sqlite3.Error, DataError):
        connection.close()
        raise


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL, as often as it takes.

    Several processes that switch a fresh file at once may be told 'database is locked' at once,
    whatever the timeout (SQLite 3.40). Where the file system has no WAL, the old mode stays.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _make_tables(connection: sqlite3.Connection, path: Path, kind: FileKind) -> None:
    if _check_version(connection, path, kind) == kind.version:
        return
    connection.execute("BEGIN IMMEDIATE")
    for table, columns in {kind.table: kind.columns, **kind.further}.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
    connection.execute(f"PRAGMA application_id={kind.application_id}")
    connection.execute(f"PRAGMA user_version={kind.version}")
    connection.execute("COMMIT")


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Let all reads of the block see the file as it is at the first of them."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _check_version(connection: sqlite3.Connection, path: Path, kind: FileKind) -> int:
    """The version of the file, 0 where it is empty; other programs' and newer files are refused."""
    # another process may make the table between two reads: then owner and tables would not fit
    with _snapshot(connection):
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if tables and owner != kind.application_id:
        raise DataError(f"is a database, but no {kind.noun}", file=path)
    if version > kind.version:
        found = f"was written by a newer ragbench (schema {version})"
        raise DataError(found, file=path, allowed=f"schema {kind.version}")
    return version
