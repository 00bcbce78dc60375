"""Replies of models on disk: one SQLite file, keyed by a hash of the request.

A reply is on disk before anybody uses it: a kill at any moment loses none. Several processes and
threads may share the file. What arrives while the one thread that writes commits goes into the next
commit.
"""

from __future__ import annotations

import json
import queue
import sqlite3
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ragbench.errors import DataError
from ragbench.files import write_atomically
from ragbench.json_yaml import load_json
from ragbench.store.call_locks import claims_beside
from ragbench.store.database import (
    DamagedDatabase,
    DatabaseFile,
    connect_as_allowed,
    open_database,
    open_shared,
)
from ragbench.store.kinds import FileKind

Stored = TypeVar("Stored", bound="Reply")
Store = TypeVar("Store", bound="ReplyStore[Any]")

REPLIES_FILE = "replies.sqlite"
REPLIES = FileKind(
    noun="store of replies",
    table="replies",
    columns="""
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    reply BLOB NOT NULL,
    checksum BLOB NOT NULL,
    stored_at REAL NOT NULL
""",
    application_id=0x52414742,  # 'RAGB'
    version=1,
    remedy="its replies will be asked for again",
    content="reply",
    rows="replies",
    newest="stored_at",
    survives_power_cut=True,  # a reply that was paid for
)
_FREE_BYTES, _RATIO = 64 << 20, 200
"""Beyond 64 MiB, a reply has no more than 200 bytes for each that is stored."""
_INSERT = "INSERT INTO replies VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO "
_KEEP = _INSERT + "NOTHING"
_REPLACE = _INSERT + (
    "UPDATE SET model = excluded.model, reply = excluded.reply, checksum = excluded.checksum, "
    "stored_at = excluded.stored_at"
)

_Row = tuple[str, str, bytes, bytes, float]
"""Key, model, reply as compressed JSON, checksum, seconds since 1970."""
_Job = tuple[_Row, bool, "Future[bytes | None]"]
"""A row, whether it takes the place of one that is there, and who waits for it."""


class DamagedReply(UserWarning):
    """A stored reply whose checksum does not fit; it is asked for again."""


@dataclass(frozen=True, slots=True)
class BatchNote:
    """A batch of calls that was sent, or was about to be."""

    name: str
    """What the batch is told to carry."""
    batch: str | None
    """How the server calls it; None: it may not have been made."""
    keys: tuple[str, ...]
    """The keys of the calls in it that have no other answer."""
    refused: tuple[str, ...] = ()
    """Parameters that the calls lack, since their model refuses them."""
    formats: int = 0
    """How many response formats it refuses."""


class BatchNotes:
    """Notes of batches, a JSON file each, in a folder beside the replies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, note: BatchNote) -> None:
        """Put a note on disk, in place of an earlier one of its name."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._folder / f"{note.name}.json", json.dumps(asdict(note)))

    def without(self, note: BatchNote, keys: Collection[str]) -> None:
        """Leave calls out of a note; one without calls is removed."""
        path = self._folder / f"{note.name}.json"
        now = _read_note(path) or note
        left = tuple(key for key in now.keys if key not in keys)
        if left:
            self.write(replace(now, keys=left))
        else:
            path.unlink(missing_ok=True)

    def all(self) -> list[BatchNote]:
        """Return the notes that can be read."""
        paths = sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []
        return [note for note in map(_read_note, paths) if note is not None]


def _read_note(path: Path) -> BatchNote | None:
    try:
        kept = load_json(path.read_text(encoding="utf-8"))
        lists = {name: tuple(kept[name]) for name in ("keys", "refused")}
        return BatchNote(**{**kept, **lists})
    except (OSError, ValueError, KeyError, TypeError):
        return None  # of a batch that cannot be found again: its calls are sent anew


class Reply(Protocol):
    """What is stored of a model's reply."""

    @property
    def model(self) -> str:
        """The model as the server names it."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""


class ReplyStore(Generic[Stored]):
    """A store of replies in one file, which `read` makes of what their `to_dict` wrote.

    The files `also`, such as a team's, are only read, after this one; one that cannot be used is
    named in a warning and left out. With `replay`, and where the file may
    only be read, nothing is written: what is missing is an error, nothing may be sent.
    """

    def __init__(
        self,
        path: str | Path,
        read: Callable[[dict[str, Any]], Stored],
        *,
        also: Sequence[str | Path] = (),
        replay: bool = False,
    ) -> None:
        self.path, self.replay, self._read = Path(path), replay, read
        if replay:
            self._own = open_shared(self.path, REPLIES, thorough=True)
        else:
            connection, writable = connect_as_allowed(self.path, REPLIES, thorough=True)
            self._own = DatabaseFile(self.path, REPLIES, connection, writable=writable)
        self.writable = self._own.writable
        """Whether replies can be stored: not in a replay, nor where the file may only be read."""
        self._readers = [self._own, *filter(None, map(_of_others, map(Path, also)))]
        self._writer = _Writer(self.path) if self.writable else None
        self.claims = claims_beside(self.path)
        """Held while a call is under way, so that others who share the file wait for its reply."""
        if self.writable:
            self.claims.check()
        self._again_from: float | None = None
        self._told: set[str] = set()

    @property
    def batches(self) -> BatchNotes:
        """Notes of the batches of calls whose replies are to come here."""
        return BatchNotes(self.path.parent / "batches")

    def holds(self, key: str) -> bool:
        """Whether there is a reply under a key, also one that is to be asked for again."""
        return any(self._row(reader, key) is not None for reader in list(self._readers))

    @contextmanager
    def asking_again(self) -> Iterator[None]:
        """Leave out what was stored before the block; what is stored in it takes its place.

        For what failed although there was a reply: one that refused, or that could not be read.
        """
        self._again_from = time.time()
        try:
            yield
        finally:
            self._again_from = None

    def get(self, key: str) -> Stored | None:
        """Return the reply under a key; None where there is none, or none that is whole."""
        for reader in list(self._readers):
            row = self._row(reader, key)
            if row is None:
                continue
            reply, checksum, stored_at = row
            if self._again_from is not None and not _is_after(stored_at, self._again_from):
                continue
            if REPLIES.fits(key, reply, checksum):
                with suppress(ValueError, LookupError, TypeError, zlib.error):  # none of ours
                    return self._unpacked(reply)
            text = f"{reader.path}: the reply {key[:12]} is damaged; it is asked for again"
            if text not in self._told:
                self._told.add(text)
                warnings.warn(DamagedReply(text), stacklevel=2)
        return None

    def _row(self, reader: DatabaseFile, key: str) -> tuple[Any, ...] | None:
        query = "SELECT reply, checksum, stored_at FROM replies WHERE key = ?"
        try:
            row: tuple[Any, ...] | None = reader.use(
                lambda connection: connection.execute(query, (key,)).fetchone()
            )
        except DataError as error:
            if reader is self._own:
                raise
            self._readers.remove(reader)
            _left_out(error)
            return None
        return row

    def store(self, key: str, reply: Stored) -> Future[Stored]:
        """Put a reply on disk; the future holds the reply that is there when it is.

        That is this one, unless another process has stored its own under the same key before.
        """
        if self._writer is None:
            why = "that is replayed is not written" if self.replay else "may only be read"
            raise DataError(f"a store {why}", file=self.path)
        packed = zlib.compress(json.dumps(reply.to_dict(), ensure_ascii=True).encode(), 6)
        row = (key, reply.model, packed, REPLIES.checksum(key, packed), time.time())
        written = self._writer.put(row, replaces=self._again_from is not None)
        done: Future[Stored] = Future()
        done.set_running_or_notify_cancel()

        def on_disk(written: Future[bytes | None]) -> None:
            try:
                earlier = written.result()
                done.set_result(reply if earlier is None else self._unpacked(earlier))
            except Exception as error:  # noqa: BLE001 - handed to who waits, who must not hang
                done.set_exception(error)

        written.add_done_callback(on_disk)
        return done

    def _unpacked(self, packed: bytes) -> Stored:
        return self._read(load_json(_unpacked(packed)))

    def damaged(self) -> Iterator[str | bytes]:
        """Yield the keys of all replies in the file whose checksum does not fit."""
        return self._own.damaged()

    def __len__(self) -> int:
        return len(self._own)

    def close(self) -> None:
        """Write what is waiting and close the file."""
        if self._writer is not None:
            self._writer.close()
        for reader in self._readers:
            reader.close()

    def __enter__(self: Store) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _unpacked(packed: bytes) -> bytes:
    """The JSON of a reply; a row of megabytes, in the file of others, may make gigabytes."""
    inflate = zlib.decompressobj()
    found = inflate.decompress(packed, max(_FREE_BYTES, _RATIO * len(packed)))
    if not inflate.eof:
        raise zlib.error("cut off, or far larger than any reply")
    return found


class _Writer:
    """Writes rows in commits that are on disk before their futures are done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        # a daemon: a store that is not closed must not hang; what it had left was not used
        self._thread = threading.Thread(target=self._run, name="ragbench-replies", daemon=True)
        self._thread.start()

    def put(self, row: _Row, *, replaces: bool) -> Future[bytes | None]:
        """Queue a row; the future holds the reply that was there before, or None."""
        future: Future[bytes | None] = Future()
        with self._lock:
            if self._closed:
                raise DataError("the store of replies is closed", file=self._path)
            self._jobs.put((row, replaces, future))
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
                job[-1].set_exception(error)
            return
        batch: list[_Job | None] = []
        with file:
            while not batch or batch[-1] is not None:
                batch = [self._jobs.get()]
                while batch[-1] is not None and not self._jobs.empty():
                    batch.append(self._jobs.get())
                if jobs := [job for job in batch if job is not None]:
                    _commit(file, jobs)


def _commit(file: DatabaseFile, batch: list[_Job]) -> None:
    try:
        before = file.write(
            lambda connection: [_write(connection, row, replaces) for row, replaces, _ in batch]
        )
    except Exception as error:  # noqa: BLE001 - handed to who waits, who must not hang
        for *_, future in batch:
            future.set_exception(error)
        return
    for (*_, future), earlier in zip(batch, before, strict=True):
        future.set_result(earlier)


def _of_others(path: Path) -> DatabaseFile | None:
    """Open a file that is only read; None, with a warning, where it cannot be used."""
    try:
        return open_shared(path, REPLIES)
    except DataError as error:
        _left_out(error)
        return None


def _left_out(error: DataError) -> None:
    warnings.warn(DamagedDatabase(f"{error}; its replies are left out"), stacklevel=3)


def _is_after(stored_at: object, start: float) -> bool:
    return isinstance(stored_at, (int, float)) and stored_at >= start


def _write(connection: sqlite3.Connection, row: _Row, replaces: bool) -> bytes | None:
    """Write a row; return the reply that was there before, unless it was damaged."""
    if not replaces:
        if connection.execute(_KEEP, row).rowcount:
            return None
        key = row[0]
        found = connection.execute(
            "SELECT reply, checksum FROM replies WHERE key = ?", (key,)
        ).fetchone()
        if found is not None and REPLIES.fits(key, *found):
            return bytes(found[0])
    connection.execute(_REPLACE, row)
    return None
