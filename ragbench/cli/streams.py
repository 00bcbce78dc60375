r"""The one door through which everything is printed: no control character, and no secret.

What is redirected is UTF-8 with `\n` line ends, as all files are, on every system; a terminal has
its own encoding, and `PYTHONIOENCODING` says another for both. What an encoding lacks is written as
an escape.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from ragbench.errors import shortened, visible
from ragbench.redaction import printed

_BYTES = re.compile("[\udc80-\udcff]+")


def _decoded(run: str) -> str:
    return run.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


class Door:
    """A stream that shows the control characters of what is written to it, instead of sending them.

    Nor does it send the secrets of the configs that were read, which a library may print as well.

    What a caller has made safe itself goes to `stream`: bars, colours, and data that a program
    reads. On stderr, long lines are cut, and a line may be drawn again from its start, as bars of
    other packages are.
    """

    def __init__(self, stream: TextIO, *, is_stderr: bool) -> None:
        self.stream, self._is_stderr = stream, is_stderr
        if isinstance(stream, io.TextIOWrapper):
            asked = bool(os.environ.get("PYTHONIOENCODING", "").partition(":")[0])
            # a terminal in the locale C shows UTF-8, as Python itself supposes (PEP 538)
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            is_ours = not asked and (is_ascii or not stream.isatty())
            stream.reconfigure(
                encoding="utf-8" if is_ours else None,
                errors="backslashreplace" if stream.errors == "strict" else stream.errors,
                newline=None if stream.isatty() else "\n",
            )

    def write(self, text: str) -> int:
        """Write a text, with what a terminal would obey made visible."""
        if not isinstance(text, str):
            raise TypeError(f"found {type(text).__name__}, allowed: str")
        # the name of a file in another locale: bytes that are UTF-8 nonetheless
        text = _BYTES.sub(lambda run: _decoded(run[0]), text)
        text = printed(text)  # before it is cut: a part of a secret would be left
        start = "\r" if self._is_stderr and text[:1] == "\r" else ""
        shown = visible(text[len(start) :])
        return self.stream.write(start + (shortened(shown) if self._is_stderr else shown))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """All else is that of the stream."""
        return getattr(self.stream, name)


def echo(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print a line, on stderr with `err`; a terminal that knows how shows it `bold`.

    That of click looks for the console behind `sys.stdout` on Windows, and goes around the door.
    """
    stream = sys.stderr if err else sys.stdout
    if bold and stream.isatty() and sys.platform != "win32":
        behind(stream).write(f"\x1b[1m{visible(printed(text))}\x1b[0m\n")
    else:
        stream.write(f"{text}\n")
    stream.flush()


def _escaped_or_raw(error: UnicodeError) -> tuple[str | bytes, int]:
    """A byte of an id that is no text as it was; of all else an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeEncodeError:
        return codecs.backslashreplace_errors(error)


codecs.register_error("ragbench.exact", _escaped_or_raw)


def write_exactly(text: str) -> None:
    """Write data for programs on stdout: ids are the bytes that they were."""
    stream = behind(sys.stdout)
    stream.flush()
    stream.buffer.write(text.encode(stream.encoding, "ragbench.exact"))
    stream.buffer.flush()


def open_doors() -> tuple[TextIO, TextIO]:
    """Put a door before stdout and stderr; returns the streams as they were."""
    before = sys.stdout, sys.stderr
    sys.stdout = Door(before[0], is_stderr=False)
    sys.stderr = Door(before[1], is_stderr=True)
    return before


def behind(stream: TextIO | Door) -> TextIO:
    """Return the stream behind a door, for what is drawn; one without a door is itself."""
    return stream.stream if isinstance(stream, Door) else stream
