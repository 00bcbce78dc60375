"""A chat server on loopback: its limits, its counters, HTTP/1.1 on each connection."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

from ragbench.json_yaml import load_json
from tests.chat_server import answers
from tests.chat_server.answers import Answer, ChatScript
from tests.chat_server.batches import Batches

_KEPT = 1_000  # bodies that are kept for tests to look at: memory must not grow with the calls


@dataclass(frozen=True, slots=True)
class Received:
    """Request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """Headers by lower-case name."""
    body: Mapping[str, Any]


@dataclass(slots=True)
class Counters:
    """Requests that the server has received so far."""

    requests: int = 0
    """Requests for a completion, whatever became of them."""
    answered: int = 0
    """Those answered with 200 and to the end."""
    limited: int = 0
    """Those turned away by the server's own limits."""
    in_flight: int = 0
    peak_in_flight: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    """Status -> number of replies with it; 0 is a connection that was cut."""
    asked: Counter[str] = field(default_factory=Counter)
    """Digest of a message list -> number of requests with it."""
    first_s: float = 0.0
    last_s: float = 0.0

    @property
    def most_asked(self) -> int:
        """Number of requests with the most frequent list of messages."""
        return max(self.asked.values(), default=0)


class ChatServer:
    """A chat server for tests: `with ChatServer("4") as server: ... server.url`.

    Args:
        script: What it answers: one text for all, a sequence of answers (the last one is
            repeated), or a function of the request body and of how often it was asked before.
        requests_per_second: Its rate limit, a token bucket; beyond it, 429 with `retry-after`.
        burst: Size of the bucket; by default what flows in within a second.
        concurrent: How many requests it works on at once; beyond that, 429.
        latency_s: How long every answer takes.
        formats: The response formats that it knows; a request for another one gets a 400.
        model: What it calls itself; by default what the request calls it.
        batches: How its batches go, at `/v1/files` and `/v1/batches`; by default they are complete
            when they are first looked at.
        key: The key that a request must carry, else it gets a 401: in the header `api-key` at an
            address of Azure's, as bearer elsewhere. None takes any.
        port: Port on 127.0.0.1; 0 takes a free one.

    Example:
        >>> import json, urllib.request
        >>> with ChatServer("hello") as server:
        ...     body = json.dumps({"model": "m", "messages": []}).encode()
        ...     reply = json.load(urllib.request.urlopen(server.url + "/chat/completions", body))
        >>> reply["choices"][0]["message"]["content"], server.counters.requests
        ('hello', 1)
    """

    def __init__(
        self,
        script: str | Answer | Sequence[Answer | str] | ChatScript = "ok",
        *,
        requests_per_second: float | None = None,
        burst: float | None = None,
        concurrent: int | None = None,
        latency_s: float = 0.0,
        formats: Sequence[str] = ("json_schema", "json_object", "text"),
        model: str = "",
        key: str | None = None,
        batches: Batches | None = None,
        port: int = 0,
    ) -> None:
        self._script = script
        self.rate, self.concurrent = requests_per_second, concurrent
        self.burst = max(1.0, burst if burst is not None else (requests_per_second or 0.0))
        self.latency_s, self.formats, self.model = latency_s, tuple(formats), model
        self.key = key
        self.batches = batches or Batches()
        self.counters = Counters()
        self.received: deque[Received] = deque(maxlen=_KEPT)
        self._port = port
        self._tokens, self._filled = self.burst, time.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: set[ChatProtocol] = set()

    @property
    def url(self) -> str:
        """The base URL for a client: `http://127.0.0.1:<port>/v1`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def azure_endpoint(self) -> str:
        """The address of the resource for a client of Azure's: `http://127.0.0.1:<port>`.

        Below it are all deployments, at `/openai/deployments/NAME`; `api-version` is required.
        """
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> ChatServer:
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.result()
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def answer_to(self, body: Mapping[str, Any]) -> Answer:
        """Count a request and say what it gets: its own limits first, then the script."""
        counters = self.counters
        counters.requests += 1
        limited = self._over_limit()
        if limited is not None:
            counters.limited += 1
            return limited
        content = json.dumps([body.get("messages"), body.get("seed")], sort_keys=True)
        digest = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
        asked_before = counters.asked[digest]
        counters.asked[digest] += 1
        wanted = (body.get("response_format") or {}).get("type", "text")
        if wanted not in self.formats:
            refusal = f"response_format {wanted} is not supported"
            return Answer(refusal, status=400, param="response_format")
        answer = self._scripted(body, asked_before)
        return Answer(answer) if isinstance(answer, str) else answer

    def _scripted(self, body: Mapping[str, Any], asked_before: int) -> Answer | str:
        script = self._script
        if callable(script):
            return script(body, asked_before)
        if isinstance(script, (str, Answer)):
            return script
        answered = self.counters.requests - self.counters.limited - 1
        return script[min(answered, len(script) - 1)]

    def _over_limit(self) -> Answer | None:
        """A 429 where a limit is reached, with the seconds until the next token as Retry-After."""
        if self.concurrent is not None and self.counters.in_flight > self.concurrent:
            return Answer("Too many concurrent requests", status=429)
        if self.rate is None:
            return None
        now = time.monotonic()
        self._tokens = min(self.burst, self._tokens + (now - self._filled) * self.rate)
        self._filled = now
        if self._tokens >= 1:
            self._tokens -= 1
            return None
        wait_ms = math.ceil(1000 * (1 - self._tokens) / self.rate)
        wait = {"retry-after": f"{wait_ms / 1000:.3f}"}
        return Answer("Rate limit reached", status=429, headers=wait)

    def _run(self, started: Future[None]) -> None:
        loop = self._loop = asyncio.new_event_loop()
        try:
            serve = loop.create_server(self._connected, "127.0.0.1", self._port, backlog=1024)
            listening = loop.run_until_complete(serve)
        except OSError as error:
            started.set_exception(error)
            loop.close()
            return
        self._port = listening.sockets[0].getsockname()[1]
        started.set_result(None)
        try:
            loop.run_forever()
        finally:
            listening.close()
            for connection in list(self._connections):
                connection.abort()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    def _connected(self) -> ChatProtocol:
        return ChatProtocol(self, self._connections)


_END_OF_HEADERS = b"\r\n\r\n"


class ChatProtocol(asyncio.Protocol):
    """Connection of a client."""

    # callbacks rather than tasks: it has to outrun the clients that it tests

    def __init__(self, server: ChatServer, connections: set[ChatProtocol]) -> None:
        self._server, self._connections = server, connections
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._transport = None
        self._connections.discard(self)

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes; answer when a request is whole."""
        self._buffer += data
        self._next_request()

    def _next_request(self) -> None:
        end = self._buffer.find(_END_OF_HEADERS)
        if end < 0 or self._busy:
            return
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines[1:])
        headers = {name.lower(): value.strip() for name, _, value in fields}
        start = end + len(_END_OF_HEADERS)
        stop = start + int(headers.get("content-length", 0))
        if len(self._buffer) < stop:
            return
        content = bytes(self._buffer[start:stop])
        del self._buffer[:stop]
        self._busy = True
        method, path, _ = lines[0].split(" ", 2)
        self._handle(method, path, headers, content)

    def _handle(self, method: str, path: str, headers: Mapping[str, str], content: bytes) -> None:
        if (found := self._batches(method, path, headers, content)) is not None:
            self._send(found)
            return
        if method == "GET":
            self._send(answers.response(200, {}, self._get(path)))
            return
        try:
            body = load_json(content)
        except ValueError:
            body = None
        refused = self._refused(path, headers, body)
        if refused is not None:
            self._send(answers.response(refused.status, {}, answers.error(refused)))
            return
        server = self._server
        server.received.append(Received(path, headers, body))
        counters = server.counters
        counters.first_s = counters.first_s or time.monotonic()
        counters.in_flight += 1
        counters.peak_in_flight = max(counters.peak_in_flight, counters.in_flight)
        answer = server.answer_to(body)
        # a server turns away at once, and thinks before it answers
        delay_s = answer.delay_s + (0.0 if answer.status == 429 else server.latency_s)
        if delay_s > 0:
            asyncio.get_running_loop().call_later(delay_s, self._answer, body, answer)
        else:
            self._answer(body, answer)

    def _refused(self, path: str, headers: Mapping[str, str], body: object) -> Answer | None:
        """Return the answer to a request that reaches no model; None if it reaches one."""
        place, _, query = path.partition("?")
        azure = place.startswith("/openai/deployments/")
        if not place.endswith("/chat/completions") or (azure and "api-version=" not in query):
            return Answer("no such path", status=404, error_code="404")
        if not isinstance(body, dict):
            return Answer("the body is no JSON object", status=400)
        name, wanted = ("api-key", "{}") if azure else ("authorization", "Bearer {}")
        key = self._server.key
        if key is not None and headers.get(name) != wanted.format(key):
            return Answer(f"no valid key in {name}", status=401, error_code="invalid_api_key")
        return None

    def _batches(
        self, method: str, path: str, headers: Mapping[str, str], content: bytes
    ) -> bytes | None:
        """The response to a request about files or batches; None where it is about neither."""
        place = path.partition("?")[0].removeprefix("/v1/").removeprefix("/openai/")
        if place.split("/")[0] not in ("files", "batches"):
            return None
        server = self._server
        if server.key is not None and f"Bearer {server.key}" != headers.get("authorization"):
            refused = Answer("no valid key in authorization", 401, error_code="invalid_api_key")
            return answers.response(401, {}, answers.error(refused))

        def complete(body: Mapping[str, Any]) -> tuple[int, bytes]:
            server.received.append(Received(path, headers, body))
            answer = server.answer_to(body)
            server.counters.statuses[answer.status] += 1
            if answer.status != 200:
                return answer.status, answers.error(answer)
            server.counters.answered += 1
            number = server.counters.requests
            return 200, answers.completion(body, answer, number, server.model)

        status, body = server.batches.respond(method, place, headers, content, complete)
        return answers.response(status, {}, body)

    def _get(self, path: str) -> bytes:
        counters = self._server.counters
        if path.endswith("/counters"):
            names = ("requests", "answered", "limited", "peak_in_flight", "most_asked")
            seen = {name: getattr(counters, name) for name in names}
            seen |= {"statuses": counters.statuses, "seconds": counters.last_s - counters.first_s}
            return json.dumps(seen).encode()
        models = [{"id": self._server.model or "loopback", "object": "model"}]
        return json.dumps({"object": "list", "data": models}).encode()

    def _answer(self, request: Mapping[str, Any], answer: Answer) -> None:
        """Send an answer, or as much of it as the script allows."""
        counters = self._server.counters
        counters.in_flight -= 1
        counters.last_s = time.monotonic()
        if self._transport is None or self._transport.is_closing():
            counters.statuses[0] += 1  # the client went away
            return
        if answer.cut == "before":
            counters.statuses[0] += 1
            self.abort()
            return
        whole = self._whole(request, answer)
        if answer.cut is not None:
            counters.statuses[0] += 1
            headers = whole.index(_END_OF_HEADERS) + len(_END_OF_HEADERS)
            middle = headers + (len(whole) - headers) // 2
            self._transport.write(whole[: headers if answer.cut == "headers" else middle])
            self._transport.close()
            return
        counters.statuses[answer.status] += 1
        counters.answered += answer.status == 200
        self._send(whole)

    def _whole(self, request: Mapping[str, Any], answer: Answer) -> bytes:
        server, number = self._server, self._server.counters.requests
        if answer.body is not None:
            return answers.response(answer.status, answer.headers, answer.body)
        if answer.status != 200:
            return answers.response(answer.status, answer.headers, answers.error(answer))
        body = answers.completion(request, answer, number, server.model)
        return answers.response(200, answer.headers, body)

    def _send(self, data: bytes) -> None:
        self._busy = False
        if self._transport is not None:
            self._transport.write(data)
        if self._buffer:
            self._next_request()
