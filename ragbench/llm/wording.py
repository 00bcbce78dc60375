"""Requests as they are sent: worded for models that refuse some of what was asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragbench.llm.base import CallFailure, ChatRequest
from ragbench.types import Cause

_FORMATS = ("json_schema", "json_object", "text")
REFUSING = frozenset({400, 403, 415, 422})
"""Statuses of requests that are refused for what is in them."""
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


@dataclass(frozen=True, slots=True)
class Refused:
    """What a model is known to refuse."""

    names: frozenset[str] = frozenset()
    """Parameters, by the names of the protocol."""
    formats: int = 0
    """How many of the response formats, from the strictest on."""

    def __or__(self, other: Refused) -> Refused:
        return Refused(self.names | other.names, max(self.formats, other.formats))


@dataclass(frozen=True, slots=True)
class Wording:
    """A request as it is sent."""

    body: dict[str, Any]
    format: str | None
    """The response format in it; None where any text will do."""
    left_out: tuple[str, ...]
    """What was asked for and is not in it, since the model refuses it."""


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


def parameters(request: ChatRequest, *, stream: bool = False) -> frozenset[str]:
    """Return what a request asks for that a model may refuse, by name."""
    told = word(request, Refused(), stream=stream).body.keys() - {"model", "messages"}
    return frozenset(told)


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


def cut_at(text: str, stops: Sequence[str]) -> str:
    """Return a text up to the first of the texts that end it, as servers cut it."""
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=None)]


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
