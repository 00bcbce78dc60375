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
import re
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
_NAME = re.compile(rb'\["([A-Za-z0-9_.@-]*)",')  # of nearly all items; others are read in full
_DIGEST = 16  # hexadecimal digits
_SYNC_S = 1.0
"""A power cut loses at most what the last second produced; a kill loses nothing."""


class DamagedItems(UserWarning):
    """Stored items whose checksum does not fit; they are made again."""


class StageFile:
    """The items of one stage under one key; the file is made when the first item is put.

    Values stay on disk, and are read when they are asked for: in memory an item is its key and a
    place, some 200 bytes. `about` goes into the first line; the files `also` are only read, where
    `path` lacks an item.
    """

    def __init__(self, path: Path, about: dict[str, Any], also: Sequence[Path] = ()) -> None:
        self.path, self._about = path, about
        self._lock = threading.Lock()
        self._stream: IO[bytes] | None = None
        self._synced = time.monotonic()
        self._files = [path, *also]
        self._items: dict[str, int] = {}
        """Item -> where its line begins, as one number with that of its file."""
        for number in range(1, len(self._files)):
            self._find(number)
        self._damaged = self._find(0)
        if self._items:
            _touch(path)

    def __contains__(self, item: str) -> bool:
        return item in self._items

    def __len__(self) -> int:
        return len(self._items)

    def get(self, item: str) -> Any:
        """Return an item's value, read anew; None where it is not there."""
        if (place := self._items.get(item)) is None:
            return None
        start, number = divmod(place, len(self._files))
        try:
            with self._files[number].open("rb") as stream:
                stream.seek(start)
                found = _parsed(stream.readline())
        except FileNotFoundError:  # the cache was cleared meanwhile
            return None
        except OSError as error:
            raise _not_read(self._files[number], error) from error
        return None if found is None or found[0] != item else found[1]

    def _find(self, number: int) -> int:
        """Note where the items of a file are; how many of its lines are damaged."""
        damaged = 0
        for start, line in _lines(self._files[number]):
            if (item := _item_in(line)) is None:
                damaged += 1
            else:
                self._items[item] = start * len(self._files) + number
        if damaged:
            path = self._files[number]
            text = f"{path}: {damaged} stored items are damaged; they are made again"
            warnings.warn(DamagedItems(text), stacklevel=4)
        return damaged

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
            try:
                stream = self._stream or self._open()
                stream.write(line)
                # where others append to the file, too, the line ends where this process is now
                self._items[item] = (stream.tell() - len(line)) * len(self._files)
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
            known = self._items
            self._items = {}
            self._damaged = self._find(0)
            self._items = {each: self._items.get(each, known[each]) for each in known}
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
    return (_parsed(line) for _, line in _lines(path))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of our format, each with the place where it begins."""
    ours, start = True, 0  # also where the first line is damaged
    try:
        with path.open("rb") as stream:
            for line in stream:
                if line.startswith(_ANY_FORMAT):
                    ours = line.startswith(f"{FORMAT} ".encode())
                elif ours:
                    yield start, line
                start += len(line)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _not_read(path, error) from error


def _not_read(path: Path, error: OSError) -> DataError:
    return DataError(f"cannot be read: {error.strerror}", file=path)


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


def _whole(line: bytes) -> bytes | None:
    """What a line holds; None where it is damaged or cut off."""
    digest, _, data = line.rstrip(b"\n").partition(b" ")
    return data if digest.decode("ascii", "replace") == _checksum(data) else None


def _item_in(line: bytes) -> str | None:
    """The item of a whole line, without reading its value."""
    if (data := _whole(line)) is None:
        return None
    if (name := _NAME.match(data)) is not None:
        return name[1].decode()
    found = _parsed(line)
    return None if found is None else found[0]


def _parsed(line: bytes) -> tuple[str, Any] | None:
    """One line's item and value; None where it is damaged or cut off."""
    if (data := _whole(line)) is None:
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
