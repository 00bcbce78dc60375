"""Replies that a proxy sends twice: the copy is never taken for the reply to the next request."""

import shutil
import ssl
import subprocess

import pytest

from tests.repeats import RepeatingServer, count_wrong


@pytest.mark.parametrize("arrival", ["together", "then", "cut"])
def test_no_copy_answers_the_next_request(arrival):
    """Of 400 answers 251 (then) belonged to another question."""
    with RepeatingServer(0.5, arrival) as server:
        wrong = count_wrong(server, 30, threads=1 if arrival == "then" else 4)

    assert server.repeated >= 5
    assert wrong == 0


def test_connections_are_used_again_only_without_a_copy():
    with RepeatingServer(0.0) as server:
        count_wrong(server, 20)

    assert server.connections == 1


def test_a_late_copy_is_excluded_by_a_connection_per_request():
    with RepeatingServer(0.5, "late") as server:
        wrong = count_wrong(server, 20, keep_alive=False)

    assert (wrong, server.connections) == (0, 20)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate by openssl")
def test_no_copy_is_overlooked_in_tls(tmp_path, monkeypatch):
    """TLS has a buffer of its own, which the socket does not show."""
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    name = "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    command = f"openssl req -x509 {curve} {name} -keyout {key} -out {certificate}"
    subprocess.run(command.split(), check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with RepeatingServer(0.3, "then", tls=context) as server:
        assert count_wrong(server, 20) == 0

    assert server.connections <= 1 + server.repeated
