"""Chat completions: how a request is worded for a server, and what it sends in return."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.llm.base import CallFailure, ChatReply, ChatRequest, TokenLogprob, Usage
from ragbench.llm.failures import failure_of_body, shortened
from ragbench.types import Cause

_ENVELOPE = ("model", "system_fingerprint", "usage", "error")
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
    return ChatReply(
        text=read_text(message.get("content")),
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
    texts, refusals = [], []
    logprobs: list[Any] = []
    finish_reason = None
    for chunk in chunks:
        whole |= {key: chunk[key] for key in _ENVELOPE if chunk.get(key) is not None}
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            texts.append(delta.get("content") or "")
            refusals.append(delta.get("refusal") or "")
            logprobs += (choice.get("logprobs") or {}).get("content") or ()
            finish_reason = choice.get("finish_reason") or finish_reason
            whole["choices"] = [choice]
    if whole["choices"]:
        if finish_reason is None:
            detail = "the stream ended before the reply did"
            raise CallFailure(Cause.SERVER_ERROR, detail, retryable=True)
        message = {"content": "".join(texts), "refusal": "".join(refusals) or None}
        joined = {"message": message, "finish_reason": finish_reason}
        whole["choices"] = [{**joined, "logprobs": {"content": logprobs} if logprobs else None}]
    return json.dumps(whole)


def _parsed(body: str) -> Mapping[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
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


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, Mapping):
        return Usage()
    return Usage(read_count(usage.get("prompt_tokens")), read_count(usage.get("completion_tokens")))


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
class Wording:
    """A request as it is sent."""

    body: dict[str, Any]
    model: str
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
