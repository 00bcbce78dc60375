"""A server that redirects is not followed: another host would get question and passages."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import ragbench as rb
from tests.chat_server import ChatServer
from tests.commands import run_command
from tests.experiment.moons import write_moons

GENERATOR, JUDGE = "generators: {g: {", "metrics: {judge: {rubrics: [fluency], "


@pytest.fixture
def redirecting():
    """A server that sends every request on to another one; returns its address and the other."""
    with ChatServer() as other:

        class Redirect(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(307)
                self.send_header("Location", f"{other.url}/chat/completions")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Redirect)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", other
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("base_url", ["address", "client", "synchronous client"])
def test_nothing_reaches_the_other_host(redirecting, base_url, assert_message):
    import openai

    address, other = redirecting
    where = {"base_url": address}
    if base_url == "client":
        where = {"client": openai.AsyncOpenAI(base_url=address, api_key="none")}
    if base_url == "synchronous client":
        where = {"client": openai.OpenAI(base_url=address, api_key="none")}
    with rb.Judge(model="m", rubrics=["fluency"], retries=2, **where) as judge:
        verdict = judge.score(question="q", answer="secret text")["fluency"]

    assert verdict.status == "failed"
    assert_message(verdict.reasoning)
    assert other.counters.requests == 0


@pytest.mark.costly
@pytest.mark.parametrize(
    ("address", "block", "command"),
    [
        ("http://user:pass@h/v1", GENERATOR, "run"),
        ("http://user:pass@h/v1", JUDGE, "run"),
        ("http://user:pass@h/v1", GENERATOR, "plan"),
        ("http://user:pass@h/v1", JUDGE, "validate"),
        ("user:pass@h", GENERATOR, "validate"),
        ("user:pass@h", JUDGE, "plan"),
        ("http://:@h", GENERATOR, "validate"),
        ("http://[::1", JUDGE, "validate"),
        ("http://h:pass", GENERATOR, "validate"),
        ("http://h/#x", JUDGE, "validate"),
    ],
)
def test_an_address_that_a_run_refuses_is_refused_before(tmp_path, block, address, command):
    write_moons(tmp_path / "moons")
    entry = f"type: openai, model: m, base_url: {json.dumps(address)}"
    (tmp_path / "c.yaml").write_text(
        "dataset: {type: beir, path: moons}\nretrievers: {b: {type: bm25}}\n"
        + ("generators: {e: {type: extractive}}\n" if "judge" in block else "")
        + f"{block}{entry}}}}}\n"
    )

    done = run_command(command, "c.yaml", cwd=tmp_path)

    assert done.returncode == 2, done.stdout
    assert "base_url: found" in done.stderr
    assert "pass@" not in done.stderr.split("|")[0]
