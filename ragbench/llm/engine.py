"""Chat engine: one model behind limits, a reply store, a budget and totals."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from msgspec import structs

from ragbench.errors import OptionError, Phrase
from ragbench.llm.base import CallFailure, ChatModel, ChatReply, ChatRequest
from ragbench.llm.calls import FirstCalls, Sender, as_completed
from ragbench.llm.cut_prompts import CutPrompts
from ragbench.llm.limits import Limits
from ragbench.llm.replies import Replies, request_key
from ragbench.llm.threads import LoopThread
from ragbench.llm.usage import Budget, Prices, ReplySizes, Reservation, Totals, upper_bound
from ragbench.types import Usage

Item = TypeVar("Item")
Value = TypeVar("Value")

_EXTRA_ITEMS = 64  # beyond twice the concurrency: calls that hang or wait for their next try


class ChatEngine:
    """Engine that sends requests to one chat model, from any thread and inside any event loop.

    A request is looked up in the store. If the store lacks it, it is reserved in the budget, sent
    within the limits, stored, and then returned. Equal requests at the same time are sent once,
    also from processes that share the store. `ask` blocks, `aask` is for event loops; both return
    the reply and raise CallFailure if there is none. `close`, or the end of `with`, closes it.

    Args:
        model: Client of the model; the engine closes it.
        limits: Limits of concurrency, time and retries.
        replies: Store of replies, which the caller closes; None stores nothing.
        prices: Prices of models; None for the built-in prices.
        budget: Budget, possibly shared with other engines.

    Attributes:
        totals: Calls, tokens and cost so far.
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
        self._sizes = defaultdict[str, ReplySizes](ReplySizes)
        self._unlimited: set[str] = set()
        self._loop = LoopThread("ragbench-chat")
        self._shared_calls: dict[str, _SharedCall] = {}
        self._cut_prompts = CutPrompts()
        self._closed, self._process = False, os.getpid()

    def ask(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request, blocking the caller.

        A reply from the store, or of an equal call that runs already, has `stored` set. Other
        exceptions of the client are passed on. After `close`, the client decides what a call does.

        Raises:
            CallFailure: The call failed, the budget is spent, or the server cut the prompt.
            DataError: The reply store is read-only and lacks the reply, or cannot be written.
            OptionError: The budget limits cost, and the price of the model is unknown.
            RuntimeError: The caller runs in the loop of the engine, where only `aask` works.
        """
        return self._loop.run(self._whole(request))

    async def aask(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request without blocking the running loop, which may be any.

        Raises:
            CallFailure: The call failed, the budget is spent, or the server cut the prompt.
            DataError: The reply store is read-only and lacks the reply, or cannot be written.
            OptionError: The budget limits cost, and the price of the model is unknown.
        """
        return await self._loop.arun(self._whole(request))

    def map(
        self, function: Callable[[Item], Awaitable[Value]], items: Iterable[Item]
    ) -> Iterator[tuple[int, Value]]:
        """Yield (position, value) of every item in the order of completion.

        Positions start at 0. The first call starts when the first value is taken. Leaving the loop
        early cancels the rest. In the loop of the engine itself, where only `amap` works, it raises
        a RuntimeError.

        Args:
            function: Asynchronous function of an item; it may call `await engine.aask(...)` several
                times. An exception cancels all other items and is raised here.
            items: Items; at most a bounded number is read ahead.
        """
        return self._loop.iterate(as_completed(function, items, size=self._size))

    async def amap(
        self, function: Callable[[Item], Awaitable[Value]], items: Iterable[Item]
    ) -> list[tuple[int, Value]]:
        """Return the pairs that `map` yields as a list, without blocking the running loop.

        The pairs are in the order of completion; no items give an empty list. An exception of the
        function cancels all other items and is raised here.
        """

        async def collect() -> list[tuple[int, Value]]:
            return [pair async for pair in as_completed(function, items, size=self._size)]

        return await self._loop.arun(collect())

    def run(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Return the value of a coroutine that runs in the loop of the engine.

        An exception of the coroutine is raised here. Called in that loop itself, it raises a
        RuntimeError.
        """
        return self._loop.run(coroutine)

    def close(self) -> None:
        """Cancel running calls and close the connections.

        A second call, and one in a process forked later, does nothing.
        """
        # a forked child leaves the connections of its parent open
        if not self._closed and self._process == os.getpid():
            self._closed = True
            self._loop.run(self.model.aclose())
            self._loop.close()

    def __enter__(self) -> ChatEngine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def _size(self) -> int:
        return 2 * self.limits.concurrency + _EXTRA_ITEMS

    async def _whole(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request whose prompt the server read as a whole."""
        reply = await self._ask(request)
        self._cut_prompts.check(request, reply)
        return reply

    async def _ask(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request; equal requests at the same time share one call."""
        key = request_key(self.model.identity, request)
        call = self._shared_calls.get(key)
        if call is not None:
            reply = structs.replace(await call.wait(), stored=True)  # the first caller paid for it
            self.totals.add(reply)
            return reply
        call = self._shared_calls[key] = _SharedCall(self._fetch(key, request))
        call.task.add_done_callback(lambda task: self._shared_calls.pop(key, None))
        return await call.wait()

    async def _read_or_send(self, key: str, request: ChatRequest) -> ChatReply:
        """Return the stored reply, or send the request under the lock of its key."""
        if self.replies is None:
            return await self._send_in_turn(key, request)
        if (reply := self.replies.get(key)) is not None:
            return reply
        if not self.replies.writable:
            raise self.replies.missing(request, key)
        # Of several runs that share the store, the first one sends; the others read its reply.
        async with self.replies.call_locks.hold(key):
            return self.replies.get(key) or await self._send_in_turn(key, request)

    async def _fetch(self, key: str, request: ChatRequest) -> ChatReply:
        """Return a stored or new reply with its cost, and count it in the totals."""
        reply = await self._read_or_send(key, request)
        # The price may have been added to the table after the reply was stored.
        if reply.usage.usd is None and reply.stored:
            reply = self._priced(request, reply)
        self.totals.add(reply)
        return reply

    def _priced(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        """Return a reply with its cost at the price of now times its `price_share`."""
        return structs.replace(reply, usage=self._cost_of(request, reply.usage, reply.price_share))

    def _cost_of(self, request: ChatRequest, usage: Usage, share: float = 1.0) -> Usage:
        """Return a usage with its cost at a share of the price of now; None if it is unknown."""
        usual = self.prices.cost_usd(request.model, usage)
        return structs.replace(usage, usd=None if usual is None else usual * share)

    async def _send_in_turn(self, key: str, request: ChatRequest) -> ChatReply:
        """Return the reply to a request, sent after a first call has tested its parameters."""
        # Waiting here holds neither a place in the limit nor a part of the budget.
        # A model of the user may lack `parameters`: the protocol does not require it.
        parameters = getattr(self.model, "parameters", None)
        if parameters is None:
            return await self._send(key, request)
        async with self._first.turn(request.model, parameters(request)):
            return await self._send(key, request)

    async def _send(self, key: str, request: ChatRequest) -> ChatReply:
        """Send a request within the budget, and return its reply as stored."""
        bound = None
        if self.budget is not None:
            renew = partial(self._bound, request)
            bound = await self.budget.reserve(renew(), renew)

        async def store(reply: ChatReply) -> ChatReply:
            nonlocal bound
            paid = self._priced(request, reply)
            self._note_size(request, paid.usage, paid.left_out)
            if self.budget is not None and bound is not None:
                self.budget.settle(bound, paid.usage)
                bound = None  # settled: the `finally` below must not release it again
            if self.replies is None:
                return paid
            return await asyncio.wrap_future(self.replies.store(key, paid))

        try:
            overrun = (lambda: None) if self.budget is None else self.budget.overrun
            return await self._sender.send(request, store, overrun)
        except CallFailure as failure:
            usage = self._cost_of(request, failure.usage or Usage(0, 0))
            if failure.usage is not None:
                self._note_size(request, usage)
            self.totals.add_failure(failure, usage)
            # An unreadable reply is paid for as well.
            if self.budget is not None and bound is not None and failure.usage is not None:
                self.budget.settle(bound, usage)
                bound = None
            raise
        finally:
            if self.budget is not None and bound is not None:
                self.budget.release(bound)

    def _note_size(self, request: ChatRequest, usage: Usage, left_out: Sequence[str] = ()) -> None:
        """Record the size of a reply, and models that exceed or refuse a token limit."""
        self._sizes[request.model].add(request, usage)
        length = usage.output_tokens or 0
        if "max_tokens" in left_out or length > (request.max_tokens or length):
            self._unlimited.add(request.model)

    def _bound(self, request: ChatRequest) -> Reservation:
        """Return the upper bound of a call; its cost is 0 if the budget has no limit on cost."""
        sent = replace(request, max_tokens=None) if request.model in self._unlimited else request
        usage = upper_bound(sent, self._sizes[request.model])
        if self.budget is None or self.budget.usd is None:
            usd: float | None = 0.0
        else:
            usual = self.prices.cost_usd(request.model, usage)
            # A model of the user may lack `price_share`: a class need not inherit the protocol.
            usd = None if usual is None else usual * getattr(self.model, "price_share", 1.0)
        if usd is None:
            problem = Phrase(f"a limit, with {request.model!r}, whose price is not known")
            raise OptionError("budget", "usd", problem, self.prices.entry_to_write(request.model))
        return Reservation((usage.input_tokens or 0) + (usage.output_tokens or 0), usd)


class _SharedCall:
    """Running call that several callers wait for; cancelled when the last of them gives up."""

    def __init__(self, coroutine: Coroutine[Any, Any, ChatReply]) -> None:
        self.task = asyncio.ensure_future(coroutine)
        self.task.add_done_callback(_retrieve_exception)
        self._waiting = 0

    async def wait(self) -> ChatReply:
        """Return the reply of the call, or raise its error."""
        self._waiting += 1
        try:
            # Shielded: cancelling one caller must not cancel the call of the others.
            return await asyncio.shield(self.task)
        finally:
            self._waiting -= 1
            if not self._waiting and not self.task.done():
                self.task.cancel()


def _retrieve_exception(task: asyncio.Task[ChatReply]) -> None:
    """Retrieve the exception of a finished task, so that asyncio does not print it."""
    # A reply that arrives after all callers gave up is still stored, which may fail on a full disk.
    if not task.cancelled():
        task.exception()
