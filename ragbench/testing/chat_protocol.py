"""HTTP/1.1 on one connection of the chat server: requests in, scripted answers out."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ragbench.testing import chat_wire
from ragbench.testing.chat_answers import Answer

if TYPE_CHECKING:
    from ragbench.testing.chat_server import ChatServer

_END_OF_HEADERS = b"\r\n\r\n"


class ChatProtocol(asyncio.Protocol):
    """One connection; callbacks rather than tasks, since it has to outrun the clients it tests."""

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
        from ragbench.testing.chat_server import Received

        if method == "GET":
            self._send(chat_wire.response(200, {}, self._get(path)))
            return
        try:
            body = json.loads(content)
        except ValueError:
            body = None
        if not path.endswith("/chat/completions") or not isinstance(body, dict):
            status = 400 if path.endswith("/chat/completions") else 404
            refused = Answer("no such path, or the body is no JSON object", status=status)
            self._send(chat_wire.response(status, {}, chat_wire.error(refused)))
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
            return chat_wire.response(answer.status, answer.headers, answer.body)
        if answer.status != 200:
            return chat_wire.response(answer.status, answer.headers, chat_wire.error(answer))
        if not request.get("stream"):
            body = chat_wire.completion(request, answer, number, server.model)
            return chat_wire.response(200, answer.headers, body)
        fields = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        parts = [chat_wire.head(200, {**fields, **answer.headers})]
        for event in chat_wire.chunks(request, answer, number, server.model):
            parts.append(b"%x\r\n%s\r\n" % (len(event), event))
        return b"".join([*parts, b"0\r\n\r\n"])

    def _send(self, data: bytes) -> None:
        self._busy = False
        if self._transport is not None:
            self._transport.write(data)
        if self._buffer:
            self._next_request()
