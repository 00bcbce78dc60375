"""An address that is asked: what it may be, what its headers may be, and how much it may answer."""

import socket
import threading
import tracemalloc
from contextlib import closing

import pytest

from ragbench.adapters.http import Endpoint
from ragbench.errors import OptionError
from ragbench.llm import CallFailure

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def asked(*pieces, times=1):
    """Ask a server that sends the last of these pieces again and again, and return the reply."""

    def serve():
        connection, _ = listening.accept()
        with closing(connection):
            heard = b""
            while not heard.endswith(b"\r\n\r\n{}"):
                heard += connection.recv(65536)
            try:
                for piece in (*pieces[:-1], *([pieces[-1]] * times)):
                    connection.sendall(piece)
            except OSError:
                return  # who has read enough goes away

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        try:
            return Endpoint("http", url, retries=0, timeout=60).post({})
        finally:
            thread.join(60)


@pytest.mark.costly
@pytest.mark.parametrize("head", ["-1", "-5", "FFFFFFFFFFFFFFFFFFFF"])
def test_a_chunk_of_no_honest_size_ends_within_bounded_memory(head):
    """`http.client` reads a chunk of -1 bytes to the end of the stream, whatever the limit."""
    tracemalloc.start()
    try:
        with pytest.raises(CallFailure, match="larger than 64 MiB") as failure:
            asked(CHUNKED + f"{head}\r\n".encode(), b"x" * (1 << 20), times=400)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert failure.value.cause.word == "malformed"
    assert peak < 200 << 20


def test_a_reply_of_more_values_than_any_answer_has_is_none():
    """64 MiB of empty lists were 1.8 GB, and a minute in which nothing else was done."""
    with pytest.raises(CallFailure, match="the reply is no JSON") as failure:
        asked(b"HTTP/1.1 200 OK\r\n\r\n[", b"[]," * 1_000_000 + b"1]")

    assert failure.value.cause.word == "malformed"


@pytest.mark.parametrize(
    "body", [b"2\r\n[1\r\n1\r\n]\r\n0\r\n\r\n", b"3;a=b\r\n[1]\r\n0\r\nTrailer: x\r\n\r\n"]
)
def test_honest_chunks_are_joined(body):
    assert asked(CHUNKED, body) == [1]


@pytest.mark.parametrize("size", ["", "Content-Length: 3\r\n"])
def test_with_and_without_a_length(size):
    assert asked(f"HTTP/1.1 200 OK\r\n{size}\r\n[1]".encode()) == [1]


@pytest.mark.parametrize(
    "head",
    [CHUNKED + b"5\r\n[1]", CHUNKED + b"x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[1]"],
)
def test_what_broke_off_is_no_reply(head):
    with pytest.raises(CallFailure, match=r"the connection failed: .*IncompleteRead"):
        asked(head)


@pytest.mark.parametrize(
    "url",
    ["http://a..b/", f"http://{'a' * 70}/", "http://h\x1b/", "http://h/a b", "http://h/\u00fc",
     "http:///x", "ftp://h/", "http://h:99999/"],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_before_anything_is(url):
    with pytest.raises(OptionError, match=r"http: url: found .* allowed: http://host/path"):
        Endpoint("http", url)


@pytest.mark.parametrize("url", ["http://b\u00fccher.example/", "http://[::1]:80/a%20b?c=d"])
def test_what_can_be_asked_is_not(url):
    assert Endpoint("http", url).address.startswith("http://")


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": "Bearer sk-1234567890\n"}, {"X": "sk-1234567890\r\nY: z"},
     {"X": "sk-1234567890\u2026"}, {"X\n": "sk-1234567890"}, {"": "sk-1234567890"}],
)  # fmt: skip
def test_headers_that_cannot_be_sent_are_refused_without_their_values(headers):
    """`http.client` quotes them: a token that was read with its line end stood in the error."""
    with pytest.raises(OptionError, match="no header can have") as refused:
        Endpoint("http", "http://127.0.0.1:9/", headers)

    assert "sk-1234567890" not in str(refused.value)


def test_a_status_line_of_others_is_shown_and_not_obeyed():
    with pytest.raises(CallFailure, match=r"BadStatusLine|500") as failure:
        asked(b"HTTP/1.1 500 \x1b]0;x\x07\x9b2J\xff\r\nContent-Length: 0\r\n\r\n")

    assert "\x1b" not in str(failure.value)
