"""One SQLite file of a cache: opening, transactions, and what happens when it is damaged.

Every write is a transaction in a write-ahead log: after a kill it is whole or absent. A file that
SQLite cannot read is set aside, and the rows that SELECT still reads are copied into a new one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from ragbench.errors import DataError
from ragbench.files import locked_beside, network_file_system, remove_left_over, temporary_beside

Result = TypeVar("Result")
Connection = sqlite3.Connection
Work = Callable[[Connection], Result]

_APPLICATION_ID, _SCHEMA = 0x52414742, 3  # 'RAGB'
_TABLES = (
    "rows (kind TEXT NOT NULL, key TEXT NOT NULL, item TEXT NOT NULL, blob BLOB NOT NULL, "
    "checksum BLOB NOT NULL, stored_at REAL NOT NULL, UNIQUE (kind, key, item))",
    "entries (kind TEXT, key TEXT, label TEXT, used_at REAL, PRIMARY KEY (kind, key))",
)
COLUMNS = "kind, key, item, blob, checksum, stored_at"
# 100,000 vectors of 384 numbers take 170 MB, of which 154 are numbers; 212 with pages of 4096
_PAGE_BYTES = 8192
_PATIENCE_S = 30.0
_ID_OFFSET = 68  # of the application id in the header of a file
# Python raises the second where SQLite's message quotes bytes of a damaged file.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_DAMAGE_MESSAGES = ("unsupported file format", "no such table", "no such column")
_network_folders: set[Path] = set()


class DamagedCache(UserWarning):
    """Stored rows or files that are damaged; what they held is made again."""


class NetworkCache(UserWarning):
    """A cache on a network file system, which several machines must not write at once."""


class Row(NamedTuple):
    """A row of the table `rows`."""

    kind: str
    key: str
    item: str
    blob: bytes
    checksum: bytes
    stored_at: float

    @property
    def is_whole(self) -> bool:
        """Whether the checksum fits; a damaged file may give values of any type."""
        values: tuple[object, ...] = self
        if [*map(type, values[:4])] != [str, str, str, bytes]:
            return False
        return self.checksum == checksum(self.kind, self.item, self.blob)


def checksum(kind: str, item: str, blob: bytes) -> bytes:
    """Return the checksum of a row, which tells it from a damaged one and from another item's."""
    name = f"{kind} {item}".encode("utf-8", "surrogateescape")
    digest = hashlib.blake2b(len(name).to_bytes(8, "big") + name, digest_size=8)
    digest.update(blob)
    return digest.digest()


class SQLiteFile:
    """One connection to a file, for which threads take turns; errors name the file.

    The first write creates the file; until then it is empty. It is opened again where another
    process has replaced or removed it.
    """

    def __init__(self, path: Path, *, read_only: bool = False, thorough: bool = False) -> None:
        """Take a path; `thorough` checks all pages when the file is opened (0.2 s for 100 MB)."""
        self.path, self._read_only, self._thorough = path, read_only, thorough
        self.writable = not read_only and may_be_written(path)
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._opened: tuple[int, int] | None = None

    def read(self, work: Work[Result]) -> Result:
        """Return the result of a function of the connection.

        Raises:
            DataError: The file cannot be read.
        """
        return self._use(work, write=False)

    def write(self, work: Work[Result], *, durable: bool = True) -> Result:
        """Return the result of a function in one transaction, which is whole or absent.

        Without `durable` a power cut may lose it; a kill does not.

        Raises:
            DataError: The file cannot be written.
        """
        if not self.writable:
            raise DataError(f"cannot be written: {self._reason()}", file=self.path)

        def transaction(connection: Connection) -> Result:
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
                return result
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

        return self._use(transaction, write=True)

    def vacuum(self) -> None:
        """Give the space of removed rows back to the disk."""

        def vacuum(connection: Connection) -> None:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        self._use(vacuum, write=True)

    def unlink(self) -> None:
        """Remove the file and its log; a run that has it open begins a new one."""
        with self._lock, locked_beside(self.path):
            self.close()
            for end in ("", "-wal", "-shm", "-journal"):
                _beside(self.path, end).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = self._opened = None

    def _use(self, work: Work[Result], *, write: bool) -> Result:
        with self._lock:
            try:
                try:
                    return work(self._current(write))
                except _SQLITE_ERRORS as error:
                    if not (self.writable and is_damage(error)):
                        raise
                    damage = error
                with locked_beside(self.path):
                    if _identity(self.path) == self._opened:  # no other process was faster
                        _replace_damaged(self.path, damage)
                return work(self._current(write))
            except (*_SQLITE_ERRORS, OSError) as error:
                raise self._unusable(error) from None

    def _current(self, write: bool) -> Connection:
        """Return a connection to the file that has the name now."""
        connection = self._connection
        if (
            connection is None
            or _identity(self.path) != self._opened
            or (write and not self._opened)
        ):
            self.close()
            # before it is opened: were the file created or replaced meanwhile, it is opened again
            identity = _identity(self.path)
            if identity is None and not write:
                connection = _connect(":memory:", new=True)
            elif self.writable:
                connection = self._open_to_write()
                identity = identity or _identity(self.path)
            else:
                connection = self._open_to_read()
            self._connection, self._opened = connection, identity
        return connection

    def _open_to_write(self) -> Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked_beside(self.path):
            remove_left_over(self.path.parent, self.path.name)
            try:
                return self._prepared()
            except _SQLITE_ERRORS as error:
                if not is_damage(error) or not _is_ours(self.path):
                    raise
                _replace_damaged(self.path, error)
            return self._prepared()

    def _prepared(self) -> Connection:
        connection = self._checked(_connect(self.path))
        try:
            connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")  # of a new file
            connection.execute(f"PRAGMA journal_mode={_journal_mode(self.path)}")
            connection.execute("PRAGMA synchronous=NORMAL")  # a write says if it must be durable
            _create_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_to_read(self) -> Connection:
        """Open without changing anything on disk."""
        log = _beside(self.path, "-wal")
        if os.access(self.path.parent, os.W_OK):
            return self._checked(_connect(f"{self.path.absolute().as_uri()}?mode=ro"))
        if not log.exists():
            return self._checked(_connect(f"{self.path.absolute().as_uri()}?immutable=1"))
        # SQLite reads a log, such as a kill leaves, where it may write beside it: read a copy,
        # which is gone when it is closed
        with TemporaryDirectory() as folder:
            copy = Path(folder, self.path.name)
            shutil.copy(log, _beside(copy, "-wal"))
            return self._checked(_connect(shutil.copy(self.path, copy)))

    def _checked(self, connection: Connection) -> Connection:
        try:
            self._check_owner(connection)
            if self._thorough:
                check_pages(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_owner(self, connection: Connection) -> None:
        """Refuse databases of other programs and of other versions."""
        tables, owner, version = (
            connection.execute(query).fetchone()[0]
            for query in (
                "SELECT count(*) FROM sqlite_master",
                "PRAGMA application_id",
                "PRAGMA user_version",
            )
        )
        if tables and owner != _APPLICATION_ID:
            raise DataError("is a database, but no cache of ragbench", file=self.path)
        if tables and version != _SCHEMA:
            text = f"was written by another version of ragbench (schema {version})"
            allowed = f"schema {_SCHEMA}; move it away, and its content is made again"
            raise DataError(text, file=self.path, allowed=allowed)

    def _reason(self) -> str:
        """Return why the file cannot be written, in the words of the operating system."""
        if not self._read_only:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.open("ab").close()
            except OSError as error:
                return str(error.strerror)
        return "it is only read"

    def _unusable(self, error: Exception) -> DataError:
        if is_damage(error):
            allowed = "move it away; what it held is made again"
            return DataError(f"is damaged or no cache: {error}", file=self.path, allowed=allowed)
        allowed = "free space and permission to write; stored items stay; the same command resumes"
        return DataError(f"cannot be used as a cache: {error}", file=self.path, allowed=allowed)


def may_be_written(path: Path) -> bool:
    """Return whether a file and its neighbours may be created and changed."""
    folder = next((parent for parent in path.absolute().parents if parent.exists()), path)
    return os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def is_damage(error: Exception) -> bool:
    """Return whether an error says that a file is malformed or no database at all."""
    if isinstance(error, sqlite3.OperationalError):  # a full disk, a lock, a missing permission
        return str(error).startswith(_DAMAGE_MESSAGES)
    return type(error) in (sqlite3.DatabaseError, UnicodeDecodeError)


def check_pages(connection: Connection) -> None:
    """Read all pages and indexes; raise SQLite's own error for what does not fit."""
    problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if problem != "ok":
        raise sqlite3.DatabaseError(" ".join(str(problem).split()))


def readable_rows(connection: Connection) -> Iterator[Row | None]:
    """Yield the rows that SELECT can read from a damaged file, and None for each lost row.

    The table is read from its first row up to the first damaged page and from its last row down to
    the last one; between them single rows are looked up by the numbers that the index has. Rows
    that the index has lost, too, are in no count.
    """
    numbers: set[int] = set()
    query = f"SELECT rowid, {COLUMNS} FROM rows"
    for order in ("ASC", "DESC"):
        with suppress(*_SQLITE_ERRORS):
            for number, *values in connection.execute(f"{query} ORDER BY rowid {order}"):
                if number in numbers:
                    break
                numbers.add(number)
                yield Row(*values)
    for order in ("ASC", "DESC"):
        with suppress(*_SQLITE_ERRORS):
            indexed = f"SELECT rowid FROM rows ORDER BY kind {order}, key {order}, item {order}"
            for (number,) in connection.execute(indexed):
                if number in numbers:
                    continue
                numbers.add(number)
                row = None
                with suppress(*_SQLITE_ERRORS):
                    row = connection.execute(f"{query} WHERE rowid = ?", (number,)).fetchone()
                yield None if row is None else Row(*row[1:])


def _replace_damaged(path: Path, error: Exception) -> None:
    """Put a new file with the readable rows in the place of a damaged one, which is renamed."""
    new, n_rows, n_lost = temporary_beside(path), 0, 0
    new.unlink(missing_ok=True)
    try:
        with closing(_connect(path)) as damaged, closing(_connect(new, new=True)) as copy:
            damaged.execute("PRAGMA writable_schema=ON")  # else a file that was cut is not read
            copy.execute("BEGIN")
            for row in readable_rows(damaged):
                if row is not None and row.is_whole:
                    marks = "(?, ?, ?, ?, ?, ?)"
                    copy.execute(f"INSERT OR IGNORE INTO rows ({COLUMNS}) VALUES {marks}", row)
                    n_rows += 1
                else:
                    n_lost += 1
            with suppress(*_SQLITE_ERRORS):
                labels = damaged.execute("SELECT * FROM entries").fetchall()
                copy.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)", labels)
            copy.execute("COMMIT")
            aside = _free_name(path)
            # the log first: beside the new file it would hide the rows of that
            for end in ("-wal", "-shm", ""):
                if _beside(path, end).exists():
                    _beside(path, end).rename(_beside(aside, end))
            new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    kinds = "replies" if path.name == "replies.sqlite" else "items"
    text = (
        f"{path}: damaged ({error}); {n_rows} {kinds} were copied into a new file, some "
        f"{max(n_lost, 1)} are lost and made again; the damaged file is kept as {aside.name}"
    )
    warnings.warn(DamagedCache(text), stacklevel=2)


def _connect(target: str | Path, *, new: bool = False) -> Connection:
    """Connect to a path or a URI; transactions are explicit, threads take turns by a lock."""
    connection = sqlite3.connect(
        target,
        timeout=_PATIENCE_S,
        isolation_level=None,
        check_same_thread=False,
        uri=isinstance(target, str),
    )
    # a text that damage has made no UTF-8 is recognised by the checksum of its row
    connection.text_factory = lambda stored: stored.decode("utf-8", "surrogateescape")
    if new:
        connection.execute("PRAGMA journal_mode=MEMORY")  # no file beside a temporary one
        connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        _create_tables(connection)
    return connection


def _create_tables(connection: Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0] == _SCHEMA:
        return
    connection.execute("BEGIN IMMEDIATE")
    for table in _TABLES:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table}")
    connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={_SCHEMA}")
    connection.execute("COMMIT")


def _journal_mode(path: Path) -> str:
    """Return `WAL`, or `DELETE` on a network file system, with a warning once a folder.

    A write-ahead log needs memory that its readers and writers share, which machines do not.

    References:
        https://www.sqlite.org/wal.html, https://www.sqlite.org/useovernet.html
    """
    network = network_file_system(path)
    if network is None:
        return "WAL"
    if path.parent not in _network_folders:
        _network_folders.add(path.parent)
        text = (
            f"{path.parent} lies on a network file system ({network}): one machine at a time may "
            "write there; give each its own folder and join them by cache_also (see docs/scale.md)"
        )
        warnings.warn(NetworkCache(text), stacklevel=2)
    return "DELETE"


def _is_ours(path: Path) -> bool:
    """Return whether a file that SQLite cannot open has our number in its header."""
    with path.open("rb") as stream:
        header = stream.read(_ID_OFFSET + 4)
    return header[_ID_OFFSET:] == _APPLICATION_ID.to_bytes(4, "big")


def _free_name(path: Path) -> Path:
    """Return `replies.damaged-1.sqlite`, or the next number that is free."""
    number = 1
    while (aside := path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")).exists():
        number += 1
    return aside


def _beside(path: Path, end: str) -> Path:
    return path.with_name(f"{path.name}{end}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
