"""Line on stderr that counts finished items of a long call, in a terminal or a notebook."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TextIO

# Seconds before the line appears: shorter calls show nothing.
DELAY = 2.0
_SECONDS_BETWEEN = 0.5

# Called with the number of finished items and of all items.
Report = Callable[[int, int], object]
# How a call shows its progress: a function, False for nothing, None for a line where it can move.
ProgressChoice = Report | bool | None


def in_notebook() -> bool:
    """Return True in a kernel of Jupyter, whose stderr is no terminal but is read by a person."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class Counted:
    """Counter of completed steps that reports the sum and the total to `progress`.

    A call `counter(n)` adds n steps, and calls `progress(steps so far, total)`. The sum is not
    limited to the total.
    """

    def __init__(self, progress: Report, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, n: int) -> None:
        """Add n completed steps and report.

        `progress` gets the sum so far and the total.
        """
        self._done += n
        self._progress(self._done, self._total)


class ProgressLine:
    """Line that is written over itself: `judge: 57 of 100, 12 s left`; safe for threads.

    It appears two seconds after the first report, and `close` removes it.

    Example:
        >>> import io
        >>> stream = io.StringIO()
        >>> line = ProgressLine("judge", stream, delay=0.0)
        >>> line.report(1, 4)
        >>> line.close()
        >>> stream.getvalue().strip().startswith("judge: 1 of 4")
        True
    """

    def __init__(self, label: str, stream: TextIO, delay: float = DELAY) -> None:
        self._label, self._stream = label, stream
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._next, self._width = self._start + delay, 0

    def report(self, done: int, total: int) -> None:
        """Show the number of finished items, at most twice a second."""
        seconds = time.monotonic()
        with self._lock:
            if seconds < self._next:
                return
            self._next = seconds + _SECONDS_BETWEEN
            text = f"{self._label}: {done} of {total}"
            if 0 < done < total:
                text += f", {(seconds - self._start) * (total - done) / done:.0f} s left"
            self._write(text)

    def close(self) -> None:
        """Remove the line; nothing if it never appeared."""
        with self._lock:
            if self._width:
                self._write("")
                self._stream.write("\r")
                self._stream.flush()
                self._width = 0

    def _write(self, text: str) -> None:
        # blanks remove the rest of a longer text
        self._stream.write(f"\r{text:<{self._width}}")
        self._stream.flush()
        self._width = len(text)


def shown_progress(choice: ProgressChoice, label: str) -> AbstractContextManager[Report | None]:
    """Return a context of the function to report to; None in it shows nothing.

    A function is returned as it is. None shows a `ProgressLine` where stderr is a terminal or
    belongs to a notebook, True anywhere, and False nothing.
    """
    if callable(choice):
        return nullcontext(choice)
    stream = sys.stderr
    if choice is None:
        choice = stream is not None and (stream.isatty() or in_notebook())
    return _line_on(stream, label) if choice else nullcontext(None)


@contextmanager
def _line_on(stream: TextIO, label: str) -> Iterator[Report]:
    """Yield the report of a line, which is removed at the end."""
    line = ProgressLine(label, stream)
    try:
        yield line.report
    finally:
        line.close()
