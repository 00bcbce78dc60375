"""The one thread that writes replies: what arrives while it commits goes into the next commit."""

from __future__ import annotations

import queue
import sqlite3
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from ragbench.database import open_database, unusable
from ragbench.errors import DataError
from ragbench.llm.replies_file import REPLIES, checksum


@dataclass(frozen=True, slots=True)
class Row:
    """One stored reply."""

    key: str
    """Hash of the request."""
    model: str
    """The model as the server names it."""
    reply: bytes
    """The reply as compressed JSON."""
    checksum: bytes
    """Tells a damaged reply from a whole one."""
    stored_at: float
    """Seconds since 1970."""
    replaces: bool = False
    """Whether it takes the place of one that is there."""


_INSERT = "INSERT INTO replies VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO "
_KEEP = _INSERT + "NOTHING"
_REPLACE = _INSERT + (
    "UPDATE SET model = excluded.model, reply = excluded.reply, checksum = excluded.checksum, "
    "stored_at = excluded.stored_at"
)

_Job = tuple[Row, "Future[bytes | None]"]


class Writer:
    """Writes rows in commits that are on disk before their futures are done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        # a daemon: whoever forgets to close must not hang; nobody has used what it had left
        self._thread = threading.Thread(target=self._run, name="ragbench-replies", daemon=True)
        self._thread.start()

    def put(self, row: Row) -> Future[bytes | None]:
        """Queue a row; the future holds the reply that was there before, or None.

        Raises:
            DataError: The store is closed.
        """
        future: Future[bytes | None] = Future()
        with self._lock:
            if self._closed:
                raise DataError("the store of replies is closed", file=self._path)
            self._jobs.put((row, future))
        return future

    def close(self) -> None:
        """Write what is queued, then end."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        # its own connection: commits wait for the disk, and readers must not wait for them
        try:
            file = open_database(self._path, REPLIES)
        except DataError as error:
            while (job := self._jobs.get()) is not None:
                job[1].set_exception(error)
            return
        try:
            while (job := self._jobs.get()) is not None:
                batch, ended = [job], False
                while not self._jobs.empty():
                    following = self._jobs.get()
                    if following is None:
                        ended = True
                        break
                    batch.append(following)
                with file.guarded() as connection:
                    _commit(connection, batch, self._path)
                if ended:
                    return
        finally:
            file.close()


def _commit(connection: sqlite3.Connection, batch: list[_Job], path: Path) -> None:
    """Write a batch in one transaction and tell everyone who waits for it."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        before = [_write(connection, row) for row, _ in batch]
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        for _, future in batch:
            future.set_exception(unusable(path, REPLIES, error))
        return
    for (_, future), earlier in zip(batch, before, strict=True):
        future.set_result(earlier)


def _write(connection: sqlite3.Connection, row: Row) -> bytes | None:
    """Write a row; return the reply that was there before, unless it was damaged."""
    values = (row.key, row.model, row.reply, row.checksum, row.stored_at)
    if row.replaces:
        connection.execute(_REPLACE, values)
        return None
    if connection.execute(_KEEP, values).rowcount:
        return None
    found = connection.execute(
        "SELECT reply, checksum FROM replies WHERE key = ?", (row.key,)
    ).fetchone()
    if checksum(row.key, found[0]) == found[1]:
        return bytes(found[0])
    connection.execute(_REPLACE, values)
    return None
