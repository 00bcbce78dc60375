"""`ragbench.testing`: the openai package's own client reads the public chat server."""

import io
import socket
import struct
import sys
import urllib.error
import urllib.request
from http.client import HTTPException

import pytest

from ragbench.testing import Answer, ChatServer
from tests.lazy import Lazy
from tests.messages import lines_with
from tests.waiting import wait_until

openai = Lazy("openai")

MESSAGES = [{"role": "user", "content": "Is the sky blue?"}]


def ask(client, **options):
    return client.chat.completions.create(model="m", messages=MESSAGES, **options)


def client_of(server):
    return openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=60)


def test_the_openai_client_reads_a_completion():
    with ChatServer("yes it is") as server, client_of(server) as client:
        completion = ask(client, seed=1)

    assert completion.choices[0].message.content == "yes it is"
    assert completion.model == "m"
    # words and punctuation marks: `Is the sky blue ?` and `yes it is`
    assert completion.usage.total_tokens == 5 + 3
    assert server.received[0].path == "/v1/chat/completions"
    assert server.received[0].headers["authorization"] == "Bearer none"
    assert server.received[0].body["seed"] == 1


def test_the_openai_client_reads_a_stream():
    with ChatServer("yes it is") as server, client_of(server) as client:
        events = list(ask(client, stream=True, stream_options={"include_usage": True}))

    assert "".join(e.choices[0].delta.content or "" for e in events if e.choices) == "yes it is"
    assert events[-1].usage.completion_tokens == 3


def test_answers_come_in_order_and_the_last_is_repeated():
    with ChatServer(["one", Answer("two")]) as server, client_of(server) as client:
        texts = [ask(client).choices[0].message.content for _ in range(3)]

    assert texts == ["one", "two", "two"]


def test_a_function_answers_by_the_request():
    shout = ChatServer(lambda body: body["messages"][0]["content"].upper())
    with shout as server, client_of(server) as client:
        assert ask(client).choices[0].message.content == "IS THE SKY BLUE?"


def test_another_status_is_an_error_with_its_headers():
    busy = Answer("later", status=429, headers={"retry-after": "7"})
    with (
        ChatServer(busy) as server,
        client_of(server) as client,
        pytest.raises(openai.RateLimitError, match="later") as caught,
    ):
        ask(client)

    assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/embeddings", b"no json", 404),
        ("/chat/completions", b"no json", 400),
        ("/chat/completions", b"[]", 400),
        # JSON, but no object
        ("/chat/completions", b"null", 400),
    ],
)
def test_anything_else_is_refused(path, body, status):
    with ChatServer() as server, pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(server.url + path, body)

    assert caught.value.code == status
    assert server.received == []
    caught.value.close()


def test_a_server_that_has_ended_answers_no_kept_connection():
    with ChatServer() as server:
        # the client keeps its connection open for the next request
        client = client_of(server)
        ask(client)
    with client, pytest.raises(openai.APIConnectionError):
        ask(client)


def test_a_port_in_use_is_an_error():
    with ChatServer() as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(OSError, match="in use"), ChatServer(port=port):
            pytest.fail("two servers on one port")


def test_an_error_of_an_answer_function_closes_the_connection(capfd, assert_message):
    def answer(body):
        raise ValueError("no such question")

    with ChatServer(answer) as server, pytest.raises((ConnectionError, HTTPException)):
        urllib.request.urlopen(f"{server.url}/chat/completions", b"{}")

    assert_message(lines_with(capfd.readouterr().err, "ValueError: no"))
    assert len(server.received) == 1


def test_a_client_that_resets_leaves_one_line(monkeypatch, assert_message):
    # capfd empties its file when it is read, and can lose a line that a thread writes meanwhile
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with ChatServer() as server:
        host, port = server.url.removesuffix("/v1").removeprefix("http://").split(":")
        for _ in range(2):
            connection = socket.create_connection((host, int(port)))
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n")
            # no wait at the end: the kernel sends a reset
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        wait_until(lambda: written.getvalue().count("\n") == 2)
    assert_message(written.getvalue())
