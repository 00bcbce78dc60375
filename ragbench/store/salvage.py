"""What a damaged SQLite file still holds: its pages, read without SQLite, and whole rows."""

from __future__ import annotations

import mmap
import os
import shutil
import sqlite3
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from ragbench.store.kinds import FileKind

Value = None | int | float | str | bytes
Page = bytes | mmap.mmap
_Find = Callable[[int], "Page | None"]

MAGIC = b"SQLite format 3\0"
_TABLE_LEAF, _INDEX_LEAF = 0x0D, 0x0A
_LOG_HEAD, _FRAME_HEAD = 32, 24
_LOG_MAGIC = 0x377F0682  # the last bit: whether its checksums are big-endian
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial type -> bytes
_BROKEN = (IndexError, ValueError, struct.error)  # what reading a damaged page raises


Record = tuple[tuple[Value, ...], bool]
"""The values of a row of a table, or of an entry of an index, which ends with the row's number; and
whether it is a row."""


def log_of(path: Path) -> Path:
    """Return the write-ahead log of a database file."""
    return path.with_name(f"{path.name}-wal")


def records(path: Path, page_bytes: int) -> Iterator[Record]:
    """Yield the records of a file and its log; one may come twice, or in an older state.

    Pages have the size that the file names, and `page_bytes` where that does not fit.
    """
    log = _content(log_of(path))
    with path.open("rb") as stream:
        opened: AbstractContextManager[Page] = nullcontext(b"")
        if stream.seek(0, 2):  # an empty file cannot be mapped
            opened = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        with opened as data:
            for pages in _layouts(data, log, page_bytes):
                yield from pages.records()


def is_log_damaged(path: Path) -> bool:
    """Return whether SQLite would lose what is stored by applying a log as far as it is whole.

    It drops the frames behind one that does not fit, and puts older pages over newer ones where
    the end of a log is missing that was copied into the file before. A last frame that is cut off
    or does not fit is what a kill leaves, and no damage.
    """
    stored = path.stat().st_size if path.is_file() else 0  # before the log: others may be at work
    log = _content(log_of(path))
    if len(log) < _LOG_HEAD + _FRAME_HEAD + 512:
        return False
    magic, _, page_bytes, _, *salts = struct.unpack_from(">6I", log)
    sums: tuple[int, ...] = struct.unpack_from(">2I", log, 24)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _LOG_MAGIC or not _is_size(page_bytes):
        return True
    if _summed(log[:24], order, (0, 0)) != sums:
        return True
    broken, pages, step = False, None, _FRAME_HEAD + page_bytes
    for start in range(_LOG_HEAD, len(log) - step + 1, step):
        frame = log[start : start + step]
        fits = _summed(frame[:8] + frame[_FRAME_HEAD:], order, sums)
        sums = struct.unpack_from(">2I", frame, 16)
        # frames with other salts are left from before the log was begun anew
        whole = fits == sums and list(struct.unpack_from(">2I", frame, 8)) == salts
        if broken and whole:
            return True
        broken = broken or not whole
        if not broken:  # the last frame of a commit says how long the file is then, others 0
            pages = struct.unpack_from(">I", frame, 4)[0] or pages
    return pages is not None and stored // page_bytes > pages


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _summed(data: bytes, order: str, sums: tuple[int, ...]) -> tuple[int, ...]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def _is_size(page_bytes: int) -> bool:
    return 512 <= page_bytes <= 65536 and page_bytes & (page_bytes - 1) == 0


def _layouts(data: Page, log: bytes, page_bytes: int) -> Iterator[_Pages]:
    """Yield the file as pages, by each way of cutting it that is likely."""
    ways = {(page_bytes, 0): None}
    if len(data) >= 100:
        (named,) = struct.unpack_from(">H", data, 16)
        ways[(65536 if named == 1 else named, data[20])] = None
    if len(log) >= _LOG_HEAD:
        ways[(struct.unpack_from(">I", log, 8)[0], 0)] = None
    for size, reserved in ways:
        if _is_size(size) and size - reserved >= 480:
            yield _Pages(data, log, size, reserved)


@dataclass(slots=True)
class _Pages:
    data: Page
    log: bytes
    size: int
    reserved: int
    _logged: dict[int, int] = field(default_factory=dict)
    """Number of a page -> where the log has its last state."""

    def __post_init__(self) -> None:
        for start in self._frames():
            (number,) = struct.unpack_from(">I", self.log, start)
            self._logged[number] = start + _FRAME_HEAD

    def records(self) -> Iterator[Record]:
        """Yield the records of all pages but the first, which has the schema; the log's last."""
        for number in range(2, -(-len(self.data) // self.size) + 1):
            yield from self._leaf(self._stored(number) or b"")
        for start in self._frames():
            (number,) = struct.unpack_from(">I", self.log, start)
            if number > 1:
                yield from self._leaf(self.log[start + _FRAME_HEAD :][: self.size])

    def _frames(self) -> range:
        step = _FRAME_HEAD + self.size
        return range(_LOG_HEAD, len(self.log) - step + 1, step)

    def _stored(self, number: int) -> Page | None:
        """A page of the file; one that is cut off is filled up with zeros."""
        page = self.data[(number - 1) * self.size : number * self.size] if number > 0 else b""
        return bytes(page).ljust(self.size, b"\0") if page else None

    def _latest(self, number: int) -> Page | None:
        start = self._logged.get(number)
        return self._stored(number) if start is None else self.log[start : start + self.size]

    def _leaf(self, page: Page) -> Iterator[Record]:
        if len(page) < self.size or page[0] not in (_TABLE_LEAF, _INDEX_LEAF):
            return
        in_table = page[0] == _TABLE_LEAF
        (count,) = struct.unpack_from(">H", page, 3)
        for at in range(8, min(8 + 2 * count, self.size - 1), 2):
            (cell,) = struct.unpack_from(">H", page, at)
            # where the chain of a long record goes through the log, the file has an older one
            for find in (self._latest, self._stored) if self.log else (self._stored,):
                try:
                    payload = self._payload(page, cell, in_table, find)
                    yield tuple(_values(payload)), in_table
                except _BROKEN:
                    continue

    def _payload(self, page: Page, cell: int, in_table: bool, find: _Find) -> bytes:
        length, at = _varint(page, cell)
        if in_table:
            _, at = _varint(page, at)
        if not 0 < length <= len(self.data) + len(self.log):
            raise ValueError("longer than the file")
        usable = self.size - self.reserved
        most = usable - 35 if in_table else (usable - 12) * 64 // 255 - 23
        least = (usable - 12) * 32 // 255 - 23
        here = length
        if length > most:
            here = least + (length - least) % (usable - 4)
            here = here if here <= most else least
        pieces = [bytes(page[at : at + here])]
        if here < length:
            (following,) = struct.unpack_from(">I", page, at + here)
            pieces += self._chain(following, length - here, usable, find)
        payload = b"".join(pieces)
        if len(payload) != length:
            raise ValueError("cut off")
        return payload

    @staticmethod
    def _chain(number: int, missing: int, usable: int, find: _Find) -> Iterator[bytes]:
        while missing > 0:
            page = find(number)
            if page is None:
                raise ValueError("no such page")
            piece = bytes(page[4:usable][:missing])
            yield piece
            missing -= len(piece)
            (number,) = struct.unpack_from(">I", page)


def _values(payload: bytes) -> Iterator[Value]:
    head, at = _varint(payload, 0)
    content = head
    while at < head:
        serial, at = _varint(payload, at)
        size = _size(serial)
        piece = payload[content : content + size]
        if len(piece) != size:
            raise ValueError("cut off")
        yield _value(serial, piece)
        content += size


def _size(serial: int) -> int:
    if serial >= 12:
        return (serial - 12) // 2
    return 8 if serial == 7 else _INTEGERS.get(serial, 0)


def _value(serial: int, piece: bytes) -> Value:
    if serial >= 12:
        return piece.decode("utf-8", "surrogateescape") if serial % 2 else piece
    if serial == 7:
        return float(struct.unpack(">d", piece)[0])
    if serial in _INTEGERS:
        return int.from_bytes(piece, "big", signed=True)
    return {8: 0, 9: 1}.get(serial)


def _varint(data: Page, at: int) -> tuple[int, int]:
    """A number of up to nine bytes, and where it ends."""
    value = 0
    for position in range(at, at + 8):
        byte = data[position]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, position + 1
    return value << 8 | data[at + 8], at + 9


def is_ours(path: Path, kind: FileKind) -> bool:
    """Return whether a file was made for this kind, as far as its damage lets that be seen."""
    with path.open("rb") as stream:
        head = stream.read(max(kind.page_bytes, 4096))
    if len(head) < 100:  # cut off before it said whose it is
        return MAGIC.startswith(head[: len(MAGIC)])
    made = f"CREATE TABLE {kind.table} ({kind.columns})".encode()
    if int.from_bytes(head[68:72], "big") == kind.application_id or made in head:
        return True
    return any(True for _ in whole_rows(path, kind, set()))


def salvage(path: Path, kind: FileKind, into: sqlite3.Connection) -> tuple[int, int]:
    """Write the whole rows of a file into a database that has its tables, all empty.

    Returns how many they are, and how many keys were seen without a whole row.
    """
    marks = ", ".join("?" * len(kind.names))
    updates = ", ".join(f"{name} = excluded.{name}" for name in kind.names)
    later = f"UPDATE SET {updates} WHERE excluded.{kind.newest} > {kind.newest}"
    statement = f"INSERT INTO {kind.table} VALUES ({marks}) ON CONFLICT (key) DO "
    seen: set[object] = set()
    into.execute("BEGIN")
    into.executemany(
        statement + (later if kind.newest else "NOTHING"), whole_rows(path, kind, seen)
    )
    into.execute("COMMIT")
    kept = into.execute(f"SELECT count(*) FROM {kind.table}").fetchone()[0]
    return int(kept), len(seen) - int(kept)


def whole_rows(path: Path, kind: FileKind, seen: set[object]) -> Iterator[tuple[object, ...]]:
    """Yield the rows whose checksum fits; the keys of all rows and index entries go to `seen`."""
    names = kind.names
    key, content, checksum = (names.index(name) for name in ("key", kind.content, "checksum"))
    for values, in_table in records(path, kind.page_bytes):
        if not in_table and len(values) == 2 and isinstance(values[1], int):
            seen.add(values[0])
        elif in_table and len(values) == len(names):
            seen.add(values[key])
            if kind.fits(values[key], values[content], values[checksum]):
                yield values


def keep_aside(path: Path, connection: sqlite3.Connection) -> Path:
    """Give a damaged file with its log another name, which is returned; it may keep the old one.

    `connection` is ours to it, which Windows wants closed.
    """
    aside = _aside(path)
    log, index = log_of(path), path.with_name(f"{path.name}-shm")
    if sys.platform == "win32":  # no open file is moved there, and closing may remove the log
        for each, copy in ((log, log_of(aside)), (path, aside)):
            if each.exists():
                shutil.copyfile(each, copy)
        connection.close()
    # the log goes first: SQLite would apply one that is left behind to the new file
    elif log.exists():
        log.rename(log_of(aside))
    log.unlink(missing_ok=True)
    index.unlink(missing_ok=True)
    if not aside.exists():
        try:
            os.link(path, aside)
        except OSError:  # no hard links here: for a moment there is no file
            path.rename(aside)
    return aside


def _aside(path: Path) -> Path:
    """A name for a damaged file, beside it, which is not in use."""
    number = 1
    while True:
        found = path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")
        if not found.exists() and not log_of(found).exists():
            return found
        number += 1
