"""Event loops in threads, so that any thread or loop can run asynchronous code; and forks of them.

A forked child process has none of the threads, locks and connections of its parent. Objects that
hold some are renewed there, see `renew_after_fork`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Generic, NoReturn, Protocol, TypeVar

Value = TypeVar("Value")

_POLL_S = 0.2


class Renewable(Protocol):
    """Object with locks, threads or connections that a forked child process cannot share."""

    def renew(self) -> None:
        """Set the fields to new locks, and to no threads and no connections; wait for nothing."""


_objects: weakref.WeakSet[Renewable] = weakref.WeakSet()
# Fields of the parent process, whose event loops and connections a child must not close.
_fields_of_parent: list[dict[str, Any]] = []


def renew_after_fork(renewable: Renewable) -> None:
    """Call `renew` of an object in each child process that is forked during its life.

    The object is held by a weak reference. It has its fields in `__dict__`, not in slots.
    """
    _objects.add(renewable)


def _renew_all() -> None:
    for renewable in list(_objects):
        _fields_of_parent.append(dict(vars(renewable)))
        renewable.renew()


os.register_at_fork(after_in_child=_renew_all)


class LoopThread:
    """Event loop in a thread of its own, started on first use.

    All asynchronous work of its owner runs there, whether a function, several threads or a notebook
    (which has a running loop already) call it. So connections belong to one loop and need no lock.
    `run` returns the value of a coroutine and blocks, `arun` is for callers in another loop.

    Args:
        name: Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Start again without a loop and without its thread."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Return the value of a coroutine, blocking the caller; Ctrl-C cancels the coroutine.

        An exception of the coroutine is raised here; a coroutine that another thread cancels raises
        `concurrent.futures.CancelledError`.

        Raises:
            RuntimeError: The caller runs in this loop itself, which would wait for ever.
        """
        # Only queues are shared: a KeyboardInterrupt inside the Condition of a
        # `concurrent.futures.Future` may leave its lock held, and the loop would wait for it.
        ended: queue.SimpleQueue[asyncio.Task[Value]] = queue.SimpleQueue()
        tasks: list[asyncio.Task[Value]] = []
        loop = self._loop_for(coroutine)

        def start() -> None:
            tasks.append(loop.create_task(coroutine))
            tasks[0].add_done_callback(ended.put)

        try:
            loop.call_soon_threadsafe(start)
            # In short steps: a signal just before an unlimited wait is noticed only at its end, so
            # that Ctrl-C would have no effect while a call runs.
            while True:
                with contextlib.suppress(queue.Empty):
                    return ended.get(timeout=_POLL_S).result()
        except asyncio.CancelledError as error:
            raise CancelledError(*error.args) from error
        except BaseException:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            raise

    async def arun(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Return the value of a coroutine without blocking the loop of the caller.

        Cancelling the caller cancels the coroutine. An exception of the coroutine is raised here.
        In the loop of this thread itself, it is awaited directly.
        """
        if asyncio.get_running_loop() is self._loop:
            return await coroutine
        loop = self._loop_for(coroutine)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))

    def iterate(self, values: AsyncGenerator[Value, None]) -> Iterator[Value]:
        """Yield the values of an asynchronous generator; leaving the loop early closes it.

        An exception of the generator is raised here. Raises RuntimeError if the value is missing
        and the caller runs in this loop itself.
        """
        steps = _Steps(values)
        try:
            while (step := self.run(steps.next())) is not None:
                yield step[0]
        finally:
            self.run(steps.close())

    def close(self) -> None:
        """Cancel all running tasks, then end the loop and its thread; it can start again later.

        Before the first use, it does nothing.
        """
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _loop_for(self, coroutine: Coroutine[Any, Any, Value]) -> asyncio.AbstractEventLoop:
        """Return the running loop, started if necessary."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(f"{self._name}: a call that blocks, from inside its own event loop")
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A daemon thread lets a program end that forgot to close the loop.
                self._thread = threading.Thread(
                    target=_run_forever, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then close its asynchronous generators and the loop."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


class _Steps(Generic[Value]):
    """Steps of an asynchronous generator; the lock lets a cancelled step end before the next."""

    def __init__(self, values: AsyncGenerator[Value, None]) -> None:
        self._values, self._lock = values, asyncio.Lock()

    async def next(self) -> tuple[Value] | None:
        """Return the next value in a tuple, or None at the end."""
        async with self._lock:
            async for value in self._values:
                return (value,)
            return None

    async def close(self) -> None:
        async with self._lock:
            await self._values.aclose()


async def _cancel_all() -> None:
    tasks = []
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            tasks.append(task)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def in_thread(function: Callable[[], Value]) -> Value:
    """Return the value of a blocking function without blocking the loop; raise its exception.

    Each call has a thread of its own, which runs to its end even if the caller is cancelled.
    """
    # A daemon thread: it cannot be stopped, and must not keep the program from ending.
    done: Future[Callable[[], Value]] = Future()
    done.set_running_or_notify_cancel()  # a later cancel cannot collide with set_result

    def run() -> None:
        try:
            value = function()
        except Exception as error:  # noqa: BLE001 - handed to who waits
            # As a value: asyncio would take a CancelledError of the function for its own, and would
            # wait for ever for a future that ends with a StopIteration.
            done.set_result(partial(_raise, error))
        else:
            done.set_result(lambda: value)

    threading.Thread(target=run, name="ragbench-call", daemon=True).start()
    return (await asyncio.wrap_future(done))()


def _raise(error: Exception) -> NoReturn:
    raise error
