"""The one door through which everything is printed: no control character, and no secret."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from ragbench.errors import shortened, visible
from ragbench.redaction import printed


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
            # what the encoding lacks is written as an escape; click would go around ASCII
            encoding = stream.encoding.lower().replace("-", "").replace("_", "")
            is_ascii = encoding in ("ascii", "ansix3.41968", "usascii", "646")
            errors = "backslashreplace" if stream.errors == "strict" else stream.errors
            stream.reconfigure(encoding="utf-8" if is_ascii else None, errors=errors)

    def write(self, text: str) -> int:
        """Write a text, with what a terminal would obey made visible."""
        if not isinstance(text, str):
            raise TypeError(f"found {type(text).__name__}, allowed: str")
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


def open_doors() -> tuple[TextIO, TextIO]:
    """Put a door before stdout and stderr; returns the streams as they were."""
    before = sys.stdout, sys.stderr
    sys.stdout = Door(before[0], is_stderr=False)
    sys.stderr = Door(before[1], is_stderr=True)
    return before


def behind(stream: TextIO | Door) -> TextIO:
    """Return the stream behind a door, for what is drawn; one without a door is itself."""
    return stream.stream if isinstance(stream, Door) else stream
