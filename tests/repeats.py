"""A server on loopback that sends some replies twice, as broken proxies do, and its clients."""

from __future__ import annotations

import json
import random
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, Literal

from ragbench.adapters.http import Endpoint
from ragbench.llm import ChatEngine, ChatRequest, Limits, Message, OpenAIChat

# The second copy comes in one packet with the first; before the next request; with its first
# bytes together and the others after the next request; after the next request and before its
# reply.
Arrival = Literal["together", "then", "cut", "late"]
# Clients: `Endpoint`, and `OpenAIChat` over its own client, and over a synchronous one.
KINDS = ("http", "async", "sync")


class RepeatingServer:
    """A server that answers each question with the question, and a share of the replies twice.

    Args:
        share: Share of the replies that are sent twice.
        arrival: When the second copy comes.
        ids: Id of the completion with a number; None for replies without an id.
        tls: Context of the server; None for plain HTTP.
    """

    def __init__(
        self,
        share: float,
        arrival: Arrival = "together",
        *,
        ids: Callable[[int], str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests = self.connections = self.repeated = 0
        self._share, self._arrival, self._ids, self._tls = share, arrival, ids, tls
        self._random, self._lock = random.Random(0), threading.Lock()
        self._under_way = threading.Semaphore(1)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    def __enter__(self) -> RepeatingServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def settle(self) -> None:
        """Wait until the second copy of the latest reply, if there is one, was sent."""
        with self._under_way:
            pass

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:  # closed
                return
            self.connections += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with closing(connection), connection.makefile("rb") as stream:
                reply = b""
                while (body := _next_request(stream)) is not None:
                    connection.sendall(reply)
                    reply = self._reply(connection, body)
        except OSError:  # the client closed the connection
            return

    def _reply(self, connection: socket.socket, body: dict[str, Any]) -> bytes:
        """Send a reply, once or twice, and return the bytes to send after the next request."""
        with self._lock:
            self.requests += 1
            number, is_twice = self.requests, self._random.random() < self._share
            self.repeated += is_twice
        reply = _reply_to(body, self._ids and self._ids(number))
        if not is_twice:
            connection.sendall(reply)
        elif self._arrival == "then":
            with self._under_way:
                connection.sendall(reply)
                connection.sendall(reply)
        else:
            n_together = {"together": len(reply), "cut": 20, "late": 0}[self._arrival]
            connection.sendall(reply + reply[:n_together])
            return reply[n_together:]
        return b""


def _next_request(stream: Any) -> dict[str, Any] | None:
    """Read the JSON body of the next request; None at the end of the connection."""
    length = 0
    while (line := stream.readline()) not in (b"", b"\r\n"):
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return json.loads(stream.read(length)) if line else None


def _reply_to(body: dict[str, Any], identifier: str | None) -> bytes:
    """Return the whole response that repeats the question of a request."""
    if "question" in body:
        content = json.dumps({"answer": body["question"]})
    else:
        text = {"content": body["messages"][-1]["content"]}
        choice = {"index": 0, "message": text, "finish_reason": "stop"}
        content = json.dumps({"id": identifier, "choices": [choice]})
    head = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return f"HTTP/1.1 200 OK\r\n{head}{content}".encode()


@contextmanager
def asking(kind: str, url: str, *, keep_alive: bool = True) -> Iterator[Callable[[str], str]]:
    """Give a function that asks a question with a client of `KINDS` and returns the answer."""
    if kind == "http":
        endpoint = Endpoint("http", url, keep_alive=keep_alive)
        yield lambda question: endpoint.post({"question": question})["answer"]
        return
    import openai

    options: dict[str, Any] = {"base_url": url}
    if kind == "sync":
        options = {"client": openai.OpenAI(base_url=url, api_key="none")}
    model = OpenAIChat(**options, keep_alive=keep_alive)
    with ChatEngine(model, limits=Limits(concurrency=4)) as engine:
        yield lambda text: engine.ask(ChatRequest("m", (Message("user", text),))).text


def count_wrong(
    kind: str, server: RepeatingServer, n: int, *, threads: int = 1, keep_alive: bool = True
) -> int:
    """Ask n questions and return the number of answers to another question."""
    with (
        asking(kind, server.url, keep_alive=keep_alive) as ask,
        ThreadPoolExecutor(threads) as pool,
    ):

        def is_wrong(number: int) -> bool:
            question = f"question {number}"
            answer = ask(question)
            server.settle()
            return answer != question

        return sum(pool.map(is_wrong, range(n)))
