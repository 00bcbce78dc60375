"""Programs of docs/services.md: output and sent scores, where the tool is installed.

That for MLflow runs in `tests/report/test_exports.py`, beside the others that load it.
"""

import importlib.util
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.notebook import programs
from tests.test_integrations import output_lines


def programs_by_name(repository):
    """Return file name -> program of the page."""
    by_name = {}
    for program in programs(repository / "docs/services.md"):
        by_name[program.split("\n", 1)[0].removeprefix("# ")] = program
    return by_name


@pytest.fixture
def run_program(repository, tmp_path):
    """Return a function that runs a program of the page beside `quality.py`, as a process."""
    by_name = programs_by_name(repository)

    def run(name, package, **environment):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
        for file in ("quality.py", name):
            (tmp_path / file).write_text(by_name[file], encoding="utf-8")
        done = subprocess.run(
            [sys.executable, name],
            capture_output=True, text=True, check=False, cwd=tmp_path,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return by_name[name], done.stdout.splitlines()

    return run


@contextmanager
def langfuse_server(scores):
    """Start a server that accepts all posts and appends the scores; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            content = self.rfile.read(int(self.headers["content-length"]))
            if self.path.endswith("/scores"):
                scores.extend(json.loads(content))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        # after a skip, too: a thread that serves a closed socket never waits
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.slow
def test_the_program_prints_what_the_page_says(run_program):
    pytest.importorskip("opentelemetry")

    program, lines = run_program("otel_scores.py", "opentelemetry.sdk")

    expected = output_lines(program)
    assert [line for line in lines if line in expected] == expected


@pytest.mark.slow
def test_the_score_reaches_langfuse(run_program):
    scores = []
    with langfuse_server(scores) as address:
        keys = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}
        run_program("langfuse_scores.py", "langfuse", LANGFUSE_BASE_URL=address, **keys)

    assert [(score["name"], score["value"]) for score in scores] == [("fluency", 1.0)]
    assert all(score["traceId"] for score in scores)
