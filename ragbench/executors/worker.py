"""A worker: it opens tasks by their names, and computes blocks of items."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from typing import BinaryIO

from ragbench.errors import RagbenchError
from ragbench.executors.base import Facts, Opened, versions
from ragbench.registry import load_object


class Worker:
    """Answers the messages of a `Pool`."""

    def __init__(self) -> None:
        self._opened: dict[str, Opened] = {}

    def answer(self, message: str) -> str:
        """Answer one message; what is raised is an answer, too."""
        try:
            asked = json.loads(message)  # noqa: TID251  written by `pool`
            return json.dumps(self._answer(asked))
        except Exception as error:  # noqa: BLE001 - told to the run, which raises it again
            known = isinstance(error, RagbenchError)
            told = str(error) if known else traceback.format_exc()
            return json.dumps({"error": told, "known": known})

    def _answer(self, message: Facts) -> Facts:
        if "open" in message:
            opened: Opened = load_object(message["opener"])(**message["given"])
            self._opened[message["open"]] = opened
            return {"about": dict(opened.about)}
        if "do" in message:
            return {"results": list(self._opened[message["do"]].compute(message["items"]))}
        return {"versions": versions()}


def serve() -> None:
    """Answer what comes on the standard input, a line each, until it is closed.

    That is also when the run has been killed: the worker ends at once, in whatever it computes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its workers
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not stand among the replies
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, messages), daemon=True).start()
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
