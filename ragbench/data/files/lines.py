"""Lines of plain and gzip files, singly or in large pieces, and the errors for damaged files."""

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
# Returns at most so many bytes; none at the end.
Read = Callable[[int], bytes]
# A text in consecutive pieces; joining them copies the text, so that callers do it once.
Pieces = Sequence[bytes | memoryview]

_BOM = b"\xef\xbb\xbf"
_BUFFER = 1 << 17
_NEWLINE = ord("\n")
GZIP_MAGIC = b"\x1f\x8b"
# Bytes of a line, decompressed: a longer one would fill the memory before it ended.
LONGEST_LINE = 64 << 20
# errors of the standard library for truncated and damaged gzip files
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)


def source_name(source: Source) -> str:
    """Return the path, or the `name` of a stream, as text for messages; else `<stream>`."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    return str(getattr(source, "name", "<stream>"))


def standard_input() -> BinaryIO:
    """Return standard input as bytes, decompressed if it is gzip.

    Raises:
        DataError: Standard input is closed.
    """
    if sys.stdin is None:
        raise DataError("standard input is closed", file="-", allowed="a file on standard input")
    stream: Any = sys.stdin.buffer  # a BufferedReader, which can look ahead
    if stream.peek(2)[:2] == GZIP_MAGIC:
        return _decompressed(stream)
    return cast("BinaryIO", stream)


def read_lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes with the line end), without a byte order mark.

    A file is decompressed if it is gzip, a stream is read as it is.

    Raises:
        DataError: The file cannot be read, or has a NUL byte or a line of more than 64 MiB; the
            message has the line.
    """
    name = source_name(source)
    number = 0
    with opened(source, name) as stream:
        try:
            # readline with a limit: iterating would load a line of any length
            lines = iter(partial(stream.readline, LONGEST_LINE + 1), b"")
            for number, data in enumerate(lines, start=1):
                line = data.removeprefix(_BOM) if number == 1 else data
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
    """Return the error for a line that exceeds `LONGEST_LINE`; `text` is its start."""
    content = "NUL bytes without a line end" if b"\0" in text else "a line without an end"
    problem = f"{content} in {LONGEST_LINE >> 20} MiB"
    return DataError(problem, file=name, line=number, allowed="lines of text")


def nul_byte(line: bytes, name: str, number: int) -> DataError:
    """Return the error for a line with a NUL byte, as binary files have.

    The message names its column, counted in bytes from 1.

    Raises:
        ValueError: The line has no NUL byte.
    """
    column = line.index(b"\0") + 1
    allowed = "text; this may be UTF-16, or a binary file"
    return DataError(f"NUL byte at column {column}", file=name, line=number, allowed=allowed)


def wrong_columns(
    fields: list[bytes], line: bytes, expected: str, names: str, file: str, number: int
) -> DataError:
    """Return the error for a line with too few or too many columns, with the start of the line.

    Args:
        fields: Columns of the line.
        line: The line, of which 100 bytes are quoted.
        expected: Allowed number of columns, in words.
        names: Names of the columns.
        file: Name of the file.
        number: Number of the line.
    """
    text = line.strip()[:100].decode("utf-8", "backslashreplace")
    # control characters of a file must not reach a terminal
    quote = "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text)
    count = f"{len(fields)} column{'s' if len(fields) != 1 else ''}"
    return DataError(f"{count}, expected {expected} ({names}): '{quote}'", file=file, line=number)


def broken_gzip(error: Exception, name: str, number: int) -> DataError:
    """Return the error for a gzip file that fails after line `number`, or at its start for 0.

    The file is truncated for an `EOFError`, else broken.
    """
    damage = "truncated gzip" if isinstance(error, EOFError) else f"broken gzip ({error})"
    return DataError(f"{damage} after line {number}", file=name, line=number or None)


def text_lines(source: Source) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text with the line end) of a UTF-8 file, plain or gzip.

    A byte order mark is dropped. A stream is read as it is, without decompression.

    Raises:
        DataError: The file cannot be read, or a line is not UTF-8, has a NUL byte or more than 64
            MiB.
    """
    for number, line in read_lines(source):
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            bad_bytes = " ".join(f"0x{byte:02x}" for byte in line[error.start : error.end])
            problem = f"bad UTF-8: {bad_bytes} at byte {error.start + 1} of the line"
            name, allowed = source_name(source), None
            # most spreadsheets save in the code page of the system
            if plain_suffix(Path(name)) in (".csv", ".tsv"):
                allowed = "UTF-8; in a spreadsheet, save the table as 'CSV UTF-8'"
            raise DataError(problem, file=name, line=number, allowed=allowed) from error


def find_file(folder: Path, name: str) -> Path | None:
    """Return `folder/name` or `folder/name.gz`, whichever exists; None for neither.

    Raises:
        DataError: Both exist.
    """
    paths = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
    if len(paths) > 1:
        raise DataError(f"both {name} and {name}.gz exist", file=folder, allowed="one of the two")
    return paths[0] if paths else None


def plain_suffix(path: Path) -> str:
    """Return the suffix of a file in lower case; before a final `.gz`, the suffix before that.

    `corpus.jsonl.gz` gives `.jsonl`; a name without a suffix gives ''.
    """
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


@contextmanager
def opened(source: Source, name: str) -> Iterator[BinaryIO]:
    """Open a file and decompress it if its bytes are gzip, whatever its name.

    Yield a stream as it is, and leave it open; a file is closed after the block. Damage in gzip
    raises one of `GZIP_ERRORS` when it is read.

    Raises:
        DataError: The file cannot be read, or its name ends in .gz and it is no gzip file. An empty
            .gz file is allowed.
    """
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
    """Return the decompressed stream, behind a buffer: `GzipFile` alone reads lines slowly."""
    raw = cast("io.RawIOBase", _GzipStream(stream))
    return cast("BinaryIO", io.BufferedReader(raw, _BUFFER))


class _GzipStream(gzip.GzipFile):
    """Decompressed stream that yields all bytes before a damage, and seeks if its file does."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(fileobj=stream)
        self._stream = stream

    def seekable(self) -> bool:
        return self._stream.seekable()

    def readinto(self, buffer: Any) -> int:
        # a single read: filling the whole buffer would lose the bytes before a damage
        return self.readinto1(buffer)


def reader(stream: BinaryIO) -> Read:
    """Return a function that reads bytes as they arrive: `read1` of a stream, else `read`."""
    read: Read = getattr(stream, "read1", stream.read)
    return read


class WholeLines:
    """Reader of a byte stream by whole lines: `pieces()` returns the next lines, as a few pieces.

    It is created with a function that reads bytes (`reader(stream)`) and a name for messages; call
    `pieces(size)` until `at_end`. A byte order mark at the start is dropped, and a missing last
    line end is added. An empty file, damaged gzip data, or a line of more than 64 MiB raises a
    DataError.

    Attributes:
        at_end: True once all has been read.
        next_line: Number of the first line that the caller has not counted; the caller advances it.
    """

    def __init__(self, read: Read, name: str, *, at_start: bool = True) -> None:
        """Start to read with the function `read`; `name` is for messages.

        `at_start` is False for a part that begins at a line within the file.
        """
        self._read, self._name = read, name
        self._carried = b""
        self._first = at_start
        self._failure: Exception | None = None
        self.at_end = False
        self.next_line = 1

    def pieces(self, size: int) -> Pieces:
        """Return whole lines of some `size` bytes, as two or three pieces, to be joined.

        A last line end is added. Pieces may be empty. The rest after the last line end waits for
        the next call.

        Raises:
            DataError: The file is empty, damaged gzip, or has a line of more than 64 MiB; gzip
                damage is raised after the lines before it.
        """
        if self._failure is not None:
            raise broken_gzip(self._failure, self._name, self.next_line - 1)
        pieces, n_missing = [self._carried], size
        while n_missing > 0 and not self.at_end and self._failure is None:
            piece = self._piece(n_missing)
            self.at_end = not piece and self._failure is None
            pieces.append(piece)
            n_missing -= len(piece)
        start, text = pieces[0], pieces[-1]
        # usually the carried bytes and one new piece with a line end, which need no copy; all other
        # cases are joined
        if self.at_end or self._first or len(pieces) > 2 or b"\n" not in text:
            start, text = b"", b"".join(pieces)
        if self._first and not text and self.at_end:
            raise DataError("the file is empty", file=self._name)
        end = len(text) if self.at_end else text.rfind(b"\n") + 1
        if not end and len(text) > LONGEST_LINE:
            raise endless_line(text, self._name, self.next_line)
        whole, self._carried = memoryview(text)[:end], text[end:]
        if whole and self._first:
            whole, self._first = memoryview(text[:end].removeprefix(_BOM)), False
        return [start, whole] if not whole or whole[-1] == _NEWLINE else [start, whole, b"\n"]

    def _piece(self, size: int) -> bytes:
        """Return a piece of at most `size` bytes, b'' at the end or at a damage."""
        # A gzip error is raised by the next call, after the lines before the damage.
        try:
            return self._read(size)
        except GZIP_ERRORS as error:
            self._failure = error
            return b""
