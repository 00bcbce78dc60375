"""A chat server on loopback, to test judges, generators and applications without key or model.

It speaks the chat completions of the OpenAI protocol over real HTTP, streamed ones too.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ragbench.json_yaml import load_json

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of the server to a request.

    Attributes:
        text: The reply of the model, or the message of an error.
        status: HTTP status; any other than 200 sends an error with `text` as its message.
        headers: Further response headers, such as `retry-after`.
        finish_reason: Reason of the end of the reply: `stop`, or `length` at its token limit.
        prompt_tokens: Number of prompt tokens to report; None counts words and punctuation marks.
    """

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """Request that the server received.

    Attributes:
        path: Path of the URL, with its query.
        headers: Headers by lower-case name.
        body: The JSON object of the request.
    """

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


# An answer to all requests, answers in order (the last is repeated), or a function of the body.
Answers = str | Answer | Sequence[str | Answer] | Callable[[Mapping[str, Any]], str | Answer]


class ChatServer:
    """Server of chat completions on 127.0.0.1 while a `with` block runs.

    `received` lists the requests in the order of their arrival. With port 0, `url` has the port
    once the block is entered, which raises an OSError if the port is taken; 404 answers other paths
    than `/chat/completions`, and is not recorded. A request with `stream` gets a streamed reply. A
    client that resets its connection leaves a line on stderr.

    Args:
        answers: The answers: a text, an `Answer`, a sequence of them (the last is repeated), or a
            function of the request body.
        port: Port on 127.0.0.1; 0 takes a free one.

    Example:
        >>> import json, urllib.request
        >>> with ChatServer("hello") as server:
        ...     body = json.dumps({"model": "m", "messages": []}).encode()
        ...     reply = json.load(urllib.request.urlopen(server.url + "/chat/completions", body))
        >>> reply["choices"][0]["message"]["content"], len(server.received)
        ('hello', 1)
    """

    def __init__(self, answers: Answers = "ok", *, port: int = 0) -> None:
        self._answers, self._port = answers, port
        self._lock = threading.Lock()
        self.received: list[Received] = []

    @property
    def url(self) -> str:
        """Return the base URL for a client: `http://127.0.0.1:<port>/v1`."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> ChatServer:
        self._http = _HttpServer(("127.0.0.1", self._port), _Handler)
        self._http.chat = self
        self._port = self._http.server_address[1]
        # 20 ms: `shutdown` waits for the end of a poll, which is half a second by default
        serve = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        serve.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.is_closing = True
        self._http.shutdown()
        self._http.server_close()

    def answer(self, request: Received) -> Answer:
        """Record a request and return its answer, a text as an `Answer` with status 200.

        An error of an answer function is raised, and an IndexError for an empty sequence; in the
        server either closes the connection.
        """
        with self._lock:
            number = len(self.received)
            self.received.append(request)
        answers = self._answers
        if callable(answers):
            answer = answers(request.body)
        elif isinstance(answers, (str, Answer)):
            answer = answers
        else:
            answer = answers[min(number, len(answers) - 1)]
        return Answer(answer) if isinstance(answer, str) else answer


class _HttpServer(ThreadingHTTPServer):
    chat: ChatServer
    is_closing = False
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print a line for a client that reset its connection, a traceback for other errors."""
        error = sys.exc_info()[1]
        if isinstance(error, ConnectionError):
            sys.stderr.write(f"ChatServer: a client closed its connection: {error}\n")
        else:
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # headers and body are two writes; Nagle's algorithm would delay the second by some 40 ms
    disable_nagle_algorithm = True
    server: _HttpServer

    def do_POST(self) -> None:
        """Answer a request: 404 for another path, 400 for a body that is no JSON object."""
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        # a client with an open connection could still reach a server that has ended
        if self.server.is_closing:
            self.close_connection = True
            return
        answer, body = Answer("no such path", 404), {}
        if self.path.partition("?")[0].endswith("/chat/completions"):
            try:
                body = load_json(content)
            except ValueError as error:
                answer = Answer(f"the body is no JSON: {error}", 400)
            else:
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = Answer("the body is no JSON object", 400)
                if isinstance(body, dict):
                    answer = self.server.chat.answer(Received(self.path, headers, body))
        try:
            self._send(answer, body)
        except ConnectionError:  # the client closed the connection
            self.close_connection = True

    def _send(self, answer: Answer, request: Mapping[str, Any]) -> None:
        kind = "application/json"
        if answer.status != 200:
            error = {"message": answer.text, "type": "error", "param": None, "code": None}
            content = json.dumps({"error": error}).encode()
        elif request.get("stream"):
            kind = "text/event-stream"
            events = [*map(json.dumps, _chunks(request, answer)), "[DONE]"]
            content = "".join(f"data: {event}\n\n" for event in events).encode()
        else:
            message = {"role": "assistant", "content": answer.text}
            choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
            body = {"choices": [choice], "usage": _usage(request, answer)}
            content = json.dumps({**_envelope("chat.completion", request), **body}).encode()
        self.send_response(answer.status)
        fields = {"content-type": kind, **answer.headers, "content-length": str(len(content))}
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing: the requests are in `received`."""


def _envelope(kind: str, request: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-0", "object": kind, "created": 0, "model": request.get("model", "")}


def _chunks(request: Mapping[str, Any], answer: Answer) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed answer, with the usage if the request asks for it."""
    envelope = _envelope("chat.completion.chunk", request)
    delta = {"role": "assistant", "content": answer.text}
    yield {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {
        **envelope,
        "choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish_reason}],
    }
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**envelope, "choices": [], "usage": _usage(request, answer)}


def _usage(request: Mapping[str, Any], answer: Answer) -> dict[str, int]:
    """Return prompt, completion and total tokens: words and punctuation marks are counted."""
    sent = answer.prompt_tokens
    if sent is None:
        sent = 0
        for message in request.get("messages", ()):
            sent += len(_TOKEN.findall(str(message.get("content"))))
    received = len(_TOKEN.findall(answer.text))
    return {
        "prompt_tokens": sent,
        "completion_tokens": received,
        "total_tokens": sent + received,
    }
