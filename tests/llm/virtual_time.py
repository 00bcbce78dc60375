"""An event loop whose clock jumps to the next timer, and a server with limits to run in it.

An hour of calls takes a second, and two runs are equal to the last digit.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from ragbench.llm import ChatReply, ChatRequest, Limits
from ragbench.llm.calls import Sender, as_completed
from ragbench.llm.failures import failure_of_status
from ragbench.llm.limits import AdaptiveLimit


class VirtualLoop(asyncio.SelectorEventLoop):
    """Waits for nothing: where only timers are left, it is at once as late as the first one."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

        def jump(timeout: float | None = None) -> list[object]:
            assert timeout is not None, "nothing left to wait for"
            self._now += timeout
            return []  # nothing here waits for a file

        self._selector.select = jump

    def time(self) -> float:
        return self._now


@dataclass
class LimitedServer:
    """A chat model behind limits of its own; complains after 2 ms, answers after `latency_s`."""

    # Requests per second, a token bucket
    rate: float = 1e9
    # Its size
    burst: float = 1e9
    # Requests at once
    concurrent: float = float("inf")
    latency_s: float = 0.1
    # Share of requests that meet a complaint without a reason
    stray: float = 0.0
    # Its status
    complaint: int = 429
    # What a complaint asks for
    retry_after_s: float = 0.05
    # After so many seconds the rate is another
    falls_to: tuple[float, float] = (float("inf"), 0.0)
    # Share of requests that take `slow_s` longer
    slow: float = 0.0
    slow_s: float = 1.0
    # From when, and for how long, nothing is answered
    stalls: tuple[float, float] = (float("inf"), 0.0)
    identity: dict[str, str] = field(default_factory=dict)
    price_share: float = 1.0

    def __post_init__(self) -> None:
        self.random = random.Random(0)
        self.tokens, self.filled_at = self.burst, 0.0
        self.answered = self.turned_away = self.at_work = self.most_at_work = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.at_work += 1
        try:
            await asyncio.sleep(0.002)
            headers = {"retry-after": str(self.retry_after_s)}
            if self.is_full():
                self.turned_away += 1
                raise failure_of_status(429, "slow down", headers=headers)
            if self.random.random() < self.stray:
                self.turned_away += 1
                raise failure_of_status(self.complaint, "slow down", headers=headers)
            extra_s = self.slow_s * (self.random.random() < self.slow)
            await asyncio.sleep(self.latency_s + extra_s)
            await self.stall()
            self.answered += 1
            return ChatReply("yes")
        finally:
            self.at_work -= 1

    async def stall(self) -> None:
        start, length = self.stalls
        self.most_at_work = max(self.most_at_work, self.at_work)
        since = asyncio.get_running_loop().time() - start
        if 0 <= since < length:
            await asyncio.sleep(length - since)

    def is_full(self) -> bool:
        time = asyncio.get_running_loop().time()
        if time > self.falls_to[0]:
            self.rate = self.falls_to[1]
        self.tokens = min(self.burst, self.tokens + (time - self.filled_at) * self.rate)
        self.filled_at = time
        if self.at_work > self.concurrent or self.tokens < 1:
            return True
        self.tokens -= 1
        return False

    async def aclose(self) -> None:
        pass


async def keep(reply: ChatReply) -> ChatReply:
    return reply


def ask_all(server: LimitedServer, n: int, concurrency: int) -> tuple[float, AdaptiveLimit]:
    """Ask a server n times; the seconds it took, and the limit as it ended."""
    loop = VirtualLoop()

    async def main() -> AdaptiveLimit:
        limits = Limits(concurrency=concurrency, timeout=None, retries=50)
        sender = Sender(server, limits, clock=loop.time)

        async def one(i: int) -> ChatReply:
            return await sender.send(ChatRequest("m", (), sample=i), keep, lambda: None)

        async for _ in as_completed(one, range(n), size=2 * concurrency + 64):
            pass
        return sender.limit

    try:
        limit = loop.run_until_complete(main())
        return loop.time(), limit
    finally:
        loop.close()
