"""Claims of calls that are under way, so that of two runs which share a file one pays for each.

A claim is a lock of the operating system on one byte of a file beside the replies: the byte that a
key's hash names. It ends with its holder, however that ends, on this machine and on others. Nothing
expires, so that no clock and no heartbeat is needed. A file system without such locks is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from ragbench.errors import DataError

_BYTES = 2**31 - 1  # Windows locks no byte beyond
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 0.25
_PATIENCE_S = 600.0
"""So long a call waits for the same one of another run, which may have been suspended."""


class Claims:
    """The claims of this process in one file; threads and several stores of replies share them.

    Two keys may share a byte, one time in a billion: then one call waits for the other.
    """

    def __init__(self, path: Path) -> None:
        """Use a file, which is made where it is absent; without one only threads are told apart."""
        self._lock, self._path = threading.Lock(), path
        self._held: set[int] = set()
        self._file: int | None = None
        with suppress(OSError):  # a folder that may not be written
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    @asynccontextmanager
    async def of(self, key: str) -> AsyncIterator[None]:
        """Hold the claim of a key, when whoever has it has given it back or ended.

        After ten minutes of waiting the block goes on without.
        """
        at = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") % _BYTES
        wait_s, end = _FIRST_WAIT_S, time.monotonic() + _PATIENCE_S
        while not (mine := self._take(at)) and time.monotonic() < end:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        try:
            yield
        finally:
            if mine:
                self._give_back(at)

    def check(self) -> None:
        """Raise the DataError that the first call would: the file system has no locks."""
        if self._take(0):
            self._give_back(0)

    def _take(self, at: int) -> bool:
        # locks of the operating system tell processes apart, not threads
        with self._lock:
            if at in self._held:
                return False
            try:
                if self._file is not None:
                    _set_lock(self._file, at, held=True)
            except (BlockingIOError, PermissionError):
                return False
            except OSError as error:  # were it taken for free, two runs could pay for one call
                text = f"cannot be locked, so that runs could pay twice for a call: {error}"
                allowed = "a cache on a file system with locks (RAGBENCH_CACHE)"
                raise DataError(text, file=self._path, allowed=allowed) from None
            self._held.add(at)
            return True

    def _give_back(self, at: int) -> None:
        with self._lock:
            self._held.discard(at)
            if self._file is not None:
                with suppress(OSError):
                    _set_lock(self._file, at, held=False)


_made: dict[tuple[int, Path], Claims] = {}
_making = threading.Lock()


def claims_beside(path: Path) -> Claims:
    """Return the claims that belong to a file of replies, the same ones each time.

    They are kept open until the process ends: closing one of two descriptors of a file would give
    back all locks. A forked process has none of its parent's.
    """
    file = path.resolve().with_name(f".{path.name}.claims")
    with _making:
        here = (os.getpid(), file)
        if here not in _made:
            _made[here] = Claims(file)
        return _made[here]


def _set_lock(file: int, at: int, *, held: bool) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file, at, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK if held else msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB if held else fcntl.LOCK_UN, 1, at)
