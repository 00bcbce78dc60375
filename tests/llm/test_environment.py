"""Keys, proxies and certificates of the environment, before the first request and on its way."""

import shutil
import ssl
import subprocess
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.errors import OptionError
from ragbench.llm import CallFailure, Limits, OpenAIChat
from ragbench.llm.environment import is_loopback
from tests.adapters.test_proxy import Proxy
from tests.chat_server import ChatServer
from tests.commands import run_command
from tests.experiment.moons import write_moons
from tests.llm.conftest import GOOD, asking, engine_before
from tests.repeats import RepeatingServer

KEY = "sk-abcdefgh12345678"
BLANKS = st.text(" \t\n\r\x0b\x0c\u00a0\u2003", max_size=4)
LETTERS = st.text("abcXYZ019-_", min_size=1, max_size=12)


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch):
    for name in ("http", "https", "all", "no"):
        for variable in (f"{name}_proxy", f"{name.upper()}_PROXY"):
            monkeypatch.delenv(variable, raising=False)


def set_key(monkeypatch, value):
    monkeypatch.setenv("MY_KEY", value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(prefix=BLANKS, after=BLANKS)
def test_blanks_around_a_key_are_not_sent(monkeypatch, prefix, after):
    set_key(monkeypatch, f"{prefix}{KEY}{after}")

    assert OpenAIChat(base_url="http://127.0.0.1:9/v1", api_key_env="MY_KEY")._client.api_key == KEY


def test_a_key_reaches_the_server_without_its_line_break(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    with ChatServer(GOOD, key=KEY) as server, engine_before(server.url) as engine:
        assert engine.ask(asking()).text == GOOD


# Around or inside a key, and the words that name it.
ODD = {
    "a line break inside": [(LETTERS, st.sampled_from(["\n", "\r\n", "\r"]), LETTERS)],
    "quotes": [
        (st.just(""), st.sampled_from("\"'`\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"), LETTERS)
    ],
    "'Bearer' before": [(st.just(""), st.sampled_from(["Bearer ", "bearer ", "BEARER "]), LETTERS)],
    "a blank inside": [(LETTERS, st.sampled_from([" ", "\t", "\u00a0"]), LETTERS)],
    "a character that no key has": [
        (LETTERS, st.sampled_from("\u00e9\u200b\ufeff\x00\x7f"), LETTERS)
    ],
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
@pytest.mark.parametrize("problem", ODD)
def test_an_odd_key_is_one_error_that_names_its_variable(monkeypatch, problem, data):
    [parts] = ODD[problem]
    # Drawn into the end of a key: the value must not be in the message.
    value = "".join(data.draw(part) for part in parts) + "Secret123"
    monkeypatch.setattr("os.environ", {"MY_KEY": value})  # an environment holds no NUL

    with pytest.raises(OptionError, match=f"MY_KEY.*{problem}") as caught:
        OpenAIChat(base_url="http://127.0.0.1:9/v1", api_key_env="MY_KEY")
    assert "Secret123" not in str(caught.value)


def test_a_blank_key_is_a_missing_key(monkeypatch):
    set_key(monkeypatch, " \n")

    with pytest.raises(OptionError, match=r"MY_KEY.*not set"):
        OpenAIChat(base_url="", api_key_env="MY_KEY")


@pytest.mark.costly
def test_a_run_stops_before_the_first_request(tmp_path):
    write_moons(tmp_path / "moons")
    with ChatServer() as server:
        (tmp_path / "c.yaml").write_text(
            "dataset: {type: beir, path: moons}\nretrievers: {b: {type: bm25}}\n"
            f"generators: {{g: {{type: openai, model: m, base_url: {server.url}}}}}\n"
        )
        environment = {"OPENAI_API_KEY": f"\u201c{KEY}\u201d"}
        done = run_command("run", "c.yaml", cwd=tmp_path, env=environment)

    assert (done.returncode, server.counters.requests) == (2, 0), done.stderr
    assert done.stderr.count("OPENAI_API_KEY") == 1
    assert KEY not in done.stderr + done.stdout


HOSTS = st.one_of(
    st.ip_addresses(v=4, network="127.0.0.0/8").map(str),
    st.sampled_from(
        ["localhost", "LOCALHOST", "a.localhost", "localhost.", "0.0.0.0", "::1", "::"]
    ),
)


@given(HOSTS)
def test_this_machine(host):
    assert is_loopback(host)


@given(st.ip_addresses(v=4).filter(lambda a: not (a.is_loopback or a.is_unspecified)).map(str))
def test_other_machines(host):
    assert not is_loopback(host)
    assert not is_loopback(f"127.{host}.example.com")
    assert not is_loopback("localhost.example.com")


def clients(url):
    import openai

    return {
        "address": {"base_url": url},
        "client": {"client": openai.AsyncOpenAI(base_url=url, api_key="none")},
        "synchronous client": {"client": openai.OpenAI(base_url=url, api_key="none")},
    }


@pytest.mark.parametrize(
    ("variable", "kind", "host"),
    [
        # each variable by its address and by name, each client by one of them
        *product(
            ["HTTP_PROXY", "http_proxy", "ALL_PROXY"], ["address"], ["127.0.0.1", "localhost"]
        ),
        ("HTTP_PROXY", "client", "127.0.0.1"),
        ("ALL_PROXY", "client", "localhost"),
        ("HTTP_PROXY", "synchronous client", "localhost"),
        ("ALL_PROXY", "synchronous client", "127.0.0.1"),
    ],
)
def test_no_text_for_this_machine_reaches_a_proxy(monkeypatch, variable, kind, host):
    with Proxy() as proxy, ChatServer('{"reasoning": "ok", "level": 4}') as server:
        monkeypatch.setenv(variable, f"http://{proxy.address}")
        where = clients(server.url.replace("127.0.0.1", host))[kind]
        with rb.Judge("m", ["coherence"], retries=0, **where) as judge:
            verdict = judge.score(answer="secret text")["coherence"]

    assert verdict.status == "scored"
    assert (proxy.heads, server.counters.requests) == ([], 1)


FORBIDDEN = b"HTTP/1.1 403 No\r\nContent-Type: text/html\r\nContent-Length: 7\r\n\r\nBlocked"


@pytest.mark.parametrize("kind", ["address", "client", "synchronous client"])
def test_a_proxy_that_refuses_is_named(monkeypatch, kind, assert_message):
    with Proxy(FORBIDDEN) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:passw0rd99@{proxy.address}")
        detail = failure_through(clients("http://models.invalid/v1")[kind])

    assert "403: Blocked" in detail
    assert "http://models.invalid/v1" in detail
    assert_message(detail)
    assert "passw0rd99" not in detail


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_named(monkeypatch, refusing_port, scheme, assert_message):
    address = f"127.0.0.1:{refusing_port}"
    monkeypatch.setenv("ALL_PROXY", f"http://me:passw0rd99@{address}")
    detail = failure_through({"base_url": f"{scheme}://models.invalid/v1"})

    assert_message(detail)
    assert "passw0rd99" not in detail


def failure_through(where):
    with engine_at(where) as engine, pytest.raises(CallFailure) as caught:
        engine.ask(asking())
    return caught.value.detail


def engine_at(where):
    from ragbench.llm import ChatEngine

    return ChatEngine(OpenAIChat(**where), limits=Limits(retries=0))


@pytest.fixture
def refusing_port():
    import socket

    with socket.socket() as listener:  # bound, but not listening
        listener.bind(("127.0.0.1", 0))
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Key and self-signed certificate of 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    key, path = str(folder / "key.pem"), str(folder / "certificate.pem")
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    name = "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    command = f"openssl req -x509 {curve} {name} -keyout {key} -out {path}"
    subprocess.run(command.split(), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key)
    return path, context


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate by openssl")
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", None])
def test_certificates_of_both_variables_are_trusted(
    monkeypatch, certificate, variable, assert_message
):
    path, context = certificate
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, path)
    with RepeatingServer(0.0, tls=context) as server:
        if variable is None:
            detail = failure_through({"base_url": server.url})
            assert_message(detail)
        else:
            with engine_at({"base_url": server.url}) as engine:
                assert engine.ask(asking()).text
