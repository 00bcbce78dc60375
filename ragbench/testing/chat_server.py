"""A real HTTP server on loopback that speaks the OpenAI chat protocol, scripted.

It streams or not, as the request asks; it is slow, cuts connections, refuses and talks nonsense
where its script says so; it holds its own limits; and it counts what it received. Standard library
only, in a thread of its own. `python -m ragbench.testing --help` runs it alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ragbench.testing.chat_answers import Answer, Script
from ragbench.testing.chat_protocol import ChatProtocol

_KEPT = 1_000  # bodies that are kept for tests to look at: memory must not grow with the calls


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived."""

    path: str
    """The path of the URL."""
    headers: Mapping[str, str]
    """Headers by lower-case name."""
    body: Mapping[str, Any]
    """The JSON body."""


@dataclass(slots=True)
class Counters:
    """What the server has seen so far."""

    requests: int = 0
    """Requests for a completion, whatever became of them."""
    answered: int = 0
    """Those answered with 200 and to the end."""
    limited: int = 0
    """Those turned away by the server's own limits."""
    in_flight: int = 0
    """Those under way now."""
    peak_in_flight: int = 0
    """The most that were under way at once."""
    statuses: Counter[int] = field(default_factory=Counter)
    """How often each status was sent; 0 stands for a connection that was cut."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each message list was asked, by its digest."""
    first_s: float = 0.0
    """When the first request arrived, on the monotonic clock."""
    last_s: float = 0.0
    """When the last answer was sent."""

    @property
    def most_asked(self) -> int:
        """How often the most frequent message list was asked."""
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
        script: str | Answer | Sequence[Answer | str] | Script = "ok",
        *,
        requests_per_second: float | None = None,
        burst: float | None = None,
        concurrent: int | None = None,
        latency_s: float = 0.0,
        formats: Sequence[str] = ("json_schema", "json_object", "text"),
        model: str = "",
        port: int = 0,
    ) -> None:
        self._script = script
        self.rate, self.concurrent = requests_per_second, concurrent
        self.burst = max(1.0, burst if burst is not None else (requests_per_second or 0.0))
        self.latency_s, self.formats, self.model = latency_s, tuple(formats), model
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

    def __enter__(self) -> ChatServer:
        """Start it; it answers when this returns."""
        started = threading.Event()
        failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(started, failed), daemon=True)
        self._thread.start()
        started.wait()
        if failed:
            raise failed[0]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it and cut what is under way."""
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
            return Answer(
                f"response_format {wanted} is not supported", status=400, param="response_format"
            )
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

    def _run(self, started: threading.Event, failed: list[BaseException]) -> None:
        loop = self._loop = asyncio.new_event_loop()
        try:
            listening = loop.run_until_complete(
                loop.create_server(self._connected, "127.0.0.1", self._port, backlog=1024)
            )
        except OSError as error:
            failed.append(error)
            started.set()
            loop.close()
            return
        self._port = listening.sockets[0].getsockname()[1]
        started.set()
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
