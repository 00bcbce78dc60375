"""Calls with retries, concurrent items in bounded number, and replies in the form of a schema."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from msgspec import structs

from ragbench.errors import OptionError
from ragbench.llm.base import Attempt, CallFailure, ChatModel, ChatReply, ChatRequest, Message
from ragbench.llm.failures import Access
from ragbench.llm.json_reply import Unreadable, read_json
from ragbench.llm.limits import AdaptiveLimit, Backoff, Limits
from ragbench.log import LOG
from ragbench.types import Cause, Usage
from ragbench.types.records import add_usage

Item = TypeVar("Item")
Value = TypeVar("Value")
# Stores a reply and returns it as stored.
Keep = Callable[[ChatReply], Awaitable[ChatReply]]

_REFUSED_WITHIN_S = 10.0  # a refusal of a parameter comes at once, an answer may take longer
_LOOK_S = 1.0  # interval of the check for a hanging call
# of a connection that is refused before any answer: a server that starts beside the run, or a name
# that is not known at once. More of them would hide for a minute that no server runs there.
_RETRIES_BEFORE_ANSWER = 1
_LONGEST_WAIT_S = 300.0  # a server that asks for a longer wait fails the call


class Sender:
    """Sender of requests to one model, with retries and limits; belongs to one event loop.

    `ChatEngine` makes it. `send` returns the reply as stored, and raises CallFailure after the last
    try. `clock` returns the time in seconds.
    """

    def __init__(
        self, model: ChatModel, limits: Limits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._model, self._limits, self._clock = model, limits, clock
        self.limit = AdaptiveLimit(limits.concurrency, clock)
        self._backoff = Backoff(seed=0)
        self._access = Access()
        self._has_answered = self._is_unreachable = False

    async def send(
        self, request: ChatRequest, keep: Keep, refusal: Callable[[], CallFailure | None]
    ) -> ChatReply:
        """Return the reply as `keep` stored it, with the failed tries before it.

        A call counts as running until its reply is stored, so a kill loses no more replies than the
        limit of concurrent calls. A connection that is refused before any answer of the server is
        tried once more. If a request has used up its retries before any answer, the other requests
        are tried only once. Errors of `keep`, and other exceptions of the model, pass through. In
        `attempts`, the tries are in order; it is empty after a first try that succeeds.

        Args:
            request: Request to send.
            keep: Stores the reply.
            refusal: Returns the failure of a request that may no longer be sent, just before a try.

        Raises:
            CallFailure: The last try failed, no further one is allowed, or a fatal failure of
                another request has stopped the sender.
        """
        attempts: list[Attempt] = []
        usages: list[Usage] = []  # of failed tries that the server counted all the same
        spent_s = 0.0
        while True:
            left_s = None if self._limits.timeout is None else self._limits.timeout - spent_s
            await self.limit.enter(again=bool(attempts))
            start, watch = self._clock(), _Watch(self.limit)
            is_refused = self._access.refusal is not None
            # Stays so if this task is cancelled: the limit then learns nothing about the server.
            outcome: ChatReply | CallFailure = CallFailure(Cause.ERROR, "cancelled")
            took_s = 0.0
            try:
                outcome = refusal() or await self._try(request, left_s)
                took_s = self._clock() - start
                self._has_answered |= isinstance(outcome, ChatReply) or outcome.status is not None
                if isinstance(outcome, ChatReply):
                    self._access.replied()
                    reply = structs.replace(
                        outcome, latency_ms=took_s * 1000, attempts=tuple(attempts)
                    )
                    if usages:
                        reply = structs.replace(reply, usage=add_usage([reply.usage, *usages]))
                    return await keep(reply)
            finally:
                failure = outcome if isinstance(outcome, CallFailure) else None
                self.limit.leave(failure, took_s, stood_aside=watch.stop())
            spent_s += took_s
            attempts.append(Attempt(outcome.cause.word, outcome.detail, took_s * 1000))
            if outcome.usage is not None:
                usages.append(outcome.usage)
            if usages:
                outcome = replace(outcome, usage=add_usage(usages))
            try:
                wait_s = self._wait(outcome, attempts, spent_s)
            except CallFailure as failure:
                # one record for all requests that a refusal or a spent budget stops
                if not is_refused and failure.cause is not Cause.OVER_BUDGET:
                    LOG.warning("request to %s failed: %s", request.model, failure)
                raise
            LOG.info("request to %s is repeated in %.1f s: %s", request.model, wait_s, outcome)
            spent_s += 0.0 if _asks_to_wait(outcome) else wait_s
            await asyncio.sleep(wait_s)

    async def _try(self, request: ChatRequest, left_s: float | None) -> ChatReply | CallFailure:
        """Return the reply or the failure of one try."""
        if self._access.refusal is not None:
            return self._access.refusal
        try:
            return await asyncio.wait_for(self._model.complete(request), left_s)
        except CallFailure as failure:
            return self._access.refused(failure)
        except (TimeoutError, asyncio.TimeoutError):
            return CallFailure(Cause.TIMEOUT, f"no answer within {self._limits.timeout:g} s")

    def _wait(self, failure: CallFailure, attempts: list[Attempt], spent_s: float) -> float:
        """Return the seconds until the next try."""
        why = ""
        wait_s = failure.retry_after_s or 0.0
        never_connected = not self._has_answered and failure.unconnected
        retries = self._limits.retries
        if never_connected and failure.unreachable:
            retries = min(retries, _RETRIES_BEFORE_ANSWER)
        if not failure.retryable:
            pass
        elif never_connected and self._is_unreachable:
            few = len(attempts) <= retries
            why = f"; {_times(attempts)}" + (": no connection has succeeded yet" if few else "")
        elif self._limits.timeout is not None and spent_s >= self._limits.timeout:
            why = f"; no time left of {self._limits.timeout:g} s"
        elif len(attempts) > retries:
            why = f"; {_times(attempts)}" if len(attempts) > 1 else ""
            self._is_unreachable = never_connected
        elif wait_s > _LONGEST_WAIT_S:
            why = f"; it asks to wait {wait_s:g} s, longer than {_LONGEST_WAIT_S:g} s"
        else:
            wait_s = self._backoff.seconds(failure, len(attempts))
            timeout = self._limits.timeout
            if _asks_to_wait(failure) or timeout is None or spent_s + wait_s < timeout:
                return wait_s
            self._is_unreachable = never_connected
            why = f"; {_times(attempts)}: no time left of {timeout:g} s"
        raise replace(failure, detail=failure.detail + why, attempts=tuple(attempts))


class _Watch:
    """Watch on one call, which loses its place in the limit when it hangs."""

    # It looks once a second until `stop` whether the patience of the limit is over.
    def __init__(self, limit: AdaptiveLimit) -> None:
        self._limit, self._stands_aside = limit, False
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._alarm = self._loop.call_later(_LOOK_S, self._check)

    def _check(self) -> None:
        if self._loop.time() - self._start >= self._limit.patience_s():
            self._stands_aside = self._limit.step_aside()
        if not self._stands_aside:
            self._alarm = self._loop.call_later(_LOOK_S, self._check)

    def stop(self) -> bool:
        """Stop the watch and return True if the call has given up its place."""
        self._alarm.cancel()
        return self._stands_aside


def _asks_to_wait(failure: CallFailure) -> bool:
    """Return True if the server asked for fewer calls, or for a wait; that costs no time limit."""
    return failure.throttled or failure.retry_after_s is not None


def _times(attempts: Sequence[Attempt]) -> str:
    return "tried once" if len(attempts) == 1 else f"tried {len(attempts)} times"


class FirstCalls:
    """Order of the first calls of a model: one call tests new parameters before the others start.

    One call, not all at once, then shows which parameters a model refuses, and how long its replies
    are, before the budget reserves tokens for others. These follow when it ends, or after 10 s,
    since a refusal comes at once. A call is made inside `async with first.turn(model, parameters)`.
    It belongs to one event loop.
    """

    def __init__(self) -> None:
        self._tried: defaultdict[str, set[str]] = defaultdict(set)
        self._ahead: dict[str, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(self, model: str, parameters: frozenset[str]) -> AsyncGenerator[None, None]:
        """Wait until no other call tests any of these parameters, then hold the test if one is new.

        Without new parameters, nothing waits. A call waits at most 10 s for a test; then its own
        parameters count as tested. A call that raises CallFailure counts as a test, one that is
        cancelled or raises another error does not. Errors of the call are passed on.

        Args:
            model: Name of the model.
            parameters: Parameters of the request that the model may refuse.
        """
        tried = self._tried[model]
        while not parameters <= tried and (ahead := self._ahead.get(model)) is not None:
            finished, _ = await asyncio.wait([ahead], timeout=_REFUSED_WITHIN_S)
            if not finished:
                tried |= parameters
        if parameters <= tried:
            yield
            return
        ahead = self._ahead[model] = asyncio.get_running_loop().create_future()
        try:
            yield
            tried |= parameters
        except CallFailure:  # unlike a cancelled call, a failed one has tested the parameters
            tried |= parameters
            raise
        finally:
            del self._ahead[model]
            ahead.set_result(None)


async def as_completed(
    function: Callable[[Item], Awaitable[Value]], items: Iterable[Item], *, size: int
) -> AsyncGenerator[tuple[int, Value], None]:
    """Yield (position, value) of every item in the order of completion.

    An exception of the function cancels all other items and is raised here. Positions start at 0.
    No items yield nothing.

    Args:
        function: Asynchronous function of one item.
        items: Items, read only as fast as the consumer takes values.
        size: Most items read and not yet yielded, which bounds the memory.
    """
    numbered_items = enumerate(items)
    done: asyncio.Queue[asyncio.Task[Value]] = asyncio.Queue()
    positions: dict[asyncio.Task[Value], int] = {}  # position of each running task
    try:
        while True:
            while len(positions) < size and (entry := next(numbered_items, None)) is not None:
                position, item = entry
                task = asyncio.ensure_future(function(item))
                positions[task] = position
                task.add_done_callback(done.put_nowait)
            if not positions:
                return
            task = await done.get()
            yield positions.pop(task), task.result()
    finally:
        for task in positions:
            task.cancel()
        await asyncio.gather(*positions, return_exceptions=True)


Ask = Callable[[ChatRequest], Awaitable[ChatReply]]


@dataclass(frozen=True, slots=True)
class StructuredReply:
    """Value read from a reply, with all replies to its request; `ask_structured` returns it.

    Attributes:
        value: JSON value that fits the schema.
        replies: Replies in order; the last one holds the value, earlier ones could not be read.
    """

    value: Any
    replies: tuple[ChatReply, ...]

    @property
    def reply(self) -> ChatReply:
        """Reply that holds the value."""
        return self.replies[-1]


async def ask_structured(
    ask: Ask,
    request: ChatRequest,
    *,
    reasks: int = 1,
    check: Callable[[Any], None] | None = None,
    repeats_cut: bool = True,
    reading: Mapping[str, Any] | None = None,
) -> StructuredReply:
    """Return the JSON value that a model replies to a request with a schema.

    An unreadable reply is sent back to the model with the error, up to `reasks` times; each time
    the messages are those of `request` and the last reply. Other errors of `ask` pass through.

    Args:
        ask: Sends a request, such as `engine.aask`.
        request: Request with a schema.
        reasks: Number of further requests after an unreadable reply.
        check: Raises `Unreadable` for a value that fits the schema and is wrong all the same; None
            accepts every value that fits.
        repeats_cut: False fails at once if an unreadable reply ended at its token limit, as for a
            caller that sends smaller requests then.
        reading: Schema by which the reply is read; None: that of the request.

    Raises:
        OptionError: The request has no schema.
        CallFailure: A call failed, was refused, ran out of tokens, or no reply could be read; its
            `replies` are all replies, and its detail has the problems of the first and the last.
    """
    if request.schema is None:
        raise OptionError("ask_structured", "schema", None, "a JSON schema")
    replies: list[ChatReply] = []
    current, problem, first_problem = request, "", ""
    prompt = "\n".join(message.content for message in request.messages)
    while True:
        try:
            reply = await ask(current)
        except CallFailure as failure:
            if problem and failure.cause is Cause.TOO_LONG:
                # The request alone was short enough; only the dialogue with its reply is too long.
                detail = f"{problem}; too long to be asked again"
                failure = replace(failure, cause=Cause.UNREADABLE, detail=detail)
            raise replace(failure, replies=(*replies, *failure.replies)) from None
        replies.append(reply)
        if reply.refused:
            reason = reply.refusal or "the reply was held back by a content filter"
            raise CallFailure(Cause.REFUSED, reason, replies=tuple(replies))
        if reply.ran_out:  # a further try would run out as well
            raise CallFailure(Cause.OUT_OF_TOKENS, reply.ran_out, replies=tuple(replies))
        try:
            value = read_json(reply.answer(), reading or request.schema, prompt=prompt)
            if check is not None:
                check(value)
            return StructuredReply(value, tuple(replies))
        except Unreadable as error:
            problem = str(error)
            if reply.is_cut:
                problem += "; the reply ended at its token limit: raise max_tokens"
            first_problem = first_problem or problem
        is_final = reply.is_cut and not repeats_cut
        if is_final or len(replies) > reasks:
            if not problem.startswith(first_problem):
                problem = f"{first_problem}; asked again: {problem}"
            raise CallFailure(Cause.UNREADABLE, problem, replies=tuple(replies))
        current = request.followed_by(
            Message("assistant", reply.answer()),
            Message("user", f"This could not be read: {problem}. Answer again, with JSON alone."),
        )
