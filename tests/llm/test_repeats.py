"""Replies that a proxy sends twice: the copy is never taken for the reply to the next request."""

import asyncio
import json
import math
import shutil
import socket
import ssl
import subprocess
from types import SimpleNamespace

import pytest

from ragbench import testing
from ragbench.llm import ChatEngine, Limits, OpenAIChat
from ragbench.llm.connections import ReplyIds, WatchedStream, watch_connections
from tests.chat_server import Answer
from tests.llm.conftest import ask_many
from tests.llm.conftest import asking as request_of
from tests.repeats import KINDS, RepeatingServer, count_wrong


@pytest.mark.costly
@pytest.mark.parametrize("arrival", ["together", "then", "cut"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_copy_answers_the_next_request(kind, arrival):
    # Bug: of 400 answers 251 (http, then) and 98 (openai, together) belonged to another question
    with RepeatingServer(0.5, arrival) as server:
        wrong = count_wrong(kind, server, 16, threads=1 if arrival == "then" else 4)

    assert server.repeated >= 5
    assert wrong == 0


@pytest.mark.parametrize("kind", KINDS)
def test_connections_are_used_again_only_without_a_copy(kind):
    with RepeatingServer(0.0) as server:
        count_wrong(kind, server, 10)

    assert server.connections == (10 if kind == "sync" else 1)  # httpx of users is not watched


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_copy_is_excluded_by_a_connection_per_request(kind):
    with RepeatingServer(0.5, "late") as server:
        wrong = count_wrong(kind, server, 12, keep_alive=False)

    assert (wrong, server.connections) == (0, 12)


@pytest.mark.costly
def test_a_late_copy_is_told_by_its_id():
    with RepeatingServer(0.3, "late", ids=lambda number: f"chatcmpl-{number}") as server:
        wrong = count_wrong("async", server, 30)

    assert wrong == 0
    assert server.requests > 30  # asked again


@pytest.mark.parametrize(
    "ids",
    [lambda number: "chatcmpl-0", lambda number: f"chatcmpl-{number % 7}", lambda number: ""],
    ids=["one id", "few ids, as Ollama gives", "empty"],
)
def test_ids_that_come_again_by_themselves_are_no_evidence(ids):
    with RepeatingServer(0.0, ids=ids) as server:
        assert count_wrong("async", server, 20) == 0

    assert server.requests == 20


def test_a_reply_that_is_repeated_for_ever_fails_its_item_alone(serve, assert_message):
    # A cache that confuses requests: whoever asks 'b' gets the reply to 'a'

    def script(request, times_asked):
        text = request["messages"][0]["content"].replace("b", "a")
        choice = {"message": {"content": text}, "finish_reason": "stop"}
        return Answer(body=json.dumps({"id": f"id-{text}", "choices": [choice]}).encode())

    limits = Limits(concurrency=1, retries=2)
    server, engine = serve(script, engine={"limits": limits})
    texts = ["a", "c", "b", "d"]
    outcomes = ask_many(engine, [request_of(text) for text in texts])

    assert [getattr(outcome, "text", None) for outcome in outcomes] == ["a", "c", None, "d"]
    assert_message(outcomes[2].detail)
    assert server.counters.requests == 6


def test_equal_replies_to_equal_requests_and_to_requests_of_one_moment_are_no_repetitions():
    ids = ReplyIds()
    assert not ids.is_repeated("1", "to a", "a", 1.0)
    assert not ids.is_repeated("2", "to c", "c", 1.0)
    assert not ids.is_repeated("1", "to a", "a", math.inf)  # of a cache before the server
    assert not ids.is_repeated("1", "to a", "b", 0.0)  # an id made of the time in seconds
    assert ids.is_repeated("1", "to a", "d", math.inf)
    assert not ids.is_repeated("2", "to e", "e", math.inf)  # the ids mean nothing
    assert not ids.is_repeated("1", "to a", "f", math.inf)


@pytest.mark.parametrize("package", ["httpx", "httpx2"])
def test_both_packages_of_openai_are_watched(package):
    # `openai` is built on httpx up to version 2, on httpx2 from version 3 on
    httpx = pytest.importorskip(package)

    async def wrong(url):
        async with httpx.AsyncClient(timeout=30) as client:
            assert watch_connections(client)
            replies = [(await client.post(url, json={"question": n})).json() for n in range(20)]
            return sum(reply["answer"] != n for n, reply in enumerate(replies))

    with RepeatingServer(0.3) as server:
        assert asyncio.run(wrong(server.url)) == 0
    assert server.connections == 1 + server.repeated


def test_a_client_without_known_pools_opens_a_connection_per_request(monkeypatch):
    monkeypatch.setattr("ragbench.llm.openai.watch_connections", lambda client: False)
    with RepeatingServer(0.3) as server:
        assert count_wrong("async", server, 10) == 0

    assert server.connections == 10


def test_a_stream_is_asked_for_its_socket_once():
    # the pool asks all idle connections before each request: half of the CPU time of 128 at once
    asked, (client, server) = [], socket.socketpair()

    def property_of(name):
        asked.append(name)
        return client if name == "socket" else None

    stream = WatchedStream(SimpleNamespace(get_extra_info=property_of), ConnectionError)
    readable = [stream.get_extra_info("is_readable") for _ in range(10)]
    server.sendall(b"x")

    assert not any(readable)
    assert stream.get_extra_info("is_readable")
    assert sorted(asked) == ["socket", "ssl_object"]
    client.close()
    server.close()


def test_a_closed_connection_is_not_used_again_when_another_one_has_its_number():
    client, server = socket.socketpair()
    properties = {"socket": client}
    stream = WatchedStream(SimpleNamespace(get_extra_info=properties.get), ConnectionError)
    number = client.fileno()
    client.close()
    new, other = socket.socketpair()

    assert new.fileno() == number
    assert stream.get_extra_info("is_readable")
    for end in (server, new, other):
        end.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate by openssl")
@pytest.mark.parametrize("kind", ["http", "async"])
def test_no_copy_is_overlooked_in_tls(kind, tmp_path, monkeypatch):
    # TLS has a buffer of its own, which the socket does not show
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    name = "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    command = f"openssl req -x509 {curve} {name} -keyout {key} -out {certificate}"
    subprocess.run(command.split(), check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with RepeatingServer(0.3, "then", tls=context) as server:
        assert count_wrong(kind, server, 20) == 0

    assert server.connections <= 1 + server.repeated


def test_equal_replies_with_one_id_send_no_request_twice():
    # A server with a constant answer: the pool closes connections that it has assigned already
    with (
        testing.ChatServer("It is so.") as server,
        ChatEngine(OpenAIChat(base_url=server.url), limits=Limits(concurrency=16)) as engine,
    ):
        replies = ask_many(engine, [request_of(f"question {n}") for n in range(100)])

    assert {reply.text for reply in replies} == {"It is so."}
    assert not [reply.attempts for reply in replies if reply.attempts]
    assert len(server.received) == 100
