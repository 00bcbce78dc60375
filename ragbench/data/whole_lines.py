"""Reads files and streams in pieces of whole lines, twice if need be."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import IO, BinaryIO

from ragbench.data.lines import GZIP_ERRORS, broken_gzip, without_bom
from ragbench.errors import DataError

_LONGEST_LINE = 16 << 20

Read = Callable[[int], bytes]
"""Returns some bytes, at most so many; none at the end."""


def reader(stream: BinaryIO) -> Read:
    """Return how to read what a stream has without waiting for all that was asked for."""
    read: Read = getattr(stream, "read1", stream.read)
    return read


class Rewindable:
    """A stream that can be read again from where it stood.

    What cannot go back, such as a pipe, is kept in a temporary file while it is read.
    """

    def __init__(self, stream: BinaryIO, *, keep: bool = True) -> None:
        """Begin where the stream stands; `keep` is false where nobody will go back."""
        self._stream, self._read = stream, reader(stream)
        # gzip says that it can seek whatever lies under it
        below: BinaryIO = getattr(stream, "fileobj", stream)
        can_seek = below.seekable()
        self._start = stream.tell() if can_seek else None
        self._kept: IO[bytes] | None = None
        if keep and not can_seek:
            self._kept = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        self._again = False

    def read(self, size: int) -> bytes:
        """Return some bytes, none at the end."""
        if self._kept is None:
            return self._read(size)
        if self._again and (kept := self._kept.read(size)):
            return kept
        found = self._read(size)
        if not self._again:
            self._kept.write(found)
        return found

    def rewind(self) -> None:
        """Go back to the start, once."""
        if self._start is not None:
            self._stream.seek(self._start)
        elif self._kept is not None:
            self._kept.seek(0)
            self._again = True

    def close(self) -> None:
        """Remove what was kept; the stream stays open."""
        if self._kept is not None:
            self._kept.close()


class WholeLines:
    """A stream in pieces that end with a line end; a byte order mark at its start is dropped."""

    def __init__(self, read: Read, name: str) -> None:
        self._read, self._name = read, name
        self._rest = b""
        self._first = True
        self._failure: Exception | None = None
        self.at_end = False
        """Whether all has been read."""
        self.next_line = 1
        """The number of the first line that has not been counted; the reader's to move on."""

    def read(self, size: int) -> bytes:
        """Return whole lines, some `size` bytes of them; a missing last line end is added.

        Raises:
            DataError: The file is empty, UTF-16, or broken gzip and all before was returned.
        """
        if self._failure is not None:
            raise broken_gzip(self._failure, self._name, self.next_line - 1)
        pieces, missing = [self._rest], size
        while missing > 0 and not self.at_end and self._failure is None:
            piece = self._piece(missing)
            self.at_end = not piece and self._failure is None
            pieces.append(piece)
            missing -= len(piece)
        text = b"".join(pieces)
        if self._first and not text and self.at_end:
            raise DataError("the file is empty", file=self._name)
        cut = len(text) if self.at_end else text.rfind(b"\n") + 1
        if not cut and len(text) > _LONGEST_LINE:  # it would fill the memory before it ended
            what = "NUL bytes without a line end" if b"\0" in text else "a line without an end"
            found = f"{what} in {_LONGEST_LINE >> 20} MiB"
            raise DataError(found, file=self._name, line=self.next_line, allowed="lines of text")
        text, self._rest = text[:cut], text[cut:]
        if text and self._first:
            text, self._first = without_bom(text, self._name), False
        return text if text.endswith(b"\n") or not text else text + b"\n"

    def _piece(self, size: int) -> bytes:
        """Read a piece; a failure waits until what came before it has been looked at."""
        try:
            return self._read(size)
        except GZIP_ERRORS as error:
            self._failure = error
            return b""
