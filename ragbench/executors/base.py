"""What an executor is: it starts workers, to which `pool` hands blocks of items.

A worker gets names and JSON, and makes of them what it needs: the run alone has the stored results,
the budget, and the calls to servers, so that a block that is computed again costs nothing.
"""

from __future__ import annotations

import json
import platform
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from ragbench.errors import RagbenchError
from ragbench.registry import load_object
from ragbench.signature import fingerprint_json

Json = Any
"""A value of JSON; what stands in it, a task and its opener know."""
Facts = Mapping[str, Json]

MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(32 << 20), "MALLOC_MMAP_THRESHOLD_": str(4 << 20)}
"""Environment of workers: glibc keeps so much that is free, which saves a quarter of the time."""


def versions() -> Facts:
    """Return the versions that a worker and the run must share."""
    # by its name: whoever imports the package itself seems to import all that it offers
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "ragbench": import_module("ragbench").__version__,
    }


@dataclass(frozen=True)
class Task:
    """What is done to the items of some blocks: all that a worker must know of it, as JSON."""

    owner: str
    """How messages name it: `judge 'nli'`."""
    opener: str
    """`module:name` of a function that makes an `Opened` of `given`."""
    given: Facts
    about: Facts = field(default_factory=dict)
    """What it must say of itself on every worker, else its results would be others."""

    @cached_property
    def id(self) -> str:
        """Equal for equal tasks: a worker opens each once."""
        return fingerprint_json([self.opener, dict(self.given)])


class Opened(NamedTuple):
    """A task on a worker, its model loaded."""

    compute: Callable[[list[Json]], Sequence[Json]]
    """Turns a block of items into a result for each; JSON on both sides."""
    about: Facts = MappingProxyType({})
    """What it says of itself, the same on every worker: the model that it has, and the like."""
    alone: bool = True
    """Whether an item has the same result whatever stands beside it in a block; else all blocks
    have one size, so that they are the same however many workers there are."""


class Worker:
    """Answers the messages of a `Pool`: opens tasks by their names, and computes blocks."""

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
            return {"about": dict(opened.about), "alone": opened.alone}
        if "do" in message:
            start = time.perf_counter()
            results = list(self._opened[message["do"]].compute(message["items"]))
            return {"results": results, "seconds": time.perf_counter() - start}
        return {"versions": versions()}


@dataclass(frozen=True, slots=True)
class Lost:
    """In the place of a result: computing the item ended two workers."""

    why: str


class WorkerEnded(Exception):
    """A result that is needed is lost."""


class Heard(NamedTuple):
    """What came of a worker."""

    worker: int
    reply: str | None
    """The answer to the first message that it has not answered yet; None: it has ended."""
    why: str = ""
    """How it ended."""


class Crew(Protocol):
    """Workers that answer messages, each in their order; `worker` counts them from 0."""

    size: int
    is_here: bool
    """Whether they read the files of this machine."""

    def start(self, worker: int) -> None:
        """Start a worker, also in the place of one that has ended."""

    def tell(self, worker: int, message: str) -> None:
        """Send a message, and do not wait for the answer; one that has ended gets nothing."""

    def hear(self) -> Heard:
        """Wait for what comes next of any worker."""

    def close(self) -> None:
        """End all workers; none is left."""


class Executor(Protocol):
    """An entry of the family: its constructor takes the options of the YAML."""

    @property
    def where(self) -> str | None:
        """Where workers compute, for people: `2 processes here`; None where there are none."""

    @property
    def is_here(self) -> bool:
        """Whether they read the files of this machine."""

    def crew(self) -> Crew:
        """Return the workers; none is started yet."""
