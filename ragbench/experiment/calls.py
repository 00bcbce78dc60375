"""Calls of components: one outcome per item, with a timeout and a cause for each failure.

A component that raises, hangs or returns nonsense fails this item; the other items go on.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Generic, TypeVar

from msgspec import structs

from ragbench.errors import AdapterError, is_interrupt
from ragbench.executors.base import Executor, LostItem, Task, blocks_of
from ragbench.llm import CallFailure
from ragbench.llm.failures import failure_of_exception
from ragbench.llm.limits import Backoff
from ragbench.records.codec import as_json, from_line
from ragbench.records.manifest import FailedAnswer, FailedCall
from ragbench.types import (
    Cause,
    Document,
    Prediction,
    Retrieved,
    Run,
    ScoredDocument,
    ToolCall,
)
from ragbench.types.json_fields import Record
from ragbench.types.rows import Mapped

# Seconds between two checks for Ctrl-C: Python handles a signal only when a wait ends, and a wait
# for a call may last.
_WAIT_S = 0.2

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Value]):
    """Result of one call: a value, or the cause of a failure.

    Attributes:
        value: Returned value; None if the call failed, was not made, or is still to be made.
        cause: Cause of the failure; `SCORED` for a value, and for a call that is still to be made.
        detail: Message of the failure; empty if there is none.
        latency_ms: Wall time of the call in milliseconds, or the time that the answer reports; None
            if no call was made, or its worker was lost.
    """

    value: Value | None
    cause: Cause = Cause.SCORED
    detail: str = ""
    latency_ms: float | None = None

    @property
    def is_pending(self) -> bool:
        """Return True for the result of a call that is still to be made."""
        return self.value is None and self.cause is Cause.SCORED


def values_of(outcomes: Iterable[Outcome[Value]]) -> Iterator[Value]:
    """Yield the values of the calls that returned one."""
    for outcome in outcomes:
        if outcome.value is not None:
            yield outcome.value


class FileRankings(Mapped[Outcome[Retrieved]]):
    """Outcomes of a run file, a sequence by row of the query, not held in memory.

    An outcome is created at each access, by a call of `read`. It has at most `top_k` hits, without
    texts. No outcome is a failure: a query that the file lacks has no hits. `run` returns all
    rankings at once.
    """

    def __init__(
        self,
        query_ids: Sequence[str],
        read: Callable[[], Run],
        top_k: int,
        n_outside: Callable[[str], int] = lambda query_id: 0,
    ) -> None:
        """Create the outcomes of some queries, with at most `top_k` hits each.

        `read` returns the rankings of the file, the hits of each query best first. It is called at
        each access, so it should keep what it has read. `n_outside` returns the number of hits of
        a query in the file that are outside its pool, and not in the rankings.
        """
        super().__init__(self._outcome, query_ids)
        self.query_ids, self.read, self.top_k = query_ids, read, top_k
        self.n_outside = n_outside

    def _outcome(self, query_id: str) -> Outcome[Retrieved]:
        """Return the hits of a query, at most `top_k`; none if the file lacks it."""
        run = self.read()
        if (place := run.query_index.get(query_id)) is None:
            return Outcome(Retrieved([]))
        start, end = int(run.starts[place]), int(run.starts[place + 1])
        rows = slice(start, min(end, start + self.top_k))
        pairs = zip(run.documents[rows], run.scores[rows].tolist(), strict=True)
        hits = [ScoredDocument(document, score) for document, score in pairs]
        return Outcome(Retrieved(hits, n_outside=self.n_outside(query_id)))

    def longest(self) -> int:
        """Return the number of hits of the longest ranking of the queries, before the cut."""
        run = self.read()
        places = []
        for q in self.query_ids:
            if (place := run.query_index.get(q)) is not None:
                places.append(place)
        return max((int(run.starts[p + 1] - run.starts[p]) for p in places), default=0)

    def run(self, name: str) -> Run:
        """Return the rankings of the queries, cut at `top_k` hits, as a run of this name.

        A query that the file lacks is absent.
        """
        return replace(self.read().first(self.query_ids, self.top_k), name=name)


Failed = TypeVar("Failed", bound=FailedCall)
Row = TypeVar("Row", bound=Record)
Passage = TypeVar("Passage", Document, ScoredDocument)


def failed_row(row_type: type[Failed], outcome: Outcome[Any]) -> Failed:
    """Return the row of a failed call, for the store and for a run folder."""
    ms = rounded_ms(outcome)
    return row_type(cause=outcome.cause.word, detail=outcome.detail, latency_ms=ms)


def answer_row(outcome: Outcome[Prediction]) -> Prediction | FailedAnswer:
    """Return the row of an answer, for the store and for a run folder; ms to 0.001.

    Values of metadata and arguments without a JSON form become texts. Cut reasoning is left out.
    """
    answer = outcome.value
    if answer is None:
        return failed_row(FailedAnswer, outcome)
    contexts, calls = answer.contexts, answer.tool_calls
    return structs.replace(
        answer,
        contexts=None if contexts is None else [*map(with_plain_metadata, contexts)],
        latency_ms=rounded_ms(outcome),
        tool_calls=None if calls is None else tuple(map(_plain_call, calls)),
        reasoning="",
    )


def with_plain_metadata(passage: Passage) -> Passage:
    """Return a document or hit whose metadata are JSON."""
    if not passage.metadata:
        return passage
    return structs.replace(passage, metadata=as_json(dict(passage.metadata)))


def _plain_call(call: ToolCall) -> ToolCall:
    """Return a tool call whose arguments are JSON."""
    return structs.replace(call, arguments=as_json(dict(call.arguments)))


def rounded_ms(outcome: Outcome[Any]) -> float | None:
    """Return the time of a call in milliseconds, to 0.001."""
    return None if outcome.latency_ms is None else round(outcome.latency_ms, 3)


def read_outcome(row_type: type[Row], line: bytes) -> Outcome[Row]:
    """Return the outcome in a line: a row of a value, or of a failed call.

    Raises:
        DataError: The line has neither a value nor a cause.
        KeyError: The cause is unknown.
        ValueError: The line is no JSON.
    """
    call = from_line(FailedCall, line)
    cause = Cause[call.cause.upper()]
    if cause is not Cause.SCORED:
        return Outcome(None, cause, call.detail, call.latency_ms)
    return Outcome(from_line(row_type, line), latency_ms=call.latency_ms)


def without_value(outcomes: Sequence[Outcome[Value]]) -> Iterator[tuple[int, Outcome[Value]]]:
    """Yield row and outcome of each item without a value, pending ones included.

    Outcomes of a run file yield nothing.
    """
    # run files have no failures, and reading each outcome would parse the whole file
    if not isinstance(outcomes, FileRankings):
        for row, o in enumerate(outcomes):
            if o.value is None:
                yield (row, o)


class TimedOut(Exception):
    """Error of a call that exceeded its timeout, without a message; `within` raises it."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Options for the calls of one component.

    Attributes:
        owner: Name of the component in messages: `retriever 'mine'`.
        timeout: Seconds that one call may take; None sets no limit.
        concurrency: Number of calls that run side by side, at least 1.
        retries: Number of further tries after an error that may be temporary, within `timeout`.
        refused: Function that returns the reason why no more calls are allowed; None if they are.
        reached: Set to which a call adds True if it reached a server, False if its connection
            was refused or its host is unknown.
    """

    owner: str
    timeout: float | None = None
    concurrency: int = 1
    retries: int = 0
    refused: Callable[[], str | None] = lambda: None
    reached: set[bool] = field(default_factory=set)


def calling(
    function: Callable[[Item], Value], items: Sequence[Item], calls: Calls
) -> Iterator[tuple[int, Outcome[Value]]]:
    """Call a function for each item, and yield position (from 0) and outcome as calls end.

    Up to `concurrency` threads call it side by side; 1 calls it in this thread, in order. An item
    is read from `items` only when its call starts. An error of the function, also SystemExit,
    becomes the cause of an outcome. Ctrl-C, and an error of `items`, is raised, also from a thread.
    No items yield nothing. After the caller stops, no call starts; running ones are not awaited.
    """
    if calls.concurrency == 1:
        for position, item in enumerate(items):
            yield position, call_once(function, item, calls)
        return
    todo = iter(enumerate(items))
    lock, stopped = threading.Lock(), threading.Event()
    done: queue.SimpleQueue[Future[tuple[int, Outcome[Value]]]] = queue.SimpleQueue()

    def call_next(_: None) -> tuple[int, Outcome[Value]]:
        with lock:
            position, item = next(todo)
        return position, call_once(function, item, calls)

    def work() -> None:
        while not stopped.is_set():
            call = _finished_call(call_next, None)
            if isinstance(call.exception(), StopIteration):  # no item is left
                return
            done.put(call)

    # daemon threads: the threads of an executor would make Ctrl-C wait for a call that hangs
    for _ in range(min(calls.concurrency, len(items))):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in range(len(items)):
            yield _next_call(done).result()
    finally:
        stopped.set()


def _next_call(done: queue.SimpleQueue[Future[Value]]) -> Future[Value]:
    """Return the next call that ends."""
    # A wait without a limit would keep Python from handling Ctrl-C.
    while True:
        try:
            return done.get(timeout=_WAIT_S)
        except queue.Empty:
            continue


def call_once(function: Callable[[Item], Value], item: Item, calls: Calls) -> Outcome[Value]:
    """Call a function for one item; return its value or the cause of the failure, with its time.

    No error of the function is raised, also no SystemExit, except for Ctrl-C. Causes are
    `OVER_BUDGET` if no call is allowed, `TIMEOUT` after the time limit, `MALFORMED` for an
    AdapterError, that of a CallFailure, and for all else that of `failure_of_exception`. The detail
    begins with the owner of the calls.
    """
    if (reason := calls.refused()) is not None:
        return Outcome(None, Cause.OVER_BUDGET, f"{calls.owner}: {reason}")
    start, is_reached = time.perf_counter(), True
    try:
        value = within(calls.timeout, _with_retries(function, calls), item)
        return Outcome(value, latency_ms=_ms_since(start))
    except TimedOut:
        detail = f"{calls.owner} did not answer within {calls.timeout:g} s"
        return Outcome(None, Cause.TIMEOUT, detail, _ms_since(start))
    except AdapterError as error:
        return Outcome(None, Cause.MALFORMED, f"{calls.owner}: {error}", _ms_since(start))
    except CallFailure as failure:  # raised by a client, which knows the cause
        is_reached = not failure.unreachable
        detail = f"{calls.owner}: {failure.detail}"
        return Outcome(None, failure.cause, detail, _ms_since(start))
    except BaseException as error:  # user code may also raise SystemExit
        if is_interrupt(error):
            raise
        # a client in the user's code may raise a timeout, a refused connection or an HTTP error
        client_failure = failure_of_exception(error)
        is_reached = not client_failure.unreachable
        detail = f"{calls.owner}: {type(error).__name__}: {error}"
        return Outcome(None, client_failure.cause, detail, _ms_since(start))
    finally:
        calls.reached.add(is_reached)


def _with_retries(function: Callable[[Item], Value], calls: Calls) -> Callable[[Item], Value]:
    """Return a function that tries again after errors that may be temporary."""
    if not calls.retries:
        return function

    def call(item: Item) -> Value:
        # no try may start after the time limit, when nobody waits for its value
        deadline = math.inf if calls.timeout is None else time.monotonic() + calls.timeout
        backoff, tried = Backoff(seed=0), 0
        while True:
            tried += 1
            try:
                return function(item)
            except Exception as error:
                failure = error if isinstance(error, CallFailure) else failure_of_exception(error)
                if not failure.retryable:
                    raise
                wait_s = backoff.seconds(failure, tried)
                if tried > calls.retries or time.monotonic() + wait_s >= deadline:
                    tries = f"; tried {tried} times" if tried > 1 else ""
                    raise replace(failure, detail=failure.detail + tries) from error
            time.sleep(wait_s)

    return call


def call_on(
    executor: Executor,
    task: Task,
    items: Sequence[Any],
    block: int,
    calls: Calls,
    read: Callable[[Any], Outcome[Value]],
) -> Iterator[tuple[int, Outcome[Value]]]:
    """Compute items on the workers of an executor, and yield position and outcome in order.

    Items fail with `ERROR` if their block is lost, and with `OVER_BUDGET` if no more calls are
    allowed. Positions are from 0.

    Args:
        executor: Executor with the workers.
        task: Component, and the function that workers apply to a block of items.
        items: Items to compute.
        block: Number of items that are sent to a worker together.
        calls: Owner for messages, and the check whether calls are allowed.
        read: Function from the result of an item to its outcome.

    Raises:
        AdapterError: The component refuses its options or facts, returns the wrong number of
            results, or the first three blocks are lost.
        RuntimeError: The component fails with another error, or the executor is closed.
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
    for row in range(position, len(items)):
        yield row, Outcome(None, Cause.OVER_BUDGET, f"{calls.owner}: {calls.refused()}")


def with_latency(outcome: Outcome[Any]) -> Outcome[Any]:
    """Return an outcome with the latency that its answer reports, else with its own.

    An outcome without a value is returned as it is.
    """
    latency_ms = None if outcome.value is None else outcome.value.latency_ms
    return outcome if latency_ms is None else replace(outcome, latency_ms=latency_ms)


def within(timeout: float | None, function: Callable[[Item], Value], item: Item) -> Value:
    """Return the value of a call that takes at most `timeout` seconds; None sets no limit.

    Python cannot end a call that hangs: its thread stays as a daemon, which does not keep the
    program alive. In the main thread Ctrl-C ends the wait, not the call.

    Raises:
        TimedOut: The call took longer. Errors of the call are raised as they are.
    """
    if timeout is None:
        return function(item)
    ended: list[Future[Value]] = []

    def run() -> None:
        ended.append(_finished_call(function, item))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    deadline = time.monotonic() + timeout
    while thread.is_alive() and (seconds := deadline - time.monotonic()) > 0:
        thread.join(min(seconds, _WAIT_S))
    if not ended:
        raise TimedOut
    return ended[0].result()


def _finished_call(function: Callable[[Item], Value], item: Item) -> Future[Value]:
    """Return a finished future with the value of a call, or its error, for another thread."""
    # `result()` raises the error, also SystemExit and Ctrl-C, in the thread that asks for it.
    call: Future[Value] = Future()
    try:
        call.set_result(function(item))
    except BaseException as error:  # noqa: BLE001 - raised by `result()` in the waiting thread
        call.set_exception(error)
    return call


def _ms_since(start: float) -> float:
    return (time.perf_counter() - start) * 1000
