"""Numbered lines of plain and gzip files, and what can be wrong with their bytes."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from ragbench.errors import DataError

Source = str | os.PathLike[str] | BinaryIO
"""A file by its name, or an open binary stream such as standard input."""

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_GZIP_MAGIC = b"\x1f\x8b"
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a broken gzip file raises."""


def source_name(source: Source) -> str:
    """Return how messages name a file or stream."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    return str(getattr(source, "name", "<stream>"))


def standard_input() -> BinaryIO:
    """Return standard input as bytes, decompressed if it is gzip.

    Raises:
        DataError: It is closed.
    """
    if sys.stdin is None:
        raise DataError("standard input is closed", file="-", allowed="a file on standard input")
    stream: Any = sys.stdin.buffer  # a BufferedReader, which can look ahead
    if stream.peek(2)[:2] == _GZIP_MAGIC:
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream))
    return cast("BinaryIO", stream)


def read_lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes with the line end), without a byte order mark.

    Raises:
        DataError: The file is absent, empty, not text (NUL bytes), or broken gzip.
    """
    name = source_name(source)
    number = 0
    with opened(source, name) as stream:
        try:
            for number, raw in enumerate(stream, start=1):
                line = without_bom(raw, name) if number == 1 else raw
                if b"\0" in line:
                    raise nul_byte(line, name, number)
                yield number, line
        except GZIP_ERRORS as error:
            raise broken_gzip(error, name, number) from error
    if number == 0:
        raise DataError("the file is empty", file=name)


def nul_byte(line: bytes, name: str, number: int) -> DataError:
    """Return the error for a line with a NUL byte."""
    column = line.index(b"\0") + 1
    return DataError(f"NUL byte at column {column}", file=name, line=number)


def broken_gzip(error: Exception, name: str, number: int) -> DataError:
    """Return the error for a file that cannot be decompressed after so many lines."""
    what = "truncated gzip" if isinstance(error, EOFError) else f"broken gzip ({error})"
    return DataError(f"{what} after line {number}", file=name, line=number or None)


def text_lines(source: Source) -> Iterator[tuple[int, str]]:
    """Yield (line number, text with the line end) of a UTF-8 file; see `read_lines`.

    Raises:
        DataError: Also for bytes that are not UTF-8, with the bytes and their column.
    """
    for number, line in read_lines(source):
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            offending = " ".join(f"0x{byte:02x}" for byte in line[error.start : error.end])
            raise DataError(
                f"bad UTF-8: {offending} at byte {error.start + 1} of the line",
                file=source_name(source),
                line=number,
            ) from error


def find_file(folder: Path, name: str) -> Path | None:
    """Return `folder/name` or `folder/name.gz`, whichever exists.

    Raises:
        DataError: Both exist, and they may differ.
    """
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.is_file()]
    if len(found) > 1:
        raise DataError(f"both {name} and {name}.gz exist", file=folder, allowed="one of the two")
    return found[0] if found else None


def plain_suffix(path: Path) -> str:
    """Return the suffix under a `.gz`: `.jsonl` for `corpus.jsonl.gz`."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


@contextmanager
def opened(source: Source, name: str) -> Iterator[BinaryIO]:
    """Open a file, decompressing what starts like gzip whatever its name; leave streams open.

    Raises:
        DataError: The file cannot be read, or is named `.gz` and is not gzip.
    """
    if not isinstance(source, (str, os.PathLike)):
        if not hasattr(source, "read"):
            raise DataError(f"found {source!r:.80}", allowed="a path, or an open binary stream")
        yield source
        return
    try:
        file = open(source, "rb")  # noqa: SIM115 - closed below, after the gzip layer
    except OSError as error:
        raise DataError(_why_unreadable(error), file=name) from error
    with file:
        if file.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.open(file) as decompressed:
                yield decompressed  # type: ignore[misc]  # GzipFile is no BinaryIO to typeshed
        elif name.endswith(".gz") and file.peek(1):
            raise DataError("not a gzip file, though its name ends in .gz", file=name)
        else:
            yield file


def _why_unreadable(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "a folder, expected a file"
    return f"cannot be read: {error.strerror or error}"


def without_bom(line: bytes, name: str) -> bytes:
    """Return the start of a file without its byte order mark.

    Raises:
        DataError: The file is UTF-16.
    """
    if line.startswith(_UTF16_BOMS):
        raise DataError("UTF-16 text", file=name, line=1, allowed="UTF-8")
    return line.removeprefix(_BOM)
