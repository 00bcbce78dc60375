"""SQLite files that several processes share, or that are only read: opened, checked, told apart.

The store of replies and the cache of vectors are such files. A kill at any moment leaves them
whole: every write is a transaction in a write-ahead log.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ragbench.errors import DataError

_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a database file is for."""

    noun: str
    """How messages name it: `store of replies`."""
    table: str
    """The name of its table."""
    columns: str
    """The columns of it, as SQL."""
    application_id: int
    """Tells its files from those of others."""
    version: int
    """Version of its table; files of newer ones are refused."""
    remedy: str
    """What to do with a damaged one."""
    page_bytes: int = 4096
    """Size of a page: rows that nearly fill one leave the rest of it empty."""
    survives_power_cut: bool = True
    """Whether a commit waits for the disk; without it, a power cut may lose the last ones."""
    further: Mapping[str, str] = field(default_factory=dict)
    """Further tables with their columns; files of older versions get them when they are opened."""


class DatabaseFile:
    """One connection to a file; errors of SQLite become errors that name the file."""

    def __init__(self, path: Path, kind: FileKind, connection: sqlite3.Connection) -> None:
        self.path, self._kind, self._connection = path, kind, connection

    @contextmanager
    def guarded(self) -> Iterator[sqlite3.Connection]:
        """Give the connection; raise a `DataError` for what SQLite raises."""
        try:
            yield self._connection
        except sqlite3.DatabaseError as error:
            raise unusable(self.path, self._kind, error) from None

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

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def open_database(path: Path, kind: FileKind) -> DatabaseFile:
    """Open a file for reading and writing; make it where there is none.

    Raises:
        DataError: It cannot be opened, or is no file of this kind and version.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # every transaction is explicit; threads take turns by the caller's lock
        connection = sqlite3.connect(
            path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
        )
    except (sqlite3.Error, OSError) as error:
        raise unusable(path, kind, error) from None
    try:
        connection.execute(f"PRAGMA page_size={kind.page_bytes}")  # counts for a fresh file alone
        _use_wal(connection)
        level = "FULL" if kind.survives_power_cut else "NORMAL"
        connection.execute(f"PRAGMA synchronous={level}")
        _make_table(connection, path, kind)
    except sqlite3.Error as error:
        connection.close()
        raise unusable(path, kind, error) from None
    except DataError:
        connection.close()
        raise
    return DatabaseFile(path, kind, connection)


def open_shared(path: Path, kind: FileKind) -> DatabaseFile:
    """Open a file for reading alone, also in a folder that may not be written.

    Raises:
        DataError: There is none, or it is no file of this kind and version.
    """
    if not path.is_file():
        raise DataError(f"there is no such {kind.noun}", file=path)
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?{mode}",
            uri=True,
            timeout=_PATIENCE_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _check_version(connection, path, kind)
            connection.execute(f"SELECT count(*) FROM (SELECT 1 FROM {kind.table} LIMIT 1)")
        except sqlite3.OperationalError as error:
            # WAL wants to write an index beside the file: not possible where it may only be read
            connection.close()
            if "immutable" in mode:
                raise unusable(path, kind, error) from None
        except sqlite3.Error as error:
            connection.close()
            raise unusable(path, kind, error) from None
        except DataError:
            connection.close()
            raise
        else:
            return DatabaseFile(path, kind, connection)
    raise DataError("cannot be opened", file=path)


def unusable(path: Path, kind: FileKind, error: sqlite3.Error | OSError) -> DataError:
    """Return the error that a file cannot be used, with what SQLite says and what to do."""
    if isinstance(error, (sqlite3.OperationalError, OSError)):
        return DataError(f"cannot be used as a {kind.noun}: {error}", file=path)
    return DataError(
        f"is damaged or no {kind.noun}: {error}", file=path, allowed=f"move it away; {kind.remedy}"
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


def _make_table(connection: sqlite3.Connection, path: Path, kind: FileKind) -> None:
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
    """The version of the file, 0 where it is empty.

    Raises:
        DataError: It is another program's, or newer than this one reads.
    """
    # another process may make the table between two reads: then owner and tables would not fit
    with _snapshot(connection):
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if tables and owner != kind.application_id:
        raise DataError(f"is a database, but no {kind.noun}", file=path)
    if version > kind.version:
        raise DataError(
            f"was written by a newer ragbench (schema {version})",
            file=path,
            allowed=f"schema {kind.version}",
        )
    return version
