"""Base of executors: blocks of items computed in worker processes, in order, even if workers end.

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
from ragbench.types.display import counted

Facts = Mapping[str, object]
Item = TypeVar("Item")
# Computes a result for each item of a block with a component.
Apply: TypeAlias = Callable[[Any, list[Any]], Sequence[Any]]
# The results of a block that is under way.
Results: TypeAlias = "Future[list[Any] | Failure]"

# Environment of workers: glibc keeps freed memory, which saves a quarter of the time.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(32 << 20), "MALLOC_MMAP_THRESHOLD_": str(4 << 20)}
_MEMORY_HINT = "; is there memory for so many workers?"
# A signal that comes just before a wait is handled when the wait ends, so a wait is short.
_WAIT_S = 0.2
# Time for the block of a worker that ended to fail; a block that does not was forgotten by Python.
_FORGOTTEN_S = 5.0
# Blocks under way per worker: no worker is idle while the results of a slow block are waited for.
_BLOCKS_AHEAD = 4
# Lost blocks without any result before, from which on no single block is to blame.
_MAX_LOST_BLOCKS = 3


@dataclass(frozen=True)
class Task:
    """Component with the function that workers apply to blocks of items; it is pickled.

    So `make`, `apply` and `facts` must be importable by name, and options be picklable.
    `Executor.map` and `map_all` take it.

    Attributes:
        owner: Name of the component in messages: `judge 'nli'`.
        make: Creates the component in a worker, once for all blocks; called with `options`.
        options: Arguments of `make`.
        apply: Computes the results of a block with the component.
        facts: Returns what the results depend on besides the options, such as the content of a
            model; None checks nothing.
        expected: Facts of the component in the run itself; a worker with other facts is refused.
            Empty checks nothing.
    """

    owner: str
    make: Callable[..., Any]
    options: Mapping[str, Any]
    apply: Apply
    facts: Callable[[Any], Facts] | None = None
    expected: Facts = field(default_factory=dict)


class Failure(NamedTuple):
    """Error of a component, in place of the results of a block, as `compute` returns.

    Attributes:
        message: Text of the error, or its traceback.
        is_ours: True for an error of this package, whose text suffices.
    """

    message: str
    is_ours: bool


@dataclass(frozen=True, slots=True)
class LostItem:
    """Item without a result, because its worker ended on its block twice; `Executor.map` yields it.

    Attributes:
        why: End of the worker in words, for messages.
    """

    why: str


class WorkerEnded(RagbenchError):
    """Error of `Executor.map_all`: a worker ended on a block that the run cannot do without."""


@functools.cache
def _component(pickled: bytes) -> Any:
    """Return the component of a pickled task; a worker creates it for its first block."""
    owner, make, options, facts, expected, version = pickle.loads(pickled)
    _check_same("", {"ragbench": version}, {"ragbench": _version()})
    component = make(**options)
    if facts is not None and expected:
        _check_same(f"{owner}: ", expected, facts(component))
    return component


def compute(pickled: bytes, apply: Apply, block: list[Any]) -> list[Any] | Failure:
    """Return the results of a block in a worker; a `Failure` with the text of an error.

    An error itself may not be picklable. Errors of this package have `is_ours`; of others it has
    the traceback.
    """
    try:
        return list(apply(_component(pickled), block))
    except RagbenchError as error:
        return Failure(str(error), is_ours=True)
    except Exception:  # noqa: BLE001 - raised again by the run
        return Failure(traceback.format_exc(), is_ours=False)


def _version() -> str:
    # by name: the import contracts count a plain import of the package as one of all its folders
    return str(import_module("ragbench").__version__)


def _check_same(owner: str, expected: Facts, actual: Facts) -> None:
    """Raise AdapterError if a worker differs from the run in a fact."""
    for fact, value in expected.items():
        if actual.get(fact) != value:
            problem = f"{owner}a worker has {fact} {actual.get(fact)}, the run has {value}"
            raise AdapterError(f"{problem}; allowed: the same everywhere")


def blocks_of(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` items; the last one may be shorter.

    The size depends on the kind of work alone, so that blocks, and with them the last digits of a
    model that computes in batches, are the same for any number of workers. No items yield nothing.

    Raises:
        ValueError: The size is below 0; 0 yields nothing.

    Example:
        >>> list(blocks_of("abcde", 2))
        [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block


class Executor(ABC):
    """Workers that compute blocks of items; they start with the first block.

    `map` yields the results of blocks of items, with a `LostItem` where a worker ended twice.
    `map_all` returns all results, and raises a WorkerEnded there. Both raise an AdapterError or
    RuntimeError for an error of the component. Threads that map take turns.
    `build_executor` makes one from the config; `close` ends it.

    Attributes:
        is_here: True if workers read the files of this machine.
        workers: Number of workers; 0 for an executor without any, in whose place the run computes.
    """

    is_here: bool
    workers: int

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def check(self) -> None:  # noqa: B027 - an executor may need nothing
        """Check the package of the executor before the run; raise `MissingExtra` without it.

        Here it does nothing: the workers need no package.
        """

    @abstractmethod
    def close(self) -> None:
        """End all workers at once, also those that compute; `submit` then raises RuntimeError."""

    @abstractmethod
    def submit(self, pickled: bytes, apply: Apply, block: list[Any]) -> Results:
        """Start `compute` of a block on a worker, and return its future.

        The future raises `BrokenExecutor` if the worker ends. Errors of the component are in the
        result, as a `Failure`.

        Args:
            pickled: Component of the task, pickled once for all blocks.
            apply: Computes the results of a block with the component.
            block: Items.
        """

    def restart(self) -> str | None:
        """Replace all workers after one has ended, and return how it ended, as a phrase.

        It returns None if only the blocks of that worker are lost, and the other workers go on, as
        here.
        """
        return None

    def has_ended(self) -> bool:
        """Return True if a worker has ended, so that blocks under way are lost.

        `map` calls it while it waits for a block. Here always False: the futures tell it.
        """
        return False

    def map(self, task: Task, blocks: Iterable[list[Any]]) -> Iterator[list[Any]]:
        """Yield the results of each block in order; an item of a lost block has a `LostItem`.

        Blocks are taken from the iterable when a worker is about to be free; empty ones are left
        out. When a worker ends, the blocks under way are computed again one by one, and a block
        that ends its worker again is lost. A result is a list with a value per item; without blocks
        nothing is started. The caller has checked that there are workers: without any, nothing is
        yielded. Until the iterator has ended or is closed, another `map` waits: two in one thread
        block for ever.

        Raises:
            AdapterError: The component refuses its options or facts, returns the wrong number of
                results, or the first three blocks are lost.
            RuntimeError: The component fails with another error, or the executor is closed.
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
                for block in islice(source, _BLOCKS_AHEAD * self.workers - len(pending)):
                    pending.append((block, self.submit(pickled, task.apply, block)))
                if not pending:
                    return
                if self._worker_error(pending[0][1]) is not None:
                    self._compute_again(pickled, task, pending)
                block, future = pending.popleft()
                results = _results_of(task, block, future)
                if isinstance(results[0], LostItem) and not any_result:
                    n_lost += 1
                    if n_lost == _MAX_LOST_BLOCKS:
                        problem = f"{task.owner}: workers ended on each of {n_lost} blocks: "
                        raise AdapterError(f"{problem}{results[0].why}{_MEMORY_HINT}")
                any_result = any_result or not isinstance(results[0], LostItem)
                yield results

    def map_all(
        self,
        task: Task,
        items: Sequence[Any],
        size: int,
        advance: Callable[[int], None] = lambda n: None,
    ) -> list[Any]:
        """Return a result for each item, in order; empty without items, and without workers.

        Args:
            task: Component and function that compute a block.
            items: Items.
            size: Number of items of a block, at least 1.
            advance: Called after each block with the number of its items.

        Raises:
            WorkerEnded: A block is lost, since its worker ended twice.
            AdapterError: The component refuses its options or facts, or returns the wrong number of
                results.
            RuntimeError: The component fails with another error.
        """
        results: list[Any] = []
        for block_results in self.map(task, blocks_of(items, size)):
            if isinstance(block_results[0], LostItem):
                item = str(items[len(results)])[:60]
                raise WorkerEnded(f"{task.owner}: {block_results[0].why}: {item!r}{_MEMORY_HINT}")
            results += block_results
            advance(len(block_results))
        return results

    def _compute_again(
        self, pickled: bytes, task: Task, pending: deque[tuple[list[Any], Results]]
    ) -> None:
        """Compute blocks whose worker ended once more, in place, one by one."""
        all_lost = self.restart() is not None
        for position, (block, future) in enumerate(pending):
            if not (future.done() or all_lost) or _is_computed(future):
                continue
            second = self.submit(pickled, task.apply, block)
            if (error := self._worker_error(second)) is not None:
                reason = f"a worker ended whenever it computed this: {self.restart() or error}"
                second = Future()
                second.set_result([LostItem(reason)] * len(block))
            pending[position] = (block, second)

    def _worker_error(self, future: Results) -> str | None:
        """Wait for a block; return how its worker ended, or None if it computed the block."""
        while not wait([future], timeout=_WAIT_S).done:
            # Python forgets a block that is submitted in the moment when a process ends
            if self.has_ended() and not wait([future], timeout=_FORGOTTEN_S).done:
                return "it ended"
        return None if _is_computed(future) else str(future.exception())


def _is_computed(future: Results) -> bool:
    """Return True if a block has results or an error of its component."""
    return future.done() and not isinstance(future.exception(), BrokenExecutor)


def _results_of(task: Task, block: list[Any], future: Results) -> list[Any]:
    """Return the results of a block, one per item; raise the error of its component."""
    results = future.result()
    if isinstance(results, Failure):
        raise AdapterError(results.message) if results.is_ours else RuntimeError(results.message)
    if len(results) != len(block):
        problem = (
            f"{task.owner}: {counted(len(results), 'results')} for {counted(len(block), 'items')}"
        )
        raise AdapterError(problem)
    return results


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, which processes inherit, during a `with` block.

    Afterwards they have their former values; new ones are removed.
    """
    previous = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
