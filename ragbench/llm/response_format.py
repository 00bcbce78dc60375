"""How a request is worded for a server, and what is left out once the server refused it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.llm.base import CallFailure, ChatRequest

_FORMATS = ("json_schema", "json_object", "text")
_REFUSED = frozenset({400, 404, 415, 422, 500, 501})
_ABOUT_FORMAT = re.compile(
    r"response[_ ]?format|json[_ ]?(object|mode)|structured output|grammar|peg-native|schema",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(r"unsupported|not supported|n.t support|not implemented", re.IGNORECASE)
_UNKNOWN = re.compile(
    rf"{_UNSUPPORTED.pattern}|unknown|unrecognized|unexpected|not permitted|extra inputs|invalid",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Wording:
    """A request as it is sent."""

    body: dict[str, Any]
    """The JSON body."""
    model: str
    """The model that is asked."""
    format: str | None
    """The response format in it; None where any text will do."""


class Fallbacks:
    """What the models of one server do not know; remembered, so that it is found out once."""

    def __init__(self) -> None:
        self._format: dict[str, str] = {}
        self._longest: dict[str, str] = {}
        self._no_logprobs: set[str] = set()

    def wording(self, request: ChatRequest) -> Wording:
        """Word a request as far as its model is known to understand it."""
        model = request.model
        body: dict[str, Any] = {"model": model, "messages": request.to_dict()["messages"]}
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.max_tokens is not None:
            body[self._longest.get(model, "max_tokens")] = request.max_tokens
        if request.seed is not None:
            body["seed"] = request.seed + request.sample
        if request.stop:
            body["stop"] = list(request.stop)
        if request.top_logprobs and model not in self._no_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        wanted = None
        if request.schema is not None:
            wanted = self._format.get(model, _FORMATS[0])
            _add_format(body, wanted, request)
        if request.extra:
            body |= request.extra
        return Wording(body, model, wanted)

    def learn(self, wording: Wording, failure: CallFailure) -> bool:
        """Return whether the refused request can be worded otherwise, and do so from now on."""
        if failure.status not in _REFUSED:
            return False
        text, model = f"{failure.param or ''} {failure.detail}", wording.model
        unknown = failure.status in (400, 415, 422) and _UNKNOWN.search(text) is not None
        if unknown and "max_tokens" in wording.body and "max_completion_tokens" in text:
            self._longest[model] = "max_completion_tokens"
            return True
        if unknown and "logprobs" in wording.body and "logprobs" in text:
            self._no_logprobs.add(model)
            return True
        about_format = _ABOUT_FORMAT.search(text) or (
            not failure.param and _UNSUPPORTED.search(text)
        )
        if wording.format not in (None, "text") and about_format:
            known = self._format.get(model, _FORMATS[0])
            # others in flight may have found the same out: step down from what was sent
            if known == wording.format:
                self._format[model] = _FORMATS[_FORMATS.index(known) + 1]
            return True
        return False


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
