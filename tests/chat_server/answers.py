"""Answers of a scripted chat server, faults that servers have, and both as bytes."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal, Protocol

from ragbench.errors import OptionError
from ragbench.json_yaml import load_json

Cut = Literal["before", "headers", "body"]
"""Where a connection is cut: before any byte, after the headers, or in the middle of the body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Scripted answer of the server."""

    text: str = ""
    status: int = 200
    """HTTP status; any other than 200 sends an error body with `text` as its message."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further response headers, such as `retry-after`."""
    delay_s: float = 0.0
    """Seconds until the answer is sent, beyond the server's own latency."""
    cut: Cut | None = None
    """Place of the cut in the connection; None answers in full."""
    finish_reason: str = "stop"
    refusal: str | None = None
    reasoning: str = ""
    """Thoughts of the model before it answers: `reasoning_content`, beside the text."""
    cached_tokens: int = 0
    """Tokens of the prompt that the server says it had cached."""
    empty: bool = False
    error_code: str | None = None
    """`error.code` of an error body: `insufficient_quota`."""
    param: str | None = None
    """`error.param` of an error body: the parameter that the server refuses."""
    alternatives: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Probabilities of the tokens that could have stood in a token's place, by that token."""
    body: bytes | None = None
    """The whole response body instead of a chat completion: a proxy's HTML page."""


Fault = Callable[[str], Answer]
"""Makes a faulty answer of the text that the server would have sent."""


FAULTS: dict[str, Fault] = {
    "rate_limited": lambda text: Answer(
        "Rate limit reached", status=429, headers={"retry-after": "0.05"}
    ),
    "server_error": lambda text: Answer("The server had an error", status=500),
    "overloaded": lambda text: Answer("The engine is overloaded", status=503),
    "slow": lambda text: Answer(text, delay_s=30.0),
    "cut": lambda text: Answer(text, cut="body"),
    "hung_up": lambda text: Answer(text, cut="before"),
    "truncated_json": lambda text: Answer(text[: len(text) // 2], finish_reason="length"),
    "prose": lambda text: Answer(f"Sure! Here is my verdict:\n```json\n{text}\n```\nIs that all?"),
    "not_a_number": lambda text: Answer(_with_numbers(text, "NaN")),
    "number_word": lambda text: Answer(_with_numbers(text, '"four"')),
    "no_choices": lambda text: Answer(empty=True),
    "refusal": lambda text: Answer(refusal="I cannot help with that."),
}
"""The faults by name; those that a client can mend are `rate_limited`, `server_error`,
`overloaded`, `cut`, `hung_up` (ask again) and `prose` (read around it)."""


class ChatScript(Protocol):
    """Says what the server answers to a request."""

    def __call__(self, request: Mapping[str, Any], times_asked: int) -> Answer | str:
        """Return the answer to a request body that was asked `times_asked` times before."""


@dataclass(frozen=True, slots=True)
class Faults:
    """A script that answers with `text`, apart from a share of requests that meet a fault.

    Which fault a request meets, if any, follows from its content and the seed, not from the order
    of arrival: an undisturbed and a repeated run meet the same. A request that is sent again is
    answered; a question that is asked once more in the same conversation meets its fault again.

    Example:
        >>> script = Faults('{"score": 4}', share=0.5, kinds=["server_error"])
        >>> asking = lambda i: {"messages": [{"role": "user", "content": f"{i}"}]}
        >>> answers = [script(asking(i), times_asked=0).status for i in range(1000)]
        >>> answers.count(500), script(asking(1), times_asked=1).status
        (510, 200)
    """

    text: str
    """Answer of the server to a request without a fault."""
    share: float = 0.2
    """Share of the requests that meet a fault."""
    kinds: tuple[str, ...] | list[str] = tuple(FAULTS)
    """Names in `FAULTS`, all equally frequent."""
    seed: int = 0
    """Another seed, other victims."""

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in FAULTS:
                raise OptionError("chat server", "kinds", kind, ", ".join(FAULTS))

    def kind_of(self, request: Mapping[str, Any]) -> str | None:
        """Return the name of the fault that a request meets, or None."""
        said = takewhile(lambda m: m.get("role") != "assistant", request.get("messages") or ())
        content = json.dumps([self.seed, *said], sort_keys=True).encode()
        draw = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big") / 2**64
        if draw >= self.share:
            return None
        return self.kinds[int(draw / self.share * len(self.kinds))]

    def __call__(self, request: Mapping[str, Any], times_asked: int) -> Answer:
        """Answer with the fault on the first request, and with the text from then on."""
        kind = self.kind_of(request) if times_asked == 0 else None
        return Answer(self.text) if kind is None else FAULTS[kind](self.text)


def _with_numbers(text: str, written: str) -> str:
    """The text with every number in it written otherwise; `written` alone where it is no JSON."""
    try:
        value = load_json(text)
    except ValueError:
        return written
    marker = "\x00"
    return json.dumps(_marked(value, marker)).replace(json.dumps(marker), written)


def _marked(value: Any, marker: str) -> Any:
    if isinstance(value, dict):
        return {key: _marked(part, marker) for key, part in value.items()}
    if isinstance(value, list):
        return [_marked(part, marker) for part in value]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return marker if is_number else value


REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}
_TOKEN = re.compile(r"\w+|\W", re.ASCII)
_CERTAIN = -0.01  # log-probability of a token that the script says nothing about


def response(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return a whole HTTP/1.1 response."""
    fields = {"content-type": "application/json", **headers, "content-length": str(len(body))}
    return head(status, fields) + body


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """Return the status line and the headers of a response."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def completion(request: Mapping[str, Any], answer: Answer, number: int, model: str) -> bytes:
    """Return the body of a chat completion."""
    text = answer.text if answer.refusal is None else None
    thought = {"reasoning_content": answer.reasoning} if answer.reasoning else {}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": answer.refusal, **thought},
        "finish_reason": answer.finish_reason,
        "logprobs": _logprobs(request, answer),
    }
    return json.dumps(
        {
            **_envelope("chat.completion", request, number, model),
            "choices": [] if answer.empty else [choice],
            "usage": usage(request, answer),
        }
    ).encode()


def error(answer: Answer) -> bytes:
    """Return an error body as OpenAI writes it."""
    kind = "invalid_request_error" if 400 <= answer.status < 500 else "server_error"
    body = {"message": answer.text, "type": kind, "param": answer.param, "code": answer.error_code}
    return json.dumps({"error": body}).encode()


def usage(request: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """Count tokens: words and signs of the messages, of the reasoning and of the answer."""
    sent = sum(len(_TOKEN.findall(str(m.get("content")))) for m in request.get("messages", ()))
    thought = len(_TOKEN.findall(answer.reasoning))
    said = thought + (0 if answer.empty else len(_TOKEN.findall(answer.text)))
    counts = {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}
    details: dict[str, Any] = {}
    if thought:
        details["completion_tokens_details"] = {"reasoning_tokens": thought}
    if answer.cached_tokens:
        details["prompt_tokens_details"] = {"cached_tokens": answer.cached_tokens}
    return {**counts, **details}


def _envelope(kind: str, request: Mapping[str, Any], number: int, model: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number}",
        "object": kind,
        "created": 0,
        "model": model or str(request.get("model", "")),
        "system_fingerprint": "fp_loopback",
    }


def _logprobs(request: Mapping[str, Any], answer: Answer) -> dict[str, Any] | None:
    if not request.get("logprobs"):
        return None
    count = int(request.get("top_logprobs") or 0)
    content = []
    for token in _TOKEN.findall(answer.text):
        others = answer.alternatives.get(token) or {token: math.exp(_CERTAIN)}
        ranked = sorted(others.items(), key=lambda pair: -pair[1])[:count]
        top = [_logprob(name, probability) for name, probability in ranked]
        chosen = others.get(token, math.exp(_CERTAIN))
        content.append({**_logprob(token, chosen), "top_logprobs": top})
    return {"content": content}


def _logprob(token: str, probability: float) -> dict[str, Any]:
    logprob = math.log(probability) if probability > 0 else -9999.0  # as OpenAI writes zero
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}


Refusals = Literal["openai", "fastapi", "plain"]
"""How a server words a refusal: OpenAI names the parameter in `error.param`, servers on FastAPI
answer 422 with a list, others name it in their text alone."""

REASONING = ("temperature", "max_tokens", "seed", "stop", "logprobs")
"""The parameters that reasoning models refuse, some these, some those."""

_SUPPORT = {
    "temperature": (
        "Unsupported value: 'temperature' does not support {value} with this model. "
        "Only the default (1) value is supported."
    ),
    "max_tokens": (
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead."
    ),
}
_OTHERS = "Unsupported parameter: '{name}' is not supported with this model."


def refuse(name: str, value: object = None, wording: Refusals = "openai") -> Answer:
    """Return the answer of a server to a request with a parameter that its model refuses.

    Example:
        >>> refuse("seed").status, refuse("seed", wording="fastapi").status, refuse("seed").param
        (400, 422, 'seed')
    """
    if wording == "fastapi":
        found = {"type": "extra_forbidden", "loc": ["body", name], "input": value}
        body = {"detail": [{**found, "msg": "Extra inputs are not permitted"}]}
        return Answer(status=422, body=json.dumps(body).encode())
    if wording == "plain":
        return Answer(f"{name} is not supported by this model", status=400)
    if name == "logprobs":
        return Answer("You are not allowed to request logprobs from this model.", status=403)
    code = "unsupported_value" if name == "temperature" else "unsupported_parameter"
    message = _SUPPORT.get(name, _OTHERS).format(name=name, value=value)
    return Answer(message, status=400, param=name, error_code=code)


@dataclass(frozen=True, slots=True)
class ReasoningModel:
    """A script of a model that thinks before it answers, and refuses some parameters.

    It refuses one parameter at a time, as servers do. Where `max_completion_tokens` (or
    `max_tokens`, if it is taken) ends before the reasoning does, the answer is empty.

    Example:
        >>> model = ReasoningModel("4", thoughts="two and two")
        >>> model({"temperature": 0.0}, 0).param, model({}, 0).text, model({}, 0).reasoning
        ('temperature', '4', 'two and two')
        >>> model({"max_completion_tokens": 2}, 0).finish_reason
        'length'
    """

    answer: str | ChatScript = "ok"
    """Answer to an accepted request: a text, or a script that returns it."""
    thoughts: str = "Let me think."
    refuses: tuple[str, ...] = REASONING
    wording: Refusals = "openai"
    tags: bool = False
    """True if the reasoning stands in the text, between `<think>` and `</think>`, as the servers of
    local models send it; else in `reasoning_content`."""

    def __call__(self, request: Mapping[str, Any], times_asked: int) -> Answer:
        """Refuse, or think and answer."""
        for name in self.refuses:
            if request.get(name) is not None:
                return refuse(name, request[name], self.wording)
        made = self.answer if isinstance(self.answer, str) else self.answer(request, times_asked)
        answer = Answer(made) if isinstance(made, str) else made
        if answer.status != 200:
            return answer
        longest = request.get("max_completion_tokens") or request.get("max_tokens")
        thoughts = Answer(reasoning=self.thoughts)
        if longest is not None and usage({}, thoughts)["completion_tokens"] >= longest:
            thought = self.thoughts[: int(longest)]  # a token has a letter at least
            cut = replace(answer, text="", finish_reason="length")
            if self.tags:
                return replace(cut, text=f"<think>{thought}")
            return replace(cut, reasoning=thought)
        if self.tags:
            return replace(answer, text=f"<think>\n{self.thoughts}\n</think>\n\n{answer.text}")
        return replace(answer, reasoning=self.thoughts)


def filter_prompt(**severity: str) -> Answer:
    """Return Azure's answer to a prompt that its content filter holds back; by default for hate.

    Example:
        >>> answer = filter_prompt(violence="medium")
        >>> json.loads(answer.body)["error"]["code"], answer.status
        ('content_filter', 400)
    """
    found = severity or {"hate": "high"}
    kinds = ("hate", "self_harm", "sexual", "violence")
    result = {
        kind: {"filtered": kind in found, "severity": found.get(kind, "safe")} for kind in kinds
    }
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": result}
    error = {
        "message": (
            "The response was filtered due to the prompt triggering Azure OpenAI's content "
            "management policy. Please modify your prompt and retry."
        ),
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": inner,
    }
    return Answer(status=400, body=json.dumps({"error": error}).encode())


def exceed_context(
    tokens: int, room: int, server: Literal["openai", "llama.cpp"] = "openai"
) -> Answer:
    """Return the answer of a server to a prompt of more tokens than its model has room for.

    Example:
        >>> exceed_context(5000, 4096).error_code
        'context_length_exceeded'
    """
    if server == "llama.cpp":
        said = f"the request exceeds the available context size ({room} tokens), try increasing it"
        error = {"code": 400, "message": said, "type": "exceed_context_size_error"}
        counts = {"n_prompt_tokens": tokens, "n_ctx": room}
        return Answer(status=400, body=json.dumps({"error": {**error, **counts}}).encode())
    said = (
        f"This model's maximum context length is {room} tokens. However, your messages resulted "
        f"in {tokens} tokens. Please reduce the length of the messages."
    )
    return Answer(said, status=400, param="messages", error_code="context_length_exceeded")
