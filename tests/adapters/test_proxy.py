"""The proxies of the environment: requests in whole to an HTTP proxy, tunnels for HTTPS."""

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from urllib.parse import urlsplit

import pytest

from ragbench.adapters.http import Endpoint
from ragbench.errors import OptionError
from ragbench.llm import CallFailure
from tests.repeats import RepeatingServer, count_wrong

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"


class Proxy:
    """A proxy that answers requests itself, and relays tunnels to their host."""

    def __init__(self, reply=REPLY, tunnels=True):
        self.reply, self.tunnels, self.heads = reply, tunnels, []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def __enter__(self):
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._listening.close()

    def _serve(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            self.heads.append(head.partition(b"\r\n\r\n")[0].decode())
            method, target, _ = self.heads[-1].split("\r\n")[0].split()
            if method != "CONNECT" or not self.tunnels:
                connection.sendall(self.reply)
                return
            host, _, port = target.rpartition(":")
            host = "127.0.0.1" if host.endswith(".invalid") else host
            with socket.create_connection((host, int(port))) as upstream:
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=relay, args=(upstream, connection), daemon=True)
                back.start()
                relay(connection, upstream)
                back.join(60)


def relay(source, sink):
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch):
    for name in ("http", "https", "all", "no"):
        for variable in (f"{name}_proxy", f"{name.upper()}_PROXY"):
            monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_gets_the_whole_url_and_its_login(monkeypatch, variable):
    with Proxy() as proxy:
        monkeypatch.setenv(variable, f"http://me:p%40ss@{proxy.address}")
        assert Endpoint("http", "http://search.invalid/ask?k=1").post({}) is True

    request, *headers = proxy.heads[0].split("\r\n")
    assert request.split() == ["POST", "http://search.invalid/ask?k=1", "HTTP/1.1"]
    assert "Host: search.invalid" in headers
    assert dict(header.split(": ", 1) for header in headers if header)["Proxy-Authorization"] == (
        "Basic bWU6cEBzcw=="
    )


def test_this_machine_is_asked_directly(monkeypatch):
    with Proxy() as proxy, RepeatingServer(0.0) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        assert count_wrong("http", server, 3) == 0

    assert proxy.heads == []


def test_hosts_of_no_proxy_are_asked_directly(monkeypatch):
    with Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        monkeypatch.setenv("NO_PROXY", "search.invalid")
        with pytest.raises(CallFailure) as failure:
            Endpoint("http", "http://search.invalid/", retries=0).post({})

    assert failure.value.unreachable
    assert proxy.heads == []


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate by openssl")
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_https_goes_through_a_tunnel(tmp_path, monkeypatch, variable):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    name = "-subj /CN=search.invalid -addext subjectAltName=DNS:search.invalid"
    command = f"openssl req -x509 {curve} {name} -keyout {key} -out {certificate}"
    subprocess.run(command.split(), check=True, capture_output=True)
    monkeypatch.setenv(variable, certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Proxy() as proxy, RepeatingServer(0.0, tls=context) as server:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:passw0rd99@{proxy.address}")
        port = urlsplit(server.url).port
        endpoint = Endpoint("http", f"https://search.invalid:{port}/")
        answers = [endpoint.post({"question": f"q{n}"})["answer"] for n in range(5)]
        assert answers == ["q0", "q1", "q2", "q3", "q4"]

    [head] = proxy.heads
    assert head.startswith("CONNECT search.invalid:")
    assert "Proxy-Authorization: Basic " in head
    assert server.connections == 1, "kept open"


def test_certificates_that_cannot_be_read_are_named(monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent")

    with pytest.raises(OptionError, match="REQUESTS_CA_BUNDLE"):
        Endpoint("http", "https://search.invalid/")
    Endpoint("http", "http://search.invalid/")


def test_no_message_shows_the_login(monkeypatch):
    echo = b"HTTP/1.1 407 Who\r\nContent-Length: 35\r\n\r\nnot Basic bWU6cGFzc3cwcmQ5OQ== again"
    with Proxy(echo, tunnels=False) as proxy:
        for scheme in ("http", "https"):
            monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://me:passw0rd99@{proxy.address}")
            with pytest.raises(CallFailure, match="407") as failure:
                Endpoint("http", f"{scheme}://search.invalid/", retries=0).post({})
            assert "bWU6" not in failure.value.detail
            assert "passw0rd99" not in failure.value.detail


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize(
    "url", ["socks5://me:passw0rd99@h:1", "http://me:passw0rd99@h:x", "http://"]
)
def test_other_proxies_are_refused(monkeypatch, variable, url):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv(variable, url)

    with pytest.raises(OptionError, match=f": {variable}: .*allowed: a proxy") as why:
        Endpoint("http", "https://search.invalid/")
    assert "passw0rd99" not in str(why.value)
    Endpoint("http", "http://search.invalid/")
