"""Chat completions: requests worded as the model takes them, and what a server sends in return."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragbench.json_yaml import MOST_NODES, load_json
from ragbench.llm.base import CallFailure, ChatReply, ChatRequest, TokenLogprob
from ragbench.llm.failures import failure_of_body, shortened
from ragbench.types import Cause, Usage

_ENVELOPE = ("model", "system_fingerprint", "usage", "error")
_REASONING = ("reasoning_content", "reasoning")  # DeepSeek's and vLLM's; OpenRouter's
_THOUGHT = re.compile(r"\s*(?:<think(?:ing)?>|\[THINK\])", re.IGNORECASE)
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>|\[/THINK\]", re.IGNORECASE)
_FORMATS = ("json_schema", "json_object", "text")
# Statuses of requests that are refused for what is in them.
REFUSING = frozenset({400, 403, 415, 422})
_REFUSING_FORMATS = REFUSING | {404, 500, 501}
_ABOUT_FORMAT = re.compile(
    r"response[_ ]?format|json[_ ]?(object|mode)|structured output|grammar|peg-native|schema",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(
    r"unsupported|not supported|n.t support|not support|not implemented|not available|deprecated",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    rf"{_UNSUPPORTED.pattern}|unknown|unrecognized|unexpected|not permitted|not allowed|extra",
    re.IGNORECASE,
)
_BAD_VALUE = re.compile(r"may only be|must be|only the default", re.IGNORECASE)
_NO_PARAMETER = re.compile(r"parameter|extra[_ ]|unrecognized|argument", re.IGNORECASE)
_LONGEST = ("max_tokens", "max_completion_tokens")
_OPTIONAL = ("temperature", "seed", "stop", "logprobs", *_LONGEST, "stream_options")


def read_completion(body: str | Mapping[str, Any]) -> ChatReply:
    """Return the reply in the body of a completion.

    A body that is no JSON is a failure that may be retried: a proxy answered, or it was cut.
    """
    completion = _parsed(body) if isinstance(body, str) else body
    if isinstance(completion.get("error"), Mapping):
        error = completion["error"]
        raise failure_of_body(error, str(error.get("message", error)))
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        detail = f"the completion holds no choice: {shortened(json.dumps(completion))}"
        raise CallFailure(Cause.UNREADABLE, detail, retryable=True)
    refusal = message.get("refusal")
    reasoning, text = split_reasoning(read_text(message.get("content")))
    beside = next((message[name] for name in _REASONING if message.get(name)), "")
    return ChatReply(
        text=text,
        reasoning=beside if isinstance(beside, str) and beside else reasoning,
        finish_reason=str(choice.get("finish_reason") or ""),
        refusal=str(refusal) if refusal else None,
        usage=_usage(completion.get("usage")),
        logprobs=read_logprobs(choice.get("logprobs")),
        model=str(completion.get("model") or ""),
        system_fingerprint=completion.get("system_fingerprint"),
    )


def join_chunks(chunks: Sequence[Mapping[str, Any]]) -> str:
    """Return the body of the completion that a stream of chunks amounts to, as JSON."""
    whole: dict[str, Any] = {"choices": []}
    texts, refusals, thoughts = [], [], []
    logprobs: list[Any] = []
    finish_reason = None
    for chunk in chunks:
        whole |= {key: chunk[key] for key in _ENVELOPE if chunk.get(key) is not None}
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            texts.append(delta.get("content") or "")
            refusals.append(delta.get("refusal") or "")
            thoughts.append(next((delta[name] for name in _REASONING if delta.get(name)), ""))
            logprobs += (choice.get("logprobs") or {}).get("content") or ()
            finish_reason = choice.get("finish_reason") or finish_reason
            whole["choices"] = [choice]
    if whole["choices"]:
        if finish_reason is None:
            detail = "the stream ended before the reply did"
            raise CallFailure(Cause.SERVER_ERROR, detail, retryable=True)
        message = {"content": "".join(texts), "refusal": "".join(refusals) or None}
        message["reasoning_content"] = "".join(thoughts) or None
        joined = {"message": message, "finish_reason": finish_reason}
        whole["choices"] = [{**joined, "logprobs": {"content": logprobs} if logprobs else None}]
    return json.dumps(whole)


def _parsed(body: str) -> Mapping[str, Any]:
    try:
        value = load_json(body, most=MOST_NODES)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    detail = f"the server answered 200 with what is no completion: {shortened(body)!r}"
    raise CallFailure(Cause.SERVER_ERROR, detail, retryable=True)


def read_text(content: Any) -> str:
    """Return the text of a message: a string, or the text parts of a list."""
    if isinstance(content, list):
        parts = [p.get("text", "") if isinstance(p, Mapping) else p for p in content]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def split_reasoning(text: str) -> tuple[str, str]:
    r"""Return the reasoning and the answer of a text of a local model, `<think>...</think>`.

    The first tag may be missing, as it is where the template of the prompt holds it; what begins as
    JSON has none. Everything up to the last closing tag is reasoning: what a model quotes while it
    thinks must not be taken for its answer. Without a closing tag there is no answer.

    Example:
        >>> split_reasoning("<think>\nTwo.\n</think>\n\n4")
        ('Two.', '4')
        >>> split_reasoning("<think>Two and"), split_reasoning("4")
        (('Two and', ''), ('', '4'))
    """
    opening = _THOUGHT.match(text)
    closings = list(_THOUGHT_ENDS.finditer(text))
    if opening is None and (not closings or text.lstrip()[:1] in ("{", "[")):
        return "", text
    start = 0 if opening is None else opening.end()
    if not closings:
        return text[start:].strip(), ""
    return text[start : closings[-1].start()].strip(), text[closings[-1].end() :].lstrip()


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, Mapping):
        return Usage()
    return Usage(
        read_count(usage.get("prompt_tokens")),
        read_count(usage.get("completion_tokens")),
        None,
        _detail(usage, "completion_tokens_details", "reasoning_tokens"),
        _detail(usage, "prompt_tokens_details", "cached_tokens")
        or read_count(usage.get("prompt_cache_hit_tokens"))  # DeepSeek's
        or 0,
    )


def _detail(usage: Mapping[str, Any], kind: str, name: str) -> int:
    """One of the numbers that a server tells more exactly; 0 where it does not."""
    details = usage.get(kind)
    return (read_count(details.get(name)) if isinstance(details, Mapping) else None) or 0


def read_count(value: Any) -> int | None:
    """Return a number of tokens; None where the server sent something else."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def read_logprobs(logprobs: Any) -> tuple[TokenLogprob, ...] | None:
    """Return log-probabilities; None where there are none or they cannot be read."""
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, list):
        return None
    try:
        return tuple(
            TokenLogprob(
                str(entry["token"]),
                float(entry["logprob"]),
                tuple((str(t["token"]), float(t["logprob"])) for t in entry["top_logprobs"] or ()),
            )
            for entry in content
        )
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Refused:
    """What a model is known to refuse.

    Attributes:
        names: Parameters, by the names of the protocol.
        formats: How many of the response formats, from the strictest on.
    """

    names: frozenset[str] = frozenset()
    formats: int = 0

    def __or__(self, other: Refused) -> Refused:
        return Refused(self.names | other.names, max(self.formats, other.formats))


@dataclass(frozen=True, slots=True)
class Wording:
    """A request as it is sent.

    Attributes:
        format: The response format in it; None where any text will do.
        left_out: What was asked for and is not in it, since the model refuses it.
    """

    body: dict[str, Any]
    format: str | None
    left_out: tuple[str, ...]


def word(request: ChatRequest, refused: Refused, *, stream: bool = False) -> Wording:
    """Word a request as far as its model is known to take it.

    The longest reply has two names, of which a model takes one. A server that does not count the
    tokens of a stream gives the same reply: nothing that was asked for is left out.

    Example:
        >>> request = ChatRequest("m", (), temperature=0.0, max_tokens=9)
        >>> worded = word(request, Refused(frozenset({"temperature", "max_tokens"})))
        >>> worded.body, worded.left_out
        ({'model': 'm', 'messages': [], 'max_completion_tokens': 9}, ('temperature',))
    """
    body: dict[str, Any] = {"model": request.model, "messages": request.to_dict()["messages"]}
    left_out = []
    asked = {
        "temperature": request.temperature,
        "seed": None if request.seed is None else request.seed + request.sample,
        "stop": list(request.stop) or None,
        "logprobs": True if request.top_logprobs else None,
    }
    for name, value in asked.items():
        if value is not None and name in refused.names:
            left_out.append(name)
        elif value is not None:
            body[name] = value
    if "logprobs" in body:
        body["top_logprobs"] = request.top_logprobs
    if request.max_tokens is not None:
        taken = next((name for name in _LONGEST if name not in refused.names), None)
        if taken is None:
            left_out.append("max_tokens")
        else:
            body[taken] = request.max_tokens
    wanted = None
    if request.schema is not None:
        wanted = _FORMATS[refused.formats]
        _add_format(body, wanted, request)
        left_out += ["response_format"] * (refused.formats > 0)
    if request.reasoning_effort is not None:
        body["reasoning_effort"] = request.reasoning_effort
    if stream:
        body["stream"] = True
        if "stream_options" not in refused.names:
            body["stream_options"] = {"include_usage": True}
    return Wording({**body, **request.extra}, wanted, tuple(sorted(left_out)))


def learn(wording: Wording, failure: CallFailure, refused: Refused) -> Refused | None:
    """Return what a model refuses, as a failure shows; None where nothing can be left out.

    What the user alone asks for (`reasoning_effort`, `extra`) stays: without it, calls would cost
    what nobody wanted, while a refused request costs nothing.
    """
    if failure.cause is not Cause.SERVER_ERROR:
        return None
    text = f"{failure.param or ''} {failure.detail}"
    if failure.status in REFUSING and (name := _refused_name(wording, failure)) is not None:
        return refused | Refused(frozenset({name}))
    about_format = _ABOUT_FORMAT.search(text) or (not failure.param and _UNSUPPORTED.search(text))
    if failure.status not in _REFUSING_FORMATS or wording.format in (None, "text"):
        return None
    if not about_format:
        return None
    # where the parameter itself is unknown, so is every format
    whole = _NO_PARAMETER.search(text) and wording.format not in text
    return replace(refused, formats=len(_FORMATS) - 1 if whole else refused.formats + 1)


def _refused_name(wording: Wording, failure: CallFailure) -> str | None:
    """The parameter of a request that an error is about; None where it is about none of them."""
    sent = [name for name in _OPTIONAL if name in wording.body]
    if not _UNKNOWN.search(failure.detail):
        # a longest reply that is too long is the user's to mend
        sent = [name for name in sent if name not in _LONGEST]
    if failure.param:
        named = {part.removeprefix("top_") for part in re.split(r"\W+", failure.param)}
        return next((name for name in sent if name in named), None)
    if not _UNKNOWN.search(failure.detail) and not _BAD_VALUE.search(failure.detail):
        return None
    places = {
        name: match.start()
        for name in sent
        if (match := re.search(rf"(?<![a-z])(?:top_)?{name}(?![a-z_])", failure.detail))
    }
    return min(places, key=lambda name: places[name]) if places else None


def as_asked(reply: ChatReply, request: ChatRequest, wording: Wording) -> ChatReply:
    """Return a reply with what it lacks of the request, cut as servers do where that is `stop`."""
    stops = request.stop if "stop" in wording.left_out else ()
    places = [place for stop in stops if (place := reply.text.find(stop)) >= 0]
    return replace(reply, text=reply.text[: min(places, default=None)], left_out=wording.left_out)


def _add_format(body: dict[str, Any], wanted: str, request: ChatRequest) -> None:
    """Ask for JSON: by schema where the server takes one, else in words as well."""
    if wanted == "json_schema":
        schema = {"name": "reply", "schema": dict(request.schema or {}), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return
    if wanted == "json_object":
        body["response_format"] = {"type": "json_object"}
    last = body["messages"][-1]
    body["messages"][-1] = {**last, "content": in_words(last["content"], request.schema or {})}


def in_words(content: str, schema: Mapping[str, Any]) -> str:
    """Return the content of a message that asks for a schema in words as well."""
    written = json.dumps(schema, ensure_ascii=False)
    return f"{content}\n\nAnswer with JSON alone, in the form of this JSON schema:\n{written}"
