"""Replies on disk: one SQLite file, keyed by the full request; what was paid for is kept.

A reply is on disk before anybody uses it: a kill at any moment loses none. Several processes and
threads may share the file. It holds no secret, and no question: keys are hashes.
"""

from __future__ import annotations

import hashlib
import json
import queue
import sqlite3
import threading
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.errors import DataError, OptionError
from ragbench.llm.base import ChatReply, ChatRequest
from ragbench.store.database import FileKind, open_database, open_shared, unusable


class DamagedReply(UserWarning):
    """A stored reply whose checksum does not fit; it is asked for again."""


def request_key(identity: Mapping[str, str], request: ChatRequest) -> str:
    """Return the key of a request to a server: equal if and only if both are.

    The order of keys in mappings does not count, and 1.0 is 1; true is not.

    Raises:
        OptionError: The request holds what JSON has no form for.

    Example:
        >>> from ragbench.llm.base import Message
        >>> ask = lambda **more: ChatRequest("m", (Message("user", "hi"),), **more)
        >>> server = {"type": "openai", "base_url": "http://127.0.0.1:8000/v1"}
        >>> request_key(server, ask()) == request_key(server, ask(sample=1))
        False
    """
    content = {"server": dict(identity), "request": request.to_dict()}
    try:
        written = json.dumps(_plain(content), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise OptionError("chat request", "", str(error), "what JSON can hold") from None
    return hashlib.sha256(written.encode()).hexdigest()


class Replies:
    """A store of replies in one file.

    Args:
        path: The file; made where there is none.
        also: Further files that are only read, after this one: a store shared by a team.
        replay: Read only: what is missing is an error, nothing may be sent.

    Raises:
        DataError: The file is no store, is damaged, or was written by a newer version; or there
            is none to replay from.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with Replies(folder / "replies.sqlite") as replies:
        ...     first = replies.store("k", ChatReply("yes")).result()
        ...     replies.get("k").text, replies.get("other"), len(replies)
        ('yes', None, 1)
    """

    def __init__(
        self, path: str | Path, *, also: Sequence[str | Path] = (), replay: bool = False
    ) -> None:
        self.path, self.replay = Path(path), replay
        self._lock = threading.Lock()
        self._readers = [(open_shared if replay else open_database)(self.path, REPLIES)]
        self._readers += [open_shared(Path(other), REPLIES) for other in also]
        self._writer = None if replay else Writer(self.path)
        self._again_from: float | None = None

    @contextmanager
    def asking_again(self) -> Iterator[None]:
        """Leave out what was stored before the block; what is stored in it takes its place.

        For what failed although there was a reply: one that refused, or that nobody could read.
        """
        self._again_from = time.time()
        try:
            yield
        finally:
            self._again_from = None

    def get(self, key: str) -> ChatReply | None:
        """Return the reply under a key; None where there is none, or none that is whole."""
        oldest = self._again_from
        for reader in self._readers:
            with self._lock, reader.guarded() as connection:
                row = connection.execute(
                    "SELECT reply, checksum, stored_at FROM replies WHERE key = ?", (key,)
                ).fetchone()
            if row is None or (oldest is not None and row[2] < oldest):
                continue
            if checksum(key, row[0]) == row[1]:
                return _unpacked(row[0])
            text = f"{reader.path}: the reply {key[:12]} is damaged; it is asked for again"
            warnings.warn(DamagedReply(text), stacklevel=2)
        return None

    def missing(self, request: ChatRequest, key: str) -> DataError:
        """Return the error that a replay lacks a reply, which says what it would have asked."""
        said = " ".join(request.messages[-1].content.split()) if request.messages else ""
        asked = said if len(said) <= 60 else f"{said[:60]}..."
        return DataError(
            f"no reply from {request.model!r} to {asked!r} (sample {request.sample}, "
            f"key {key[:12]})",
            file=self.path,
            allowed="replay needs every reply; run once with the server to store it",
        )

    def store(self, key: str, reply: ChatReply) -> Future[ChatReply]:
        """Put a reply on disk; the future holds the reply that is there when it is.

        That is this one, unless another process has stored its own under the same key before.

        Raises:
            DataError: This store may not be written.
        """
        if self._writer is None:
            raise DataError("a store that is replayed is not written", file=self.path)
        packed = zlib.compress(json.dumps(reply.to_dict(), ensure_ascii=True).encode(), 6)
        row = Row(
            key,
            reply.model,
            packed,
            checksum(key, packed),
            time.time(),
            replaces=self._again_from is not None,
        )
        future = self._writer.put(row)
        done: Future[ChatReply] = Future()
        done.set_running_or_notify_cancel()

        def on_disk(written: Future[bytes | None]) -> None:
            try:
                earlier = written.result()
                done.set_result(reply if earlier is None else _unpacked(earlier))
            except Exception as error:  # noqa: BLE001 - handed to who waits, who must not hang
                done.set_exception(error)

        future.add_done_callback(on_disk)
        return done

    def __len__(self) -> int:
        """Count the replies in the file itself."""
        with self._lock, self._readers[0].guarded() as connection:
            return int(connection.execute("SELECT count(*) FROM replies").fetchone()[0])

    def damaged(self) -> Iterator[str]:
        """Yield the keys of all replies in the file whose checksum does not fit."""
        with self._lock, self._readers[0].guarded() as connection:
            for key, packed, expected in connection.execute(
                "SELECT key, reply, checksum FROM replies"
            ):
                if checksum(key, packed) != expected:
                    yield key

    def close(self) -> None:
        """Write what is waiting and close the file."""
        if self._writer is not None:
            self._writer.close()
        with self._lock:
            for reader in self._readers:
                reader.close()

    def __enter__(self) -> Replies:
        """Return the store itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()


def _unpacked(packed: bytes) -> ChatReply:
    kept: dict[str, Any] = json.loads(zlib.decompress(packed))
    return ChatReply.from_dict(kept)


def _plain(value: Any) -> Any:
    """A value with whole floats as integers: 1.0 is 1, in requests as in JSON schema."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
    survives_power_cut=True,  # a reply that was paid for
)


def checksum(key: str, packed: bytes) -> bytes:
    """Return what tells a damaged row from a whole one."""
    return hashlib.blake2b(packed, key=key.encode()[:64], digest_size=16).digest()


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
