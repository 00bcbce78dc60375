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
import marshal
import os
import re
import tempfile
import threading
import time
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Generic, NamedTuple, TypeVar, overload

from ragbench.errors import DataError
from ragbench.files import write_atomically
from ragbench.json_yaml import DEEPEST, load_json
from ragbench.types.conversation import Json
from ragbench.types.rows import Places

FORMAT = "ragbench.stage/1"
_ANY_FORMAT = b"ragbench.stage/"
SUFFIX = ".jsonl"
_NAME = re.compile(rb'\["([A-Za-z0-9_.@-]*)",')  # of nearly all items; others are read in full
_DIGEST = 16  # hexadecimal digits
_SYNC_S = 1.0
"""A power cut loses at most what the last second produced; a kill loses nothing."""
_IN_MEMORY, _AHEAD = 1 << 20, 1 << 14  # bytes
Value = TypeVar("Value")


class DamagedItems(UserWarning):
    """Stored items whose checksum does not fit; they are made again."""


class StageFile:
    """The items of one stage under one key; the file is made when the first item is put.

    Values stay on disk, and are read when they are asked for: in memory an item is 16 bytes.
    `about` goes into the first line; the files `also` are only read, where `path` lacks an item.
    """

    def __init__(self, path: Path, about: dict[str, Any], also: Sequence[Path] = ()) -> None:
        self.path, self._about = path, about
        self._lock = threading.Lock()
        self._stream: IO[bytes] | None = None
        self._synced = time.monotonic()
        self._files = [path, *also]
        self._items, self._refused = Places(), set[str]()
        """Item -> where its line begins, as one number with that of its file."""
        self._damaged = self._find_all()
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

    def _find_all(self, *, warn: bool = True) -> int:
        """Note where all items are, those of the own file last: how many of its are damaged."""
        for number in range(1, len(self._files)):
            self._find(number, warn)
        return self._find(0, warn)

    def _find(self, number: int, warn: bool) -> int:
        """Note where the items of a file are; how many of its lines are damaged."""
        damaged = 0
        for start, line in _lines(self._files[number]):
            if (item := _item_in(line)) is None:
                damaged += 1
            else:
                self._items[item] = start * len(self._files) + number
        if damaged and warn:
            path = self._files[number]
            text = f"{path}: {damaged} stored items are damaged; they are made again"
            warnings.warn(DamagedItems(text), stacklevel=5)
        return damaged

    def refuse(self, item: str) -> None:
        """Take an item for damaged, whose value is not what its stage reads; it is made again."""
        with self._lock:
            self._items.discard(item)
            self._refused.add(item)
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
            self._items = Places()
            self._damaged = self._find_all(warn=False)
            for item in self._refused:
                self._items.discard(item)
        # unbuffered, in append mode: whole lines, also where two runs fill the same file
        stream = self.path.open("ab", buffering=0)
        try:
            stream.write(_before_the_next(self.path, head))
        except OSError:
            stream.close()
            raise
        self._stream = stream
        return stream


class Spool:
    """What a run looks at again, in a file of its own that has no name and ends with the run.

    It is a copy, in a form that is read quickly: whoever clears the cache, or writes it anew, takes
    nothing from a run under way. The first megabyte stays in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Make no file yet; it will be in the folder, or where temporary files are."""
        self._folder, self._lock, self._end = folder, threading.Lock(), 0
        self._start, self._ahead = 0, b""  # the bytes from a place on that were read last
        self._stream: tempfile.SpooledTemporaryFile[bytes] | None = None

    def put(self, value: Json) -> int:
        """Keep a value of plain JSON types, tuples included; return its place."""
        data = marshal.dumps(value)
        with self._lock:
            place = self._end
            try:
                stream = self._stream or self._open()
                stream.seek(place)
                stream.write(len(data).to_bytes(8, "little") + data)
            except OSError as error:
                raise _not_written(self._folder or Path(tempfile.gettempdir()), error) from None
            self._end += 8 + len(data)
        return place

    def get(self, place: int) -> Json:
        """Return the value at a place."""
        with self._lock:
            if self._stream is None:
                raise ValueError("what this run looked at was closed with its store")
            at = place - self._start
            if at < 0 or (end := self._end_at(at)) > len(self._ahead):
                self._stream.seek(place)
                self._start, at, self._ahead = place, 0, self._stream.read(_AHEAD)
                if (end := self._end_at(0)) > len(self._ahead):
                    self._ahead += self._stream.read(end - len(self._ahead))
            return marshal.loads(self._ahead[at + 8 : end])

    def _end_at(self, at: int) -> int:
        return at + 8 + int.from_bytes(self._ahead[at : at + 8], "little")

    def close(self) -> None:
        """Remove the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __del__(self) -> None:
        self.close()

    def _open(self) -> tempfile.SpooledTemporaryFile[bytes]:
        # where the system keeps temporary files in memory, the cache is the better place
        folder = self._folder
        if folder is not None and not os.access(folder, os.W_OK):
            folder = None
        # open until the run ends
        self._stream = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            _IN_MEMORY, dir=None if folder is None else str(folder)
        )
        return self._stream


class Form(NamedTuple):
    """How values of a kind go into a spool."""

    flat: Callable[[Json], Json]
    """Returns a value as plain JSON types."""
    made: Callable[[Json], Json]
    """Makes the value of them again."""
    is_good: Callable[[Json], bool] = bool
    """Tells values from those that say why there is none."""


class Spooled(Sequence[Value], Generic[Value]):
    """Values in a spool: in memory each of them is nine bytes; one that is not there is `default`.

    The one that was looked at last is remembered, since mostly several ask for it in turn.
    """

    def __init__(self, spool: Spool, form: Form, n: int = 0, default: Json = None) -> None:
        self._spool, self._form, self._default = spool, form, default
        self._places, self._good = array("q", [-1]) * n, bytearray(n)
        self._last: tuple[int, Json] = (-1, None)

    def __len__(self) -> int:
        return len(self._places)

    def __setitem__(self, row: int, value: Value) -> None:
        self._places[row] = self._spool.put(self._form.flat(value))
        self._good[row] = self._form.is_good(value)
        self._last = (-1, None)

    @overload
    def __getitem__(self, row: int) -> Value: ...

    @overload
    def __getitem__(self, row: slice) -> Spooled[Value]: ...

    def __getitem__(self, row: int | slice) -> Value | Spooled[Value]:
        if isinstance(row, slice):
            return self.at(range(len(self))[row])
        place = self._places[row]
        if place < 0:
            return self._default  # type: ignore[no-any-return]
        known, value = self._last
        if known != place:
            value = self._form.made(self._spool.get(place))
            self._last = place, value
        return value  # type: ignore[no-any-return]

    def at(self, rows: Iterable[int]) -> Spooled[Value]:
        """Return some rows; none is copied."""
        part = Spooled[Value](self._spool, self._form, 0, self._default)
        for row in rows:
            part._places.append(self._places[row])
            part._good.append(self._good[row])
        return part

    def append(self, value: Value) -> None:
        """Add a row, unless the value is of a type that a spool does not take."""
        self._places.append(self._spool.put(self._form.flat(value)))
        self._good.append(self._form.is_good(value))

    def again(self, values: Iterable[Value]) -> Spooled[Value]:
        """Return other values of the same kind, kept in the same spool."""
        made = self.at(())
        for value in values:
            made.append(value)
        return made

    def lacking(self) -> list[int]:
        """Return the rows without a good value."""
        return [row for row, good in enumerate(self._good) if not good]


class StageStore:
    """The files of all stages in a cache folder; those of others, `also`, are only read."""

    def __init__(self, folder: Path, also: Sequence[Path] = ()) -> None:
        self.folder, self._also = folder, also
        self._open: dict[Path, StageFile] = {}
        self.spool = Spool(folder)

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
        self.spool.close()
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
