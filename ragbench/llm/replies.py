"""Store of chat replies on disk, keyed by a hash of the request.

A reply is on disk before its caller receives it, so a kill loses no paid reply. Replies that arrive
during a commit of the writing thread go into its next commit.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from ragbench.errors import DataError, OptionError, Phrase
from ragbench.json_yaml import load_json
from ragbench.llm.base import ChatReply, ChatRequest
from ragbench.llm.threads import renew_after_fork
from ragbench.records.codec import from_json, to_json
from ragbench.store.call_locks import CallLocks, call_locks_beside
from ragbench.store.database import Store
from ragbench.store.sqlite_file import DamagedCache

# Kind of the rows. Their key is empty, and their item is the hash of the request.
REPLIES = "replies"
# Limit of decompression: 64 MiB, or 200 bytes for each compressed byte if that is more.
_FREE_BYTES, _RATIO = 64 << 20, 200


def request_key(identity: Mapping[str, str], request: ChatRequest) -> str:
    """Return the storage key of a request: a SHA-256 of the server's identity and the request.

    Mappings are equal in any order of their keys. 1.0 equals 1, but true does not. It is 64
    hexadecimal digits.

    Raises:
        OptionError: The request holds NaN or a value that JSON cannot express.
    """
    content = {"server": dict(identity), "request": request.to_dict()}
    try:
        text = json.dumps(_with_integers(content), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise OptionError("chat request", "", Phrase(error), "what JSON can hold") from None
    return hashlib.sha256(text.encode()).hexdigest()


def _with_integers(value: Any) -> Any:
    """Return a JSON value with whole floats as integers, which JSON schema treats as equal."""
    if isinstance(value, Mapping):
        integers = {}
        for key, part in value.items():
            integers[str(key)] = _with_integers(part)
        return integers
    if isinstance(value, (list, tuple)):
        return [_with_integers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _WaitingReply(NamedTuple):
    """Reply that the writing thread has not committed yet."""

    key: str
    reply: ChatReply
    blob: bytes  # the reply as compressed JSON
    since: float  # a stored reply of this time (in seconds since 1970) or later is not replaced
    future: Future[ChatReply]  # receives the reply that is stored in the end


class Replies:
    """File of chat replies.

    `get` returns the reply of a key or None, `store` a future of the stored reply. `len` gives the
    number of replies in the first file, `path`. Used in `with`, it is closed at the end.

    Args:
        path: SQLite file; created if it is missing, except with `replay`.
        also: Further files, such as that of a team, which are read after this one.
        replay: True to read only: a missing reply is then an error, and nothing is sent.
        clean: Masks secrets in the texts of a reply before it is stored and returned.

    Attributes:
        writable: False for `replay`, for a file without write permission, and after `close`.

    Raises:
        DataError: With `replay`, the file is missing; or the file is damaged or locked, or its file
            system has no locks.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        also: Sequence[str | Path] = (),
        replay: bool = False,
        clean: Callable[[str], str] | None = None,
    ) -> None:
        self.path, self.replay, self._clean = Path(path), replay, clean
        if replay and not self.path.is_file():
            allowed = "the store of a run that asked the model"
            raise DataError("there is no such store of replies", file=self.path, allowed=allowed)
        self._store = Store(self.path, also, read_only=replay, thorough=True)
        self.writable = self._store.writable
        # A second connection: commits wait for the disk, and readers must not wait for commits.
        self._writing = Store(self.path)
        self._again_from, self._closed = 0.0, False
        self.renew()
        renew_after_fork(self)
        # Reading once finds a damaged or locked file before a call is paid for.
        self._store.count(REPLIES, "")
        if self.writable:
            self._store.note_use(REPLIES, "", "replies of models")
            self.call_locks.check()

    def renew(self) -> None:
        """Start again in a forked process, without writing thread and without waiting replies."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ragbench-replies")
        self._waiting: list[_WaitingReply] = []
        self._lock = threading.Lock()

    @property
    def call_locks(self) -> CallLocks:
        """Locks of running calls; another run that shares the file waits for the reply.

        A lock file that is a link raises a DataError.
        """
        return call_locks_beside(self.path)

    def holds(self, key: str) -> bool:
        """Return True if a reply has the key, also one that `asking_again` leaves out.

        The further files count too; one that cannot be read is left out with a `DamagedCache`
        warning. It raises a DataError if the first file cannot be read.
        """
        return self._store.holds(REPLIES, "", key)

    @contextmanager
    def asking_again(self) -> Iterator[None]:
        """Ignore replies stored before the `with` block in `get`; new replies replace them.

        It holds for all threads. A run retries items in it whose stored reply is a refusal or
        unreadable.
        """
        self._again_from = time.time()
        try:
            yield
        finally:
            self._again_from = 0.0

    def get(self, key: str) -> ChatReply | None:
        """Return the reply of a key; None if it is missing or damaged.

        A damaged reply is removed with a `DamagedCache` warning. Replies that `asking_again` leaves
        out count as missing. It raises a DataError if the first file cannot be read; a further one
        is left out with a warning. The reply has `stored` set.
        """
        blob = self._store.get(REPLIES, "", key, since=self._again_from)
        if blob is None:
            return None
        try:
            return _unpack(blob)
        # The checksum of the row was right, so another program or version wrote the row.
        except (ValueError, DataError, zlib.error):
            text = f"{self.path}: the reply {key[:12]} is damaged; it is requested again"
            warnings.warn(DamagedCache(text), stacklevel=2)
            if self.writable:
                self._store.remove(REPLIES, "", [key])
            return None

    def store(self, key: str, reply: ChatReply) -> Future[ChatReply]:
        """Write a reply to disk in the writing thread.

        Returns:
            Future of the stored reply: this one with secrets masked, or the reply that was stored
            under the key before, with `stored` set. It holds the exception of a failed write.

        Raises:
            DataError: The store is replayed, read-only or closed.
        """
        if not self.writable:
            reason = "is replayed and not written" if self.replay else "is read-only or closed"
            raise DataError(f"the store {reason}", file=self.path)
        if self._clean is not None:
            reply = reply.cleaned(self._clean)
        blob = zlib.compress(json.dumps(to_json(reply), ensure_ascii=True).encode(), 6)
        future: Future[ChatReply] = Future()
        future.set_running_or_notify_cancel()  # a caller that gives up does not cancel the write
        with self._lock:
            self._waiting.append(_WaitingReply(key, reply, blob, self._again_from, future))
            self._thread.submit(self._commit)
        return future

    def _commit(self) -> None:
        """Write all waiting replies; does nothing if an earlier call has written them."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for since, group in groupby(waiting, key=lambda entry: entry.since):
            entries = list(group)
            try:
                # Of two waiting replies with one key, the first one is stored.
                blobs = {entry.key: entry.blob for entry in reversed(entries)}
                blobs.update(self._writing.put(REPLIES, "", blobs, since=since))
                for entry in entries:
                    blob = blobs[entry.key]
                    entry.future.set_result(entry.reply if blob is entry.blob else _unpack(blob))
            except Exception as error:  # noqa: BLE001 - passed to the callers, who must not hang
                for entry in entries:
                    if not entry.future.done():
                        entry.future.set_exception(error)

    def missing(self, request: ChatRequest, key: str) -> DataError:
        """Return (not raise) the error for a missing reply of a read-only store.

        It quotes the first 40 characters of the last message, and says what to do.

        Args:
            request: Request without a stored reply.
            key: Storage key of the request.
        """
        if self.replay:
            problem, allowed = "", "a run with the server before the replay"
        elif self._closed:
            problem, allowed = ": the store is closed", "a new Judge or Replies with this file"
        else:
            problem = ": the file is read-only"
            allowed = "write permission, or another cache with this as cache_also"
        text = " ".join(request.messages[-1].content.split()) if request.messages else ""
        question = text if len(text) <= 40 else f"{text[:40]}..."
        source = f"{request.model!r} to {question!r} (key {key[:12]})"
        return DataError(f"no reply from {source}{problem}", file=self.path, allowed=allowed)

    def __len__(self) -> int:
        return self._store.count(REPLIES, "")

    def close(self) -> None:
        """Write the waiting replies and close the files.

        A second call does nothing. Later requests without a stored reply are refused, not paid.
        """
        self._closed, self.writable = True, False
        self._thread.shutdown()
        self._writing.close()
        self._store.close()

    def __enter__(self) -> Replies:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _unpack(blob: bytes) -> ChatReply:
    """Return the reply of a compressed row, with `stored` set."""
    # A damaged or hostile row of megabytes could decompress to gigabytes.
    inflate = zlib.decompressobj()
    text = inflate.decompress(blob, max(_FREE_BYTES, _RATIO * len(blob)))
    if not inflate.eof:
        raise zlib.error("cut off, or far larger than any reply")
    return structs.replace(from_json(ChatReply, load_json(text)), stored=True)
