"""Chat completions: what a server sends in return for a request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.json_yaml import load_json
from ragbench.llm.base import CallFailure, ChatReply, TokenLogprob, Usage
from ragbench.llm.failures import failure_of_body, shortened
from ragbench.types import Cause

_ENVELOPE = ("model", "system_fingerprint", "usage", "error")
_REASONING = ("reasoning_content", "reasoning")  # DeepSeek's and vLLM's; OpenRouter's
_THOUGHT = re.compile(r"\s*(?:<think(?:ing)?>|\[THINK\])", re.IGNORECASE)
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>|\[/THINK\]", re.IGNORECASE)


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
        value = load_json(body)
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
