"""A judge that was used before `os.fork` works in the child, which has no threads of it."""

import faulthandler
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import traceback

import pytest

from tests.chat_server import ChatServer
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def judge_and_server(judge_on, tmp_path):
    """A judge with a file of replies, and its server."""
    return judge_on(rubrics=["correctness"], replies=tmp_path / "replies.sqlite")


def status(judge, answer):
    """Return the status of a verdict, with its reason if it has no score."""
    verdict = judge.score(question="a?", answer=answer, reference="b")["correctness"]
    return verdict.status if verdict.status == "scored" else f"{verdict.status}: {verdict}"


def in_child(function):
    """Run a function in a forked child process, and return its result, or None after a minute."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(50, file=sys.__stderr__)  # where a child hangs
        try:
            os.write(writing, json.dumps(function()).encode())
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(0)
    os.close(writing)
    alarm = threading.Timer(60, os.kill, (child, 9))
    alarm.start()
    with os.fdopen(reading) as stream:
        text = stream.read()
    alarm.cancel()
    os.waitpid(child, 0)
    return json.loads(text or "null")


def test_a_child_judges_and_reads_the_replies_of_its_parent(judge_and_server):
    server, judge = judge_and_server
    assert status(judge, "first") == "scored"

    assert in_child(lambda: [status(judge, word) for word in ("first", "second")]) == ["scored"] * 2
    assert status(judge, "second") == "scored"

    assert server.counters.most_asked == 1, "no call is paid twice"


@pytest.mark.costly
def test_children_of_a_busy_parent(judge_and_server):
    # Locks may be held, and modules half imported, by threads that a child does not have
    _, judge = judge_and_server
    ended = threading.Event()

    def work(thread):
        number = 0
        while not ended.is_set():
            number += 1
            status(judge, f"{thread} {number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        statuses = [in_child(lambda n=n: status(judge, f"child {n}")) for n in range(4)]
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert statuses == ["scored"] * 4


@pytest.mark.costly
def test_the_first_request_imports_nothing():
    # A process that forks during an import leaves its child half of a module
    program = """
import sys
from ragbench import Judge
judge = Judge("m", ["correctness"], base_url=sys.argv[1])
before = set(sys.modules)
print(judge.score(question="a?", answer="b", reference="b")["correctness"].status)
print(*sorted(set(sys.modules) - before))
"""
    with ChatServer(Script()) as server:
        arguments = [sys.executable, "-c", program, server.url]
        output = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout

    assert output.splitlines() == ["scored", ""]


@pytest.mark.costly
def test_workers_of_multiprocessing(judge_and_server, monkeypatch):
    server, judge = judge_and_server
    assert status(judge, "first") == "scored"
    monkeypatch.setitem(globals(), "_judge", judge)

    with multiprocessing.get_context("fork").Pool(2) as pool:
        answers = pool.map_async(_status, ["first", "x", "y", "z"]).get(timeout=20)

    assert answers == ["scored"] * 4
    assert server.counters.most_asked == 1, "no call is paid twice"


def _status(answer):
    return status(globals()["_judge"], answer)
