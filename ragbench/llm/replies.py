"""Replies of chat models on disk, keyed by a hash of the request.

A reply is on disk before anybody uses it: a kill at any moment loses none. Replies that arrive
while the writing thread commits go into its next commit.
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

from ragbench.errors import DataError, OptionError
from ragbench.json_yaml import load_json
from ragbench.llm.base import ChatReply, ChatRequest
from ragbench.store.call_locks import call_locks_beside
from ragbench.store.database import Store
from ragbench.store.sqlite_file import DamagedCache

# The kind of the rows; they have no key of inputs, the item is the hash of the request.
REPLIES = "replies"
# Beyond 64 MiB, a reply has at most 200 bytes for each compressed one.
_FREE_BYTES, _RATIO = 64 << 20, 200


def request_key(identity: Mapping[str, str], request: ChatRequest) -> str:
    """Return the key of a request to a server: equal if and only if both are.

    The order of keys in mappings does not count, and 1.0 is 1; true is not.
    """
    content = {"server": dict(identity), "request": request.to_dict()}
    try:
        text = json.dumps(_with_integers(content), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise OptionError("chat request", "", str(error), "what JSON can hold") from None
    return hashlib.sha256(text.encode()).hexdigest()


def _with_integers(value: Any) -> Any:
    """Return a value with whole floats as integers: 1.0 is 1, in requests as in JSON schema."""
    if isinstance(value, Mapping):
        return {str(key): _with_integers(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_integers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _WaitingReply(NamedTuple):
    """A reply that the writing thread has not committed yet.

    Attributes:
        since: A stored reply of this time or later stays.
        future: Gets the reply that is stored in the end.
    """

    key: str
    reply: ChatReply
    blob: bytes
    since: float
    future: Future[ChatReply]


class Replies:
    """A file of chat replies.

    Further files `also`, such as a team's, are only read, after this one. With `replay`, and where
    the file may only be read, nothing is written: a missing reply is an error, nothing is sent.
    `clean` removes secrets from the texts of a reply before anybody uses it.
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
            raise DataError("there is no such store of replies", file=self.path)
        self._store = Store(self.path, also, read_only=replay, thorough=True)
        # Whether replies can be stored: not in a replay, nor where the file may only be read.
        self.writable = self._store.writable
        # Held while a call is under way: another run that shares the file waits for the reply.
        self.call_locks = call_locks_beside(self.path)
        # its own connection: commits wait for the disk, and readers must not wait for them
        self._writing = Store(self.path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ragbench-replies")
        self._waiting: list[_WaitingReply] = []
        self._lock = threading.Lock()
        self._again_from = 0.0
        # a damaged or locked file is noticed before a call is paid for
        self._store.count(REPLIES, "")
        if self.writable:
            self._store.note_use(REPLIES, "", "replies of models")
            self.call_locks.check()

    def holds(self, key: str) -> bool:
        """Return whether there is a reply under a key, also one that is to be asked for again."""
        return bool(self._store.stored(REPLIES, "", [key]))

    @contextmanager
    def asking_again(self) -> Iterator[None]:
        """Leave out replies that were stored before the block; those stored in it replace them.

        For replies that failed: a refusal, or a text that could not be read.
        """
        self._again_from = time.time()
        try:
            yield
        finally:
            self._again_from = 0.0

    def get(self, key: str) -> ChatReply | None:
        """Return the reply under a key; None where there is none, or none that is whole."""
        blob = self._store.get(REPLIES, "", key, since=self._again_from)
        if blob is None:
            return None
        try:
            return _unpack(blob)
        except (ValueError, LookupError, TypeError, zlib.error):  # a right checksum, but not ours
            text = f"{self.path}: the reply {key[:12]} is damaged; it is asked for again"
            warnings.warn(DamagedCache(text), stacklevel=2)
            if self.writable:
                self._store.remove(REPLIES, "", [key])
            return None

    def store(self, key: str, reply: ChatReply) -> Future[ChatReply]:
        """Put a reply on disk; the future holds the reply that is stored in the end.

        That is this one, unless another process has stored its own under the same key before.
        """
        if not self.writable:
            reason = "that is replayed is not written" if self.replay else "may only be read"
            raise DataError(f"a store {reason}", file=self.path)
        if self._clean is not None:
            reply = reply.cleaned(self._clean)
        blob = zlib.compress(json.dumps(reply.to_dict(), ensure_ascii=True).encode(), 6)
        future: Future[ChatReply] = Future()
        future.set_running_or_notify_cancel()  # a caller that gives up does not cancel the write
        with self._lock:
            self._waiting.append(_WaitingReply(key, reply, blob, self._again_from, future))
            self._thread.submit(self._commit)
        return future

    def _commit(self) -> None:
        """Write all replies that wait, in the writing thread; an earlier call may have done so."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for since, group in groupby(waiting, key=lambda entry: entry.since):
            entries = list(group)
            try:
                # two waiting replies of one key: the first one counts
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
        """Return the error for a reply that is not stored; it quotes the request."""
        text = " ".join(request.messages[-1].content.split()) if request.messages else ""
        question = text if len(text) <= 60 else f"{text[:60]}..."
        return DataError(
            f"no reply from {request.model!r} to {question!r} (sample {request.sample}, "
            f"key {key[:12]})",
            file=self.path,
            allowed="replay needs every reply; run once with the server to store it"
            if self.replay
            else "the file may only be read, and nothing is paid for that cannot be stored: "
            "permission to write, or another cache, with this one in cache_also",
        )

    def __len__(self) -> int:
        return self._store.count(REPLIES, "")

    def close(self) -> None:
        """Write what is waiting and close the files."""
        self._thread.shutdown()
        self._writing.close()
        self._store.close()

    def __enter__(self) -> Replies:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _unpack(blob: bytes) -> ChatReply:
    """Return the reply of a compressed row; a row of megabytes may make gigabytes."""
    inflate = zlib.decompressobj()
    text = inflate.decompress(blob, max(_FREE_BYTES, _RATIO * len(blob)))
    if not inflate.eof:
        raise zlib.error("cut off, or far larger than any reply")
    return ChatReply.from_dict(load_json(text))
