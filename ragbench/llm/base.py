"""Protocol of chat models, and their records: request, reply and failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal, Protocol

from msgspec import structs

from ragbench.errors import EXIT_UNREACHABLE, ModelError
from ragbench.types import Cause, Usage
from ragbench.types.json_fields import Record, optional
from ragbench.types.reasoning import split_reasoning
from ragbench.types.records import UNKNOWN_USAGE

# Finish reasons of Anthropic, Bedrock and Gemini; those of OpenAI and Azure have `content_filter`.
_REFUSAL_ENDS = frozenset(
    {"refusal", "guardrail_intervened", "safety", "prohibited_content", "blocklist", "spii"}
    | {"recitation", "image_safety", "language", "model_armor"}
)
# Of a token limit: OpenAI; Anthropic and Gemini; Mistral; Anthropic.
_LIMIT_ENDS = frozenset({"length", "max_tokens", "model_length", "model_context_window_exceeded"})
# Of a reply that the server broke off: vLLM and SGLang; OpenRouter and Mistral; DeepSeek.
_BROKEN_ENDS = frozenset({"abort", "error", "insufficient_system_resource"})
Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """Message of a chat request.

    Attributes:
        role: `system`, `user` or `assistant`.
        content: Text of the message.
    """

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Request to a chat model: messages and all parameters that the reply depends on.

    Attributes:
        model: Name of the model at its server.
        messages: Messages in order.
        temperature: Randomness of the reply; None leaves it to the server.
        max_tokens: Token limit of the reply, reasoning included; None leaves it to the server.
        seed: Seed of sample 0; sample n is sent with seed + n. None sends no seed.
        stop: Texts that end the reply.
        schema: JSON schema of the reply, in the subset that `conform` applies; None allows any
            text.
        top_logprobs: Number of alternatives per token; 0 requests no log-probabilities.
        extra: Further parameters, sent unchanged.
        reasoning_effort: Effort of a reasoning model; None leaves it to the server.
        sample: Number of the sample of this request, from 0. Part of the storage key, never sent.
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
        """Return a mapping of all fields, the input of the storage key.

        Messages are mappings of `role` and `content`. `reasoning_effort` is left out if it is None.
        JSON can hold it if it can hold `extra`.
        """
        messages = [{"role": m.role, "content": m.content} for m in self.messages]
        fields = {}
        for name in self.__slots__:
            if name != "messages":
                fields[name] = getattr(self, name)
        # Left out so that keys of replies stored before this field existed stay valid.
        if self.reasoning_effort is None:
            del fields["reasoning_effort"]
        return {**fields, "messages": messages, "stop": list(self.stop)}

    def followed_by(self, *messages: Message) -> ChatRequest:
        """Return the request with further messages at its end."""
        return replace(self, messages=self.messages + messages)


class TokenLogprob(Record, kw_only=False):
    """Token of a reply with its log-probability and its alternatives.

    Attributes:
        token: Text of the token; may be a part of a character.
        logprob: Natural logarithm of its probability.
        top: Likeliest tokens at this position with their log-probabilities.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


class Attempt(Record, kw_only=False):
    """Failed try of a call, stored with the reply or the final failure.

    Attributes:
        cause: Word of the cause, as `Cause.word`.
        detail: Error message without secrets.
        latency_ms: Time of the try, in milliseconds.
    """

    cause: str
    detail: str
    latency_ms: float


def is_refusal_end(finish_reason: str) -> bool:
    """Return True for a finish reason of a refusal, in the words of any server.

    Example:
        >>> is_refusal_end("content_filter: PROHIBITED_CONTENT"), is_refusal_end("stop")
        (True, False)
    """
    word = _end_word(finish_reason)
    # Gemini's servers append the reason.
    return word.startswith("content_filter") or word in _REFUSAL_ENDS


def is_broken_end(finish_reason: str) -> bool:
    """Return True for a finish reason of a reply that the server broke off by a fault of its own.

    Example:
        >>> is_broken_end("abort"), is_broken_end("length")
        (True, False)
    """
    return _end_word(finish_reason) in _BROKEN_ENDS


def _end_word(finish_reason: str) -> str:
    """Return a finish reason in lower case; a client of Gemini writes `FinishReason.SAFETY`."""
    return finish_reason.lower().removeprefix("finishreason.")


class ChatReply(Record, kw_only=False):
    """Reply of a chat model to one request.

    Attributes:
        text: Text of the model as it was sent; reasoning may stand before the answer.
        finish_reason: Reason of the end in the word of the server, such as `stop`, `length` or
            `content_filter`; empty if the server gives none.
        refusal: Words of the model that refuses to answer; None if it does not refuse.
        reasoning: Reasoning before the answer; empty if the server returns none.
        left_out: Parameters not sent, since the model refuses them, such as `temperature`.
        usage: Tokens, those of failed tries included, and the cost at the time of payment.
        logprobs: Log-probabilities per token.
        model: Name of the model as the server reports it.
        system_fingerprint: Configuration of the server by its own code.
        latency_ms: Time of the successful try, in milliseconds.
        attempts: Failed tries before it, in order.
        price_share: Share of the usual price: 0.5 in a batch.
        stored: True if the reply was read from the store, so that nothing was sent or paid.
    """

    text: str
    finish_reason: str = ""
    refusal: str | None = None
    reasoning: str = ""
    left_out: tuple[str, ...] = ()
    usage: Usage = UNKNOWN_USAGE
    logprobs: tuple[TokenLogprob, ...] | None = None
    model: str = ""
    system_fingerprint: str | None = None
    latency_ms: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    price_share: float = optional(1.0)
    stored: bool = optional(False)

    def answer(self) -> str:
        """Return the text without the reasoning in it; may be empty."""
        return split_reasoning(self.text)[1]

    @property
    def refused(self) -> bool:
        """True if the model or a content filter refused to answer.

        `refusal` is set then, or the finish reason names a refusal.
        """
        return self.refusal is not None or is_refusal_end(self.finish_reason)

    @property
    def is_cut(self) -> bool:
        """True if a token limit ended the reply, in the words of any server."""
        return _end_word(self.finish_reason) in _LIMIT_ENDS

    @property
    def ran_out(self) -> str:
        """Error message if the token limit ended the reply before an answer began; else empty."""
        if not self.is_cut or self.answer().strip():
            return ""
        n_tokens = self.usage.reasoning_tokens or self.usage.output_tokens
        count = "all tokens" if n_tokens is None else f"{n_tokens:,} tokens"
        purpose = " on reasoning" if self.reasoning or self.usage.reasoning_tokens else ""
        return (
            f"the reply reached its token limit before an answer began: {count} were "
            f"spent{purpose}; raise max_tokens, or lower reasoning_effort"
        )

    def cleaned(self, clean: Callable[[str], str]) -> ChatReply:
        """Return the reply with all texts passed through `clean`, which masks secrets.

        Lone surrogates, which no UTF-8 file can hold, become U+FFFD. Log-probabilities become None
        if their tokens spell a secret or hold a lone surrogate.
        """

        def rewrite(text: str) -> str:
            return clean(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

        attempts = tuple(
            structs.replace(tried, detail=rewrite(tried.detail)) for tried in self.attempts
        )
        tokens = "".join(entry.token for entry in self.logprobs or ())
        logprobs = self.logprobs if rewrite(tokens) == tokens else None
        return structs.replace(
            self,
            text=rewrite(self.text),
            finish_reason=rewrite(self.finish_reason),
            refusal=self.refusal and rewrite(self.refusal),
            reasoning=rewrite(self.reasoning),
            model=rewrite(self.model),
            system_fingerprint=self.system_fingerprint and rewrite(self.system_fingerprint),
            attempts=attempts,
            logprobs=logprobs,
        )


@dataclass(eq=False, repr=False)
class CallFailure(ModelError):
    """Failure of a call without a usable reply; its cause is counted.

    Its message is the word of the cause and the detail. Clients and `ChatEngine.ask` raise it.

    Attributes:
        cause: Cause of the missing score or answer.
        detail: Error message without secrets.
        retryable: True if the same call can succeed later.
        throttled: True if the server asks for fewer calls.
        retry_after_s: Seconds that the server asks to wait.
        fatal: True if every other call fails as well: a wrong key, an empty account.
        status: HTTP status; None for failures without a response.
        unconnected: True if the connection was refused or cut.
        unreachable: True if the server cannot be used: it refused the connection, its name is
            unknown, or it refused key, account, address or model before any reply.
        param: Name of the parameter that the server refuses.
        words: All words of the server's error without secrets; `detail` has their start.
        attempts: Failed tries, in order.
        replies: Unusable replies, in order.
        usage: Tokens of failed tries that the server reports.
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
    unreachable: bool = False
    param: str | None = None
    words: str = ""
    attempts: tuple[Attempt, ...] = ()
    replies: tuple[ChatReply, ...] = ()
    usage: Usage | None = None

    @property
    def is_cut(self) -> bool:
        """True if the last reply ended at its token limit; a shorter request may succeed."""
        if self.replies and self.replies[-1].is_cut:
            return True
        # a llama.cpp server answers 500 to a reply that its limit cut
        return self.cause is Cause.UNREADABLE and self.status == 500

    def __post_init__(self) -> None:
        super().__init__(f"{self.cause.word}: {self.detail}")
        if self.unreachable:
            self.exit_code = EXIT_UNREACHABLE


class ChatModel(Protocol):
    """Client of one chat server; sends a request once, without retries, limits or storage.

    `complete` returns the reply, and raises CallFailure if there is none. A client need not inherit
    this class.

    Attributes:
        identity: Properties beside the request that a reply depends on, such as type and address of
            the server. Part of the storage key, so it never holds a secret.
        price_share: Cost of a call as a share of the usual price.
    """

    identity: Mapping[str, str]
    price_share: float = 1.0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request.

        Raises:
            CallFailure: The call failed or brought no usable reply.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections that this object opened; a client of the user stays open.

        The object cannot send requests afterwards.
        """
        ...
