"""Locks of calls that are under way: of two runs that share a file of replies, one pays for each.

A lock is an operating-system lock on one byte of a file beside the replies: the byte that the hash
of the call's key names. It ends with its holder, however that ends, so that no clock and no
heartbeat is needed. A file system without such locks is refused.
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

_BYTES = 2**31 - 1
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 0.25
# So long a call waits for the same one of another run, which may have been suspended.
_PATIENCE_S = 600.0
_opening = threading.Lock()


class CallLocks:
    """The call locks of this process in one file; threads and several stores share them.

    Two keys may share a byte, one time in a billion: then one call waits for the other.
    """

    def __init__(self, path: Path) -> None:
        """Open a file, which is created where it is absent; without one only threads wait."""
        self._lock, self._path = threading.Lock(), path
        self._held: set[int] = set()
        self._file: int | None = None
        with suppress(OSError):  # a folder that may not be written
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of a key once its holder has released it or ended.

        After ten minutes of waiting the block runs without the lock.
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
        """Raise the DataError that the first call would: the file system has no locks."""
        if self._take(0):
            self._release(0)

    def _take(self, byte: int) -> bool:
        # locks of the operating system tell processes apart, not threads
        with self._lock:
            if byte in self._held:
                return False
            try:
                if self._file is not None:
                    fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except (BlockingIOError, PermissionError):
                return False
            except OSError as error:  # were it taken for free, two runs could pay for one call
                text = f"cannot be locked, so that runs could pay twice for a call: {error}"
                allowed = "a cache on a file system with locks (RAGBENCH_CACHE)"
                raise DataError(text, file=self._path, allowed=allowed) from None
            self._held.add(byte)
            return True

    def _release(self, byte: int) -> None:
        with self._lock:
            self._held.discard(byte)
            if self._file is not None:
                with suppress(OSError):
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)


def call_locks_beside(path: Path) -> CallLocks:
    """Return the call locks of a file of replies, the same object each time.

    They stay open until the process ends: closing one of two descriptors of a file would release
    all locks. A forked process has none of its parent's.
    """
    with _opening:  # two threads would open the file twice
        return _opened(os.getpid(), path.resolve().with_name(f".{path.name}.claims"))


@cache
def _opened(process: int, path: Path) -> CallLocks:
    return CallLocks(path)
