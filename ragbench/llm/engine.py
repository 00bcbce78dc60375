"""The chat engine: one model behind limits, a reply store, a budget and a count of what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from ragbench.errors import OptionError
from ragbench.llm.base import CallFailure, ChatModel, ChatReply, ChatRequest
from ragbench.llm.calls import FirstCalls, Sender, as_completed
from ragbench.llm.limits import Limits
from ragbench.llm.replies import Replies, request_key
from ragbench.llm.threads import LoopThread
from ragbench.llm.usage import Budget, Prices, Reservation, Totals, upper_bound

Item = TypeVar("Item")
Value = TypeVar("Value")

_WAITING = 64  # items taken beyond twice the concurrency: they hang, or wait to be tried again


class ChatEngine:
    """Asks one chat model, from any thread and inside any event loop.

    A request is looked up in the store, else reserved in the budget, sent within the limits, put on
    disk, and only then returned. Equal requests that are under way at once are sent once, also from
    processes that share the store. The caller closes `replies`; engines may share a `budget`.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        limits: Limits | None = None,
        replies: Replies | None = None,
        prices: Prices | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.model, self.limits = model, limits or Limits()
        self.replies, self.budget = replies, budget
        self.prices = prices or Prices.load()
        self.totals = Totals()
        self._sender, self._first = Sender(model, self.limits), FirstCalls()
        self._longest: dict[str, int] = {}
        self._endless: set[str] = set()
        self._loop = LoopThread("ragbench-chat")
        self._under_way: dict[str, _UnderWay] = {}
        self._closed = False

    def ask(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request; a `CallFailure` where there is none."""
        return self._loop.run(self._ask(request))

    async def aask(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request, as `ask` does."""
        return await self._loop.arun(self._ask(request))

    def each(
        self, function: Callable[[Item], Awaitable[Value]], items: Iterable[Item]
    ) -> Iterator[tuple[int, Value]]:
        """Yield (position, value) of an asynchronous function of every item, as they are done.

        The function may ask as often as an item needs (`await engine.aask(...)`). What it raises
        ends all; it turns failures into values itself.
        """
        return self._loop.iterate(as_completed(function, items, size=self._size))

    async def aeach(
        self, function: Callable[[Item], Awaitable[Value]], items: Iterable[Item]
    ) -> list[tuple[int, Value]]:
        """Return the pairs that `each` yields, without blocking the running loop."""

        async def collect() -> list[tuple[int, Value]]:
            return [pair async for pair in as_completed(function, items, size=self._size)]

        return await self._loop.arun(collect())

    def run(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Run a coroutine in the engine's own loop and return its value."""
        return self._loop.run(coroutine)

    def close(self) -> None:
        """Cancel what is under way and give back the connections."""
        if not self._closed:
            self._closed = True
            self._loop.run(self.model.aclose())
            self._loop.close()

    def __enter__(self) -> ChatEngine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def _size(self) -> int:
        return 2 * self.limits.concurrency + _WAITING

    async def _ask(self, request: ChatRequest) -> ChatReply:
        key = request_key(self.model.identity, request)
        call = self._under_way.get(key)
        if call is not None:
            reply = replace(await call.joined(), stored=True)  # paid for once, by the first
            self.totals.add(reply)
            return reply
        call = self._under_way[key] = _UnderWay(self._fetch(key, request))
        call.task.add_done_callback(lambda task: self._under_way.pop(key, None))
        return await call.joined()

    async def _read_or_send(self, key: str, request: ChatRequest) -> ChatReply:
        if self.replies is None:
            return await self._send_in_turn(key, request)
        if (reply := self.replies.get(key)) is not None:
            return reply
        if not self.replies.writable:
            raise self.replies.missing(request, key)
        # of runs that share the store, the first one sends; the others read its reply
        async with self.replies.call_locks.hold(key):
            return self.replies.get(key) or await self._send_in_turn(key, request)

    async def _fetch(self, key: str, request: ChatRequest) -> ChatReply:
        reply = await self._read_or_send(key, request)
        if reply.usage.usd is None and reply.stored:  # stored before its price was known
            reply = self._priced(request, reply)
        self.totals.add(reply)
        return reply

    def _priced(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        usual = self.prices.cost_usd(request.model, reply.usage)
        usd = None if usual is None else usual * reply.price_share
        return replace(reply, usage=replace(reply.usage, usd=usd))

    async def _send_in_turn(self, key: str, request: ChatRequest) -> ChatReply:
        """Send, once it is known what the model refuses; waiting holds neither place nor budget."""
        # a model may be one by its shape alone
        parameters = getattr(self.model, "parameters", None)
        if parameters is None:
            return await self._send(key, request)
        async with self._first.turn(request.model, parameters(request)):
            return await self._send(key, request)

    async def _send(self, key: str, request: ChatRequest) -> ChatReply:
        held = None if self.budget is None else await self.budget.reserve(self._bound(request))

        async def keep(reply: ChatReply) -> ChatReply:
            nonlocal held
            paid = self._priced(request, reply)
            self._note_length(request, paid)
            if self.budget is not None and held is not None:
                self.budget.settle(held, paid.usage)
                held = None
            if self.replies is None:
                return paid
            return await asyncio.wrap_future(self.replies.store(key, paid))

        try:
            return await self._sender.send(request, keep)
        except CallFailure:
            self.totals.failed += 1
            raise
        finally:
            if self.budget is not None and held is not None:
                self.budget.release(held)

    def _note_length(self, request: ChatRequest, reply: ChatReply) -> None:
        """Note how long replies of a model are, and whether their length can be limited."""
        seen, model = reply.usage.output_tokens or 0, request.model
        self._longest[model] = max(seen, self._longest.get(model, 0))
        if "max_tokens" in reply.left_out:
            self._endless.add(model)

    def _bound(self, request: ChatRequest) -> Reservation:
        sent = replace(request, max_tokens=None) if request.model in self._endless else request
        usage = upper_bound(sent, self._longest.get(request.model, 0))
        if self.budget is None or self.budget.usd is None:
            usd: float | None = 0.0
        else:
            usual = self.prices.cost_usd(request.model, usage)
            # a model may be one by its shape alone
            usd = None if usual is None else usual * getattr(self.model, "price_share", 1.0)
        if usd is None:
            found = f"a limit, with {request.model!r}, whose price is not known"
            allowed = (
                "models of the price table; add this one to a file of prices, or to its `free`"
            )
            raise OptionError("budget", "usd", found, allowed)
        return Reservation((usage.input_tokens or 0) + (usage.output_tokens or 0), usd)


class _UnderWay:
    """One request under way, and how many wait for it; the last to give up cancels it."""

    def __init__(self, coroutine: Coroutine[Any, Any, ChatReply]) -> None:
        self.task = asyncio.ensure_future(coroutine)
        self.task.add_done_callback(_looked_at)
        self._waiting = 0

    async def joined(self) -> ChatReply:
        self._waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self._waiting -= 1
            if not self._waiting and not self.task.done():
                self.task.cancel()


def _looked_at(task: asyncio.Task[ChatReply]) -> None:
    """Keep asyncio from printing an error that comes when everybody has given up.

    A reply that arrives just as the last one goes is still kept, and that may fail: on a full
    disk, which is what made everybody give up.
    """
    if not task.cancelled():
        task.exception()
