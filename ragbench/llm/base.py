"""What a chat model is, and the records that it speaks in: a request, a reply, a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

from ragbench.errors import ModelError
from ragbench.types import Cause, Usage

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """All that a reply depends on, apart from the server.

    Attributes:
        temperature: None leaves it to the server.
        max_tokens: Longest reply; None leaves it to the server.
        seed: Seed of the first sample; sample n is asked with seed + n.
        schema: JSON schema of the reply, in the subset that `check_schema` allows; None: any text.
        top_logprobs: How many alternatives per token the reply should list; 0: no
            log-probabilities.
        reasoning_effort: How long a model thinks that can; None leaves it to the server.
        sample: Which of several replies to the same question this is; part of the key, never sent.
    """

    model: str
    messages: tuple[Message, ...]
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    top_logprobs: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)
    reasoning_effort: str | None = None
    sample: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping of all fields."""
        messages = [{"role": m.role, "content": m.content} for m in self.messages]
        rest = {name: getattr(self, name) for name in self.__slots__ if name != "messages"}
        if self.reasoning_effort is None:  # as keys of replies were before there was one
            del rest["reasoning_effort"]
        return {**rest, "messages": messages, "stop": list(self.stop)}

    def followed_by(self, *messages: Message) -> ChatRequest:
        """Return the request with further turns."""
        return replace(self, messages=self.messages + messages)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of a reply, and what could have stood in its place.

    Attributes:
        token: The token; not always valid text on its own.
        top: The likeliest tokens here with their log-probabilities.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try that failed, kept with the reply or the failure that ended the item."""

    cause: str
    detail: str
    latency_ms: float


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model answered.

    Attributes:
        finish_reason: Why it stopped, in the server's words: `stop`, `length`, `content_filter`.
        reasoning: What the model thought before it answered, where the server tells; no part of the
            text.
        left_out: What was asked for and not sent, since the model refuses it: `temperature`,
            `logprobs`.
        logprobs: Log-probabilities per token; None where the server returns none.
        system_fingerprint: The server's word for its configuration.
        usage: Tokens, and the cost when the reply was paid for.
        latency_ms: How long the try that succeeded was under way.
        price_share: What it cost as a part of the usual price: 0.5 in a batch.
        stored: Whether it was read from the reply store: nothing was sent, nothing was paid.
    """

    text: str
    finish_reason: str = ""
    refusal: str | None = None
    reasoning: str = ""
    left_out: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    logprobs: tuple[TokenLogprob, ...] | None = None
    model: str = ""
    system_fingerprint: str | None = None
    latency_ms: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    price_share: float = 1.0
    stored: bool = False

    @property
    def refused(self) -> bool:
        """Whether the model, or a filter before it, refused."""
        # Gemini's servers add why: `content_filter: PROHIBITED_CONTENT`
        return self.refusal is not None or self.finish_reason.startswith("content_filter")

    @property
    def ran_out(self) -> str:
        """Why there is no answer where the longest reply ended before one began; else empty."""
        if self.text.strip() or self.finish_reason != "length":
            return ""
        spent = self.usage.reasoning_tokens or self.usage.output_tokens
        count = "all tokens" if spent is None else f"{spent:,} tokens"
        how = " on reasoning" if self.reasoning or self.usage.reasoning_tokens else ""
        return (
            f"the reply reached its longest length before an answer began: {count} were "
            f"spent{how}; raise max_tokens, or lower reasoning_effort"
        )

    def cleaned(self, clean: Callable[[str], str]) -> ChatReply:
        """Return the reply with its texts written anew, as without secrets.

        Of one that tells a secret token by token, the tokens are left out.
        """
        attempts = tuple(replace(each, detail=clean(each.detail)) for each in self.attempts)
        tokens = "".join(each.token for each in self.logprobs or ())
        logprobs = self.logprobs if clean(tokens) == tokens else None
        return replace(
            self,
            text=clean(self.text),
            finish_reason=clean(self.finish_reason),
            refusal=self.refusal and clean(self.refusal),
            reasoning=clean(self.reasoning),
            model=clean(self.model),
            system_fingerprint=self.system_fingerprint and clean(str(self.system_fingerprint)),
            attempts=attempts,
            logprobs=logprobs,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping of all that is kept on disk."""
        kept = asdict(self)
        del kept["stored"]
        if self.price_share == 1.0:
            del kept["price_share"]
        return kept

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> ChatReply:
        """Return the reply of a mapping of `to_dict`, with `stored` set; unknown keys are ignored.

        Raises:
            KeyError: A field that `to_dict` always writes is missing.
        """
        logprobs = kept["logprobs"]
        if logprobs is not None:
            logprobs = tuple(
                TokenLogprob(each["token"], each["logprob"], tuple(map(tuple, each["top"])))
                for each in logprobs
            )
        parts = {
            "usage": Usage(**kept["usage"]),
            "attempts": tuple(Attempt(**attempt) for attempt in kept["attempts"]),
            "logprobs": logprobs,
            "left_out": tuple(kept.get("left_out", ())),
        }
        values = {name: kept[name] for name in cls.__slots__ if name in kept}
        return cls(**{**values, **parts, "stored": True})


@dataclass(eq=False, repr=False)
class CallFailure(ModelError):
    """One call that brought no usable reply; its cause goes into the counts.

    Attributes:
        detail: What went wrong, in words, without secrets.
        retryable: Whether the same call can succeed later.
        throttled: Whether the server asks for fewer calls.
        fatal: Whether every other call must fail as well: a wrong key, an empty account.
        unconnected: Whether there was no connection, or one that was cut.
        param: The parameter that the server refuses, where it names one.
        attempts: The tries that failed before the last one.
        replies: Replies that came and could not be used, last one last.
    """

    cause: Cause
    detail: str
    _: KW_ONLY
    retryable: bool = False
    throttled: bool = False
    retry_after_s: float | None = None
    fatal: bool = False
    status: int | None = None
    unconnected: bool = False
    param: str | None = None
    attempts: tuple[Attempt, ...] = ()
    replies: tuple[ChatReply, ...] = ()

    def __post_init__(self) -> None:
        super().__init__(f"{self.cause.word}: {self.detail}")


class ChatModel(Protocol):
    """Sends one request to one server, once: no retries, no limits, no memory.

    Attributes:
        identity: What else than the request a reply depends on: kind, address; never a secret.
        price_share: What its calls cost, as a part of the usual price.
    """

    identity: Mapping[str, str]
    price_share: float = 1.0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request.

        Raises:
            CallFailure: There is none, or none that can be used.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...
