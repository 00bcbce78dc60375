"""One run at a time in one place: how far it is, and what marks one that was not finished."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Protocol

from ragbench.config.dump import dump_config
from ragbench.config.schema import ExperimentConfig
from ragbench.errors import DataError
from ragbench.experiment.plan.records import Share
from ragbench.files import (
    cache_folder,
    naming_unwritable,
    opened_to_append,
    remove_left_over,
    taken,
    write_atomically,
)
from ragbench.json_yaml import load_json
from ragbench.records.codec import Record, from_json, to_json
from ragbench.signature import fingerprint

_LOCK = ".lock.tmp"
_STATE = ".unfinished.tmp"
_PARTS, _JOINED = "parts", "joined.txt"
_ASKED = ("dataset", "retrievers", "generators", "apps")
"""Blocks of a config that say what components are asked."""


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
    """The run that holds a folder."""

    token: str
    """A random word; that of a run before this one which was not finished."""
    finished: bool = False
    """Whether there is nothing to go on with; set by the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State(Record):
    token: str
    started: str


def new_session() -> Session:
    """Return a session of its own, which holds no folder and goes on with nothing."""
    return Session(secrets.token_hex(8))


def token_of(word: str) -> str:
    """Return the token of all parts of a run, and of the last one, that were given one word."""
    return fingerprint(["token", word], 16)


def token_of_parts(config: ExperimentConfig) -> str:
    """Return the token of the parts of a run that were given no word, of what the config asks.

    It depends on the data set and the components as they are written, and on no place.
    """
    asked = {key: part for key, part in config.resolved.items() if key in _ASKED}
    return fingerprint([config.name, dump_config(replace(config, resolved=asked))], 16)


def note_part(cache: Path, config: ExperimentConfig, token: str, share: Share) -> None:
    """Note in the cache of a part of a run that it has begun, so that the last run finds it."""
    folder = cache / _PARTS
    name = f"{token_of_parts(config)}.{token}.{share.number}-of-{share.of}"
    with naming_unwritable(folder):
        if not any(folder.glob(f"{name}.*")):  # else one that goes on
            write_atomically(folder / f"{name}.{new_session().token}", "")


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a run whose caches the last run reads, and which no run has joined before."""

    token: str
    ids: tuple[str, ...]

    def note_joined(self, cache: Path) -> None:
        """Note that a run has joined them: the next one is a new one."""
        path = cache / _PARTS / _JOINED
        known = set(_lines(path)) | set(self.ids)
        write_atomically(path, "".join(f"{each}\n" for each in sorted(known)))


def parts_in(
    cache: Path, also: Sequence[Path], config: ExperimentConfig, token: str | None = None
) -> Parts | None:
    """Return the parts of this config's run in some caches; None where there are none to join.

    Raises:
        DataError: Parts of several tokens are there, and none is asked for.
    """
    joined, of = set(_lines(cache / _PARTS / _JOINED)), token_of_parts(config)
    found: dict[str, list[str]] = {}
    for folder in (cache, *also):
        for path in sorted((folder / _PARTS).glob(f"{of}.{token or '*'}.*.*")):
            _, own, _, identity = path.name.split(".")
            if identity not in joined:
                found.setdefault(own, []).append(identity)
    if len(found) > 1:
        what = f"parts of {len(found)} runs of '{config.name}' are here and in cache_also"
        raise DataError(what, file=cache / _PARTS, allowed="--token WORD, to say which")
    return next((Parts(token, tuple(ids)) for token, ids in found.items()), None)


def known_token(config: ExperimentConfig, word: str | None, *, of_part: bool) -> str | None:
    """Return the token that a run would have, or a part of one; None of a run that is new."""
    if word is not None:
        return token_of(word)
    if of_part:
        return token_of_parts(config)
    parts = parts_in(cache_folder(config.cache), config.cache_also, config)
    return token_in(Path(config.output) / config.name) if parts is None else parts.token


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except FileNotFoundError:
        return []


@contextmanager
def run_in(folder: Path, given: str | None = None) -> Iterator[Session]:
    """Hold the folder of an experiment, `<output>/<name>`, for a run.

    The token of a run that was killed is given again to the next one, so that what components
    did whose code we cannot see is kept for resuming, and for nothing else; unless one is `given`,
    which parts of the run have had. The lock is the
    operating system's: it ends with the process that holds it, however that ends.
    """
    with naming_unwritable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        stream = _locked(folder)
    remove_left_over(folder)
    state = folder / _STATE
    try:
        with naming_unwritable(folder):
            session = Session(_token(state, given))
        yield session
        if session.finished:
            state.unlink(missing_ok=True)
    finally:
        (folder / _LOCK).unlink(missing_ok=True)
        stream.close()


def token_in(folder: Path) -> str | None:
    """Return the token of a run that was not finished in a folder; None where there is none."""
    with suppress(OSError, ValueError, DataError):
        return from_json(_State, load_json((folder / _STATE).read_text(encoding="utf-8"))).token
    return None


def _token(state: Path, given: str | None) -> str:
    kept = token_in(state.parent)
    if kept is not None and given in (None, kept):
        return kept
    token = given or new_session().token
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    write_atomically(state, json.dumps(to_json(_State(token=token, started=started))) + "\n")
    return token


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
