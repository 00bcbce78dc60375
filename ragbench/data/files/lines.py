"""Lines of plain and gzip files, one by one or many at once, and what can be wrong with them."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from ragbench.errors import DataError

# A file by its name, or an open binary stream such as standard input.
Source = str | os.PathLike[str] | BinaryIO
# Returns some bytes, at most so many; none at the end.
Read = Callable[[int], bytes]
# A text in pieces, one after the other: whoever needs it as one copies it, once.
Pieces = Sequence[bytes | memoryview]

_BOM = b"\xef\xbb\xbf"
_BUFFER = 1 << 17
_NEWLINE = ord("\n")
GZIP_MAGIC = b"\x1f\x8b"
# Bytes of a line, also of a packed file: a longer one would fill the memory before it ended.
LONGEST_LINE = 64 << 20
# What reading a broken gzip file raises.
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)


def source_name(source: Source) -> str:
    """Return how messages name a file or stream."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    return str(getattr(source, "name", "<stream>"))


def standard_input() -> BinaryIO:
    """Return standard input as bytes, decompressed if it is gzip."""
    if sys.stdin is None:
        raise DataError("standard input is closed", file="-", allowed="a file on standard input")
    stream: Any = sys.stdin.buffer  # a BufferedReader, which can look ahead
    if stream.peek(2)[:2] == GZIP_MAGIC:
        return _decompressed(stream)
    return cast("BinaryIO", stream)


def read_lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes with the line end), without a byte order mark."""
    name = source_name(source)
    number = 0
    with opened(source, name) as stream:
        try:
            lines = iter(partial(stream.readline, LONGEST_LINE + 1), b"")
            for number, raw in enumerate(lines, start=1):
                line = raw.removeprefix(_BOM) if number == 1 else raw
                if len(line) > LONGEST_LINE:
                    raise endless_line(line, name, number)
                if b"\0" in line:
                    raise nul_byte(line, name, number)
                yield number, line
        except GZIP_ERRORS as error:
            raise broken_gzip(error, name, number) from error
    if number == 0:
        raise DataError("the file is empty", file=name)


def endless_line(text: bytes, name: str, number: int) -> DataError:
    """Return the error for a line that is longer than any text."""
    what = "NUL bytes without a line end" if b"\0" in text else "a line without an end"
    found = f"{what} in {LONGEST_LINE >> 20} MiB"
    return DataError(found, file=name, line=number, allowed="lines of text")


def nul_byte(line: bytes, name: str, number: int) -> DataError:
    """Return the error for a line with a NUL byte."""
    column = line.index(b"\0") + 1
    return DataError(f"NUL byte at column {column}", file=name, line=number)


def wrong_columns(
    fields: list[bytes], line: bytes, expected: str, names: str, file: str, number: int
) -> DataError:
    """Return the error for a line with too few or too many columns, which it quotes."""
    text = line.strip()[:100].decode("utf-8", "backslashreplace")
    # control characters of a file must not reach a terminal
    shown = "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text)
    count = f"{len(fields)} column{'s' if len(fields) != 1 else ''}"
    return DataError(f"{count}, expected {expected} ({names}): '{shown}'", file=file, line=number)


def broken_gzip(error: Exception, name: str, number: int) -> DataError:
    """Return the error for a file that cannot be decompressed after so many lines."""
    what = "truncated gzip" if isinstance(error, EOFError) else f"broken gzip ({error})"
    return DataError(f"{what} after line {number}", file=name, line=number or None)


def text_lines(source: Source) -> Iterator[tuple[int, str]]:
    """Yield (line number, text with the line end) of a UTF-8 file; see `read_lines`."""
    for number, line in read_lines(source):
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            offending = " ".join(f"0x{byte:02x}" for byte in line[error.start : error.end])
            found = f"bad UTF-8: {offending} at byte {error.start + 1} of the line"
            name, allowed = source_name(source), None
            # most spreadsheets save in the code page of the system
            if plain_suffix(Path(name)) in (".csv", ".tsv"):
                allowed = "UTF-8; in a spreadsheet, save the table as 'CSV UTF-8'"
            raise DataError(found, file=name, line=number, allowed=allowed) from error


def find_file(folder: Path, name: str) -> Path | None:
    """Return `folder/name` or `folder/name.gz`, whichever exists; both are refused."""
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
    if len(found) > 1:
        raise DataError(f"both {name} and {name}.gz exist", file=folder, allowed="one of the two")
    return found[0] if found else None


def plain_suffix(path: Path) -> str:
    """Return the suffix under a `.gz`: `.jsonl` for `corpus.jsonl.gz`."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


@contextmanager
def opened(source: Source, name: str) -> Iterator[BinaryIO]:
    """Open a file, decompressing what starts like gzip whatever its name; leave streams open."""
    if not isinstance(source, (str, os.PathLike)):
        if not hasattr(source, "read"):
            raise DataError(f"found {source!r:.80}", allowed="a path, or an open binary stream")
        yield source
        return
    try:
        file = open(source, "rb")  # noqa: SIM115 - closed below, after the gzip layer
    except OSError as error:
        reasons = {
            FileNotFoundError: "no such file",
            IsADirectoryError: "a folder, expected a file",
        }
        reason = reasons.get(type(error), f"cannot be read: {error.strerror or error}")
        raise DataError(reason, file=name) from error
    with file:
        if file.peek(2)[:2] == GZIP_MAGIC:
            with _decompressed(file) as decompressed:
                yield decompressed
        elif name.endswith(".gz") and file.peek(1):
            raise DataError("not a gzip file, though its name ends in .gz", file=name)
        else:
            yield file


def _decompressed(stream: BinaryIO) -> BinaryIO:
    """Return a gzip stream decompressed, behind a buffer: lines of `GzipFile` alone are slow."""
    return cast("BinaryIO", io.BufferedReader(_Decompressed(stream), _BUFFER))


class _Decompressed(io.RawIOBase):
    """A gzip stream that gives what comes before a damaged place, and seeks if its file does."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._gzip = stream, gzip.GzipFile(fileobj=stream)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def readinto(self, buffer: Any) -> int:
        piece = self._gzip.read1(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._gzip.seek(offset, whence)

    def tell(self) -> int:
        return self._gzip.tell()


def reader(stream: BinaryIO) -> Read:
    """Return how to read what a stream has without waiting for all that was asked for."""
    read: Read = getattr(stream, "read1", stream.read)
    return read


class Part:
    """The bytes of a file from one place to another, as a stream that cannot go back."""

    def __init__(self, path: str | os.PathLike[str], start: int, end: int) -> None:
        """Open the file once more, so that its parts can be read at the same time."""
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - `close` closes it
        self._file.seek(start)
        self._left = end - start

    def read(self, size: int) -> bytes:
        """Return some bytes, none at the end of the part."""
        found = self._file.read(min(size, self._left))
        self._left -= len(found)
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class WholeLines:
    """A stream in pieces that end with a line end; a byte order mark at its start is dropped."""

    def __init__(self, read: Read, name: str, *, at_start: bool = True) -> None:
        """Begin at the start of a file, or, if not `at_start`, at a line within it."""
        self._read, self._name = read, name
        self._rest = b""
        self._first = at_start
        self._failure: Exception | None = None
        # Whether all has been read.
        self.at_end = False
        # The number of the first line that has not been counted; the reader's to move on.
        self.next_line = 1

    def pieces(self, size: int) -> Pieces:
        """Return whole lines, some `size` bytes of them; a missing last line end is added."""
        if self._failure is not None:
            raise broken_gzip(self._failure, self._name, self.next_line - 1)
        pieces, missing = [self._rest], size
        while missing > 0 and not self.at_end and self._failure is None:
            piece = self._piece(missing)
            self.at_end = not piece and self._failure is None
            pieces.append(piece)
            missing -= len(piece)
        start, text = pieces[0], pieces[-1]
        if self.at_end or self._first or len(pieces) > 2 or b"\n" not in text:
            start, text = b"", b"".join(pieces)
        if self._first and not text and self.at_end:
            raise DataError("the file is empty", file=self._name)
        cut = len(text) if self.at_end else text.rfind(b"\n") + 1
        if not cut and len(text) > LONGEST_LINE:
            raise endless_line(text, self._name, self.next_line)
        whole, self._rest = memoryview(text)[:cut], text[cut:]
        if whole and self._first:
            whole, self._first = memoryview(text[:cut].removeprefix(_BOM)), False
        return [start, whole] if not whole or whole[-1] == _NEWLINE else [start, whole, b"\n"]

    def _piece(self, size: int) -> bytes:
        """Read a piece; a failure waits until what came before it has been looked at."""
        try:
            return self._read(size)
        except GZIP_ERRORS as error:
            self._failure = error
            return b""
