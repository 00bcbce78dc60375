"""Replies of models on disk, keyed by a hash of the request.

A reply is on disk before anybody uses it: a kill at any moment loses none. Replies that arrive
while the writing thread commits go into its next commit.
"""

from __future__ import annotations

import json
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ragbench.errors import DataError
from ragbench.files import write_atomically
from ragbench.json_yaml import load_json
from ragbench.store.call_locks import call_locks_beside
from ragbench.store.database import Store
from ragbench.store.sqlite_file import DamagedCache

Stored = TypeVar("Stored", bound="Reply")
ReplyStoreType = TypeVar("ReplyStoreType", bound="ReplyStore[Any]")

REPLIES = "replies"
"""The kind of the rows; they have no key of inputs, the item is the hash of the request."""
_FREE_BYTES, _RATIO = 64 << 20, 200
"""Beyond 64 MiB, a reply has at most 200 bytes for each compressed one."""


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
    """The part of a model's reply that is stored."""

    @property
    def model(self) -> str:
        """The model as the server names it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the reply as JSON values."""


class _WaitingReply(NamedTuple):
    """A reply that the writing thread has not committed yet."""

    key: str
    blob: bytes
    since: float
    """A stored reply of this time or later stays."""
    future: Future[bytes]
    """Gets the blob that is stored in the end."""


class ReplyStore(Generic[Stored]):
    """A file of replies, which `read` creates from the dictionaries of their `to_dict`.

    Further files `also`, such as a team's, are only read, after this one. With `replay`, and where
    the file may only be read, nothing is written: a missing reply is an error, nothing is sent.
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
        if replay and not self.path.is_file():
            raise DataError("there is no such store of replies", file=self.path)
        self._store = Store(self.path, also, read_only=replay, thorough=True)
        self.writable = self._store.writable
        """Whether replies can be stored: not in a replay, nor where the file may only be read."""
        self.call_locks = call_locks_beside(self.path)
        """Held while a call is under way: another run that shares the file waits for the reply."""
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

    @property
    def batches(self) -> BatchNotes:
        """Notes of the batches of calls whose replies are to come here."""
        return BatchNotes(self.path.parent / "batches")

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

    def get(self, key: str) -> Stored | None:
        """Return the reply under a key; None where there is none, or none that is whole."""
        blob = self._store.get(REPLIES, "", key, since=self._again_from)
        if blob is None:
            return None
        try:
            return self._unpacked(blob)
        except (ValueError, LookupError, TypeError, zlib.error):  # a right checksum, but not ours
            text = f"{self.path}: the reply {key[:12]} is damaged; it is asked for again"
            warnings.warn(DamagedCache(text), stacklevel=2)
            if self.writable:
                self._store.remove(REPLIES, "", [key])
            return None

    def store(self, key: str, reply: Stored) -> Future[Stored]:
        """Put a reply on disk; the future holds the reply that is stored in the end.

        That is this one, unless another process has stored its own under the same key before.
        """
        if not self.writable:
            reason = "that is replayed is not written" if self.replay else "may only be read"
            raise DataError(f"a store {reason}", file=self.path)
        blob = zlib.compress(json.dumps(reply.to_dict(), ensure_ascii=True).encode(), 6)
        committed: Future[bytes] = Future()
        with self._lock:
            self._waiting.append(_WaitingReply(key, blob, self._again_from, committed))
            self._thread.submit(self._commit)
        stored: Future[Stored] = Future()
        stored.set_running_or_notify_cancel()

        def finish(committed: Future[bytes]) -> None:
            try:
                earlier = committed.result()
                stored.set_result(reply if earlier is blob else self._unpacked(earlier))
            except Exception as error:  # noqa: BLE001 - passed to the caller, who must not hang
                stored.set_exception(error)

        committed.add_done_callback(finish)
        return stored

    def _commit(self) -> None:
        """Write all replies that wait, in the writing thread; an earlier call may have done so."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for since, group in groupby(waiting, key=lambda reply: reply.since):
            replies = list(group)
            try:
                # two waiting replies of one key: the first one counts
                blobs = {reply.key: reply.blob for reply in reversed(replies)}
                blobs.update(self._writing.put(REPLIES, "", blobs, since=since))
            except Exception as error:  # noqa: BLE001 - passed to the callers, who must not hang
                for reply in replies:
                    reply.future.set_exception(error)
            else:
                for reply in replies:
                    reply.future.set_result(blobs[reply.key])

    def _unpacked(self, blob: bytes) -> Stored:
        """Return the reply of a compressed row; a row of megabytes may make gigabytes."""
        inflate = zlib.decompressobj()
        text = inflate.decompress(blob, max(_FREE_BYTES, _RATIO * len(blob)))
        if not inflate.eof:
            raise zlib.error("cut off, or far larger than any reply")
        return self._read(load_json(text))

    def __len__(self) -> int:
        return self._store.count(REPLIES, "")

    def close(self) -> None:
        """Write what is waiting and close the files."""
        self._thread.shutdown()
        self._writing.close()
        self._store.close()

    def __enter__(self: ReplyStoreType) -> ReplyStoreType:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
