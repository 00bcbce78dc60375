"""Locks of running calls: of two runs that share a file of replies, only one pays for a call.

A lock is an operating-system lock on one byte of a file beside the replies, chosen by a hash of the
key of the call. It ends with its process in any case, so it needs no clock and no heartbeat. A file
system without such locks is an error.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

from ragbench.errors import DataError
from ragbench.files import refuse_links

_BYTES = 2**31 - 1
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 0.25
# Longest wait for the same call of another run, which may have been suspended.
_PATIENCE_S = 600.0
_opening = threading.Lock()
# A child that is forked while a thread holds the lock could never take it.
os.register_at_fork(
    before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_opening.release
)


class CallLocks:
    """Call locks of this process in one file, shared by threads and stores.

    `async with locks.hold(key):` waits for the holder of the key, but runs without the lock after
    ten minutes. Two keys share a byte once in a billion cases; one call then waits for the other.
    `call_locks_beside` makes it.

    Args:
        path: Lock file, created if missing. Without write permission, only threads wait.

    Raises:
        DataError: The path is a link.
    """

    def __init__(self, path: Path) -> None:
        self._lock, self._path = threading.Lock(), path
        self._held: set[int] = set()
        self._file: int | None = None
        refuse_links(path)
        with suppress(OSError):  # a read-only folder
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of a key during the block, after waiting for its holder.

        After ten minutes of waiting, the block runs without the lock. Another task or thread of
        this process that asks for the same key waits too, so a block must not ask for its own key
        again.

        Raises:
            DataError: The file system has no locks.
        """
        digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
        byte = int.from_bytes(digest, "big") % _BYTES
        wait_s, end = _FIRST_WAIT_S, time.monotonic() + _PATIENCE_S
        while not (is_held := self._take(byte)) and time.monotonic() < end:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        try:
            yield
        finally:
            if is_held:
                self._release(byte)

    def check(self) -> None:
        """Check that the file system has locks; raise a DataError if it has none.

        It tries to lock one byte and frees it at once.
        """
        if self._take(0):
            self._release(0)

    def _take(self, byte: int) -> bool:
        """Lock a byte and return True; return False if another thread or process holds it."""
        # Locks of the operating system separate processes, not threads, hence the set of bytes.
        with self._lock:
            if byte in self._held:
                return False
            try:
                if self._file is not None:
                    fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except (BlockingIOError, PermissionError):
                return False
            except OSError as error:  # no locks: two runs could pay for the same call
                text = f"cannot be locked, so that runs could pay twice for a call: {error}"
                allowed = "a cache on a file system with locks (RAGBENCH_CACHE)"
                raise DataError(text, file=self._path, allowed=allowed) from None
            self._held.add(byte)
            return True

    def _release(self, byte: int) -> None:
        """Unlock a byte."""
        with self._lock:
            self._held.discard(byte)
            if self._file is not None:
                with suppress(OSError):
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)


def call_locks_beside(path: Path) -> CallLocks:
    """Return the call locks of a file of replies, the same object for each call in a process.

    The lock file is `.<name>.claims` in the same folder, created if it can be. It raises a
    DataError if it is a link.
    """
    # Never closed: closing one of two descriptors of a file would release all its locks.
    # Cached by process, since a forked process does not inherit the locks of its parent.
    with _opening:  # else two threads could open the file twice
        return _open_locks(os.getpid(), path.parent.resolve() / f".{path.name}.claims")


@cache
def _open_locks(process: int, path: Path) -> CallLocks:
    return CallLocks(path)
