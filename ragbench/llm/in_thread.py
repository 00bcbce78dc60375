"""A blocking call, awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


async def in_thread(function: Callable[[], Value]) -> Value:
    """Return what a function returns, without blocking the loop.

    Its thread keeps nobody waiting: it cannot be stopped from outside, and dies with the program.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Value] = loop.create_future()

    def tell(result: Value | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def run() -> None:
        try:
            outcome: tuple[Value | None, BaseException | None] = (function(), None)
        except Exception as error:  # noqa: BLE001 - handed to who waits
            outcome = (None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, *outcome)

    threading.Thread(target=run, name="ragbench-call", daemon=True).start()
    return await done
