"""Replies that are no answer to a question: endless ones, and packed ones."""

import contextlib
import gzip
import http.server
import json
import threading
import tracemalloc

import pytest

from ragbench.llm import CallFailure, ChatEngine, OpenAIChat
from tests.lazy import Lazy
from tests.llm.conftest import asking, engine_before

openai = Lazy("openai")

pytestmark = pytest.mark.slow  # a second in all: megabytes over loopback

REPLY = json.dumps({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}).encode()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    packed, body = "", b""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Accept-Encoding"] == "identity"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if self.server.packed:
            self.send_header("Content-Encoding", self.server.packed)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # who has read enough goes away
            self.wfile.write(self.server.body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server(("127.0.0.1", 0), Handler) as server_started:
        threading.Thread(target=server_started.serve_forever, args=(0.01,), daemon=True).start()
        yield server_started
        server_started.shutdown()


def answer(server, packed, body, **options):
    server.packed, server.body = packed, body
    with engine_before(f"http://127.0.0.1:{server.server_port}/v1", **options) as engine:
        return engine.ask(asking()).text


def answer_to_a_client(server, packed, body):
    """The same with a synchronous client of the user's own, which reads in a thread."""
    server.packed, server.body = packed, body
    url = f"http://127.0.0.1:{server.server_port}/v1"
    client = openai.OpenAI(base_url=url, api_key="none")
    with ChatEngine(OpenAIChat(client=client)) as engine:
        reply = engine.ask(asking()).text
    assert not client.is_closed(), "it is the user's"
    return reply


def test_a_client_of_the_users_own_is_asked_and_stays_open(server):
    for _ in range(2):
        assert answer_to_a_client(server, "", REPLY) == "yes"


@pytest.mark.parametrize(
    "ask",
    [answer, answer_to_a_client],
    ids=["whole", "synchronous client"],
)
def test_an_endless_reply_ends_within_bounded_memory(server, ask):
    body = b" " * (100 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(CallFailure, match="larger than 64 MiB") as failure:
            ask(server, "", body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert failure.value.cause.word == "malformed"
    assert peak < 80 << 20


@pytest.mark.parametrize("ask", [answer, answer_to_a_client], ids=["whole", "synchronous client"])
@pytest.mark.parametrize("packed", ["gzip", "deflate", "zstd"])
def test_a_packed_reply_is_refused(server, ask, packed, assert_message):
    # A megabyte of gzip may be a gigabyte; a server that is asked for none sends none
    with pytest.raises(CallFailure) as caught:
        ask(server, packed, gzip.compress(REPLY))
    assert_message(caught.value)
