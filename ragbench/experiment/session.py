"""One run at a time in one place, and what marks a run that was not finished."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ragbench.errors import DataError
from ragbench.files import remove_left_over, write_atomically

_LOCK = ".lock.tmp"
_STATE = ".unfinished.tmp"


@dataclass(slots=True)
class Session:
    """The run that holds a folder."""

    token: str
    """A random word; that of a run before this one which was not finished."""
    finished: bool = False
    """Whether there is nothing to go on with; set by the run."""


def new_session() -> Session:
    """Return a session of its own, which holds no folder and goes on with nothing."""
    return Session(secrets.token_hex(8))


@contextmanager
def run_in(folder: Path) -> Iterator[Session]:
    """Hold the folder of an experiment, `<output>/<name>`, for a run.

    The token of a run that was killed is given again to the next one, so that what components
    did whose code we cannot see is kept for resuming, and for nothing else. The lock is the
    operating system's: it ends with the process that holds it, however that ends.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = _locked(folder)
    except OSError as error:
        raise _not_written(folder, error) from error
    remove_left_over(folder)
    state = folder / _STATE
    try:
        try:
            session = Session(_token(state))
        except OSError as error:
            raise _not_written(folder, error) from error
        yield session
        if session.finished:
            state.unlink(missing_ok=True)
    finally:
        (folder / _LOCK).unlink(missing_ok=True)
        stream.close()


def token_in(folder: Path) -> str | None:
    """Return the token of a run that was not finished in a folder; None where there is none."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((folder / _STATE).read_text(encoding="utf-8"))["token"])
    return None


def _token(state: Path) -> str:
    if (kept := token_in(state.parent)) is not None:
        return kept
    token = new_session().token
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    write_atomically(state, json.dumps({"token": token, "started": started}) + "\n")
    return token


def _not_written(folder: Path, error: OSError) -> DataError:
    return DataError(f"cannot be written: {error.strerror}", file=folder)


def _locked(folder: Path) -> IO[str]:
    """Open and lock the lock file; the process id in it is for the message alone."""
    path = folder / _LOCK
    while True:
        stream = path.open("a+", encoding="utf-8")
        if not _lock(stream):
            stream.seek(0)
            holder = stream.read().strip()
            stream.close()
            raise DataError(
                f"another run{f' (process {holder})' if holder else ''} is at work here",
                file=folder,
                allowed="one run at a time; wait for it, or give this one another name or output",
            )
        # the one before may have removed the file between our opening and our locking it
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                break
        stream.close()
    with suppress(OSError):  # a full disk: the lock holds, only the message to others lacks the id
        os.ftruncate(stream.fileno(), 0)
        os.write(stream.fileno(), str(os.getpid()).encode())
    return stream


def _lock(stream: IO[str]) -> bool:
    """Take the lock of the operating system; False where another process has it."""
    if os.name == "nt":
        import msvcrt

        try:
            # far behind the text, since Windows makes locked bytes unreadable; where there is no
            # such function, mypy is told to ignore it
            stream.seek(1 << 20)
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
