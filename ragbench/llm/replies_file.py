"""The SQLite file under a reply store: opened for several processes, or for reading alone."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragbench.errors import DataError

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x52414742  # 'RAGB'
_PATIENCE_S = 30.0
_TABLE = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    reply BLOB NOT NULL,
    checksum BLOB NOT NULL,
    stored_at REAL NOT NULL
)
"""


class RepliesFile:
    """One connection to the file; errors of SQLite become errors that name the file."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    @contextmanager
    def guarded(self) -> Iterator[sqlite3.Connection]:
        """Give the connection; raise a `DataError` for what SQLite raises."""
        try:
            yield self._connection
        except sqlite3.DatabaseError as error:
            raise unusable(self.path, error) from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def open_replies(path: Path) -> RepliesFile:
    """Open a store for reading and writing; make it where there is none.

    Raises:
        DataError: It cannot be opened, or is no store of this version.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # every transaction is explicit; threads take turns by the caller's lock
        connection = sqlite3.connect(
            path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise unusable(path, error) from None
    try:
        _use_wal(connection)
        # FULL, not NORMAL: a reply that was paid for survives a power cut as well
        connection.execute("PRAGMA synchronous=FULL")
        _make_table(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise unusable(path, error) from None
    except DataError:
        connection.close()
        raise
    return RepliesFile(path, connection)


def open_shared(path: Path) -> RepliesFile:
    """Open a store for reading alone, also in a folder that may not be written.

    Raises:
        DataError: There is none, or it is no store of this version.
    """
    if not path.is_file():
        raise DataError("there is no such store of replies", file=path)
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?{mode}",
            uri=True,
            timeout=_PATIENCE_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _check_version(connection, path)
            connection.execute("SELECT count(*) FROM (SELECT 1 FROM replies LIMIT 1)")
        except sqlite3.OperationalError as error:
            # WAL wants to write an index beside the file: not possible where it may only be read
            connection.close()
            if "immutable" in mode:
                raise unusable(path, error) from None
        except sqlite3.Error as error:
            connection.close()
            raise unusable(path, error) from None
        except DataError:
            connection.close()
            raise
        else:
            return RepliesFile(path, connection)
    raise DataError("cannot be opened", file=path)


def checksum(key: str, packed: bytes) -> bytes:
    """Return what tells a damaged row from a whole one."""
    return hashlib.blake2b(packed, key=key.encode()[:64], digest_size=16).digest()


def unusable(path: Path, error: sqlite3.Error) -> DataError:
    """Return the error that a file cannot be used, with what SQLite says and what to do."""
    if isinstance(error, sqlite3.OperationalError):
        return DataError(f"cannot be used as a store of replies: {error}", file=path)
    return DataError(
        f"is damaged or no store of replies: {error}",
        file=path,
        allowed="move it away; its replies will be asked for again",
    )


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


def _make_table(connection: sqlite3.Connection, path: Path) -> None:
    if _check_version(connection, path) == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_TABLE)
    connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
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


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the file, 0 where it is empty.

    Raises:
        DataError: It is another program's, or newer than this one reads.
    """
    # another process may make the table between two reads: then owner and tables would not fit
    with _snapshot(connection):
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if tables and owner != _APPLICATION_ID:
        raise DataError("is a database, but no store of replies", file=path)
    if version > SCHEMA_VERSION:
        raise DataError(
            f"was written by a newer ragbench (schema {version})",
            file=path,
            allowed=f"schema {SCHEMA_VERSION}",
        )
    return version
