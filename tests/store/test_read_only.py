"""A cache that may only be read: complete, it serves a run; else one line says what is missing."""

import subprocess

import pytest

from tests.chat_server import Answer, ChatServer
from tests.commands import run_command
from tests.llm.conftest import GOOD
from tests.warm import PROGRAM

pytestmark = pytest.mark.slow  # seconds in all: each in a process of its own

ENTER = """
import ctypes, os, subprocess, sys
from pathlib import Path
folder, user, group = sys.argv.pop(1), os.getuid(), os.getgid()
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000 | 0x00020000):  # users, mounts
    raise OSError(ctypes.get_errno(), "no mounts of one's own")
for name, text in (
    ("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")
):
    Path("/proc/self", name).write_text(text)
for words in (["--bind", folder], ["-o", "remount,ro,bind"]):
    subprocess.run(["mount", *words, folder], check=True)
"""
ASK = """
import sys
from ragbench.errors import DataError
from ragbench.llm import *
from ragbench.embed.cache import CachedEmbedder
from tests.embed.tables import Table
from pathlib import Path
folder, url, *asked = sys.argv[1:]
with Replies(f"{folder}/replies.sqlite") as replies:
    with ChatEngine(OpenAIChat(base_url=url), replies=replies) as engine:
        for text in asked:
            try:
                print(engine.ask(ChatRequest("m", (Message("user", text),))).text)
            except DataError as error:
                print(error)
table = Table()
embedder = CachedEmbedder(table, Path(folder) / "cache.sqlite")
embedder.encode(asked)
embedder.count_tokens(asked)
print(len(asked) - len(table.encoded))
"""


def read_only(warm, folder, code, *arguments):
    """Run code in a process to which a folder is mounted read-only: rights stop no superuser."""
    command = ["-c", ENTER + code, str(folder), *map(str, arguments)]
    process = warm.popen(command, stderr=subprocess.PIPE, text=True)
    out, errors = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


@pytest.fixture
def cache(tmp_path, warm):
    folder = tmp_path / "cache"
    folder.mkdir()
    done = read_only(warm, folder, "Path(sys.argv[1]).touch()", folder / "x")
    if "Read-only file system" not in done.stderr:
        pytest.skip(f"no mounts of one's own here: {done.stderr}")
    return folder


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_complete_cache_serves_and_what_is_missing_is_named_and_not_paid(
    cache, warm, assert_message
):
    with ChatServer(GOOD) as server:
        assert warm.run(ASK, str(cache), server.url, "known")[0] == 0
        old_files = files(cache)

        done = read_only(warm, cache, ASK, cache, server.url, "known", "unknown")

        assert done.returncode == 0, done.stderr
        reply, missing, count = done.stdout.splitlines()
        assert (reply, count) == (GOOD, "1")
        assert "replies.sqlite: no reply from 'm' to 'unknown'" in missing
        assert ": the file is read-only; allowed: " in missing
        assert_message(done.stderr)
        assert server.counters.requests == 1
        assert files(cache) == old_files


def test_a_log_that_was_left_is_read_too(cache, warm):
    # Killed before it closed: the last replies are in the log, which nobody may put away.
    code = (
        "import os, sys; from ragbench.llm import *; r = Replies(sys.argv[1])\n"
        "r.store('k', ChatReply('yes')).result(); os.kill(os.getpid(), 9)"
    )
    path = cache / "replies.sqlite"
    assert warm.run(code, str(path))[0] == -9
    (cache / "replies.sqlite-shm").unlink()
    look = "import sys; from ragbench.llm import *; print(Replies(sys.argv[1]).get('k').text)"

    done = read_only(warm, cache, look, path)

    assert done.stdout == "yes\n", done.stderr


def test_a_run_over_a_complete_cache(
    cache, warm, repository, tmp_path, monkeypatch, assert_message
):
    command = ["run", repository / "configs" / "quickstart.yaml", "--only", "bm25", "--quiet"]
    command += ["--limit", "10", "--set", f"output={tmp_path / 'runs'}"]
    monkeypatch.setenv("RAGBENCH_CACHE", str(cache))
    assert run_command(*command).returncode == 0
    assert (cache / "cache.sqlite").is_file()

    again = read_only(warm, cache, PROGRAM, *command)
    other = read_only(warm, cache, PROGRAM, *command, "--set", "retrievers.bm25.k1=1.3")

    assert again.returncode == 0, again.stderr
    assert (other.returncode, other.stderr.count("\n")) == (2, 1), other.stderr
    assert_message(other.stderr)


def test_failures_of_a_server_stay_where_a_new_result_cannot_be_stored(
    cache, warm, repository, tmp_path, monkeypatch, assert_message
):
    monkeypatch.setenv("RAGBENCH_CACHE", str(cache))
    with ChatServer(Answer("out of order", status=500)) as server:
        gpt = f"{{type: openai, model: m, base_url: '{server.url}', retries: 0}}"
        command = ["run", repository / "configs" / "quickstart.yaml", "--only", "bm25", "--limit"]
        command += ["3", "--quiet", "--set", f"output={tmp_path / 'runs'}"]
        command += ["--set", f"generators={{gpt: {gpt}}}"]
        assert run_command(*command).returncode == 3
        sent = server.counters.requests

        again = read_only(warm, cache, PROGRAM, *command)

        assert again.returncode == 3, again.stderr
        assert_message(again.stderr)
        assert server.counters.requests == sent > 0


def test_an_empty_cache_asks_nothing(cache, warm):
    with ChatServer(GOOD) as server:
        done = read_only(warm, cache, ASK, cache, server.url, "x")

        assert "no reply from 'm' to 'x'" in done.stdout, done.stderr
        assert server.counters.requests == 0
    assert not list(cache.iterdir())
