"""Replies that hang or come byte by byte, over HTTP on loopback: the others are not held up."""

import json
import socket
import threading
import time

import pytest

from ragbench.llm import CallFailure, Limits, calls, limits
from ragbench.types import Cause
from tests.chat_server import Answer
from tests.llm.conftest import ask_many, asking, engine_before

pytestmark = pytest.mark.slow  # seconds: replies that hang


def test_others_are_answered_while_some_hang(serve, monkeypatch):
    # Two of four replies hang while the other replies come: two more requests are sent
    monkeypatch.setattr(limits, "_HANGS_S", 0.25)
    monkeypatch.setattr(calls, "_LOOK_S", 0.05)

    def script(request, times_asked):
        number = int(request["messages"][-1]["content"])
        return Answer("yes", delay_s=2.0 if number in (20, 21) else 0.04)

    server, engine = serve(script, engine={"limits": Limits(concurrency=4)})
    replies = ask_many(engine, [asking(str(n)) for n in range(100)])

    assert {reply.text for reply in replies} == {"yes"}
    assert server.counters.peak_in_flight > 4


def test_a_body_that_drips_has_the_time_of_one_reply(dripping):
    with engine_before(dripping, limits=Limits(timeout=0.5, retries=0)) as engine:
        start = time.monotonic()
        with pytest.raises(CallFailure) as caught:
            engine.ask(asking("1"))

    assert caught.value.cause is Cause.TIMEOUT
    assert time.monotonic() - start < 300, "a body of 1,000 s"


@pytest.fixture
def dripping():
    """A server that sends its reply at ten bytes a second, for as long as somebody listens."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip(connection):
        body = json.dumps({"choices": [{"message": {"content": "x" * 10_000}}]}).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        with connection:
            try:
                connection.recv(65_536)
                connection.sendall(head)
                for byte in body:
                    if over.wait(0.1):
                        return
                    connection.sendall(bytes([byte]))
            except OSError:  # the client has gone
                return

    def accept():
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        drip(connection)

    thread = threading.Thread(target=accept)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    over.set()
    listener.close()
    thread.join(5)
