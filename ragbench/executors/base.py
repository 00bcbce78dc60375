"""Executors: compute blocks of items in worker processes, in order, whatever becomes of a worker.

The run itself keeps stored results, the budget and the calls to servers. A worker gets a component
by its type and its options, and blocks of items; all of it is pickled.
"""

from __future__ import annotations

import functools
import os
import pickle
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ragbench.errors import AdapterError, RagbenchError

Facts = Mapping[str, object]
Item = TypeVar("Item")
# Computes a result for each item of a block with a component.
Apply: TypeAlias = Callable[[Any, list[Any]], Sequence[Any]]
# The results of a block that is under way.
Results: TypeAlias = "Future[list[Any] | Failure]"

# Environment of workers: glibc keeps freed memory, which saves a quarter of the time.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(32 << 20), "MALLOC_MMAP_THRESHOLD_": str(4 << 20)}
_MEMORY = "; is there memory for so many workers?"
# A signal that comes just before a wait is handled when the wait ends, so a wait is short.
_WAIT_S = 0.2
_FORGOTTEN_S = 5.0
_AHEAD = 4  # blocks under way per worker: the results of a slow block wait for no idle worker
_MOST_LOST = 3  # lost blocks without any result before: no single block is to blame


@dataclass(frozen=True)
class Task:
    """A component and what it does with a block; everything is importable or a plain value.

    Attributes:
        owner: How messages name the component: `judge 'nli'`.
        make: Creates the component in a worker, once for all blocks; called with `options`.
        facts: Returns what the results depend on besides the options, such as the content of a
            model.
        expected: Facts of the component in the run itself; a worker with other facts is refused.
    """

    owner: str
    make: Callable[..., Any]
    options: Mapping[str, Any]
    apply: Apply
    facts: Callable[[Any], Facts] | None = None
    expected: Facts = field(default_factory=dict)


class Failure(NamedTuple):
    """An error of a component, in place of the results of a block."""

    message: str
    is_ours: bool


@dataclass(frozen=True, slots=True)
class LostItem:
    """In place of a result: the worker ended while it computed the block, twice."""

    why: str


class WorkerEnded(RagbenchError):
    """A result that cannot be done without is lost."""


@functools.cache
def _component(pickled: bytes) -> Any:
    """Return the component of a task, created when the first block of it comes to a worker."""
    owner, make, options, facts, expected, version = pickle.loads(pickled)
    _check_same("", {"ragbench": version}, {"ragbench": _version()})
    component = make(**options)
    if facts is not None and expected:
        _check_same(f"{owner}: ", expected, facts(component))
    return component


def compute(pickled: bytes, apply: Apply, block: list[Any]) -> list[Any] | Failure:
    """Return the results of a block in a worker; an error, which may not be picklable, as text."""
    try:
        return list(apply(_component(pickled), block))
    except RagbenchError as error:
        return Failure(str(error), is_ours=True)
    except Exception:  # noqa: BLE001 - raised again by the run
        return Failure(traceback.format_exc(), is_ours=False)


def _version() -> str:
    # by name: a plain import of the package would count as an import of all its folders
    return str(import_module("ragbench").__version__)


def _check_same(owner: str, here: Facts, there: Facts) -> None:
    for name, value in here.items():
        if there.get(name) != value:
            found = f"{owner}a worker has {name} {there.get(name)}, the run has {value}"
            raise AdapterError(f"{found}; allowed: the same everywhere")


def blocks_of(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` items; the last one may be shorter.

    The size depends on the kind of work alone, so that blocks, and with them the last digits of a
    model that computes in batches, are the same for any number of workers.

    Example:
        >>> list(blocks_of("abcde", 2))
        [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block


class Executor(ABC):
    """Workers that compute blocks; they start with the first one. Threads take turns.

    Attributes:
        is_here: Whether workers read the files of this machine.
    """

    is_here: bool
    workers: int

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @property
    @abstractmethod
    def where(self) -> str | None:
        """Where workers compute, for people: `2 processes here`; None where there are none."""

    def check(self) -> None:  # noqa: B027 - an executor may need nothing
        """Raise `MissingExtra` where a package is missing, before anything is computed."""

    @abstractmethod
    def close(self) -> None:
        """End all workers, whatever they compute."""

    @abstractmethod
    def submit(self, pickled: bytes, apply: Apply, block: list[Any]) -> Results:
        """Have a worker `compute` a block; a worker that ends gives a `BrokenExecutor`."""

    def restart(self) -> str | None:
        """Replace the workers where one has ended, and return how it ended.

        None: only the blocks of that worker are lost, and the others are under way.
        """
        return None

    def has_ended(self) -> bool:
        """Return True if a worker has ended, so that blocks under way are lost."""
        return False

    def map(self, task: Task, blocks: Iterable[list[Any]]) -> Iterator[list[Any]]:
        """Yield the results of each block in order; an item of a lost block has a `LostItem`.

        Blocks are taken when a worker is about to be free. When a worker ends, the blocks that were
        under way are computed again one by one: the one that ends its worker again is lost.

        Raises:
            AdapterError: The component refuses its options or its facts, or all blocks are lost.
        """
        source = filter(None, blocks)
        options = dict(task.options)
        task_parts = (task.owner, task.make, options, task.facts, dict(task.expected), _version())
        pickled = pickle.dumps(task_parts)
        pending: deque[tuple[list[Any], Results]] = deque()
        n_lost, any_result = 0, False
        # Blocks of an abandoned map stay under way: Python 3.11 cannot end a pool with blocks
        # that were cancelled (InvalidStateError in its thread).
        with self._lock:
            while True:
                for block in islice(source, _AHEAD * self.workers - len(pending)):
                    pending.append((block, self.submit(pickled, task.apply, block)))
                if not pending:
                    return
                if self._worker_error(pending[0][1]) is not None:
                    self._compute_again(pickled, task, pending)
                block, future = pending.popleft()
                results = _checked(task, block, future)
                if isinstance(results[0], LostItem) and not any_result:
                    n_lost += 1
                    if n_lost == _MOST_LOST:
                        found = f"{task.owner}: workers ended on each of {n_lost} blocks: "
                        raise AdapterError(f"{found}{results[0].why}{_MEMORY}")
                any_result = any_result or not isinstance(results[0], LostItem)
                yield results

    def map_all(
        self,
        task: Task,
        items: Sequence[Any],
        size: int,
        advance: Callable[[int], None] = lambda n: None,
    ) -> list[Any]:
        """Return a result for each item; `advance` gets the number of items after each block.

        Raises:
            WorkerEnded: A block is lost.
        """
        results: list[Any] = []
        for block_results in self.map(task, blocks_of(items, size)):
            if isinstance(block_results[0], LostItem):
                item = str(items[len(results)])[:60]
                raise WorkerEnded(f"{task.owner}: {block_results[0].why}: {item!r}{_MEMORY}")
            results += block_results
            advance(len(block_results))
        return results

    def _compute_again(
        self, pickled: bytes, task: Task, pending: deque[tuple[list[Any], Results]]
    ) -> None:
        """Compute blocks whose worker ended once more, each by itself so that blame is exact."""
        all_lost = self.restart() is not None
        for position, (block, future) in enumerate(pending):
            if not (future.done() or all_lost) or _is_computed(future):
                continue
            again = self.submit(pickled, task.apply, block)
            if (error := self._worker_error(again)) is not None:
                why = f"a worker ended whenever it computed this: {self.restart() or error}"
                again = Future()
                again.set_result([LostItem(why)] * len(block))
            pending[position] = (block, again)

    def _worker_error(self, future: Results) -> str | None:
        """Wait for a block; return how its worker ended, or None where it did not."""
        while not wait([future], timeout=_WAIT_S).done:
            # Python forgets a block that is submitted in the moment when a process ends
            if self.has_ended() and not wait([future], timeout=_FORGOTTEN_S).done:
                return "it ended"
        return None if _is_computed(future) else str(future.exception())


def _is_computed(future: Results) -> bool:
    return future.done() and not isinstance(future.exception(), BrokenExecutor)


def _checked(task: Task, block: list[Any], future: Results) -> list[Any]:
    results = future.result()
    if isinstance(results, Failure):
        raise AdapterError(results.message) if results.is_ours else RuntimeError(results.message)
    if len(results) != len(block):
        found = f"{task.owner}: {len(results)} results for {len(block)} items"
        raise AdapterError(found)
    return results


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables that processes started in the block inherit, and take them back."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
