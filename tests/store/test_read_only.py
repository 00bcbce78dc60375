"""A cache that may only be read: complete, it serves a run; else one line says what is missing."""

import os
import subprocess
import sys

import numpy as np
import pytest

from ragbench.store.vectors import EmbeddingCache
from ragbench.testing import ChatServer
from tests.llm.conftest import GOOD

pytestmark = pytest.mark.slow  # seconds in all: each in a process of its own

READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
ASK = """
import sys
import numpy as np
from ragbench.errors import DataError
from ragbench.llm import *
from ragbench.store.vectors import StoredVectors
from pathlib import Path
folder, url, *asked = sys.argv[1:]
with Replies(f"{folder}/replies.sqlite") as replies:
    with ChatEngine(OpenAIChat(base_url=url), replies=replies) as engine:
        for text in asked:
            try:
                print(engine.ask(ChatRequest("m", (Message("user", text),))).text)
            except DataError as error:
                print(error)
with StoredVectors(Path(folder) / "embeddings.sqlite") as stored:
    print(len(dict(stored.find([b"a"]))))
    stored.store({b"b": np.ones(2, np.float32)})
    stored.store_lengths({b"b": 1})
"""


def read_only(folder, *command, repository):
    """Run a command to which a folder is mounted read-only: rights stop no superuser."""
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", READ_ONLY, "sh", str(folder), *map(str, command)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )


@pytest.fixture
def cache(tmp_path, repository):
    folder = tmp_path / "cache"
    folder.mkdir()
    try:
        done = read_only(folder, "touch", folder / "x", repository=repository)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if "Read-only file system" not in done.stderr:
        pytest.skip(f"no mounts of one's own here: {done.stderr}")
    return folder


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_complete_cache_serves_and_what_is_missing_is_named_and_not_paid(cache, repository):
    with ChatServer(GOOD) as server:
        command = [sys.executable, "-c", ASK, cache, server.url]
        environment = {**os.environ, "PYTHONPATH": str(repository)}
        subprocess.run([*map(str, command), "known"], env=environment, check=True)
        with EmbeddingCache(cache / "embeddings.sqlite") as vectors:
            vectors.store({b"a": np.ones(2, np.float32)})
        before = files(cache)

        done = read_only(cache, *command, "known", "unknown", repository=repository)

        assert done.returncode == 0, done.stderr
        reply, missing, found = done.stdout.splitlines()
        assert (reply, found) == (GOOD, "1")
        assert "replies.sqlite: no reply from 'm' to 'unknown'" in missing
        assert "may only be read, and nothing is paid for that cannot be stored" in missing
        assert "embeddings.sqlite: may only be read; new vectors are computed" in done.stderr
        assert server.counters.requests == 1
        assert files(cache) == before


def test_a_log_that_was_left_is_read_too(cache, repository):
    """Killed before it closed: the last replies are in the log, which nobody may put away."""
    code = (
        "import os, sys; from ragbench.llm import *; r = Replies(sys.argv[1])\n"
        "r.store('k', ChatReply('yes')).result(); os.kill(os.getpid(), 9)"
    )
    path = cache / "replies.sqlite"
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    subprocess.run([sys.executable, "-c", code, str(path)], env=environment, check=False)
    (cache / "replies.sqlite-shm").unlink()
    look = "import sys; from ragbench.llm import *; print(Replies(sys.argv[1]).get('k').text)"

    done = read_only(cache, sys.executable, "-c", look, path, repository=repository)

    assert done.stdout == "yes\n", done.stderr


def test_a_run_over_a_complete_cache(cache, repository, tmp_path, monkeypatch):
    command = [sys.executable, "-m", "ragbench", "run", repository / "configs" / "quickstart.yaml"]
    command += ["--set", f"output={tmp_path / 'runs'}"]
    monkeypatch.setenv("RAGBENCH_CACHE", str(cache))
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    subprocess.run([*map(str, command)], env=environment, check=True, capture_output=True)
    assert (cache / "stages").is_dir()

    again = read_only(cache, *command, "--quiet", repository=repository)
    other = read_only(
        cache, *command, "--set", "retrievers.bm25.k1=1.3", "--quiet", repository=repository
    )

    assert again.returncode == 0, again.stderr
    assert (other.returncode, other.stderr.count("\n")) == (2, 1), other.stderr
    assert "cannot be written: Read-only file system" in other.stderr


def test_an_empty_cache_asks_nothing(cache, repository):
    with ChatServer(GOOD) as server:
        done = read_only(
            cache, sys.executable, "-c", ASK, cache, server.url, "x", repository=repository
        )

        assert "no reply from 'm' to 'x'" in done.stdout, done.stderr
        assert server.counters.requests == 0
    assert not list(cache.iterdir())
