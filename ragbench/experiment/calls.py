"""Calling the user's components: one outcome per item, whatever they do.

A component that raises, hangs or answers nonsense fails that item by cause; the others go on.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Generic, TypeVar

from ragbench.errors import AdapterError, is_interrupt
from ragbench.executors.base import Executor, LostItem, Task, blocks_of
from ragbench.llm import CallFailure
from ragbench.types import Cause, Query, Retrieved, Run, ScoredDocument
from ragbench.types.rows import Mapped

# A signal that comes just before a wait is noticed when the wait ends: it ends soon, so that Ctrl-C
# need not wait for a call.
_LOOK_UP_S = 0.2

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Value]):
    """What came of one call: a value, or why there is none.

    Attributes:
        latency_ms: Wall time of the call, in milliseconds; None where it was not made.
    """

    value: Value | None
    cause: Cause = Cause.SCORED
    detail: str = ""
    latency_ms: float | None = None


class FileRankings(Mapped[Outcome[Retrieved]]):
    """Outcomes of a run file, made from its rows on access: they are neither held nor stored.

    No outcome is a failure: a query that the file lacks has no hits.
    """

    def __init__(self, query_ids: Sequence[str], read: Callable[[], Run], top_k: int) -> None:
        """`read` returns the rankings of the file, the hits of each query best first."""
        super().__init__(self._outcome, query_ids)
        self.query_ids, self.read, self.top_k = query_ids, read, top_k

    def _outcome(self, query_id: str) -> Outcome[Retrieved]:
        run = self.read()
        if (place := run.query_index.get(query_id)) is None:
            return Outcome(Retrieved([]))
        start, end = int(run.starts[place]), int(run.starts[place + 1])
        rows = slice(start, min(end, start + self.top_k))
        hits = zip(run.documents[rows], run.scores[rows].tolist(), strict=True)
        return Outcome(Retrieved([ScoredDocument(document, score) for document, score in hits]))

    def run(self, name: str) -> Run:
        """Return the rankings of the queries, cut at `top_k` hits."""
        return replace(self.read().first(self.query_ids, self.top_k), name=name)


def without_value(outcomes: Sequence[Outcome[Value]]) -> Iterator[tuple[int, Outcome[Value]]]:
    """Yield row and outcome of each item without a value."""
    if not isinstance(outcomes, FileRankings):  # these have no failure: spare a look at each
        yield from ((row, o) for row, o in enumerate(outcomes) if o.value is None)


class TimedOut(Exception):
    """A call that took longer than it may."""


@dataclass(frozen=True, slots=True)
class Calls:
    """How a component is called.

    Attributes:
        owner: How messages name it: `retriever 'mine'`.
        timeout: Seconds that one call may take; None waits for ever.
        refused: Says why no further call may be made; None while one may.
    """

    owner: str
    timeout: float | None = None
    concurrency: int = 1
    refused: Callable[[], str | None] = lambda: None


def calling(
    function: Callable[[Item], Value], items: Sequence[Item], calls: Calls
) -> Iterator[tuple[int, Outcome[Value]]]:
    """Yield position and outcome of each item as they come; `concurrency` calls are under way.

    Items are looked at when it is their turn.
    """
    if calls.concurrency == 1:
        for position, item in enumerate(items):
            yield position, call_once(function, item, calls)
        return
    todo = iter(enumerate(items))
    lock, stopped = threading.Lock(), threading.Event()
    done: queue.SimpleQueue[tuple[int, Outcome[Value]]] = queue.SimpleQueue()

    def work() -> None:
        while not stopped.is_set():
            with lock:
                entry = next(todo, None)
            if entry is None:
                return
            done.put((entry[0], call_once(function, entry[1], calls)))

    # daemons, not an executor: Ctrl-C must not wait for a call that hangs
    for _ in range(min(calls.concurrency, len(items))):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in range(len(items)):
            yield _next_of(done)
    finally:
        stopped.set()


def _next_of(done: queue.SimpleQueue[tuple[int, Outcome[Value]]]) -> tuple[int, Outcome[Value]]:
    while True:
        try:
            return done.get(timeout=_LOOK_UP_S)
        except queue.Empty:
            continue


def call_once(function: Callable[[Item], Value], item: Item, calls: Calls) -> Outcome[Value]:
    """Call a function once and tell what came of it."""
    if (reason := calls.refused()) is not None:
        return Outcome(None, Cause.OVER_BUDGET, f"{calls.owner}: {reason}")
    start = time.perf_counter()
    try:
        value = within(calls.timeout, function, item)
    except TimedOut:
        detail = f"{calls.owner} did not answer within {calls.timeout:g} s"
        return Outcome(None, Cause.TIMEOUT, detail, _ms_since(start))
    except AdapterError as error:
        return Outcome(None, Cause.MALFORMED, f"{calls.owner}: {error}", _ms_since(start))
    except CallFailure as failure:  # a server's: its cause is known
        detail = f"{calls.owner}: {failure.detail}"
        return Outcome(None, failure.cause, detail, _ms_since(start))
    except BaseException as error:  # a user's code raises anything
        if is_interrupt(error):
            raise
        detail = f"{calls.owner}: {type(error).__name__}: {error}"
        return Outcome(None, Cause.ERROR, detail, _ms_since(start))
    return Outcome(value, latency_ms=_ms_since(start))


def call_on(
    executor: Executor,
    task: Task,
    items: Sequence[Any],
    block: int,
    calls: Calls,
    read: Callable[[Any], Outcome[Value]],
) -> Iterator[tuple[int, Outcome[Value]]]:
    """Yield the position and the outcome of each item, computed by workers in blocks, in order.

    The items of a lost block have failed. When no further call may be made, no item is sent.
    """
    allowed = takewhile(lambda item: calls.refused() is None, items)
    position = 0
    for results in executor.map(task, blocks_of(allowed, block)):
        for result in results:
            if isinstance(result, LostItem):
                yield position, Outcome(None, Cause.ERROR, f"{calls.owner}: {result.why}")
            else:
                yield position, read(result)
            position += 1
    for refused in range(position, len(items)):
        yield refused, Outcome(None, Cause.OVER_BUDGET, f"{calls.owner}: {calls.refused()}")


def naming(
    queries: Sequence[Query], told: Iterable[tuple[int, Outcome[Value]]]
) -> Iterator[tuple[int, Outcome[Value]]]:
    """Yield outcomes whose detail, where they have one, names the query that they came of."""
    for position, outcome in told:
        detail = f"{outcome.detail} (query {queries[position].id!r})" if outcome.detail else ""
        yield position, replace(outcome, detail=detail)


def as_told(outcome: Outcome[Any]) -> Outcome[Any]:
    """Return an outcome with the latency that its answer tells, where it does."""
    told = None if outcome.value is None else outcome.value.latency_ms
    return outcome if told is None else replace(outcome, latency_ms=told)


def within(timeout: float | None, function: Callable[[Item], Value], item: Item) -> Value:
    """Call a function and wait for it no longer than `timeout` seconds.

    A call that hangs cannot be ended from outside: its thread is left behind as a daemon, which
    does not keep the program alive. It raises `TimedOut`.
    """
    if timeout is None:
        return function(item)
    result: list[Value] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            result.append(function(item))
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until = time.monotonic() + timeout
    while thread.is_alive() and (left := until - time.monotonic()) > 0:
        thread.join(min(left, _LOOK_UP_S))
    if raised:
        raise raised[0]
    if not result:
        raise TimedOut
    return result[0]


def _ms_since(start: float) -> float:
    return (time.perf_counter() - start) * 1000
