"""Many items through an asynchronous function: a bounded number at a time, none lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")


async def as_completed(
    function: Callable[[Item], Awaitable[Value]], items: Iterable[Item], *, size: int
) -> AsyncGenerator[tuple[int, Value], None]:
    """Yield (position, value) for every item, as they are done.

    At most `size` items have been taken and not yet been yielded: memory does not grow with their
    number, and a slow consumer slows the intake.

    Raises:
        Exception: What the function raises; the others are cancelled.
    """
    todo = enumerate(items)
    done: asyncio.Queue[tuple[int, asyncio.Task[Value]]] = asyncio.Queue()
    under_way: set[asyncio.Task[Value]] = set()

    def start(position: int, item: Item) -> None:
        task = asyncio.ensure_future(_awaited(function(item)))
        under_way.add(task)
        task.add_done_callback(lambda task: done.put_nowait((position, task)))

    try:
        while True:
            while len(under_way) < size and (entry := next(todo, None)) is not None:
                start(*entry)
            if not under_way:
                return
            position, task = await done.get()
            under_way.discard(task)
            yield position, task.result()
    finally:
        await _cancelled(under_way)


async def in_order(
    function: Callable[[Item], Awaitable[Value]], items: Iterable[Item], *, size: int, ahead: int
) -> AsyncGenerator[Value, None]:
    """Yield the values in the order of the items.

    At most `size` items are under way, and at most `ahead` beyond the oldest that is not done:
    one slow item holds up the others only when they are that far ahead.
    """
    early: dict[int, Value] = {}
    due = 0
    released = asyncio.Semaphore(ahead)

    async def one(item: Item) -> Value:
        await released.acquire()
        return await function(item)

    # acquired in the order of the items: who waits is the youngest
    pairs = as_completed(one, items, size=size)
    try:
        async for position, value in pairs:
            early[position] = value
            while due in early:
                released.release()
                yield early.pop(due)
                due += 1
    finally:
        await pairs.aclose()


async def _awaited(value: Awaitable[Value]) -> Value:
    return await value


async def _cancelled(tasks: set[asyncio.Task[Value]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
