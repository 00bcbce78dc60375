"""SQLite file of a cache: opening, transactions, and recovery from damage.

Every write is a transaction in a write-ahead log: after a kill it is complete or absent. A damaged
file is renamed, and the rows that SELECT still reads are copied into a new file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from ragbench import files
from ragbench.errors import DataError, storage_error

Result = TypeVar("Result")
Connection = sqlite3.Connection
Work = Callable[[Connection], Result]

_APPLICATION_ID, _SCHEMA = 0x52414742, 3  # 'RAGB'
_TABLES = (
    "rows (kind TEXT NOT NULL, key TEXT NOT NULL, item TEXT NOT NULL, blob BLOB NOT NULL, "
    "checksum BLOB NOT NULL, stored_at REAL NOT NULL, UNIQUE (kind, key, item))",
    "entries (kind TEXT, key TEXT, label TEXT, used_at REAL, PRIMARY KEY (kind, key))",
)
# (type, name, sql) of all objects of a file, in the form in which SQLite stores them
_OBJECTS: set[tuple[str, str, str | None]] = {
    ("index", "sqlite_autoindex_rows_1", None),
    ("index", "sqlite_autoindex_entries_1", None),
    *(("table", table.partition(" ")[0], f"CREATE TABLE {table}") for table in _TABLES),
}
COLUMNS = "kind, key, item, blob, checksum, stored_at"
# 100,000 vectors of 384 numbers (154 MB) take 170 MB with this size, and 212 MB with 4096.
_PAGE_BYTES = 8192
_PATIENCE_S = 30.0
_ENDS = ("", "-wal", "-shm", "-journal")  # of the names of a file and of its logs
_ID_OFFSET = 68  # of the application id in the header of a file
# Python raises a UnicodeDecodeError if the message of SQLite quotes bytes of a damaged file.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_DAMAGE_MESSAGES = ("unsupported file format", "no such table", "no such column")
_network_folders: set[Path] = set()


class DamagedCache(UserWarning):
    """Warning of damaged rows or files of a cache; their content is computed or fetched again.

    `Store` and `SQLiteFile` give it.
    """


class ForeignSchema(sqlite3.DatabaseError):
    """Error of a cache file with a table, view, trigger or index that ragbench does not create.

    A view or a trigger runs when a table is read or written, for ever if its author wishes. Callers
    of `SQLiteFile` see a DataError instead.
    """


class NetworkCache(UserWarning):
    """Warning of a cache on a network file system, to which only one machine may write.

    `SQLiteFile` gives it once per folder and process, when it opens a writable file.
    """


class CacheRow(NamedTuple):
    """Row of the table `rows` of a cache file; values of a damaged file may have other types.

    Attributes:
        kind: Kind of the row, such as `generate` or `replies`.
        key: Hash of all inputs of the item.
        item: Name of the item.
        blob: Content of the item.
        checksum: Checksum of kind, item and blob.
        stored_at: Time of storage, in seconds since 1970.
    """

    kind: str
    key: str
    item: str
    blob: bytes
    checksum: bytes
    stored_at: float

    @property
    def is_whole(self) -> bool:
        """True if the values have their types and the checksum fits."""
        # A damaged file may return values of any type.
        values: tuple[object, ...] = self
        if [*map(type, values[:4])] != [str, str, str, bytes]:
            return False
        return self.checksum == checksum(self.kind, self.item, self.blob)


def checksum(kind: str, item: str, blob: bytes) -> bytes:
    """Return the checksum of a row: 8 bytes over kind, item and blob.

    An empty blob is allowed.
    """
    # The item is included, so that damage which swaps the blobs of two items is noticed.
    name = f"{kind} {item}".encode("utf-8", "surrogateescape")
    digest = hashlib.blake2b(len(name).to_bytes(8, "big") + name, digest_size=8)
    digest.update(blob)
    return digest.digest()


class SQLiteFile:
    """Connection to an SQLite file, which threads use in turn; errors name the file.

    The first write creates the file; before it, the file reads as empty. The connection is renewed
    after another process has replaced or removed the file. `read` and `write` return the result of
    a function of the connection; a file that cannot be used is a DataError.

    Args:
        path: SQLite file.
        read_only: True to refuse writes.
        thorough: True to check all pages on opening, which takes 0.2 s per 100 MB.

    Attributes:
        lock: Held by the thread that uses the file.
        path: SQLite file.
        writable: True if writes were allowed by `read_only` and the permissions at creation.
    """

    def __init__(self, path: Path, *, read_only: bool = False, thorough: bool = False) -> None:
        self.path, self._thorough = path, thorough
        self.writable = not read_only and may_be_written(path)
        self.lock = threading.RLock()
        self._connection: Connection | None = None
        self._opened: tuple[int, int] | None = None
        self._is_durable: bool | None = None  # what the connection was told last
        _files.add(self)

    def read(self, work: Work[Result]) -> Result:
        """Return the result of a function of the connection.

        It sees a missing file as empty. A damaged file that may be written is replaced first, with
        a warning, and `work` then runs again. Errors of `work` pass through, but for those of
        SQLite and OSError.

        Raises:
            DataError: The file cannot be read, or `work` raised an error of SQLite or an OSError.
        """
        return self._use(work, write=False)

    def write(self, work: Work[Result], *, durable: bool = True) -> Result:
        """Return the result of a function of the connection that runs in one transaction.

        An error of `work` undoes the transaction and passes through; errors of SQLite and OSError
        become a DataError. A damaged file is first kept under another name and replaced by a new
        one with its readable rows, with a warning; `work` then runs again, so it must have no other
        effect. A missing file is created.

        Args:
            work: Function of the connection.
            durable: True to wait for the disk; else a power cut may lose the transaction.

        Raises:
            DataError: The file cannot be written.
        """
        if not self.writable:
            problem = "cannot be written: the file or its folder is read-only"
            raise DataError(problem, file=self.path)

        def transaction(connection: Connection) -> Result:
            if durable != self._is_durable:
                connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                self._is_durable = durable
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
        """Free the disk space of removed rows; a missing file is created.

        Raises:
            DataError: The file cannot be written.
        """

        def vacuum(connection: Connection) -> None:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        self._use(vacuum, write=True)

    def unlink(self) -> None:
        """Delete the file and its log; a process that has it open creates a new one.

        Missing files are ignored. It raises a DataError if a file cannot be deleted.
        """
        try:
            with self.lock, files.locked_beside(self.path):
                self.close()
                for end in _ENDS:
                    _beside(self.path, end).unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(error) from None

    def close(self) -> None:
        """Close the connection.

        A later use opens the file again; without a connection nothing happens.
        """
        with self.lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = self._opened = self._is_durable = None

    def _use(self, work: Work[Result], *, write: bool) -> Result:
        """Return the result of `work`; a writable file that is damaged is replaced first."""
        with self.lock:
            try:
                try:
                    return work(self._current(write))
                except _SQLITE_ERRORS as error:
                    if not (self.writable and is_damage(error)):
                        raise
                    damage = error
                with files.locked_beside(self.path):
                    # Else another process has replaced the file already.
                    if _identity(self.path) == self._opened:
                        _replace_damaged(self.path, damage)
                return work(self._current(write))
            except (*_SQLITE_ERRORS, OSError) as error:
                raise self._unusable(error) from None

    def _current(self, write: bool) -> Connection:
        """Return a connection to the current file of the path, or to an empty database."""
        connection = self._connection
        if (
            connection is None
            or _identity(self.path) != self._opened
            or (write and not self._opened)
        ):
            self.close()
            files.refuse_links(*(_beside(self.path, end) for end in _ENDS))
            # Read before opening: a file replaced in between is noticed and opened again.
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
        """Return a connection for writing; create a missing file, and replace a damaged one."""
        files.create_untracked(self.path.parent)
        with files.locked_beside(self.path):
            files.remove_left_over(self.path.parent, self.path.name)
            try:
                return self._checked(_connect(self.path), write=True)
            except _SQLITE_ERRORS as error:
                if not is_damage(error) or not _is_ours(self.path):
                    raise
                _replace_damaged(self.path, error)
            return self._checked(_connect(self.path), write=True)

    def _open_to_read(self) -> Connection:
        """Return a connection that changes nothing on disk."""
        log = _beside(self.path, "-wal")
        if os.access(self.path.parent, os.W_OK):
            return self._checked(_connect(f"{self.path.absolute().as_uri()}?mode=ro"))
        if not log.exists():
            return self._checked(_connect(f"{self.path.absolute().as_uri()}?immutable=1"))
        # SQLite reads the log of a killed process only in a folder that it may write. So a copy of
        # both files is opened, and deleted when the connection is closed.
        with TemporaryDirectory() as folder:
            copy = Path(folder, self.path.name)
            shutil.copy(log, _beside(copy, "-wal"))
            return self._checked(_connect(shutil.copy(self.path, copy)))

    def _checked(self, connection: Connection, *, write: bool = False) -> Connection:
        """Return a connection after checking its owner, and all pages of a thorough file."""
        try:
            self._check_owner(connection)
            if self._thorough:
                check_pages(connection)
            if write:
                connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")  # for a new file only
                connection.execute(f"PRAGMA journal_mode={_journal_mode(self.path)}")
                connection.execute("PRAGMA synchronous=NORMAL")  # `write` sets FULL if durable
                _create_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_owner(self, connection: Connection) -> None:
        """Check that a file has the tables of ragbench and nothing else."""
        objects = _read_objects(connection)
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if objects and owner != _APPLICATION_ID:
            raise DataError("is a database, but no cache of ragbench", file=self.path)
        if objects and version != _SCHEMA:
            text = f"was written by another version of ragbench (schema {version})"
            allowed = f"schema {_SCHEMA}; move it away, and its content is made again"
            raise DataError(text, file=self.path, allowed=allowed)
        if foreign := sorted(f"{kind} {name}" for kind, name, _ in objects - _OBJECTS):
            raise ForeignSchema(f"{', '.join(foreign)} of another program")

    def _unusable(self, error: Exception) -> DataError:
        """Return the error for a damaged file, or for one that cannot be read or written."""
        if is_damage(error):
            allowed = "move it away; what it held is made again"
            return DataError(f"is damaged or no cache: {error}", file=self.path, allowed=allowed)
        allowed = "free space and permission to write; stored items stay; the same command resumes"
        problem = f"cannot be used as a cache: {error}"
        return storage_error(problem, error, file=self.path, allowed=allowed)


_files: weakref.WeakSet[SQLiteFile] = weakref.WeakSet()
_paused_files: list[SQLiteFile] = []
_forking = threading.Lock()


def _pause_files() -> None:
    """Close all files before `os.fork`, and keep their locks until `_resume_files` runs."""
    _forking.acquire()
    for file in list(_files):
        file.lock.acquire()  # waits for the end of a transaction
        _paused_files.append(file)
        file.close()


def _resume_files() -> None:
    """Let parent and child open the files again."""
    while _paused_files:
        _paused_files.pop().lock.release()
    _forking.release()


os.register_at_fork(
    before=_pause_files, after_in_parent=_resume_files, after_in_child=_resume_files
)


def may_be_written(path: Path) -> bool:
    """Return True if a file, which may not exist yet, and files beside it can be written.

    For a missing folder, the permissions of its nearest existing parent count.
    """
    folder = next((parent for parent in path.absolute().parents if parent.exists()), path)
    return os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def is_damage(error: Exception) -> bool:
    """Return True if an error of SQLite means a damaged file or no database at all.

    A ForeignSchema and a UnicodeDecodeError count as damage. A full disk, a lock and a missing
    permission do not.
    """
    # An OperationalError mostly is a full disk, a lock or a missing permission.
    if isinstance(error, sqlite3.OperationalError):
        return str(error).startswith(_DAMAGE_MESSAGES)
    return type(error) in (sqlite3.DatabaseError, ForeignSchema, UnicodeDecodeError)


def _read_objects(connection: Connection) -> set[tuple[str, str, str | None]]:
    """Return (type, name, sql) of each table, index, view and trigger; runs none of them."""
    try:
        return set(connection.execute("SELECT type, name, sql FROM sqlite_master"))
    except MemoryError as error:  # SQLite asks for as much memory as a damaged length says
        raise sqlite3.DatabaseError("its schema claims a text larger than the memory") from error


def check_pages(connection: Connection) -> None:
    """Read all pages and indexes; raise a sqlite3.DatabaseError for damage."""
    problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if problem != "ok":
        raise sqlite3.DatabaseError(" ".join(str(problem).split()))


def readable_rows(connection: Connection) -> Iterator[CacheRow]:
    """Yield the rows of a damaged file before its first and after its last damaged page.

    A yielded row may still have a wrong checksum. Errors of SQLite are suppressed, so a file that
    is no database gives nothing.
    """
    numbers: set[int] = set()
    for order in ("ASC", "DESC"):
        with suppress(*_SQLITE_ERRORS):
            rows = connection.execute(f"SELECT rowid, {COLUMNS} FROM rows ORDER BY rowid {order}")
            for number, *values in rows:
                if number in numbers:
                    break
                numbers.add(number)
                yield CacheRow(*values)


def _replace_damaged(path: Path, error: Exception) -> None:
    """Replace a damaged file by a new one with its readable rows, and rename the damaged file."""
    n_rows = 0
    with (
        files.temporary_beside(path) as new,
        closing(_connect(path)) as damaged,
        closing(_connect(new, new=True)) as copy,
    ):
        damaged.execute("PRAGMA writable_schema=ON")  # else SQLite refuses a cut file
        copy.execute("BEGIN")
        is_ours = False
        with suppress(*_SQLITE_ERRORS):
            is_ours = _read_objects(damaged) <= _OBJECTS
        for row in readable_rows(damaged) if is_ours else ():
            if row.is_whole:
                marks = "(?, ?, ?, ?, ?, ?)"
                copy.execute(f"INSERT OR IGNORE INTO rows ({COLUMNS}) VALUES {marks}", row)
                n_rows += 1
        with suppress(*_SQLITE_ERRORS):
            labels = () if not is_ours else damaged.execute("SELECT * FROM entries").fetchall()
            copy.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?)", labels)
        copy.execute("COMMIT")
        aside = _free_name(path)
        # The log first: beside the new file, SQLite would apply it and hide the new rows.
        for end in ("-wal", "-shm", ""):
            if _beside(path, end).exists():
                _beside(path, end).rename(_beside(aside, end))
        new.replace(path)
    kinds = "replies" if path.name == "replies.sqlite" else "items"
    text = (
        f"{path}: damaged ({error}); {n_rows} {kinds} were copied into a new file, others are lost "
        f"and made again; the damaged file is kept as {aside.name}"
    )
    warnings.warn(DamagedCache(text), stacklevel=2)


def _connect(target: str | Path, *, new: bool = False) -> Connection:
    """Return a connection to a path or a URI, with explicit transactions."""
    connection = sqlite3.connect(
        target,
        timeout=_PATIENCE_S,
        isolation_level=None,
        check_same_thread=False,
        uri=isinstance(target, str),
    )
    connection.execute("PRAGMA trusted_schema=OFF")
    # A text that damage has made invalid is read all the same: the checksum of its row fails.
    connection.text_factory = lambda stored: stored.decode("utf-8", "surrogateescape")
    if new:
        connection.execute("PRAGMA journal_mode=MEMORY")  # no journal beside a temporary file
        connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        _create_tables(connection)
    return connection


def _create_tables(connection: Connection) -> None:
    """Create the tables, unless the file has them."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == _SCHEMA:
        return
    connection.execute("BEGIN IMMEDIATE")
    for table in _TABLES:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table}")
    connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={_SCHEMA}")
    connection.execute("COMMIT")


def _journal_mode(path: Path) -> str:
    """Return `WAL`, or `DELETE` on a network file system, with one warning per folder."""
    network = files.network_file_system(path)
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
    """Return True if the header of an unreadable file has the application id of ragbench."""
    with path.open("rb") as stream:
        header = stream.read(_ID_OFFSET + 4)
    return header[_ID_OFFSET:] == _APPLICATION_ID.to_bytes(4, "big")


def _free_name(path: Path) -> Path:
    """Return the first free path of the form `replies.damaged-1.sqlite`."""
    number = 1
    while (aside := path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")).exists():
        number += 1
    return aside


def _beside(path: Path, end: str) -> Path:
    return path.with_name(f"{path.name}{end}")


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; None if it does not exist."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
