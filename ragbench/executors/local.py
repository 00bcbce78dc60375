"""Executor of processes on this machine: `executor: {type: local, workers: 4}`."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from itertools import filterfalse
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Annotated, Any

from ragbench.executors.base import MALLOC, Apply, Executor, Results, compute, environment
from ragbench.registry import Option

# A worker is one core: its threads would compete with the other workers.
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


class Local(Executor):
    """Executor of `workers` processes on this machine; without workers, the run computes all.

    Processes are spawned, not forked: a fork would copy locks that other threads hold. They end
    with the run, however that ends. `close` kills the processes; a block whose process ends raises
    `BrokenProcessPool`.
    """

    is_here = True

    def __init__(
        self,
        *,
        workers: Annotated[
            int | None,
            Option(
                "Number of processes, one core each, for text metrics, local judges and "
                "models, and BM25 search; null: none.",
                ge=1,
            ),
        ] = None,
    ) -> None:
        super().__init__()
        self.workers = workers or 0
        self._pool: ProcessPoolExecutor | None = None
        self._context = WorkerContext()
        self._output: Connection | None = None
        self._closed = False

    def submit(self, pickled: bytes, apply: Apply, block: list[Any]) -> Results:
        """Start `compute` of a block in a process and return its future.

        The first block starts the processes. Raises RuntimeError after `close`, and ValueError for
        an executor without workers. The future of a broken pool raises.
        """
        if self._closed:
            raise RuntimeError("the workers were ended")
        if self._pool is None:
            reader, self._output = self._context.Pipe(duplex=False)
            threading.Thread(target=_print_output, args=(reader,), daemon=True).start()
            self._pool = ProcessPoolExecutor(
                self.workers, self._context, initializer=_prepare, initargs=(self._output,)
            )
        try:
            return self._pool.submit(compute, pickled, apply, block)
        # A process ended, maybe in this moment: the thread of a breaking pool closes pipes whose
        # numbers the process being started then has twice, which is a ValueError.
        except (BrokenProcessPool, OSError, ValueError) as error:
            broken: Results = Future()
            broken.set_exception(BrokenProcessPool(str(error)))
            return broken

    def has_ended(self) -> bool:
        """Return True if a process has ended, which breaks the pool."""
        return any(process.exitcode is not None for process in self._context.processes())

    def restart(self) -> str:
        """Kill all processes, as a broken pool stays broken, and return how one ended, as a phrase.

        A process with an exit code or signal of its own comes before those that were killed, whose
        phrase is `it was ended by SIGKILL`. The next block starts another pool.
        """
        for process in self._context.processes():
            process.kill()  # a process that was starting when the pool broke waits for ever
        if self._pool is not None and self._output is not None:
            self._pool.shutdown()
            self._output.close()
        codes = {process.exitcode for process in self._context.processes()}
        self._pool, self._context = None, WorkerContext()
        # of a broken pool, Python terminates the other processes: their codes are not the first one
        ignored = (None, 0, -signal.SIGTERM, -signal.SIGKILL)
        code = next(filterfalse(ignored.__contains__, codes), None) or -signal.SIGKILL
        if code > 0:
            return f"it ended with code {code}"
        try:
            return f"it was ended by {signal.Signals(-code).name}"
        except ValueError:  # a signal without a name
            return f"it was ended by signal {-code}"

    def close(self) -> None:
        """Kill all processes, and wait for their end."""
        self._closed = True
        self.restart()


class WorkerProcess(SpawnProcess):
    """Worker process that imports what its blocks need, without running the user's script again.

    `WorkerContext.Process` makes it, with the arguments of `multiprocessing.Process`.

    `multiprocessing` runs the main script in each process, which would start another run if the
    script has no `if __name__ == "__main__"`.
    """

    def start(self) -> None:
        """Start the process with the environment of a worker."""
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            with environment({**dict.fromkeys(_ONE_THREAD, "1"), **MALLOC, **os.environ}):
                super().start()
        finally:
            sys.modules["__main__"] = main


class WorkerContext(SpawnContext):
    """Context that creates the processes of a pool, and lists them to kill them at the end.

    `Local` passes it to the pool. `processes` returns the processes that were started.
    """

    def __init__(self) -> None:
        self._created: list[SpawnProcess] = []

    def Process(self, *args: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]
        """Return a new worker process, which is not started; the pool starts it."""
        self._created.append(WorkerProcess(*args, **options))
        return self._created[-1]

    def processes(self) -> list[SpawnProcess]:
        """Return the processes that started; one whose start failed has no process id.

        They are in the order of their creation, ended ones included.
        """
        return [process for process in self._created if process.pid is not None]


def _prepare(output: Connection) -> None:
    """Prepare a worker process: send its output to the run, and end it when the run ends."""
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its workers
    threading.Thread(target=_end_with_run, daemon=True).start()


def _end_with_run() -> None:
    """Wait for the end of the run, then end this process with code 1."""
    run = multiprocessing.parent_process()
    if run is not None:
        run.join()
    os._exit(1)  # also in the middle of a block, which `sys.exit` in a thread would not end


def _print_output(reader: Connection) -> None:
    """Print the output of workers to stderr, until all of them have closed the pipe."""
    with os.fdopen(os.dup(reader.fileno()), "rb") as lines:
        reader.close()
        for line in lines:
            if sys.stderr is not None:  # as under pythonw
                with suppress(OSError, ValueError):  # the stream of the run was closed
                    sys.stderr.write(line.decode(errors="backslashreplace"))
                    sys.stderr.flush()
