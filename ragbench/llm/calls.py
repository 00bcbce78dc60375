"""Calls of a model: each tried until it succeeds, cannot succeed, or has had its time.

And many items at once: a bounded number under way, none lost; and values in the form of a schema:
the reply is read, and asked for once more if that fails.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ragbench.errors import OptionError
from ragbench.llm.base import Attempt, CallFailure, ChatModel, ChatReply, ChatRequest, Message
from ragbench.llm.json_reply import Unreadable, check_schema, read_json
from ragbench.llm.limits import AdaptiveLimit, Backoff, Limits
from ragbench.types import Cause

Item = TypeVar("Item")
Value = TypeVar("Value")
# Puts a reply where it is safe, and returns it as it is there.
Keep = Callable[[ChatReply], Awaitable[ChatReply]]

_REFUSED_WITHIN_S = 10.0
_LOOK_S = 1.0  # a call is looked at so often
_REFUSALS = 3  # as many in a row, and no further call is sent


class Sender:
    """Sends requests to one model, within its limits. Belongs to one event loop."""

    def __init__(
        self, model: ChatModel, limits: Limits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._model, self._limits, self._clock = model, limits, clock
        self.limit = AdaptiveLimit(limits.concurrency, clock)
        self._backoff = Backoff(seed=0)
        self._hopeless: CallFailure | None = None
        self._answered, self._refusals = False, 0
        self._nobody_there = False

    async def send(self, request: ChatRequest, keep: Keep) -> ChatReply:
        """Return the reply as it was kept, with the tries that failed before it.

        A call counts as under way until its reply is kept: no more than the limit can be lost.
        Where no connection has ever held, one item after its last try speaks for the others: they
        are tried once, until one succeeds.
        """
        attempts: list[Attempt] = []
        spent_s = 0.0
        while True:
            left_s = None if self._limits.timeout is None else self._limits.timeout - spent_s
            await self.limit.enter(again=bool(attempts))
            start, watch = self._clock(), _Watch(self.limit)
            # unless told otherwise: cancelled, and nothing was learnt about the server
            outcome: ChatReply | CallFailure = CallFailure(Cause.ERROR, "cancelled")
            took_s = 0.0
            try:
                outcome = await self._try(request, left_s)
                took_s = self._clock() - start
                if isinstance(outcome, ChatReply):
                    self._answered, self._refusals = True, 0
                    tried = replace(outcome, latency_ms=took_s * 1000, attempts=tuple(attempts))
                    return await keep(tried)
            finally:
                failure = outcome if isinstance(outcome, CallFailure) else None
                self.limit.leave(failure, took_s, stood_aside=watch.ended())
            spent_s += took_s
            attempts.append(Attempt(outcome.cause.word, outcome.detail, took_s * 1000))
            await asyncio.sleep(self._wait(outcome, attempts, spent_s))

    async def _try(self, request: ChatRequest, left_s: float | None) -> ChatReply | CallFailure:
        if self._hopeless is not None:
            return self._hopeless
        try:
            return await asyncio.wait_for(self._model.complete(request), left_s)
        except CallFailure as failure:
            # a key that has worked may be refused once by mistake, not again and again
            self._refusals = self._refusals + 1 if failure.fatal else 0
            if failure.fatal and (not self._answered or self._refusals >= _REFUSALS):
                self._hopeless = failure
            return failure
        except (TimeoutError, asyncio.TimeoutError):
            return CallFailure(Cause.TIMEOUT, f"no answer within {self._limits.timeout:g} s")

    def _wait(self, failure: CallFailure, attempts: list[Attempt], spent_s: float) -> float:
        """Seconds until the next try; where there is none, the failure is raised."""
        why = ""
        asked_s = failure.retry_after_s or 0.0
        unheard = not self._answered and failure.unconnected
        if not failure.retryable:
            pass
        elif unheard and self._nobody_there:
            few = len(attempts) <= self._limits.retries
            why = f"; {_times(attempts)}" + (": no connection has succeeded yet" if few else "")
        elif self._limits.timeout is not None and spent_s >= self._limits.timeout:
            why = f"; no time left of {self._limits.timeout:g} s"
        elif len(attempts) > self._limits.retries:
            why = f"; {_times(attempts)}" if len(attempts) > 1 else ""
            self._nobody_there = unheard
        elif asked_s > self._limits.longest_wait:
            why = f"; it asks to wait {asked_s:g} s, longer than {self._limits.longest_wait:g} s"
        else:
            return self._backoff.seconds(failure, len(attempts))
        raise replace(failure, detail=failure.detail + why, attempts=tuple(attempts))


class _Watch:
    """Looks now and then whether a call hangs; its place then goes to another one."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self._limit, self._stands_aside = limit, False
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._alarm = self._loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        if self._loop.time() - self._start >= self._limit.patience_s():
            self._stands_aside = self._limit.step_aside()
        if not self._stands_aside:
            self._alarm = self._loop.call_later(_LOOK_S, self._look)

    def ended(self) -> bool:
        """Stop looking; whether the call has given up its place."""
        self._alarm.cancel()
        return self._stands_aside


def _times(attempts: Sequence[Attempt]) -> str:
    return "tried once" if len(attempts) == 1 else f"tried {len(attempts)} times"


class FirstCalls:
    """Has a call that asks for something new of its model go ahead of the others.

    What a model refuses is then found out by one call, not by all at once. A refusal comes at once:
    where a call is under way for longer than 10 s, the others follow. Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._tried: defaultdict[str, set[str]] = defaultdict(set)
        self._ahead: dict[str, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(self, model: str, parameters: frozenset[str]) -> AsyncGenerator[None, None]:
        """Wait for the call ahead, if it may find out which of these parameters are refused."""
        tried = self._tried[model]
        while not parameters <= tried and (ahead := self._ahead.get(model)) is not None:
            ended, _ = await asyncio.wait([ahead], timeout=_REFUSED_WITHIN_S)
            if not ended:
                tried |= parameters
        if parameters <= tried:
            yield
            return
        ahead = self._ahead[model] = asyncio.get_running_loop().create_future()
        try:
            yield
            tried |= parameters
        except CallFailure:  # unlike a cancelled call, it has shown what the model refuses
            tried |= parameters
            raise
        finally:
            del self._ahead[model]
            ahead.set_result(None)


async def as_completed(
    function: Callable[[Item], Awaitable[Value]], items: Iterable[Item], *, size: int
) -> AsyncGenerator[tuple[int, Value], None]:
    """Yield (position, value) for every item, as they are done; an exception cancels the others.

    At most `size` items have been taken and not yet been yielded: memory does not grow with their
    number, and a slow consumer slows the intake.
    """
    todo = enumerate(items)
    done: asyncio.Queue[tuple[int, asyncio.Task[Value]]] = asyncio.Queue()
    under_way: set[asyncio.Task[Value]] = set()

    def start(position: int, item: Item) -> None:
        task = asyncio.ensure_future(function(item))
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
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


Ask = Callable[[ChatRequest], Awaitable[ChatReply]]


@dataclass(frozen=True, slots=True)
class StructuredReply:
    """A value that was read, and every reply that it took.

    Attributes:
        replies: All replies; the last one holds the value, those before could not be read.
    """

    value: Any
    replies: tuple[ChatReply, ...]

    @property
    def reply(self) -> ChatReply:
        """The reply that holds the value."""
        return self.replies[-1]


async def ask_structured(
    ask: Ask, request: ChatRequest, *, reasks: int = 1, check: Callable[[Any], None] | None = None
) -> StructuredReply:
    """Return the value that a model answers to a request with a schema.

    A reply that cannot be read is shown to the model again, `reasks` times, with what was wrong
    with it; so is one that `check` refuses as `Unreadable`. A `CallFailure` has all the replies
    that came.
    """
    if request.schema is None:
        raise OptionError("ask_structured", "schema", None, "a JSON schema")
    check_schema(request.schema)
    replies: list[ChatReply] = []
    asked, problem = request, ""
    while True:
        try:
            reply = await ask(asked)
        except CallFailure as failure:
            if problem and failure.cause is Cause.TOO_LONG:
                # the item is not: only with its reply beside it
                detail = f"{problem}; too long to be asked again"
                failure = replace(failure, cause=Cause.UNREADABLE, detail=detail)
            raise replace(failure, replies=(*replies, *failure.replies)) from None
        replies.append(reply)
        if reply.refused:
            said = reply.refusal or "the reply was held back by a content filter"
            raise CallFailure(Cause.REFUSED, said, replies=tuple(replies))
        if reply.ran_out:  # as it would again
            raise CallFailure(Cause.OUT_OF_TOKENS, reply.ran_out, replies=tuple(replies))
        try:
            value = read_json(reply.text, request.schema)
            if check is not None:
                check(value)
            return StructuredReply(value, tuple(replies))
        except Unreadable as error:
            problem = str(error)
            if reply.finish_reason == "length":
                problem += "; the reply ended at the longest that was allowed"
        if len(replies) > reasks:
            raise CallFailure(Cause.UNREADABLE, problem, replies=tuple(replies))
        asked = request.followed_by(
            Message("assistant", reply.text),
            Message("user", f"This could not be read: {problem}. Answer again, with JSON alone."),
        )
