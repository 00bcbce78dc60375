"""Scripts of models and servers that refuse: reasoning models, content filters, long prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ragbench.testing.chat_answers import Answer, Script, usage

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

    answer: str | Script = "ok"
    """What it answers: a text, or a script that is asked once nothing is refused."""
    thoughts: str = "Let me think."
    refuses: tuple[str, ...] = REASONING
    wording: Refusals = "openai"
    tags: bool = False
    """Whether the reasoning stands in the text, between `<think>` and `</think>`, as the servers of
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
