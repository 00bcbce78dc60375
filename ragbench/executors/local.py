"""Processes on this machine: `executor: {type: local, workers: 4}`."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, Annotated, BinaryIO

from ragbench.executors.base import MALLOC, Heard, Worker
from ragbench.registry import Option

_LOOK_UP_S = 0.2
"""A signal that comes just before a wait is noticed when the wait ends: it ends soon."""
_BUFFER = 1 << 18  # bytes that are read at once
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ragbench.executors.local import serve; serve()"
)
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
"""A worker is one core: what threads share would have to wait for the others."""


class Local:
    """This machine: all in one process, or what computes in `workers` processes beside it."""

    is_here = True

    def __init__(
        self,
        *,
        workers: Annotated[
            int | None,
            Option(
                "Processes that compute text metrics, local judges and models, and search BM25 "
                "indexes, a core each; null: none.",
                ge=1,
            ),
        ] = None,
    ) -> None:
        self._workers = workers

    @property
    def where(self) -> str | None:
        """How many processes there are; None where there are none."""
        if self._workers is None:
            return None
        return f"{self._workers} process{'es' if self._workers > 1 else ''} on this machine"

    def crew(self) -> Processes:
        """Return the workers; none is started yet."""
        return Processes(self._workers or 1)


class Processes:
    """Worker processes that are told and heard over pipes.

    They are started anew, not forked: a fork would copy locks that other threads hold. None
    outlives the run, however that ends: a worker whose pipe is closed ends.
    """

    is_here = True

    def __init__(self, size: int) -> None:
        self.size = size
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._heard: queue.SimpleQueue[tuple[int, subprocess.Popen[bytes], bytes]] = (
            queue.SimpleQueue()
        )
        self._closed = False

    def start(self, worker: int) -> None:
        """Start a process."""
        if self._closed:
            raise RuntimeError("the workers were ended")
        if worker in self._started:
            _end(self._started[worker])
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=_BUFFER,
            env={**dict.fromkeys(_ONE_THREAD, "1"), **MALLOC, **os.environ},
            start_new_session=True,  # Ctrl-C is for the run alone
        )
        self._started[worker] = process
        threading.Thread(target=self._listen, args=(worker, process), daemon=True).start()
        threading.Thread(target=_pass_on, args=(process.stderr,), daemon=True).start()

    def _listen(self, worker: int, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is not None:
            with process.stdout as lines:
                for line in lines:
                    self._heard.put((worker, process, line))
        self._heard.put((worker, process, b""))

    def tell(self, worker: int, message: str) -> None:
        """Write a line."""
        stream = self._started[worker].stdin
        try:
            if stream is not None:
                stream.write(message.encode() + b"\n")
                stream.flush()
        except OSError:  # it has ended, which is heard
            return

    def hear(self) -> Heard:
        """Wait for the next line of any process, or for its end."""
        while not self._closed:
            try:
                worker, process, line = self._heard.get(timeout=_LOOK_UP_S)
            except queue.Empty:
                continue
            if process is not self._started[worker]:
                continue  # one that was replaced
            if line.endswith(b"\n"):
                return Heard(worker, line.decode())
            return Heard(worker, None, _fate(process))
        raise RuntimeError("the workers were ended")

    def close(self) -> None:
        """Kill all, and wait for their end."""
        self._closed = True
        for process in self._started.values():
            process.kill()
        for process in self._started.values():
            _end(process)


def _pass_on(said: IO[bytes] | None) -> None:
    """Print what a worker's components print: here, where control characters are shown as symbols.

    A worker that had the terminal itself would go around that, and around what hides secrets.
    """
    if said is None:
        return
    with said:
        while line := said.readline(_BUFFER):
            if sys.stderr is not None:  # as under pythonw
                with suppress(OSError, ValueError):  # the run's own stream was closed
                    sys.stderr.write(line.decode(errors="backslashreplace"))
                    sys.stderr.flush()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):  # what was not written any more
            process.stdin.close()


def _fate(process: subprocess.Popen[bytes]) -> str:
    process.kill()  # its output is closed: whatever it still does, nobody hears of it
    code = process.wait()
    if code >= 0:
        return f"it ended with code {code}"
    known = {each.value: each.name for each in signal.Signals}  # most of real time have no name
    return f"it was ended by {known.get(-code, f'signal {-code}')}"


def serve() -> None:
    """Answer what comes on the standard input, a line each, until it is closed.

    That is also when the run has been killed: the worker ends at once, in whatever it computes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its workers
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not stand among the replies
    sys.stdout = sys.stderr  # and is passed on line by line, not when a buffer is full
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    lines = os.fdopen(os.dup(0), "rb", _BUFFER)
    threading.Thread(target=_read, args=(lines, messages), daemon=True).start()
    worker = Worker()
    while True:
        reply = worker.answer(messages.get().decode())
        try:
            replies.write(reply.encode() + b"\n")
            replies.flush()
        except BrokenPipeError:
            os._exit(0)


def _read(stream: BinaryIO, messages: queue.SimpleQueue[bytes]) -> None:
    for line in stream:
        messages.put(line)
    os._exit(0)
