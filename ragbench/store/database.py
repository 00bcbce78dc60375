"""Store of a cache folder: rows (kind, key, item, blob) in two SQLite files of one schema.

<cache>/cache.sqlite    stage items, vectors and numbers of tokens, which can be computed again
<cache>/replies.sqlite  replies of models, which were paid for; the file can be copied and shared
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.errors import DataError
from ragbench.store import sqlite_file
from ragbench.store.sqlite_file import CacheRow, Connection, DamagedCache, SQLiteFile

CACHE_FILE, REPLIES_FILE = "cache.sqlite", "replies.sqlite"
_ENTRY = "kind = ? AND key = ?"
_ITEM = f"{_ENTRY} AND item = ?"
_REPLACE = f"""INSERT INTO rows ({sqlite_file.COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (kind, key, item) DO UPDATE SET
    blob = excluded.blob, checksum = excluded.checksum, stored_at = excluded.stored_at"""
_NOTE_USE = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)"
_ITEMS_PER_QUERY = 500  # SQLite before 3.32 takes 999 variables
_STRUCTURE = ("", "")  # kind and key of damage outside rows


class CacheEntry(NamedTuple):
    """Entry of a cache: all rows of one kind and key, or a folder of arrays.

    `Store.entries` and `stored_in` return it.

    Attributes:
        path: File of the rows, or the folder.
        kind: Kind of the rows or arrays, such as `generate` or `index`.
        key: Key of the rows; None for a folder of arrays.
        label: Component or data of the entry; `?` if the label was lost.
        size: Bytes of the content.
        used_at: Time of the last use, in seconds since 1970.
    """

    path: Path
    kind: str
    key: str | None
    label: str
    size: int
    used_at: float


class Store:
    """Rows of one SQLite file, and of further files that are only read.

    A row is the blob of an item by kind and key: `put` stores rows, `find` and `get` read them.
    Threads and processes may share a file. The files are opened on first use. A missing file has no
    rows, and the first write creates it; an unreadable further one is left out with a warning. A
    damaged row counts as missing, with a warning. Its methods raise a DataError for a file that
    cannot be used, and writing methods for a store that is read-only.

    Args:
        path: File that is read and written.
        also: Further files, read after it.
        read_only: True to write nothing.
        thorough: True to check all pages of the file when it is opened; see `SQLiteFile`.
    """

    def __init__(
        self,
        path: str | Path,
        also: Sequence[str | Path] = (),
        *,
        read_only: bool = False,
        thorough: bool = False,
    ) -> None:
        self.path = Path(path)
        self._file = SQLiteFile(self.path, read_only=read_only, thorough=thorough)
        self._files = [self._file, *(SQLiteFile(Path(other), read_only=True) for other in also)]

    @property
    def writable(self) -> bool:
        """True if rows can be stored.

        That is, the file is not opened as read-only and the permissions allow writing.
        """
        return self._file.writable

    def find(
        self, kind: str, key: str, items: Collection[str], since: float = 0.0
    ) -> Iterator[tuple[str, bytes]]:
        """Yield (item, blob) of the items that are stored, in any order.

        Damaged rows are left out with a warning, and removed from the first file. An item that
        several files have comes from the first that has it whole and new enough.

        Args:
            kind: Kind of the rows, such as `retrieve` or `replies`.
            key: Hash of all inputs of the items.
            items: Names of the items.
            since: Earliest time of storage, in seconds since 1970; older rows are left out.

        Raises:
            DataError: The first file cannot be read.
        """
        missing = dict.fromkeys(items)
        for file in list(self._files):
            damaged = []
            for row in map(
                CacheRow._make, self._select(file, sqlite_file.COLUMNS, kind, key, list(missing))
            ):
                if not row.is_whole:
                    damaged.append(row.item)
                elif row.stored_at >= since:
                    del missing[row.item]
                    yield row.item, row.blob
            if damaged:
                self._drop_damaged(file, kind, key, damaged)

    def get(self, kind: str, key: str, item: str, since: float = 0.0) -> bytes | None:
        """Return the blob of an item; None if it is not stored, damaged, or older than `since`.

        The further files count too, and a damaged row gives a warning, as in `find`.

        Raises:
            DataError: The first file cannot be read.
        """
        for _, blob in self.find(kind, key, [item], since):
            return blob
        return None

    def holds(self, kind: str, key: str, item: str) -> bool:
        """Return True if an item is stored; its blob is not read, so damage is not noticed.

        The further files count too; one that cannot be read is left out with a `DamagedCache`
        warning. It raises a DataError if the first file cannot be read.
        """
        files = list(self._files)
        return any(any(self._select(file, "item", kind, key, [item])) for file in files)

    def count(self, kind: str, key: str) -> int:
        """Return the number of rows of a kind and key in the first file; 0 for a missing file.

        Damaged rows count. It raises a DataError if the file cannot be read.
        """
        query = f"SELECT count(*) FROM rows WHERE {_ENTRY}"
        return int(self._file.read(lambda file: file.execute(query, (kind, key)).fetchone()[0]))

    def put(
        self,
        kind: str,
        key: str,
        blobs: Mapping[str, bytes],
        *,
        since: float = math.inf,
        durable: bool = True,
        label: str | None = None,
    ) -> dict[str, bytes]:
        """Store the blobs of some items, all or none.

        A missing file is created, also for no blobs. A damaged row is replaced in any case.

        Args:
            kind: Kind of the rows, such as `retrieve` or `replies`.
            key: Hash of all inputs of the items.
            blobs: Blob by item.
            since: Rows stored at this time or later are not replaced; inf replaces all rows.
            durable: True to return only when the rows are on disk; else a power cut may lose them,
                but no kill.
            label: Label of the entry, recorded as `note_use` does; None records nothing.

        Returns:
            Blobs of the rows that were not replaced, by item; empty if all were stored.

        Raises:
            DataError: The file cannot be written.
        """
        stored_at = time.time()
        query = f"SELECT {sqlite_file.COLUMNS} FROM rows WHERE {_ITEM} AND stored_at >= ?"

        def write(file: Connection) -> dict[str, bytes]:
            unchanged: dict[str, bytes] = {}
            for item, blob in blobs.items():
                if since < math.inf:
                    values = file.execute(query, (kind, key, item, since)).fetchone()
                    if values is not None and (row := CacheRow(*values)).is_whole:
                        unchanged[item] = row.blob
                        continue
                row_checksum = sqlite_file.checksum(kind, item, blob)
                file.execute(_REPLACE, (kind, key, item, blob, row_checksum, stored_at))
            if label is not None:
                file.execute(_NOTE_USE, (kind, key, label, stored_at))
            return unchanged

        return self._file.write(write, durable=durable)

    def remove(self, kind: str, key: str, items: Collection[str]) -> None:
        """Remove items from the first file; items that are not stored are ignored.

        It raises a DataError if the file cannot be written; a missing file is created.
        """
        rows = [(kind, key, item) for item in items]
        self._file.write(lambda file: file.executemany(f"DELETE FROM rows WHERE {_ITEM}", rows))

    def remove_entries(self, entries: Sequence[CacheEntry]) -> None:
        """Remove the rows of entries and free their disk space; delete a file without rows.

        Unknown entries and folders of arrays are ignored; paths are not compared with the file of
        the store.

        Raises:
            DataError: The file cannot be written, or a file without rows cannot be deleted.
        """
        keys = [(entry.kind, entry.key) for entry in entries]

        def delete(file: Connection) -> bool:
            for table in ("rows", "entries"):
                file.executemany(f"DELETE FROM {table} WHERE {_ENTRY}", keys)
            return file.execute("SELECT 1 FROM rows LIMIT 1").fetchone() is None

        if self._file.write(delete):
            self._file.unlink()
        else:
            self._file.vacuum()

    def note_use(self, kind: str, key: str, label: str) -> None:
        """Record the label of an entry and the current time as that of its last use.

        An earlier label is replaced. It raises a DataError if the file cannot be written.
        """
        values = (kind, key, label, time.time())
        self._file.write(lambda file: file.execute(_NOTE_USE, values), durable=False)

    def entries(self) -> list[CacheEntry]:
        """Return the entries of the first file; entries without a label have `?`.

        They are in any order; `size` is in bytes, and without a label `used_at` is the time of the
        last storage. A missing file gives an empty list. It raises a DataError if the file cannot
        be read.
        """
        query = (
            "SELECT kind, key, ifnull(label, '?'), size, ifnull(used_at, stored) FROM "
            "(SELECT kind, key, sum(length(blob)) AS size, max(stored_at) AS stored "
            "FROM rows GROUP BY kind, key) LEFT JOIN entries USING (kind, key)"
        )
        rows = self._file.read(lambda file: file.execute(query).fetchall())
        return [CacheEntry(self.path, *row) for row in rows]

    def damage(self) -> dict[tuple[str, str], int]:
        """Return the number of damaged rows of the first file by (kind, key); empty without damage.

        A damaged structure counts as one under ("", ""). Damaged rows are not removed. A missing
        file gives an empty dict.

        Raises:
            DataError: The file cannot be read, is no SQLite database, or belongs to another program
                or version.
        """

        def count(file: Connection) -> dict[tuple[str, str], int]:
            counts: dict[tuple[str, str], int] = {}
            try:
                sqlite_file.check_pages(file)
            except Exception as error:
                if not sqlite_file.is_damage(error):
                    raise
                counts[_STRUCTURE] = 1
            for row in sqlite_file.readable_rows(file):
                if not row.is_whole:
                    counts[row.kind, row.key] = counts.get((row.kind, row.key), 0) + 1
            return counts

        return self._file.read(count)

    def close(self) -> None:
        """Close the files.

        A later call opens them again.
        """
        for file in self._files:
            file.close()

    def _select(
        self, file: SQLiteFile, columns: str, kind: str, key: str, items: Sequence[str]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield columns of the items that a file has, as tuples."""
        for start in range(0, len(items), _ITEMS_PER_QUERY):
            part = items[start : start + _ITEMS_PER_QUERY]
            marks = ", ".join("?" * len(part))
            query = f"SELECT {columns} FROM rows WHERE {_ENTRY} AND item IN ({marks})"
            values = (kind, key, *part)
            try:
                # Fetched at once, since the lock must not be held while the caller uses a row.
                rows = file.read(partial(_fetch, query=query, values=values))
            except DataError as error:
                if file is self._file:
                    raise
                self._files.remove(file)
                warnings.warn(DamagedCache(f"{error}; it is left out"), stacklevel=4)
                return
            yield from rows

    def _drop_damaged(self, file: SQLiteFile, kind: str, key: str, items: Sequence[str]) -> None:
        """Warn of damaged rows, and remove them from a writable file, so that they are replaced."""
        names = ", ".join(item[:12] for item in items[:3])
        text = f"{file.path}: {len(items)} damaged in {kind} ({names}); made again"
        warnings.warn(DamagedCache(text), stacklevel=4)
        if file is self._file and file.writable:
            self.remove(kind, key, items)


def _fetch(file: Connection, query: str, values: Sequence[str]) -> list[tuple[Any, ...]]:
    return file.execute(query, values).fetchall()
