"""Progress of stages: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from ragbench.errors import OptionError
from ragbench.log import move_handlers
from ragbench.report.text import counted
from ragbench.types.display import printable
from ragbench.types.progress_line import ProgressLine, in_notebook

if TYPE_CHECKING:
    import rich.progress

# Environment variable with the seconds between two progress lines of a stage.
SECONDS_VARIABLE = "RAGBENCH_PROGRESS"
_REDRAWS_PER_SECOND = 10
_SECONDS, _LONGEST_SECONDS = 10.0, 300.0  # between two lines: at first, and at most


class StageProgress:
    """Running stage: counts the items that are done; safe to use from several threads.

    `Progress.stage` creates it, with a bar on a terminal. `advance` adds to the count;
    `progress_line` and `close` return a line of text, which `Progress` prints.

    Attributes:
        name: Name of the stage in its lines.
        total: Number of all items; None if it is unknown.
        unit: Plural noun for the items.
        done: Number of items that are done.
        has_reported: True after the first progress line.
    """

    def __init__(
        self, name: str, total: int | None, unit: str, bar: _Bar | _NotebookLines | None
    ) -> None:
        self.name, self.total, self.unit = printable(name), total, unit
        self.done, self.has_reported = 0, False
        self._lock = threading.Lock()
        self._bar = bar
        self._task: Any = bar.add(self.name, total) if bar else None
        self._start = time.perf_counter()

    def advance(self, n: int = 1) -> None:
        """Add `n` to the items that are done; cheap enough to be called for each item."""
        with self._lock:
            self.done += n
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, n)

    def progress_line(self, seconds: float) -> str:
        """Return the items that are done after some seconds, the rate, and the time left.

        The rate is left out at the start and at the end, the time left without a total.

        Example:
            >>> stage = StageProgress("index dense", 1400, "documents", None)
            >>> stage.progress_line(10)
            'index dense: 0 of 1400 documents after 10.0 s'
            >>> stage.advance(400)
            >>> stage.progress_line(100)
            'index dense: 400 of 1400 documents after 1 min 40 s, 4 a second, 4 min 10 s left'
        """
        done, total = self.done, self.total
        count = counted(done, self.unit) if total is None else f"{done} of {total} {self.unit}"
        line = f"{self.name}: {count} after {duration(seconds)}"
        # at the end a stage may still work, such as write files, so that no time left is true
        if not done or not seconds or done == total:
            return line
        rate = done / seconds
        line += f", {rate:.3g} a second" if rate >= 1 else f", {60 * rate:.3g} a minute"
        return line if total is None else f"{line}, {duration((total - done) / rate)} left"

    def close(self, stopped: bool) -> str:
        """Remove the bar and return the last line: items and duration; `stopped` after an error.

        The line is as `retrieve bm25: 2 queries in 1.20 s`, without a line end.
        """
        if self._bar is not None and self._task is not None:
            self._bar.remove(self._task)
        took = duration(time.perf_counter() - self._start)
        count = counted(self.done, self.unit)
        if stopped:
            whole = "" if self.total is None else f" of {self.total}"
            return f"{self.name}: stopped after {self.done}{whole}, {took}"
        if self.total is not None and self.done != self.total:
            count = f"{self.done} of {counted(self.total, self.unit)}"
        return f"{self.name}: {count} in {took}"


class Progress:
    """The progress of an experiment, on stderr or another `stream`; `quiet` prints nothing.

    On a terminal, a bar moves while a stage runs, and logs and other text are printed above it; in
    a notebook a line does, after two seconds.
    When a stage ends, a line reports its items and duration, with and without a terminal.
    `NO_COLOR` is honoured. A terminal that cannot move its cursor (`TERM=dumb`) gets lines only.
    Without a bar, a long stage reports its progress every 10 seconds, or every `RAGBENCH_PROGRESS`
    seconds, and less often the longer it runs; 0 prints the last line only. A variable that is no
    number of seconds raises an OptionError at creation. Runs and commands use `stage`, a context
    that yields a `StageProgress`.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> with Progress(stream=out).stage("retrieve bm25", 2) as stage:
        ...     stage.advance(2)
        >>> out.getvalue().startswith("retrieve bm25: 2 queries in ")
        True
    """

    def __init__(
        self, *, quiet: bool = False, brief: bool = False, stream: TextIO | None = None
    ) -> None:
        """Choose between a bar and lines.

        Args:
            quiet: Print nothing.
            brief: Leave out the last line of a stage that ended before its first progress line;
                with a bar there are no progress lines, and so no last line.
            stream: Output of the lines; stderr by default.

        Raises:
            OptionError: `RAGBENCH_PROGRESS` is no number of seconds.
        """
        self._seconds = _seconds_between()
        self._stream = sys.stderr if stream is None else stream
        self._quiet, self._brief = quiet, brief
        drawable = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._bar: _Bar | _NotebookLines | None = None
        # a redirected stream, as in CI, would show every redraw as a line
        if drawable and not quiet:
            self._bar = _Bar(self._stream)
        elif in_notebook() and not quiet:
            self._bar = _NotebookLines(self._stream)
        self._lock = threading.Lock()

    @contextmanager
    def stage(
        self, name: str, total: int | None = None, unit: str = "queries"
    ) -> Iterator[StageProgress]:
        """Show a stage while the block runs, and yield its `StageProgress`; stages may overlap.

        The last line is printed after an error too, and says 'stopped'.

        Args:
            name: Name of the stage.
            total: Number of items; None if it is unknown.
            unit: Plural noun for the items.
        """
        stage = StageProgress(name, total, unit, self._bar)
        stopped, ended = True, threading.Event()
        reporter = None
        if self._bar is None and not self._quiet and self._seconds:
            reporter = threading.Thread(target=self._report, args=(stage, ended), daemon=True)
            reporter.start()
        try:
            yield stage
            stopped = False
        finally:
            ended.set()
            if reporter is not None:
                reporter.join()
            line = stage.close(stopped)
            if stage.has_reported or not self._brief:
                self._print(line)

    def note(self, line: str) -> None:
        """Print a line between the lines of stages; nothing if quiet."""
        self._print(line)

    def _report(self, stage: StageProgress, ended: threading.Event) -> None:
        """Print progress lines until a stage ends; runs in a thread of its own."""
        start, wait = time.perf_counter(), self._seconds
        while not ended.wait(wait):
            seconds = time.perf_counter() - start
            self._print(stage.progress_line(seconds))
            stage.has_reported = True
            # a tenth of the time so far: an hour has few lines
            wait = max(self._seconds, min(seconds / 10, _LONGEST_SECONDS))

    def _print(self, line: str) -> None:
        """Print a line above the bars or to the stream; nothing if quiet."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.print(line)
            return
        with self._lock:  # lines of stages that end together do not mix
            self._stream.write(f"{line}\n")
            self._stream.flush()


def _seconds_between() -> float:
    """Return the seconds between two progress lines, by `RAGBENCH_PROGRESS`; 10 without it."""
    text = os.environ.get(SECONDS_VARIABLE)
    try:
        seconds = float(text) if text else _SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < threading.TIMEOUT_MAX:  # false for NaN, too
        allowed = "seconds between two lines, or 0 for none"
        raise OptionError("progress", SECONDS_VARIABLE, text, allowed)
    return seconds


class LinesAboveBars:
    """Stream in place of a terminal that prints whole lines above the bars.

    `_lines_above` puts it in the place of `sys.stdout` and `sys.stderr`. Text without a line break
    waits for one. Of a line that is written several times, as the bars of other libraries are, the
    last form is printed. All other attributes are those of the terminal.

    Args:
        stream: The terminal.
        show: Prints a line above the bars.

    Attributes:
        stream: The terminal.
        has_bars: False once the bars are gone; text then goes to the terminal as it comes.
    """

    def __init__(self, stream: TextIO, show: Callable[[str], None]) -> None:
        self.stream, self._show, self.has_bars = stream, show, True
        # the streams of the command line make text of libraries and models safe
        self._clean: Callable[[str], str] = getattr(stream, "clean", str)
        self._rest, self._lock = "", threading.Lock()

    def write(self, text: str) -> int:
        """Print the lines that end in a text, and return its length."""
        if not self.has_bars:
            return self.stream.write(text)
        with self._lock:
            *lines, self._rest = f"{self._rest}{text}".split("\n")
        for line in lines:
            self._show(self._clean(line.rstrip("\r").rpartition("\r")[2]))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Flush the terminal; text that waits for its line break goes on waiting."""
        self.stream.flush()

    def stop(self) -> None:
        """Write the text that waits as a line; the bars are gone."""
        self.has_bars = False
        self.stream.write(self._rest and f"{self._rest}\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def _lines_above(show: Callable[[str], None]) -> Iterator[None]:
    """Print above the bars what is written to the terminal while the block runs."""
    lines = {}
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream and stream.isatty():
            lines[name] = LinesAboveBars(stream, show)
    for name, replacement in lines.items():
        setattr(sys, name, replacement)
        move_handlers(replacement.stream, replacement)
    try:
        yield
    finally:
        for name, replacement in lines.items():
            setattr(sys, name, replacement.stream)
            move_handlers(replacement, replacement.stream)
            replacement.stop()


class _Bar:
    """Bars of the running stages on a terminal; on screen only while a stage runs."""

    def __init__(self, stream: TextIO) -> None:
        self._lock = threading.Lock()
        self._progress, self._redirects = _draw_on(stream), ExitStack()
        self._running = 0

    def add(self, name: str, total: int | None) -> rich.progress.TaskID:
        """Show a bar for a stage and return its id; `total` None draws a bar without an end."""
        with self._lock:
            # started late: an idle bar would cover the prompt
            if self._running == 0:
                self._redirects.enter_context(_lines_above(self.print))
                self._progress.start()
            self._running += 1
            return self._progress.add_task(name, total=total)

    def advance(self, task: rich.progress.TaskID, n: int) -> None:
        """Move a bar by `n` items."""
        self._progress.advance(task, n)

    def remove(self, task: rich.progress.TaskID) -> None:
        """Remove a bar; the last one frees the line of the screen."""
        with self._lock:
            self._progress.remove_task(task)
            self._running -= 1
            if self._running == 0:
                self._progress.stop()
                self._redirects.close()

    def print(self, line: str) -> None:
        """Print a line above the bars."""
        console = self._progress.console
        # a name may look like markup of rich
        console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)


class _NotebookLines:
    """Line of the running stages in a notebook, which shows no bars of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._done: dict[ProgressLine, tuple[int, int | None]] = {}

    def add(self, name: str, total: int | None) -> ProgressLine:
        """Return the line of a stage; `total` None shows no line."""
        line = ProgressLine(name, self._stream)
        with self._lock:
            self._done[line] = (0, total)
        return line

    def advance(self, task: ProgressLine, n: int) -> None:
        """Add `n` items to a stage."""
        with self._lock:
            done, total = self._done[task]
            self._done[task] = (done + n, total)
        if total is not None:
            task.report(done + n, total)

    def remove(self, task: ProgressLine) -> None:
        """Remove the line of a stage."""
        with self._lock:
            del self._done[task]
        task.close()

    def print(self, line: str) -> None:
        """Print a line in place of the lines of stages, which appear again below it."""
        with self._lock:
            for task in self._done:
                task.close()
            self._stream.write(f"{line}\n")
            self._stream.flush()


def progress_of(choice: Progress | bool | None) -> Progress:
    """Return the display of a call from Python; None shows it to a person, and False nothing.

    A person reads a terminal or a notebook; True shows it anywhere.
    """
    if choice is None:
        choice = sys.stderr is not None and (sys.stderr.isatty() or in_notebook())
    if not isinstance(choice, bool):
        return choice
    return Progress(brief=True) if choice else Progress(quiet=True)


def duration(seconds: float) -> str:
    """Format a duration, a finite number from 0 on, in a unit that fits its size.

    Example:
        >>> [duration(s) for s in (0.1234, 12.34, 75, 3725)]
        ['0.12 s', '12.3 s', '1 min 15 s', '1 h 2 min']
    """
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, remainder = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {remainder} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _draw_on(stream: TextIO) -> rich.progress.Progress:
    """Return bars of rich that are not started yet; its own thread draws them, `advance` never."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(file=stream, force_terminal=True, highlight=False),
        refresh_per_second=_REDRAWS_PER_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
