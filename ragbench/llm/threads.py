"""Asynchronous code called from anywhere, also inside a running event loop; and the reverse."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar

Value = TypeVar("Value")

_LOOK_UP_S = 0.2


class LoopThread:
    """An event loop in a thread of its own, started on first use.

    All asynchronous work of its owner runs there, whatever calls it: a plain function, a notebook's
    cell (where a loop runs already), several threads. So connections belong to one loop, and
    nothing needs a lock.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Run a coroutine to its end and return its value; Ctrl-C cancels it."""
        loop, call = self._loop_for(coroutine), _Call(coroutine)
        try:
            loop.call_soon_threadsafe(call.start)
            return call.wait()
        except BaseException:
            # Ctrl-C may have come at any point of this, also before the start
            if not loop.is_closed():
                loop.call_soon_threadsafe(call.cancel)
            raise

    async def arun(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Run a coroutine from whichever loop; cancelling the caller cancels it."""
        if asyncio.get_running_loop() is self._loop:
            return await coroutine
        loop = self._loop_for(coroutine)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))

    def iterate(self, values: AsyncGenerator[Value, None]) -> Iterator[Value]:
        """Yield what an asynchronous generator yields; leaving early closes it."""
        steps = _Steps(values)
        try:
            while (step := self.run(steps.next())) is not None:
                yield step[0]
        finally:
            self.run(steps.close())

    def close(self) -> None:
        """Cancel what is under way, then end the loop and its thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _loop_for(self, coroutine: Coroutine[Any, Any, Value]) -> asyncio.AbstractEventLoop:
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(f"{self._name}: a call that blocks, from inside its own event loop")
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # a daemon: a program that forgets to close must still end
                self._thread = threading.Thread(
                    target=_run_forever, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


class _Call(Generic[Value]):
    """A coroutine that runs in a loop while another thread waits for it.

    The waiting is done by a `SimpleQueue`, not by a future: a `KeyboardInterrupt` within the
    `Condition` of a future may leave its lock released, and comes out as a RuntimeError.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Value]) -> None:
        self._coroutine, self._is_off = coroutine, False
        self._task: asyncio.Task[Value] | None = None
        self._ended: queue.SimpleQueue[Callable[[], Value]] = queue.SimpleQueue()

    def start(self) -> None:
        """Begin; called in the loop."""
        if not self._is_off:
            self._task = asyncio.get_running_loop().create_task(self._coroutine)
            self._task.add_done_callback(self._tell)

    def cancel(self) -> None:
        """Cancel it, also before it has begun; called in the loop."""
        self._is_off = True
        if self._task is None:
            self._coroutine.close()
        else:
            self._task.cancel()

    def wait(self) -> Value:
        """Return what came of it, looking up now and then.

        A signal that comes just before a wait without a limit is noticed when the wait ends:
        Ctrl-C would have no effect for as long as a call takes.
        """
        result = None
        while result is None:
            with contextlib.suppress(queue.Empty):
                result = self._ended.get(timeout=_LOOK_UP_S)
        return result()

    def _tell(self, task: asyncio.Task[Value]) -> None:
        if not task.cancelled():
            task.exception()  # seen, also where nothing waits for it any more
        self._ended.put(task.result)


class _Steps(Generic[Value]):
    """An asynchronous generator, step by step: one that is cancelled ends before the next."""

    def __init__(self, values: AsyncGenerator[Value, None]) -> None:
        self._values, self._lock = values, asyncio.Lock()

    async def next(self) -> tuple[Value] | None:
        async with self._lock:
            async for value in self._values:
                return (value,)
            return None

    async def close(self) -> None:
        async with self._lock:
            await self._values.aclose()


async def _cancel_all() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def in_thread(function: Callable[[], Value]) -> Value:
    """Return what a function returns, without blocking the loop.

    Its thread is a daemon: it cannot be stopped from outside, and ends with the program.
    """
    done: Future[Callable[[], Value]] = Future()
    done.set_running_or_notify_cancel()  # from here on it ends with a result or an error

    def run() -> None:
        try:
            value = function()
        except Exception as error:  # noqa: BLE001 - handed to who waits
            # as a value: asyncio takes a cancelled future of the user's code for its own
            done.set_result(partial(_raise, error))
        else:
            done.set_result(lambda: value)

    threading.Thread(target=run, name="ragbench-call", daemon=True).start()
    return (await asyncio.wrap_future(done))()


def _raise(error: Exception) -> NoReturn:
    raise error
