"""A limit on money and tokens that holds while calls are under way: reserve, send, settle."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass

from ragbench.errors import OptionError
from ragbench.llm.base import CallFailure, Usage
from ragbench.types import Cause


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one call may use at most."""

    tokens: int
    """Tokens, sent and generated."""
    usd: float
    """Cost; 0 where the budget does not limit it."""


class Budget:
    """Money, tokens and time that calls share, also those of several engines and threads.

    A call reserves its upper bound before it is sent and settles what it used. One that does not
    fit waits while others are under way, since they mostly use less than they reserved; where none
    is, it fails as `over_budget`, and so does every later one: were smaller ones let in, what is
    done by then would be no fair sample. What is spent exceeds the budget only where a call uses
    more than its bound.

    Args:
        usd: US dollars; None: no limit.
        tokens: Tokens, sent and generated; None: no limit.
        minutes: Wall time from now on; None: no limit. Calls under way are waited for.

    Example:
        >>> import asyncio
        >>> budget = Budget(tokens=100)
        >>> held = asyncio.run(budget.reserve(Reservation(tokens=80, usd=0.0)))
        >>> budget.settle(held, Usage(20, 10), 0.0)
        >>> budget.spent_tokens
        30
    """

    def __init__(
        self,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        minutes: float | None = None,
    ) -> None:
        for name, value in (("usd", usd), ("tokens", tokens), ("minutes", minutes)):
            if value is not None and not value >= 0:
                raise OptionError("budget", name, value, "a number >= 0, or null")
        self.usd, self.tokens, self.minutes = usd, tokens, minutes
        # a monotonic clock: one that jumps neither shortens nor prolongs the time
        self._until = None if minutes is None else time.monotonic() + 60 * minutes
        self.spent_usd, self.spent_tokens = 0.0, 0
        self.refused = 0
        """Calls that were not sent."""
        self._held_usd, self._held_tokens, self._under_way = 0.0, 0, 0
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    async def reserve(self, wanted: Reservation) -> Reservation:
        """Hold what a call may use, waiting for others if need be.

        Raises:
            CallFailure: `over_budget`: it does not fit, and nothing more will be given back.
        """
        while True:
            with self._lock:
                if self.refused or self.time_is_up:
                    self.refused += 1
                    raise CallFailure(Cause.OVER_BUDGET, self._full(wanted))
                if self._fits(wanted):
                    self._held_usd += wanted.usd
                    self._held_tokens += wanted.tokens
                    self._under_way += 1
                    return wanted
                if not self._under_way:
                    self.refused += 1
                    raise CallFailure(Cause.OVER_BUDGET, self._full(wanted))
                loop = asyncio.get_running_loop()
                change: asyncio.Future[None] = loop.create_future()
                self._waiting.append((loop, change))
            await change

    @property
    def time_is_up(self) -> bool:
        """Whether the minutes are over."""
        return self._until is not None and time.monotonic() >= self._until

    def settle(self, held: Reservation, usage: Usage, cost_usd: float | None) -> None:
        """Give back what was held, and count what was used.

        What a server does not say is counted as it was reserved.
        """
        known = usage.input_tokens is not None and usage.output_tokens is not None
        used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        self._give_back(
            held, used if known else held.tokens, held.usd if cost_usd is None else cost_usd
        )

    def release(self, held: Reservation) -> None:
        """Give back what was held by a call that was not answered."""
        self._give_back(held, 0, 0.0)

    def _give_back(self, held: Reservation, tokens: int, usd: float) -> None:
        with self._lock:
            self._held_usd -= held.usd
            self._held_tokens -= held.tokens
            self._under_way -= 1
            if not self._under_way:
                self._held_usd = 0.0  # sums of floats leave crumbs
            self.spent_usd += usd
            self.spent_tokens += tokens
            waiting, self._waiting = self._waiting, []
        for loop, change in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, change)

    def _fits(self, wanted: Reservation) -> bool:
        tokens = self.spent_tokens + self._held_tokens + wanted.tokens
        usd = self.spent_usd + self._held_usd + wanted.usd
        return (self.tokens is None or tokens <= self.tokens) and (
            self.usd is None or usd <= self.usd
        )

    def _full(self, wanted: Reservation) -> str:
        if self.time_is_up:
            return f"not sent: {self.minutes:g} minutes are over"
        parts = []
        if self.usd is not None:
            parts.append(f"{self.spent_usd:.4g} of {self.usd:g} USD")
        if self.tokens is not None:
            parts.append(f"{self.spent_tokens:,} of {self.tokens:,} tokens")
        need = f"{wanted.tokens:,} tokens" if self.usd is None else f"{wanted.usd:.4g} USD"
        return f"not sent: {' and '.join(parts)} are spent, and the call may take {need}"


def _wake(change: asyncio.Future[None]) -> None:
    if not change.done():
        change.set_result(None)
