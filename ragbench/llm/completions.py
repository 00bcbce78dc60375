"""Chat completions: bodies of requests without refused parameters, and replies read from bodies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from msgspec import structs

from ragbench.json_yaml import MOST_NODES, load_json
from ragbench.llm.base import (
    CallFailure,
    ChatReply,
    ChatRequest,
    TokenLogprob,
    is_broken_end,
    is_refusal_end,
)
from ragbench.llm.error_words import error_words, find_field, is_web_page
from ragbench.llm.failures import failure_of_body, failure_of_page, one_line
from ragbench.registry import quote
from ragbench.types import Cause, Usage
from ragbench.types.reasoning import split_reasoning
from ragbench.types.records import read_count, usage_of_counts

# Places of token counts in `usage`: of OpenAI's completions and responses, Anthropic and Gemini.
_SENT = ("prompt_tokens", "promptTokenCount")
_RECEIVED = ("completion_tokens", "output_tokens", "candidatesTokenCount")
_TOTAL = ("total_tokens", "totalTokenCount")
_REASONING_TOKENS = (
    "completion_tokens_details.reasoning_tokens",
    "output_tokens_details.reasoning_tokens",
    "reasoning_tokens",
    "thoughtsTokenCount",
)
_CACHED = (
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "prompt_cache_hit_tokens",  # DeepSeek
    "cache_read_input_tokens",  # Anthropic
    "cachedContentTokenCount",
)
_REASONING = ("reasoning_content", "reasoning")  # keys of DeepSeek and vLLM, and of OpenRouter
_FORMATS = ("json_schema", "json_object", "text")
# Statuses of requests that are refused for their content.
REFUSING = frozenset({400, 403, 415, 422})
_REFUSING_FORMATS = frozenset({400, 422})
_ABOUT_FORMAT = re.compile(
    r"response[_ ]?format|json[_ ]?(object|mode)|structured output|grammar|schema",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"unsupported|not supported|n.t support|not support|not implemented|not available|deprecated"
    r"|unknown|unrecogni[sz]ed|not recogni[sz]ed|unexpected|not permitted|not allowed|extra"
    r"|not enabled|disabled|invalid (?:parameter|argument|field|key|name)|not accepted|forbidden"
    r"|cannot be (?:used|set|specified)|incompatible|no such",
    re.IGNORECASE,
)
_BAD_VALUE = re.compile(r"may only be|must be|only the default", re.IGNORECASE)
_NO_PARAMETER = re.compile(r"parameter|extra[_ ]|unrecognized|argument", re.IGNORECASE)
_LONGEST = ("max_tokens", "max_completion_tokens")
# what vLLM writes for a token that cannot come; other servers write -Infinity, which no file holds
_LEAST_LOGPROB = -9999.0
_OPTIONAL = ("temperature", "seed", "stop", "logprobs", *_LONGEST)


def read_reply(body: str | Mapping[str, Any]) -> ChatReply:
    """Return the reply of the body of a completion, as JSON text or as a mapping.

    Only the first choice counts. The usage has no cost; parts that the body lacks are empty, None
    or unknown.

    Raises:
        CallFailure: The body holds an error, a reply that the server broke off, or no choice with a
            text. It is retryable unless the status of an error says otherwise.
    """
    completion = parse_body(body) if isinstance(body, str) else body
    if completion.get("error") or (completion.get("errors") and not completion.get("choices")):
        raise failure_of_body(completion)
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    usage = _usage(completion.get("usage"))
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise replace(_failure_without_choice(completion), usage=usage)
    if choice.get("error"):  # OpenRouter, for an error of the server behind it
        raise replace(failure_of_body(choice["error"]), usage=usage)
    refusal, fingerprint = message.get("refusal"), completion.get("system_fingerprint")
    finish_reason = _finish_reason(choice)
    try:
        check_end(finish_reason)
        content = read_text(message.get("content"), message.get("tool_calls"))
    except CallFailure as failure:
        raise replace(failure, usage=usage) from None
    # A key of its own or tags inside the text, depending on the server.
    field = next((message[name] for name in _REASONING if message.get(name)), "")
    return ChatReply(
        text=content,
        reasoning=field if isinstance(field, str) and field else split_reasoning(content)[0],
        finish_reason=finish_reason,
        refusal=str(refusal) if refusal else None,
        usage=usage,
        logprobs=read_logprobs(choice.get("logprobs")),
        model=str(completion.get("model") or ""),
        system_fingerprint=None if fingerprint is None else str(fingerprint),
    )


def _failure_without_choice(completion: Mapping[str, Any]) -> CallFailure:
    """Return the failure of a completion without a choice: an error, a refusal, or neither."""
    if completion.get("object") == "error":  # vLLM
        return failure_of_body(completion)
    feedback = completion.get("promptFeedback") or completion.get("prompt_feedback")
    reason = find_field(feedback, "blockReason") or find_field(feedback, "block_reason")
    if reason:
        return CallFailure(Cause.REFUSED, f"the server blocked the prompt: {one_line(reason)}")
    detail = f"the completion holds no choice: {one_line(json.dumps(completion))}"
    return CallFailure(Cause.UNREADABLE, detail, retryable=True)


def _finish_reason(choice: Mapping[str, Any]) -> str:
    """Return why a choice ended; the word of the server behind a router if it is a refusal."""
    native = str(choice.get("native_finish_reason") or "")
    if is_refusal_end(native):
        return native
    return str(choice.get("finish_reason") or choice.get("stop_reason") or "")


def check_end(finish_reason: str) -> None:
    """Raise a retryable CallFailure for a reply that the server broke off, whose text is a part."""
    if is_broken_end(finish_reason):
        detail = f"the server broke its reply off: finish reason {one_line(finish_reason)!r}"
        raise CallFailure(Cause.SERVER_ERROR, detail, retryable=True)


def parse_body(body: str) -> Mapping[str, Any]:
    """Return the JSON object of a body; raise a CallFailure for anything else.

    It is retryable, and fatal for a web page; for a list of errors, their status decides.
    """
    try:
        value = load_json(body, most=MOST_NODES)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and error_words(value):  # Gemini lists its errors
        raise failure_of_body(value)
    if is_web_page(body):
        raise failure_of_page(body)
    detail = f"the server answered 200, and the body is no completion: {one_line(body)!r}"
    raise CallFailure(Cause.SERVER_ERROR, detail, retryable=True)


def read_text(content: object, tool_calls: object = None) -> str:
    """Return the text of a message: a string, or the joined text parts of a list; empty for None.

    Parts that are mappings without `text`, such as images, count as empty.

    Args:
        content: Content of the message.
        tool_calls: Tool calls of the message; None and an empty list are none.

    Raises:
        CallFailure: The content is no text, or the message calls tools and has no text. It is
            retryable.
    """
    text, is_text = "", content is None or isinstance(content, (str, list))
    for part in content if isinstance(content, list) else [content or ""]:
        piece = part.get("text") or "" if isinstance(part, Mapping) else part
        if isinstance(piece, str):
            text += piece
        else:
            is_text = False
    if is_text and (text or not tool_calls):
        return text
    problem = "calls tools instead of answering" if is_text else f"has {quote(content)} as content"
    raise CallFailure(Cause.UNREADABLE, f"the reply {problem}, allowed: text", retryable=True)


def _usage(usage: Any) -> Usage:
    """Return the tokens of a `usage` object, without a cost; all unknown if it is no mapping."""
    if not isinstance(usage, Mapping):
        return Usage()
    cached = _first_count(usage, _CACHED)
    sent = _first_count(usage, _SENT)
    if sent is None and (sent := read_count(usage.get("input_tokens"))) is not None:
        # Anthropic counts tokens that it read from its cache, or wrote there, beside the others.
        beside = ("cache_read_input_tokens", "cache_creation_input_tokens")
        sent += sum(read_count(usage.get(name)) or 0 for name in beside)
    received, total = _first_count(usage, _RECEIVED), _first_count(usage, _TOTAL)
    return usage_of_counts(sent, received, total, _first_count(usage, _REASONING_TOKENS), cached)


def _first_count(usage: Mapping[str, Any], paths: Iterable[str]) -> int | None:
    """Return the first number above 0 at the paths `KEY` or `KEY.KEY`; else 0, or None without."""
    is_reported = False
    for path in paths:
        key, _, name = path.partition(".")
        value = usage.get(key)
        if name:
            value = value.get(name) if isinstance(value, Mapping) else None
        if count := read_count(value):
            return count
        is_reported |= count is not None
    return 0 if is_reported else None


def read_logprobs(logprobs: Any) -> tuple[TokenLogprob, ...] | None:
    """Return the log-probabilities of a choice; None if they are missing or one is malformed.

    An empty list gives an empty tuple.
    """
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, list):
        return None
    tokens = []
    try:
        for entry in content:
            top = tuple(map(_token_logprob, entry["top_logprobs"] or ()))
            tokens.append(TokenLogprob(*_token_logprob(entry), top))
    except (KeyError, TypeError, ValueError):
        return None
    return tuple(tokens)


def _token_logprob(entry: Mapping[str, Any]) -> tuple[str, float]:
    """Return the token of an entry and its log-probability."""
    return str(entry["token"]), max(_LEAST_LOGPROB, float(entry["logprob"]))


@dataclass(frozen=True, slots=True)
class Refusals:
    """Parameters and response formats that a model is known to refuse.

    `|` joins two of them; `Refusals()` is empty.

    Attributes:
        names: Names of parameters in the protocol.
        formats: Number of refused response formats: 1 for `json_schema`, 2 for `json_object` too.
    """

    names: frozenset[str] = frozenset()
    formats: int = 0

    def __or__(self, other: Refusals) -> Refusals:
        return Refusals(self.names | other.names, max(self.formats, other.formats))


@dataclass(frozen=True, slots=True)
class Wording:
    """Body of a request as it is sent; `word_request` makes it.

    Attributes:
        body: JSON object of the request.
        format: `json_schema`, `json_object` or `text`; None for a request without a schema.
        left_out: Parameters of the request that the body lacks, since the model refuses them;
            sorted, `response_format` for a format that is not the strictest.
    """

    body: dict[str, Any]
    format: str | None
    left_out: tuple[str, ...]


def word_request(request: ChatRequest, refused: Refusals) -> Wording:
    """Return the body of a request without the parameters that its model refuses.

    The seed sent is that of the request plus its `sample`. The token limit has two names in the
    protocol, of which a model accepts one. Parameters of `extra` replace those of the same name.

    Args:
        request: Request to send.
        refused: Parameters that the model is known to refuse.

    Example:
        >>> request = ChatRequest("m", (), temperature=0.0, max_tokens=9)
        >>> wording = word_request(request, Refusals(frozenset({"temperature", "max_tokens"})))
        >>> wording.body, wording.left_out
        ({'model': 'm', 'messages': [], 'max_completion_tokens': 9}, ('temperature',))
    """
    body: dict[str, Any] = {"model": request.model, "messages": request.to_dict()["messages"]}
    left_out = []
    optional = {
        "temperature": request.temperature,
        "seed": None if request.seed is None else request.seed + request.sample,
        "stop": list(request.stop) or None,
        "logprobs": True if request.top_logprobs else None,
    }
    for name, value in optional.items():
        if value is not None and name in refused.names:
            left_out.append(name)
        elif value is not None:
            body[name] = value
    if "logprobs" in body:
        body["top_logprobs"] = request.top_logprobs
    if request.max_tokens is not None:
        limit_name = next((name for name in _LONGEST if name not in refused.names), None)
        if limit_name is None:
            left_out.append("max_tokens")
        else:
            body[limit_name] = request.max_tokens
    response_format = None
    if request.schema is not None:
        response_format = _FORMATS[refused.formats]
        _add_format(body, response_format, request)
        left_out += ["response_format"] * (refused.formats > 0)
    # Sent also to models that may refuse it: see `learn_refusals`.
    if request.reasoning_effort is not None:
        body["reasoning_effort"] = request.reasoning_effort
    return Wording({**body, **request.extra}, response_format, tuple(sorted(left_out)))


def learn_refusals(wording: Wording, failure: CallFailure, refused: Refusals) -> Refusals | None:
    """Return all refused parameters after a failure; None if no further one can be left out.

    `reasoning_effort` and `extra` are never left out: calls without them would cost more than the
    user asked for, while a refused request costs nothing.

    Args:
        wording: Request that failed.
        failure: Failure of the call.
        refused: Parameters known to be refused before.
    """
    if failure.cause is not Cause.SERVER_ERROR:
        return None
    text = f"{failure.param or ''} {failure.words or failure.detail}"
    if failure.status in REFUSING and (name := _refused_name(wording, failure)) is not None:
        return refused | Refusals(frozenset({name}))
    if failure.status not in _REFUSING_FORMATS or wording.format in (None, "text"):
        return None
    if not _ABOUT_FORMAT.search(text):
        return None
    # A server that does not know the parameter itself accepts no format at all.
    no_format = _NO_PARAMETER.search(text) and wording.format not in text
    return replace(refused, formats=len(_FORMATS) - 1 if no_format else refused.formats + 1)


def _refused_name(wording: Wording, failure: CallFailure) -> str | None:
    """Return the optional parameter that an error is about; None if it is about none of them."""
    words = failure.words or failure.detail
    sent = []
    for name in _OPTIONAL:
        if name in wording.body:
            sent.append(name)
    if not _UNKNOWN.search(words):
        # A token limit above that of the model is for the user to correct.
        sent = [name for name in sent if name not in _LONGEST]
    if failure.param:
        parts = {part.removeprefix("top_") for part in re.split(r"\W+", failure.param)}
        for name in sent:
            if name in parts:
                return name
        return None
    if not _UNKNOWN.search(words) and not _BAD_VALUE.search(words):
        return None
    first, place = None, len(words)
    for name in sent:
        match = _name_pattern(name).search(words)
        if match is not None and match.start() < place:
            first, place = name, match.start()
    return first


@cache
def _name_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of a parameter in the words of an error: also `topLogprobs`."""
    spelling = name.replace("_", "_?")
    parts = rf"(?:top_?|response_?)?{spelling}(?:_?sequences)?"
    return re.compile(rf"(?<![a-z]){parts}(?![a-z_])", re.IGNORECASE)


def cut_at_stop(reply: ChatReply, request: ChatRequest, wording: Wording) -> ChatReply:
    """Return a reply with its left-out parameters, cut at the first stop text for a refused `stop`.

    Args:
        reply: Reply of the server.
        request: Request as asked.
        wording: Request as sent.
    """
    start = reply.text.rfind(reply.answer())  # reasoning before it may quote a stop text
    end = len(reply.text)
    for stop in request.stop if "stop" in wording.left_out else ():
        place = reply.text.find(stop, start)
        if place >= 0:
            end = min(end, place)
    return structs.replace(reply, text=reply.text[:end], left_out=wording.left_out)


def _add_format(body: dict[str, Any], response_format: str, request: ChatRequest) -> None:
    """Add a response format to a body in place."""
    if response_format == "json_schema":
        schema = {"name": "reply", "schema": dict(request.schema or {}), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return
    if response_format == "json_object":
        body["response_format"] = {"type": "json_object"}
    last = body["messages"][-1]
    body["messages"][-1] = {**last, "content": ask_json(last["content"], request.schema or {})}


def ask_json(content: str, schema: Mapping[str, Any]) -> str:
    """Return the content of a message, followed by a sentence that asks for JSON of a schema."""
    schema_text = json.dumps(schema, ensure_ascii=False)
    return f"{content}\n\nAnswer with JSON alone, in the form of this JSON schema:\n{schema_text}"
