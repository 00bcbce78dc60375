"""SQLite files that several processes share, or that are only read: opened, checked, told apart.

The store of replies and the cache of vectors are such files. A kill at any moment leaves them
whole: every write is a transaction in a write-ahead log. Where something else has damaged one, its
whole rows are salvaged into a new file, and the damaged one is kept aside.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from ragbench.errors import DataError
from ragbench.files import locked_beside, remove_left_over, temporary_beside
from ragbench.store.kinds import FileKind, use_journal
from ragbench.store.salvage import is_log_damaged, is_ours, keep_aside, log_of, salvage

File = TypeVar("File", bound="DatabaseFile")
Result = TypeVar("Result")
_Row = tuple[object, ...]
Work = Callable[[sqlite3.Connection], Result]

_PATIENCE_S = 30.0
_SQLITE = (sqlite3.Error, UnicodeDecodeError)
"""Python raises the second where the text of the first quotes bytes of a damaged file."""
_PASSING = ("locked", "busy", "full")  # what SQLite says of a file that is whole


class DamagedDatabase(UserWarning):
    """A file that was damaged; what it lost is made again."""


class _AnothersFile(DataError):
    """A database of another program, unless its rows are ours."""


class DatabaseFile:
    """One connection to a file, for which threads take turns; errors of SQLite name the file.

    What is only read stays as it is on disk, whatever is found in it.
    """

    def __init__(
        self, path: Path, kind: FileKind, connection: sqlite3.Connection, *, writable: bool = True
    ) -> None:
        self.path, self.kind, self.writable = path, kind, writable
        self.lost = 0
        """How many rows a file that is only read has lost, at least; 0 where it is whole."""
        self._connection = connection
        self._lock = threading.Lock()
        self._opened = _identity(path)

    def use(self, work: Work[Result]) -> Result:
        """Return what a function of the connection returns; a damaged file is mended once.

        Raises:
            DataError: The file cannot be used.
        """
        with self._lock:
            if self.writable and _identity(self.path) not in (None, self._opened):
                self._take(connect(self.path, self.kind))  # another process has mended it
            try:
                return work(self._connection)
            except _SQLITE as error:
                if not is_damage(error, self.path, self.kind):
                    raise unusable(self.path, self.kind, error) from None
                self._take(self._mended(error))
            try:
                return work(self._connection)
            except _SQLITE as error:
                raise unusable(self.path, self.kind, error) from None

    def write(self, work: Work[Result]) -> Result:
        """Return what a function returns that writes all or nothing; see `use`."""
        return self.use(lambda connection: _all_or_nothing(connection, work))

    def _mended(self, error: Exception) -> sqlite3.Connection:
        if not self.writable:
            connection, self.lost = _salvaged_copy(self.path, self.kind, error)
            return connection
        # closed in the lock: SQLite removes by its name the log of what it closes
        with locked_beside(self.path), closing(self._connection):
            if _identity(self.path) == self._opened:
                try:
                    _replace_by_what_is_whole(self.path, self.kind, error, self._connection)
                except OSError as cause:
                    raise unusable(self.path, self.kind, cause) from None
        return connect(self.path, self.kind)

    def _take(self, connection: sqlite3.Connection) -> None:
        self._connection.close()
        self._connection, self._opened = connection, _identity(self.path)

    def damaged(self) -> Iterator[str | bytes]:
        """Yield the keys of all rows whose checksum does not fit; nothing is removed."""
        kind = self.kind
        query = f"SELECT key, {kind.content}, checksum FROM {kind.table}"
        # the keys alone are kept: rows are read one by one
        yield from self.use(
            lambda connection: [row[0] for row in connection.execute(query) if not kind.fits(*row)]
        )

    def __len__(self) -> int:
        query = f"SELECT count(*) FROM {self.kind.table}"
        return int(self.use(lambda connection: connection.execute(query).fetchone()[0]))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def __enter__(self: File) -> File:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_database(path: Path, kind: FileKind, *, thorough: bool = False) -> DatabaseFile:
    """Open a file for reading and writing; make it where there is none.

    `thorough` reads all of it (0.2 s for 100 MB), so that what an index has lost is found, too.
    """
    return DatabaseFile(path, kind, connect(path, kind, thorough=thorough))


def connect(path: Path, kind: FileKind, *, thorough: bool = False) -> sqlite3.Connection:
    """Connect to a file as `open_database` does."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked_beside(path):  # nobody opens it while another takes its place
            remove_left_over(path.parent, path.name)
            connection = _connect(path)
            try:
                _prepare(connection, path, kind, thorough=thorough)
                return connection
            except (*_SQLITE, _AnothersFile) as error:
                # closed late: SQLite would remove the log of a file that it cannot read
                with closing(connection):
                    if not is_damage(error, path, kind):
                        raise
                    _replace_by_what_is_whole(path, kind, error, connection)
            except BaseException:
                connection.close()
                raise
            with _closed_if_refused(_connect(path)) as made:
                _prepare(made, path, kind, thorough=False)
                return made
    except (*_SQLITE, OSError) as error:
        raise unusable(path, kind, error) from None


def _prepare(connection: sqlite3.Connection, path: Path, kind: FileKind, *, thorough: bool) -> None:
    if kind.survives_power_cut and is_log_damaged(path):
        raise sqlite3.DatabaseError("its write-ahead log is damaged")
    # counts for a fresh file alone
    connection.execute(f"PRAGMA page_size={kind.page_bytes}")
    use_journal(connection, path, _PATIENCE_S)
    level = "FULL" if kind.survives_power_cut else "NORMAL"
    connection.execute(f"PRAGMA synchronous={level}")
    _make_tables(connection, path, kind)
    _check_log(connection, path, kind)
    if thorough:
        _check_all(connection)


def _check_log(connection: sqlite3.Connection, path: Path, kind: FileKind) -> None:
    """Raise where a log hides rows of its file: it was left beside one that lay here before.

    Rows are never removed, and the log is asked last: what others write meanwhile hides none.
    """
    log, matters = log_of(path), kind.content and kind.survives_power_cut
    if not (matters and log.is_file() and log.stat().st_size):
        return
    query = f"SELECT key, {kind.content}, checksum FROM {kind.table} WHERE key = ?"
    # the file without its log, by SQLite: to open it in another way would let go of all locks
    with closing(_connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1")) as beneath:
        keys = f"SELECT key FROM {kind.table}"
        hidden = set(_rows(beneath, keys)).difference(connection.execute(keys))
        if any(kind.fits(*row) for key in hidden for row in _rows(beneath, query, key)):
            raise sqlite3.DatabaseError("its write-ahead log is of another file")


def _rows(connection: sqlite3.Connection, query: str, values: _Row = ()) -> list[_Row]:
    """Return what SQLite finds; nothing in a file that somebody is writing."""
    try:
        return connection.execute(query, values).fetchall()
    except _SQLITE:
        return []


def connect_as_allowed(
    path: Path, kind: FileKind, *, thorough: bool = False
) -> tuple[sqlite3.Connection, bool]:
    """Connect to a file as `open_database` does, or as `open_shared` where it may not be written.

    One that is not there and cannot be made is empty. Returns whether it may be written, too.
    """
    if may_be_written(path):
        return connect(path, kind, thorough=thorough), True
    return _shared(path, kind, thorough)[0] if path.is_file() else empty(path, kind), False


def may_be_written(path: Path) -> bool:
    """Return whether a file and what belongs beside it may be made and changed."""
    folder = next((each for each in path.absolute().parents if each.exists()), path)
    return os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def empty(path: Path, kind: FileKind) -> sqlite3.Connection:
    """Connect to an empty database, kept in memory and on disk by SQLite, gone at its end."""
    connection = _connect("")
    _make_tables(connection, path, kind)
    return connection


def open_shared(path: Path, kind: FileKind, *, thorough: bool = False) -> DatabaseFile:
    """Open a file for reading alone, also in a folder that may not be written.

    Of a damaged one, the whole rows are read into a temporary copy; see `open_database`.
    """
    connection, lost = _shared(path, kind, thorough)
    file = DatabaseFile(path, kind, connection, writable=False)
    file.lost = lost
    return file


def _shared(path: Path, kind: FileKind, thorough: bool) -> tuple[sqlite3.Connection, int]:
    if not path.is_file():
        raise DataError(f"there is no such {kind.noun}", file=path)
    lost = 0
    try:
        connection = _read_only(path, kind)
        with _closed_if_refused(connection):
            _check_log(connection, path, kind)
            if thorough:
                _check_all(connection)
    except (*_SQLITE, _AnothersFile) as error:
        if not is_damage(error, path, kind):
            if isinstance(error, DataError):
                raise
            raise unusable(path, kind, error) from None
        connection, lost = _salvaged_copy(path, kind, error)
    return connection, lost


def unusable(path: Path, kind: FileKind, error: Exception) -> DataError:
    """Return the error that a file cannot be used, with what SQLite says and what to do."""
    if isinstance(error, (sqlite3.OperationalError, OSError)):
        return DataError(f"cannot be used as a {kind.noun}: {error}", file=path)
    return DataError(
        f"is damaged or no {kind.noun}: {error}", file=path, allowed=f"move it away; {kind.remedy}"
    )


def is_damage(error: Exception, path: Path, kind: FileKind) -> bool:
    """Return whether an error comes from a damaged file, of which rows can be salvaged."""
    if not kind.content or not path.is_file():
        return False
    if isinstance(error, DataError) and not isinstance(error, _AnothersFile):
        return False
    # a disk that is full or a folder that may not be written also ends here
    passing = any(word in str(error) for word in _PASSING)
    if isinstance(error, sqlite3.OperationalError) and (passing or _is_whole(path, kind)):
        return False
    return is_ours(path, kind)


def _is_whole(path: Path, kind: FileKind) -> bool:
    """Return whether SQLite finds nothing wrong; what cannot be looked at is not damaged."""
    try:
        with _closed_if_refused(_read_only(path, kind)) as connection:
            _check_all(connection)
            connection.close()
        with path.open("rb") as stream:
            return set(stream.read(20)[18:]) <= {1, 2}  # else SQLite writes nothing
    except (*_SQLITE, DataError):
        return False


def _check_all(connection: sqlite3.Connection) -> None:
    """Read all pages and indexes; raise SQLite's own error for what does not fit."""
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(" ".join(str(found).split()))


def _replace_by_what_is_whole(
    path: Path, kind: FileKind, error: Exception, connection: sqlite3.Connection
) -> None:
    """Put a new file with the whole rows in the place of a damaged one, which is kept aside.

    `connection` is ours to it, which Windows wants closed.
    """
    temporary = temporary_beside(path)
    temporary.unlink(missing_ok=True)
    try:
        made = _connect(temporary)
        try:
            made.execute("PRAGMA journal_mode=MEMORY")  # no file beside it that could be left
            made.execute(f"PRAGMA page_size={kind.page_bytes}")
            _make_tables(made, path, kind)
            kept, lost = salvage(path, kind, made)
        finally:
            made.close()
        aside = keep_aside(path, connection)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _tell(path, kind, error, (kept, lost), f"the damaged file is kept as {aside.name}")


def _salvaged_copy(path: Path, kind: FileKind, error: Exception) -> tuple[sqlite3.Connection, int]:
    """Connect to a temporary database with the whole rows of a file that is only read.

    Returns how many rows are lost, too: at least one, since the file is damaged.
    """
    connection = empty(path, kind)
    try:
        counts = salvage(path, kind, connection)
    except OSError as cause:
        connection.close()
        raise unusable(path, kind, cause) from None
    _tell(path, kind, error, counts, "the file is left as it is")
    return connection, max(1, counts[1])


def _tell(path: Path, kind: FileKind, error: Exception, counts: tuple[int, int], what: str) -> None:
    kept, lost = counts
    reason = error.problem.found if isinstance(error, DataError) else error
    text = (
        f"{path}: damaged ({reason}); {kept} {kind.rows} were salvaged, at least {lost} are lost "
        f"and made again; {what}"
    )
    warnings.warn(DamagedDatabase(text), stacklevel=2)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _all_or_nothing(connection: sqlite3.Connection, work: Work[Result]) -> Result:
    with _begun(connection, "IMMEDIATE"):
        result = work(connection)
        connection.execute("COMMIT")
    return result


def _read_only(path: Path, kind: FileKind) -> sqlite3.Connection:
    try:
        return _checked(path, kind, "mode=ro")
    except sqlite3.OperationalError:
        # WAL wants to write an index beside the file: not possible where it may only be read
        return _checked(path, kind, "mode=ro&immutable=1")


def _checked(path: Path, kind: FileKind, mode: str) -> sqlite3.Connection:
    with _closed_if_refused(_connect(f"{path.absolute().as_uri()}?{mode}")) as connection:
        _check_version(connection, path, kind)
        connection.execute(f"SELECT count(*) FROM (SELECT 1 FROM {kind.table} LIMIT 1)")
        return connection


def _connect(target: str | Path) -> sqlite3.Connection:
    """Connect to a path or a URI; every transaction is explicit, threads take turns by a lock."""
    connection = sqlite3.connect(
        target,
        timeout=_PATIENCE_S,
        isolation_level=None,
        check_same_thread=False,
        uri=isinstance(target, str),
    )
    # a text that damage has made no UTF-8 is found out by its row's checksum
    connection.text_factory = _text
    return connection


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


@contextmanager
def _closed_if_refused(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    except (*_SQLITE, DataError):
        connection.close()
        raise


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
def _begun(connection: sqlite3.Connection, how: str) -> Iterator[None]:
    """A transaction, whose reads see one state of the file; what it writes counts if committed."""
    connection.execute(f"BEGIN {how}")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _check_version(connection: sqlite3.Connection, path: Path, kind: FileKind) -> int:
    """The version of the file, 0 where it is empty; other programs' and newer files are refused."""
    # another process may make the table between two reads: then owner and tables would not fit
    with _begun(connection, "DEFERRED"):
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if tables and owner != kind.application_id:
        raise _AnothersFile(f"is a database, but no {kind.noun}", file=path)
    if version > kind.version:
        found = f"was written by a newer ragbench (schema {version})"
        raise DataError(found, file=path, allowed=f"schema {kind.version}")
    return version
