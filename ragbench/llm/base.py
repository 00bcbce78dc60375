"""What a chat model is, and the records that it speaks in: a request, a reply, a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

from ragbench.errors import ModelError
from ragbench.types import Cause

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """All that a reply depends on, apart from the server."""

    model: str
    messages: tuple[Message, ...]
    temperature: float | None = None
    """None leaves it to the server."""
    max_tokens: int | None = None
    """Longest reply; None leaves it to the server."""
    seed: int | None = None
    """Seed of the first sample; sample n is asked with seed + n."""
    stop: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    """JSON schema of the reply, in the subset that `check_schema` allows; None: any text."""
    top_logprobs: int = 0
    """How many alternatives per token the reply should list; 0: no log-probabilities."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    reasoning_effort: str | None = None
    """How long a model thinks that can; None leaves it to the server."""
    sample: int = 0
    """Which of several replies to the same question this is; part of the key, never sent."""

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
class Usage:
    """Tokens of one or several calls; None where the server does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int = 0
    """Those of the output that are reasoning, as far as the server says."""
    cached_tokens: int = 0
    """Those of the input that the server had cached, as far as it says."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of a reply, and what could have stood in its place."""

    token: str
    """The token; not always valid text on its own."""
    logprob: float
    top: tuple[tuple[str, float], ...] = ()
    """The likeliest tokens here with their log-probabilities."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try that failed, kept with the reply or the failure that ended the item."""

    cause: str
    detail: str
    latency_ms: float


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model answered."""

    text: str
    finish_reason: str = ""
    """Why it stopped, in the server's words: `stop`, `length`, `content_filter`."""
    refusal: str | None = None
    reasoning: str = ""
    """What the model thought before it answered, where the server tells; no part of the text."""
    left_out: tuple[str, ...] = ()
    """What was asked for and not sent, since the model refuses it: `temperature`, `logprobs`."""
    usage: Usage = Usage()
    logprobs: tuple[TokenLogprob, ...] | None = None
    """Log-probabilities per token; None where the server returns none."""
    model: str = ""
    system_fingerprint: str | None = None
    """The server's word for its configuration."""
    latency_ms: float = 0.0
    """How long the try that succeeded was under way."""
    attempts: tuple[Attempt, ...] = ()
    cost_usd: float | None = None
    """What it cost when it was paid for; None where the price or the usage is not known."""
    price_share: float = 1.0
    """What it cost as a part of the usual price: 0.5 in a batch."""
    stored: bool = False
    """Whether it was read from the reply store: nothing was sent, nothing was paid."""

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
        """Read what `to_dict` wrote, with `stored` set."""
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
        return cls(**{**kept, **parts, "stored": True})


@dataclass(eq=False, repr=False)
class CallFailure(ModelError):
    """One call that brought no usable reply; its cause goes into the counts."""

    cause: Cause
    detail: str
    """What went wrong, in words, without secrets."""
    _: KW_ONLY
    retryable: bool = False
    """Whether the same call can succeed later."""
    throttled: bool = False
    """Whether the server asks for fewer calls."""
    retry_after_s: float | None = None
    fatal: bool = False
    """Whether every other call must fail as well: a wrong key, an empty account."""
    status: int | None = None
    unconnected: bool = False
    """Whether there was no connection, or one that was cut."""
    param: str | None = None
    """The parameter that the server refuses, where it names one."""
    attempts: tuple[Attempt, ...] = ()
    """The tries that failed before the last one."""
    replies: tuple[ChatReply, ...] = ()
    """Replies that came and could not be used, last one last."""

    def __post_init__(self) -> None:
        super().__init__(f"{self.cause.word}: {self.detail}")


class ChatModel(Protocol):
    """Sends one request to one server, once: no retries, no limits, no memory."""

    identity: Mapping[str, str]
    """What else than the request a reply depends on: kind, address; never a secret."""
    price_share: float = 1.0
    """What its calls cost, as a part of the usual price."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request.

        Raises:
            CallFailure: There is none, or none that can be used.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections."""
        ...
