"""Bodies of the OpenAI chat protocol: completions, streams of chunks, errors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragbench.testing.chat_answers import Answer

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
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": answer.text, "refusal": answer.refusal},
        "finish_reason": answer.finish_reason,
        "logprobs": _logprobs(request, answer),
    }
    if answer.refusal is not None:
        choice["message"] = {"role": "assistant", "content": None, "refusal": answer.refusal}
    return json.dumps(
        {
            **_envelope("chat.completion", request, number, model),
            "choices": [] if answer.empty else [choice],
            "usage": usage(request, answer),
        }
    ).encode()


def chunks(request: Mapping[str, Any], answer: Answer, number: int, model: str) -> Iterator[bytes]:
    """Yield the server-sent events of a streamed completion."""
    envelope = _envelope("chat.completion.chunk", request, number, model)

    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        return b"data: " + json.dumps({**envelope, "choices": choices, **more}).encode() + b"\n\n"

    if not answer.empty:
        yield event([_delta({"role": "assistant", "content": ""})])
        for token in _TOKEN.findall(answer.text):
            logprobs = _logprobs(request, Answer(token, alternatives=answer.alternatives))
            yield event([_delta({"content": token}, logprobs=logprobs)])
        if answer.refusal is not None:
            yield event([_delta({"refusal": answer.refusal})])
        yield event([_delta({}, finish_reason=answer.finish_reason)])
    if (request.get("stream_options") or {}).get("include_usage"):
        yield event([], usage=usage(request, answer))
    yield b"data: [DONE]\n\n"


def error(answer: Answer) -> bytes:
    """Return an error body as OpenAI writes it."""
    kind = "invalid_request_error" if 400 <= answer.status < 500 else "server_error"
    body = {"message": answer.text, "type": kind, "param": answer.param, "code": answer.error_code}
    return json.dumps({"error": body}).encode()


def usage(request: Mapping[str, Any], answer: Answer) -> dict[str, int]:
    """Count tokens: words and signs of the messages and of the answer."""
    sent = sum(len(_TOKEN.findall(str(m.get("content")))) for m in request.get("messages", ()))
    said = 0 if answer.empty else len(_TOKEN.findall(answer.text))
    return {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}


def _envelope(kind: str, request: Mapping[str, Any], number: int, model: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number}",
        "object": kind,
        "created": 0,
        "model": model or str(request.get("model", "")),
        "system_fingerprint": "fp_loopback",
    }


def _delta(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": None, **more}


def _logprobs(request: Mapping[str, Any], answer: Answer) -> dict[str, Any] | None:
    """Log-probabilities of every token, where the request wants them."""
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
