"""What people see while they wait: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from ragbench.errors import OptionError
from ragbench.report.text import counted, printable

if TYPE_CHECKING:
    import rich.progress

# The environment variable that says how many seconds pass between two lines of a stage.
SECONDS_VARIABLE = "RAGBENCH_PROGRESS"
_REDRAWS_PER_SECOND = 10
_SECONDS, _LONGEST_SECONDS = 10.0, 300.0


class Stage:
    """One stage that runs: counts what is done; safe to call from several threads."""

    def __init__(self, name: str, total: int | None, unit: str, bar: _Bar | None) -> None:
        self.name, self.total, self.unit = printable(name), total, unit
        self.done, self.told = 0, False
        self._lock = threading.Lock()
        self._bar = bar
        self._task = bar.add(self.name, total) if bar else None
        self._start = time.perf_counter()

    def advance(self, n: int = 1) -> None:
        """Count n more items as done; cheap enough to be called for each item."""
        with self._lock:
            self.done += n
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, n)

    def so_far(self, seconds: float) -> str:
        """Say how much is done after some seconds, how fast that is, and how long the rest takes.

        Example:
            >>> stage = Stage("index dense", 1400, "documents", None)
            >>> stage.so_far(10)
            'index dense: 0 of 1400 documents after 10.0 s'
            >>> stage.advance(400)
            >>> stage.so_far(100)
            'index dense: 400 of 1400 documents after 1 min 40 s, 4 a second, 4 min 10 s left'
        """
        done, total = self.done, self.total
        count = counted(done, self.unit) if total is None else f"{done} of {total} {self.unit}"
        line = f"{self.name}: {count} after {duration(seconds)}"
        if not done or not seconds or done == total:  # what is counted is not all that is done
            return line
        rate = done / seconds
        line += f", {rate:.3g} a second" if rate >= 1 else f", {60 * rate:.3g} a minute"
        return line if total is None else f"{line}, {duration((total - done) / rate)} left"

    def close(self, stopped: bool) -> str:
        """Take the bar off the screen and say in one line what was done, and how long it took."""
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
    """The progress of an experiment, on stderr.

    On a terminal a bar moves while a stage runs. When a stage ends, one line says what it did,
    the same with and without a terminal. `NO_COLOR` is honoured. A terminal that cannot move
    its cursor (`TERM=dumb`) gets the lines alone. Where no bar moves, a stage that lasts says how
    far it is: every 10 seconds, or as often as `RAGBENCH_PROGRESS` says, and less often the longer
    it runs; 0 leaves the last line alone.

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
        """Draw a bar, lines, or where it is `quiet` nothing; on stderr by default.

        `brief` leaves out the line of a stage that was over before it said how far it is.

        Raises:
            OptionError: `RAGBENCH_PROGRESS` is no number of seconds.
        """
        self._seconds = _seconds_between()
        self._stream = sys.stderr if stream is None else stream
        self._quiet, self._brief = quiet, brief
        drawable = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._bar = _Bar(self._stream) if drawable and not quiet else None
        self._lock = threading.Lock()

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "queries") -> Iterator[Stage]:
        """Show a stage while the block runs; stages may overlap. `unit` is a plural."""
        stage = Stage(name, total, unit, self._bar)
        stopped, ended = True, threading.Event()
        teller = None
        if self._bar is None and not self._quiet and self._seconds:
            teller = threading.Thread(target=self._tell, args=(stage, ended), daemon=True)
            teller.start()
        try:
            yield stage
            stopped = False
        finally:
            ended.set()
            if teller is not None:
                teller.join()
            line = stage.close(stopped)
            if stage.told or not self._brief:
                self._say(line)

    def _tell(self, stage: Stage, ended: threading.Event) -> None:
        """Say how far a stage is until it ends: whatever computes need not know of lines."""
        start, wait = time.perf_counter(), self._seconds
        while not ended.wait(wait):
            took = time.perf_counter() - start
            self._say(stage.so_far(took))
            stage.told = True
            wait = max(self._seconds, min(took / 10, _LONGEST_SECONDS))

    def _say(self, line: str) -> None:
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.say(line)
            return
        with self._lock:  # lines of stages that end together do not mix
            self._stream.write(f"{line}\n")
            self._stream.flush()


def _seconds_between() -> float:
    given = os.environ.get(SECONDS_VARIABLE)
    try:
        seconds = float(given) if given else _SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < threading.TIMEOUT_MAX:
        allowed = "seconds between two lines, or 0 for none"
        raise OptionError("progress", SECONDS_VARIABLE, given, allowed)
    return seconds


class _Bar:
    """The bars of the running stages, on screen only while there is one."""

    def __init__(self, stream: TextIO) -> None:
        self._lock = threading.Lock()
        self._progress = _draw_on(stream)
        self._running = 0

    def add(self, name: str, total: int | None) -> rich.progress.TaskID:
        with self._lock:
            if self._running == 0:
                self._progress.start()
            self._running += 1
            return self._progress.add_task(name, total=total)

    def advance(self, task: rich.progress.TaskID, n: int) -> None:
        self._progress.advance(task, n)

    def remove(self, task: rich.progress.TaskID) -> None:
        with self._lock:
            self._progress.remove_task(task)
            self._running -= 1
            if self._running == 0:
                self._progress.stop()

    def say(self, line: str) -> None:
        """Print a line above the bars that still move."""
        console = self._progress.console
        console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """Write a duration in the unit that suits it.

    Example:
        >>> [duration(s) for s in (0.1234, 12.34, 75, 3725)]
        ['0.12 s', '12.3 s', '1 min 15 s', '1 h 2 min']
    """
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _draw_on(stream: TextIO) -> rich.progress.Progress:
    """Make rich's bars: redrawn by its own thread, so that `advance` never draws."""
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
