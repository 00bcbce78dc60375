"""The real openai client over HTTP against a server that does everything servers do."""

import json
import math
import socket
import ssl
import time

import pytest

from ragbench.errors import OptionError
from ragbench.llm import CallFailure, ChatReply, Limits, OpenAIChat, Usage
from ragbench.llm.completions import read_logprobs
from ragbench.llm.server import Server
from ragbench.records.codec import from_json, to_json
from ragbench.types import Cause
from tests.chat_server import FAULTS, Answer, ChatServer
from tests.llm.conftest import GOOD, SCHEMA, ask_many, asking, engine_before
from tests.store.rows import query

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases


def test_a_reply_with_all_its_parts(serve):
    server, engine = serve(GOOD, model="tiny-2026")

    reply = engine.ask(
        asking("two words", temperature=0.0, max_tokens=50, seed=3, stop=("END",), extra={"x": 1})
    )

    assert reply.text == GOOD
    assert reply.finish_reason == "stop"
    assert (reply.model, reply.system_fingerprint) == ("tiny-2026", "fp_loopback")
    # `two words` is three tokens for the server: two words and a space
    assert reply.usage == Usage(3, server_tokens(GOOD))
    assert reply.latency_ms > 0
    assert reply.logprobs is None
    sent = dict(server.received[0].body)
    assert sent == {
        "model": "m",
        "messages": [{"role": "user", "content": "two words"}],
        "temperature": 0.0,
        "max_tokens": 50,
        "seed": 3,
        "stop": ["END"],
        "x": 1,
    }


def server_tokens(text):
    from tests.chat_server.answers import usage

    return usage({}, Answer(text))["completion_tokens"]


def test_log_probabilities(serve):
    script = Answer("4", alternatives={"4": {"4": 0.75, "5": 0.25, "3": 0.0}})
    _, engine = serve(script)

    (token,) = engine.ask(asking(top_logprobs=2)).logprobs

    assert token.token == "4"
    assert token.logprob == pytest.approx(math.log(0.75))
    assert [(t, round(math.exp(p), 6)) for t, p in token.top] == [("4", 0.75), ("5", 0.25)]


def test_every_sample_has_its_own_seed(serve):
    server, engine = serve()

    for sample in range(3):
        engine.ask(asking(seed=7, sample=sample))

    assert [received.body["seed"] for received in server.received] == [7, 8, 9]


@pytest.mark.parametrize(
    "kind", ["rate_limited", "server_error", "overloaded", "cut", "hung_up", "no_choices"]
)
def test_what_can_succeed_is_tried_again(serve, kind):
    server, engine = serve([FAULTS[kind](GOOD), Answer(GOOD)])

    reply = engine.ask(asking())

    assert reply.text == GOOD
    assert len(reply.attempts) == 1
    assert server.counters.requests == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_cannot_succeed_is_asked_once(serve, status, assert_message):
    server, engine = serve(Answer("no such thing", status=status))

    with pytest.raises(CallFailure) as caught:
        engine.ask(asking())
    assert_message(caught.value)

    assert caught.value.cause is Cause.SERVER_ERROR
    assert server.counters.requests == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_tries_end(serve, status):
    server, engine = serve(
        Answer("later", status=status), engine={"limits": Limits(retries=2, timeout=60)}
    )

    with pytest.raises(CallFailure, match="tried 3 times") as caught:
        engine.ask(asking())

    assert len(caught.value.attempts) == 3
    assert server.counters.requests == 3


def test_an_empty_account_is_not_asked_again(serve, assert_message):
    broke = Answer("You exceeded your quota", status=429, error_code="insufficient_quota")
    server, engine = serve(broke)

    outcomes = ask_many(engine, [asking(f"q{i}") for i in range(40)])

    assert {outcome.cause for outcome in outcomes} == {outcomes[0].cause}
    assert_message(outcomes[0].detail)
    assert server.counters.requests <= 16, "those under way when the first answer came"


def test_a_slow_server_is_a_timeout(serve):
    server, engine = serve(Answer(GOOD, delay_s=30), engine={"limits": Limits(timeout=0.7)})

    with pytest.raises(CallFailure, match=r"no answer within 0\.7 s") as caught:
        engine.ask(asking())

    assert caught.value.cause is Cause.TIMEOUT
    assert server.counters.requests == 1


def test_waiting_as_asked_does_not_count_as_slow(serve):
    busy = Answer("later", status=429, headers={"retry-after": "1.1"})
    _, engine = serve([busy, Answer(GOOD)], engine={"limits": Limits(timeout=1.0)})

    assert engine.ask(asking()).text == GOOD


def test_a_longer_wait_than_five_minutes_is_a_failure(serve, assert_message):
    busy = Answer("later", status=429, headers={"retry-after": "301"})
    server, engine = serve(busy)

    with pytest.raises(CallFailure) as caught:
        engine.ask(asking())
    assert_message(caught.value)

    assert server.counters.requests == 1


def test_a_refusal_is_a_reply(serve):
    _, engine = serve(FAULTS["refusal"](GOOD))

    reply = engine.ask(asking())

    assert reply.refused
    assert reply.refusal == "I cannot help with that."


@pytest.mark.parametrize(
    "body",
    [b"<html>a proxy's page</html>", b"", b'"text"', b"[]", b'{"choices": null}', b"\xff\xfe"],
)
def test_what_is_no_completion_fails_by_cause(serve, body):
    _, engine = serve(Answer(body=body), engine={"limits": Limits(retries=1, timeout=60)})

    with pytest.raises(CallFailure) as caught:
        engine.ask(asking())

    assert caught.value.cause in (Cause.SERVER_ERROR, Cause.UNREADABLE)


def test_an_error_with_status_200_is_an_error(serve, assert_message):
    body = b'{"error": {"message": "out of memory", "code": 500}}'
    _, engine = serve([Answer(body=body), Answer(GOOD)])

    first = engine.ask(asking()).attempts[0]
    assert_message(first.detail)


@pytest.mark.parametrize("is_known", [["json_object", "text"], ["text"]])
def test_a_format_that_the_server_lacks_is_asked_for_once(serve, is_known):
    server, engine = serve(formats=is_known)

    for i in range(3):
        assert engine.ask(asking(f"q{i}", schema=SCHEMA)).text == GOOD

    formats = [r.body.get("response_format", {}).get("type", "text") for r in server.received]
    assert formats[-3:] == [is_known[0]] * 3
    assert len(formats) == 3 + (3 - len(is_known))
    assert '"maximum": 5' in server.received[-1].body["messages"][0]["content"]


def test_a_schema_is_sent_as_such(serve):
    server, engine = serve()

    engine.ask(asking(schema=SCHEMA))

    sent = server.received[0].body["response_format"]
    assert sent["json_schema"] == {"name": "reply", "schema": SCHEMA, "strict": True}


@pytest.mark.parametrize(
    ("message", "param", "parameter", "rest_of_parameters"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "max_tokens",
            {"max_tokens": 9},
            {"max_completion_tokens": 9},
        ),
        ("logprobs are not supported with this model", "logprobs", {"top_logprobs": 2}, {}),
    ],
)
def test_parameters_that_the_model_lacks(serve, message, param, parameter, rest_of_parameters):
    def script(request, times_asked):
        return Answer(message, status=400, param=param) if param in request else Answer(GOOD)

    server, engine = serve(script)

    for i in range(2):
        engine.ask(asking(f"q{i}", **parameter))

    extra = [
        {k: v for k, v in r.body.items() if k not in ("model", "messages")} for r in server.received
    ]
    assert extra[1:] == [rest_of_parameters, rest_of_parameters], "found out once"


def test_what_helps_nothing_is_not_remembered(serve):
    # An error may name a parameter that is not its cause: the next request has it again
    server, engine = serve([Answer("'temperature' is not allowed in prompts", status=400)] * 4)

    for i in range(2):
        with pytest.raises(CallFailure, match="temperature"):
            engine.ask(asking(f"q{i}", temperature=0.0))

    assert ["temperature" in r.body for r in server.received] == [True, False, True, False]


@pytest.mark.parametrize(("retries", "end"), [(1, "; tried 2 times"), (0, " failed")])
def test_nobody_there(retries, end):
    from tests.llm.conftest import engine_before

    with (
        engine_before("http://127.0.0.1:9/v1", limits=Limits(retries=retries, timeout=5)) as engine,
        pytest.raises(CallFailure, match=f"failed: http://127.0.0.1:9/v1: .*{end}$") as caught,
    ):
        engine.ask(asking())

    assert caught.value.cause is Cause.SERVER_ERROR


def test_where_nobody_was_there_the_others_are_tried_once_until_somebody_is(
    monkeypatch, assert_message
):
    # A wrong address must not cost every item all its tries; a server that starts later answers
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.01)
    with ChatServer(GOOD) as server:
        url, port = server.url, int(server.url.split(":")[2].split("/")[0])
    limits = Limits(concurrency=2, retries=3, timeout=60)
    with engine_before(url, limits=limits) as engine:
        outcomes = ask_many(engine, [asking(str(i)) for i in range(80)])
        tries = [len(failure.attempts) for failure in outcomes]
        assert max(tries) == 2
        assert tries[50:] == [1] * 30, "those that were not under way"
        assert_message(outcomes[-1].detail)

        with ChatServer([GOOD, FAULTS["cut"](GOOD), GOOD], port=port) as server:
            assert engine.ask(asking("a")).text == GOOD
            assert engine.ask(asking("b")).text == GOOD, "tried again, as ever"
            assert server.counters.requests == 3


def refused_port():
    """Return a port of this machine at which no server listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_server_that_does_not_run_is_reported_after_one_more_try():
    # with the waits and the retries of a run; seven tries wait for 15 s at least
    with socket.socket() as silent:
        # bound, so that no other process listens there
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with engine_before(url, limits=Limits()) as engine:
            start = time.monotonic()
            outcomes = ask_many(engine, [asking(str(i)) for i in range(40)])
            took_s = time.monotonic() - start

    assert {outcome.exit_code for outcome in outcomes} == {7}
    assert {len(outcome.attempts) for outcome in outcomes} <= {1, 2}
    assert took_s < 12


@pytest.mark.parametrize("answer", [Answer(GOOD), Answer("loading", status=503)])
def test_a_server_that_restarts_after_an_answer_is_tried_again(monkeypatch, answer):
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.01)
    port = refused_port()
    limits = Limits(concurrency=1, retries=3, timeout=60)
    with engine_before(f"http://127.0.0.1:{port}/v1", limits=limits) as engine:
        with ChatServer(answer, port=port):
            ask_many(engine, [asking("before")])
        outcomes = ask_many(engine, [asking("while it restarts")])

    assert [len(outcome.attempts) for outcome in outcomes] == [4]
    assert outcomes[0].unreachable


SECRET = "sk-planted-0123456789abcdef"


def test_a_planted_secret_is_found_nowhere(serve, monkeypatch, tmp_path, logged):
    # A server that repeats the key in errors and in replies; logs at their loudest
    from ragbench.llm import Replies

    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    def script(request, times_asked):
        if "fail" in request["messages"][0]["content"]:
            return Answer(f"Incorrect API key provided: {SECRET}", status=403)
        return Answer(f"your key is {SECRET}")

    with Replies(tmp_path / "replies.sqlite") as replies:
        server, engine = serve(script, engine={"replies": replies})
        reply = engine.ask(asking())
        with pytest.raises(CallFailure) as caught:
            engine.ask(asking("fail"))
        on_disk = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        stored = replies.get(next(iter(_keys(tmp_path))))

    assert server.received[0].headers["authorization"] == f"Bearer {SECRET}"
    assert reply.text == stored.text
    assert reply.text.split()[-1] == "${OPENAI_API_KEY}"
    output = f"{caught.value} {caught.value.attempts} {caught.getrepr(showlocals=True)} {engine!r}"
    assert SECRET not in output + str(logged)
    assert SECRET.encode() not in on_disk


def _keys(folder):
    return [item for (item,) in query(folder / "replies.sqlite", "SELECT item FROM rows")]


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hunter22@host/v1",  # a login
        "http://host/v1#hunter22",  # a fragment
        "host/v1",  # no scheme
    ],
)
def test_addresses_hold_no_secrets(url, assert_message):
    with pytest.raises(OptionError) as caught:
        OpenAIChat(base_url=url)
    assert_message(caught.value, "openai: base_url")

    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HTTP_PROXY", "foo://me:passw0rd99@127.0.0.1:9", "scheme"),
        ("HTTPS_PROXY", "http://me:passw0rd99@127.0.0.1:99999", "Port out of range"),
        ("ALL_PROXY", "http://me:passw0rd99@[::1", "Invalid"),
        ("SSL_CERT_FILE", "/nonexistent", "No such file"),
        ("REQUESTS_CA_BUNDLE", "/nonexistent", "No such file"),
    ],
)
def test_variables_that_cannot_be_used_are_named_without_their_logins(
    monkeypatch, name, value, message
):
    # Bug: both variables gave internal errors, or a message that the result could not be written
    monkeypatch.setenv("FTP_PROXY", "http://other:1")
    monkeypatch.setenv(name, value)
    is_proxy = name.endswith("_PROXY")
    source = name if is_proxy else "environment"
    allowed = "a proxy such as http://host:3128$" if is_proxy else f".*{name}, .*: files that exist"

    with pytest.raises(
        OptionError, match=rf"openai: {source}: .*{message}.*allowed: {allowed}"
    ) as why:
        OpenAIChat(base_url="http://models.invalid/v1")

    assert "passw0rd99" not in str(why.value)


def test_a_key_that_is_not_set_is_named(monkeypatch, assert_message):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    with pytest.raises(OptionError) as caught:
        OpenAIChat()
    assert_message(caught.value, "openai: api_key_env")


def test_kept_replies_come_back_as_they_were(serve):
    _, engine = serve(Answer(GOOD, alternatives={"4": {"4": 0.9}}))

    reply = engine.ask(asking(top_logprobs=1))

    assert from_json(ChatReply, json.loads(json.dumps(to_json(reply)))) == reply


def test_a_token_that_cannot_come_has_a_number_that_files_hold():
    # Some servers write -Infinity for the logarithm of 0
    top = [{"token": "5", "logprob": -math.inf}, {"token": "4", "logprob": -0.0}]

    (token,) = read_logprobs({"content": [{**top[1], "top_logprobs": top}]})

    assert token.top == (("5", -9999.0), ("4", 0.0))


def trusted_by(base_url):
    """The TLS context that a client for an address holds."""
    context = OpenAIChat(base_url=base_url)._client._client._transport._pool._ssl_context
    assert isinstance(context, ssl.SSLContext)
    return context


def test_what_is_trusted_is_loaded_once(monkeypatch, tmp_path):
    # For the same variables; what they name counts, as it does for any client
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    usual = trusted_by("http://127.0.0.1:9/v1")
    assert (usual.verify_mode, usual.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert trusted_by("https://example.com/v1") is usual
    assert trusted_by(None) is usual

    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert trusted_by("https://example.com/v1") is not usual
    monkeypatch.delenv("SSL_CERT_DIR")
    assert trusted_by("https://example.com/v1") is usual


@pytest.mark.parametrize(
    "address",
    [
        None,
        "http://127.0.0.1:9/v1",
        "http://localhost:8000/v1/",
        "https://host.example/v1/chat/completions",
        "https://host.example/v1?api-version=2024-10-21&key=sk-very-secret-key-1234",
    ],
)
def test_a_server_has_its_identity_without_a_connection(address, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    assert Server(base_url=address).identity == OpenAIChat(base_url=address).identity
