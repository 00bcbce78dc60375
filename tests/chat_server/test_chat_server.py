"""The chat server itself: the real openai client must find it indistinguishable from a server."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from ragbench.errors import OptionError
from tests.chat_server import FAULTS, Answer, ChatServer, Faults
from tests.lazy import Lazy

openai = Lazy("openai")

MESSAGES = [{"role": "user", "content": "Is the sky blue?"}]


def client_of(server):
    return openai.OpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=60)


def test_the_openai_client_reads_it():
    with ChatServer("yes it is", model="loop") as server, client_of(server) as client:
        completion = client.chat.completions.create(model="m", messages=MESSAGES, seed=1)
        models = [model.id for model in client.models.list()]

    assert completion.choices[0].message.content == "yes it is"
    assert completion.usage.total_tokens == 8 + 5
    assert models == ["loop"]
    assert server.counters.requests == server.counters.answered == 1
    assert server.received[0].body["seed"] == 1


@pytest.mark.costly
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (FAULTS["rate_limited"](""), "RateLimitError"),
        (FAULTS["server_error"](""), "InternalServerError"),
        (FAULTS["cut"]("text"), "APIConnectionError"),
        (FAULTS["hung_up"]("text"), "APIConnectionError"),
        (Answer("text", cut="headers"), "APIConnectionError"),
        (Answer("who are you?", status=401), "AuthenticationError"),
    ],
)
def test_faults_are_what_clients_know(answer, error):
    with (
        ChatServer(answer) as server,
        client_of(server) as client,
        pytest.raises(getattr(openai, error)),
    ):
        client.chat.completions.create(model="m", messages=MESSAGES)


def test_answers_follow_one_another_and_the_last_stays():
    with ChatServer(["one", Answer("two")]) as server, client_of(server) as client:
        said = [
            client.chat.completions.create(model="m", messages=MESSAGES).choices[0].message.content
            for _ in range(3)
        ]

    assert said == ["one", "two", "two"]
    assert server.counters.most_asked == 3


@pytest.mark.costly
def test_a_rate_limit_lets_its_rate_through():
    with ChatServer(requests_per_second=1, burst=2) as server, client_of(server) as client:
        let_through, waits, start = 0, set(), time.monotonic()
        while time.monotonic() < start + 0.25:
            try:
                client.chat.completions.create(model="m", messages=MESSAGES)
            except openai.RateLimitError as error:
                waits.add(float(error.response.headers["retry-after"]))
            else:
                let_through += 1
        seconds = time.monotonic() - start

    assert 0 < min(waits) <= max(waits) <= 1
    assert let_through <= 2 + seconds + 1
    assert server.counters.limited == server.counters.requests - let_through


def test_which_fault_a_request_meets_follows_from_its_question():
    script = Faults("4", share=0.4)
    bodies = [{"messages": [{"role": "user", "content": str(i)}]} for i in range(2000)]
    kinds = [script.kind_of(body) for body in bodies]

    assert kinds == [Faults("4", share=0.4).kind_of(body) for body in bodies]
    assert 0.36 < sum(kind is not None for kind in kinds) / 2000 < 0.44
    assert {kinds.count(kind) > 30 for kind in FAULTS} == {True}
    assert kinds != [Faults("4", share=0.4, seed=1).kind_of(body) for body in bodies]


def test_an_unknown_fault_is_refused():
    with pytest.raises(OptionError, match="found 'slwo', allowed: rate_limited, server_error"):
        Faults("4", kinds=["slwo"])


def test_a_port_in_use_is_an_error():
    with ChatServer() as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(OSError, match="address already in use"), ChatServer(port=port):
            pytest.fail("two servers on one port")


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/chat/completions"])
def test_what_is_no_request_is_refused(path):
    with ChatServer() as server, pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(server.url.removesuffix("/v1") + path, b"no json")

    assert caught.value.code in (400, 404)
    caught.value.close()


def test_it_runs_alone(repository):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.chat_server",
            "--text",
            "hi",
            "--faults",
            "1",
            "--kinds",
            "prose",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = process.stdout.readline().strip()
        body = json.dumps({"model": "m", "messages": MESSAGES}).encode()
        reply = json.load(urllib.request.urlopen(f"{url}/chat/completions", body))
        seen = json.load(urllib.request.urlopen(f"{url}/counters"))
    finally:
        process.terminate()
        process.communicate()

    assert "```json\nhi\n```" in reply["choices"][0]["message"]["content"]
    assert seen["requests"] == 1
