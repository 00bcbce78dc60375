"""One run at a time in one place: how far it is, and what marks one that was not finished."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Protocol

from ragbench.errors import DataError
from ragbench.files import (
    naming_unwritable,
    opened_to_append,
    remove_left_over,
    taken,
    write_atomically,
)

_LOCK = ".lock.tmp"
_STATE = ".unfinished.tmp"


class Stage(Protocol):
    """The progress of one stage."""

    def advance(self, n: int = 1) -> None:
        """Tell that n more items are done."""


class Progress(Protocol):
    """Something that shows how far a run is."""

    def stage(self, name: str, total: int, unit: str = "queries") -> AbstractContextManager[Stage]:
        """Open a stage of `total` items, counted in `unit`."""


class Silent:
    """Progress, and a stage of it, that shows nothing."""

    def advance(self, n: int = 1) -> None:
        """Show nothing."""

    def stage(self, name: str, total: int, unit: str = "queries") -> AbstractContextManager[Stage]:
        """Open a stage that shows nothing."""
        return nullcontext(self)


@dataclass(slots=True)
class Session:
    """The run that holds a folder.

    Attributes:
        token: A random word; that of a run before this one which was not finished.
        finished: Whether there is nothing to go on with; set by the run.
    """

    token: str = field(default_factory=partial(secrets.token_hex, 8))
    finished: bool = False


@contextmanager
def run_in(folder: Path) -> Iterator[Session]:
    """Hold the folder of an experiment, `<output>/<name>`, for a run.

    The token of a run that was killed is given again to the next one, so that what components
    did whose code we cannot see is kept for resuming, and for nothing else. The lock is the
    operating system's: it ends with the process that holds it, however that ends.
    """
    with naming_unwritable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        stream = _locked(folder)
    remove_left_over(folder)
    state = folder / _STATE
    try:
        with naming_unwritable(folder):
            token = token_in(folder)
            session = Session() if token is None else Session(token)
            write_atomically(state, session.token + "\n")
        yield session
        if session.finished:
            state.unlink(missing_ok=True)
    finally:
        (folder / _LOCK).unlink(missing_ok=True)
        stream.close()


def token_in(folder: Path) -> str | None:
    """Return the token of a run that was not finished in a folder; None where there is none."""
    with suppress(OSError, ValueError):
        token = (folder / _STATE).read_text(encoding="utf-8").strip()
        return token if re.fullmatch(r"[0-9a-f]{16}", token) else None
    return None


def _locked(folder: Path) -> IO[bytes]:
    """Open and lock the lock file; the process id in it is for the message alone."""
    path = folder / _LOCK
    while True:
        stream = opened_to_append(path)
        if not taken(stream):
            stream.seek(0)
            holder = stream.read(20).decode("utf-8", "replace").strip()
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
