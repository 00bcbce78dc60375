"""Replies that are no answer to a question: endless ones, and packed ones that make gigabytes."""

import contextlib
import gzip
import http.server
import json
import threading
import tracemalloc
import zlib
from functools import partial

import openai
import pytest

from ragbench.llm import CallFailure, ChatEngine, OpenAIChat
from tests.llm.conftest import asking, engine_before

pytestmark = pytest.mark.slow  # a second in all: megabytes over loopback

REPLY = json.dumps({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}).encode()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    packed, body = "", b""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        assert "zstd" not in self.headers["Accept-Encoding"]
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
    with Server(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


def answer(server, packed, body, **options):
    server.packed, server.body = packed, body
    with engine_before(f"http://127.0.0.1:{server.server_port}/v1", **options) as engine:
        return engine.ask(asking()).text


@pytest.mark.parametrize(
    ("packed", "body"),
    [
        ("", REPLY),
        ("gzip", gzip.compress(REPLY)),
        ("deflate", zlib.compress(REPLY)),
        ("deflate", zlib.compress(REPLY)[2:-4]),
    ],
    ids=["plain", "gzip", "deflate", "bare deflate"],
)
def test_packed_replies_are_read(server, packed, body):
    assert answer(server, packed, body) == "yes"


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
        assert answer_to_a_client(server, "gzip", gzip.compress(REPLY)) == "yes"


@pytest.fixture(scope="module")
def bomb():
    """Half a gigabyte: read whole it is over the bound; its sum at the end is never reached."""
    block = zlib.compressobj(1, wbits=31)
    start = block.compress(b" " * (1 << 20)) + block.flush(zlib.Z_FULL_FLUSH)
    again = block.compress(b" " * (1 << 20)) + block.flush(zlib.Z_FULL_FLUSH)
    return start + again * 511 + block.flush()


@pytest.mark.parametrize(
    "ask",
    [answer, partial(answer, stream=True), answer_to_a_client],
    ids=["whole", "stream", "synchronous client"],
)
def test_a_bomb_ends_within_bounded_memory(server, ask, bomb):
    tracemalloc.start()
    try:
        with pytest.raises(CallFailure, match=r"larger than 64 MiB: .* bytes received") as failure:
            ask(server, "gzip", bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert failure.value.cause.word == "malformed"
    assert peak < 400 << 20


def test_what_is_packed_otherwise_is_refused(server):
    with pytest.raises(CallFailure, match="content encoding 'zstd', allowed: gzip"):
        answer(server, "zstd", b"(\xb5/\xfd")
