"""What stages have produced, on disk: one file per stage and key, a checksummed line per item.

A line is appended as soon as its item is done, so that a kill loses at most the items that were
under way. A file is a map that only grows: the last whole line of an item counts. Lines that are
cut off or damaged are left out, counted, and made again; the first item that is put then writes
the file anew without them.

    <cache>/stages/<stage>/<key>.jsonl
    ragbench.stage/1 {"stage": "retrieve", "of": "bm25"}
    <checksum> ["item", value]
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from ragbench.errors import DataError
from ragbench.files import write_atomically
from ragbench.json_yaml import DEEPEST, load_json

FORMAT = "ragbench.stage/1"
_ANY_FORMAT = b"ragbench.stage/"
SUFFIX = ".jsonl"
_DIGEST = 16  # hexadecimal digits
_SYNC_S = 1.0
"""A power cut loses at most what the last second produced; a kill loses nothing."""


class DamagedItems(UserWarning):
    """Stored items whose checksum does not fit; they are made again."""


class StageFile:
    """The items of one stage under one key; the file is made when the first item is put.

    `about` goes into the first line; the files `also` are only read, where `path` lacks an item.
    """

    def __init__(self, path: Path, about: dict[str, Any], also: Sequence[Path] = ()) -> None:
        self.path, self._about = path, about
        self._lock = threading.Lock()
        self._stream: IO[bytes] | None = None
        self._synced = time.monotonic()
        self._items: dict[str, Any] = {}
        for other in also:
            self._items.update(_read(other)[0])
        found, self._damaged = _read(path)
        self._items.update(found)
        if self._items:
            _touch(path)

    def __contains__(self, item: str) -> bool:
        return item in self._items

    def __len__(self) -> int:
        return len(self._items)

    def get(self, item: str) -> Any:
        """Return an item's value; None where it is not there."""
        return self._items.get(item)

    def refuse(self, item: str) -> None:
        """Take an item for damaged, whose value is not what its stage reads; it is made again."""
        with self._lock:
            self._items.pop(item, None)
        text = f"{self.path}: the stored item {item} has another shape; it is made again"
        warnings.warn(DamagedItems(text), stacklevel=4)

    def put(self, item: str, value: Any) -> None:
        """Keep an item: in the file before this returns, on disk within a second."""
        line = _line(item, value)
        with self._lock:
            self._items[item] = value
            try:
                stream = self._stream or self._open()
                stream.write(line)
                stream.flush()
                if time.monotonic() - self._synced >= _SYNC_S:
                    os.fsync(stream.fileno())
                    self._synced = time.monotonic()
            except OSError as error:
                raise _not_written(self.path, error) from None

    def close(self) -> None:
        """Put everything on disk."""
        with self._lock:
            if self._stream is None:
                return
            stream, self._stream = self._stream, None
            try:
                os.fsync(stream.fileno())
                stream.close()
            except OSError as error:
                raise _not_written(self.path, error) from None

    def __enter__(self) -> StageFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self) -> IO[bytes]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        head = f"{FORMAT} {json.dumps(self._about)}\n".encode()
        if self._damaged:
            whole = [_line(*item) for item in read_lines(self.path) if item is not None]
            write_atomically(self.path, head + b"".join(whole))
            self._damaged = 0
        # unbuffered, in append mode: whole lines, also where two runs fill the same file
        stream = self.path.open("ab", buffering=0)
        try:
            stream.write(_before_the_next(self.path, head))
        except OSError:
            stream.close()
            raise
        self._stream = stream
        return stream


class StageStore:
    """The files of all stages in a cache folder; those of others, `also`, are only read."""

    def __init__(self, folder: Path, also: Sequence[Path] = ()) -> None:
        self.folder, self._also = folder, also
        self._open: dict[Path, StageFile] = {}

    def file(self, stage: str, of: str, key: str) -> StageFile:
        """Return the file of a stage's key; `of` says in its first line what it is about."""
        path = stage_path(self.folder, stage, key)
        found = self._open.get(path)
        if found is None:
            others = [stage_path(other, stage, key) for other in self._also]
            found = self._open[path] = StageFile(path, {"stage": stage, "of": of}, others)
        return found

    def close(self) -> None:
        """Put everything on disk and close."""
        for file in self._open.values():
            file.close()
        self._open.clear()


def stage_path(folder: Path, stage: str, key: str) -> Path:
    """Return where a cache folder has the file of a stage's key."""
    return folder / "stages" / stage / f"{key}{SUFFIX}"


def read_lines(path: Path) -> Iterator[tuple[str, Any] | None]:
    """Yield the items of a file, one that comes again included; None for each damaged line.

    Lines of another format are no items and no damage: they are left alone.
    """
    ours = True  # also where the first line is damaged
    try:
        with path.open("rb") as stream:
            for line in stream:
                if line.startswith(_ANY_FORMAT):
                    ours = line.startswith(f"{FORMAT} ".encode())
                elif ours:
                    yield _parsed(line)
    except FileNotFoundError:
        return


def _read(path: Path) -> tuple[list[tuple[str, Any]], int]:
    found, damaged = [], 0
    try:
        for item in read_lines(path):
            if item is None:
                damaged += 1
            else:
                found.append(item)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    if damaged:
        text = f"{path}: {damaged} stored items are damaged; they are made again"
        warnings.warn(DamagedItems(text), stacklevel=4)
    return found, damaged


def _before_the_next(path: Path, head: bytes) -> bytes:
    """What a file lacks before a line is appended: the first line, the end of the last one."""
    if path.stat().st_size == 0:
        return head
    ours = f"{FORMAT} ".encode()
    with path.open("rb") as stream:
        known = stream.read(len(ours)) == ours
        stream.seek(-1, os.SEEK_END)
        end = b"" if stream.read(1) == b"\n" else b"\n"
    return end if known else end + head


def _line(item: str, value: Any) -> bytes:
    content = json.dumps([item, value], ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    data = content.encode()
    return b"%s %s\n" % (_checksum(data).encode(), data)


def _parsed(line: bytes) -> tuple[str, Any] | None:
    """One line's item and value; None where it is damaged or cut off."""
    digest, _, data = line.rstrip(b"\n").partition(b" ")
    if digest.decode("ascii", "replace") != _checksum(data):
        return None
    try:
        item, value = load_json(data, deepest=2 * DEEPEST)  # around what others wrote
    except (ValueError, TypeError):  # whoever wrote it, it is none of ours
        return None
    return str(item), value


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST // 2).hexdigest()


def _touch(path: Path) -> None:
    """Note that a file was of use, for pruning by age; a folder that is only read stays so."""
    try:
        os.utime(path)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT):
            raise


def _not_written(path: Path, error: OSError) -> DataError:
    return DataError(
        f"cannot be written: {error.strerror}",
        file=path,
        allowed="free space and permission to write; stored items stay; the same command resumes",
    )
