"""Ask for a value in the form of a schema: read the reply, and ask once more if that fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ragbench.errors import OptionError
from ragbench.llm.base import CallFailure, ChatReply, ChatRequest, Message
from ragbench.llm.json_reply import Unreadable, check_schema, read_json
from ragbench.types import Cause

Ask = Callable[[ChatRequest], Awaitable[ChatReply]]


@dataclass(frozen=True, slots=True)
class StructuredReply:
    """A value that was read, and every reply that it took."""

    value: Any
    replies: tuple[ChatReply, ...]
    """All replies; the last one holds the value, those before could not be read."""

    @property
    def reply(self) -> ChatReply:
        """The reply that holds the value."""
        return self.replies[-1]


async def ask_structured(ask: Ask, request: ChatRequest, *, reasks: int = 1) -> StructuredReply:
    """Return the value that a model answers to a request with a schema.

    A reply that cannot be read is shown to the model again, `reasks` times, with what was wrong
    with it. A `CallFailure` has all the replies that came.
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
                failure = failure.but(
                    cause=Cause.UNREADABLE, detail=f"{problem}; too long to be asked again"
                )
            raise failure.but(replies=(*replies, *failure.replies)) from None
        replies.append(reply)
        if reply.refused:
            said = reply.refusal or "the reply was held back by a content filter"
            raise CallFailure(Cause.REFUSED, said, replies=tuple(replies))
        if reply.ran_out:  # as it would again
            raise CallFailure(Cause.OUT_OF_TOKENS, reply.ran_out, replies=tuple(replies))
        try:
            return StructuredReply(read_json(reply.text, request.schema), tuple(replies))
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
