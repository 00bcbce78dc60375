"""Claims of calls: of several runs that share a store, one pays; whoever dies holds up nobody."""

import asyncio
import random
import subprocess
import threading
import time

import pytest

from ragbench.llm import ChatEngine, OpenAIChat, Replies
from ragbench.store import call_locks
from tests.chat_server import ChatServer
from tests.llm.conftest import GOOD, ask_many, asking

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes

RUN = """
import random, sys
from ragbench.llm import ChatEngine, ChatRequest, Limits, Message, OpenAIChat, Replies
path, url, n, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
asked = [ChatRequest('m', (Message('user', f'question {i}'),)) for i in range(n)]
random.Random(seed).shuffle(asked)
with Replies(path) as replies:
    with ChatEngine(OpenAIChat(base_url=url), replies=replies, limits=Limits(concurrency=8)) as e:
        list(e.map(e.aask, asked))
        print(e.totals.failed, e.totals.calls, e.totals.stored)
"""


NO_LOCKS = """
import errno, fcntl, itertools, os
calls, lockf = itertools.count(), fcntl.lockf
def refuse(*args):
    if next(calls) >= {after}:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    lockf(*args)
fcntl.lockf = refuse
"""


def start(warm, path, url, n, seed, first=""):
    command = ["-c", first + RUN, str(path), url, str(n), str(seed)]
    return warm.popen(command, stderr=subprocess.PIPE, text=True)


def test_processes_in_different_orders_pay_once_for_each_call(warm, tmp_path):
    n, path = 40, tmp_path / "replies.sqlite"
    with ChatServer(GOOD, latency_s=0.01) as server:
        runs = [start(warm, path, server.url, n, seed) for seed in range(3)]
        ends = [run.communicate() for run in runs]

        assert [run.returncode for run in runs] == [0, 0, 0], ends
        assert server.counters.requests == n
        counts = [[int(word) for word in out.split()] for out, _ in ends]
        assert [failed for failed, _, _ in counts] == [0, 0, 0]
        assert sum(calls for _, calls, _ in counts) == n, "what was paid is counted once"
        assert sum(stored for *_, stored in counts) == 2 * n


def test_the_call_of_a_killed_process_is_taken_over(warm, tmp_path):
    n, path = 48, tmp_path / "replies.sqlite"
    with ChatServer(GOOD, latency_s=0.04) as server:
        first, second = (start(warm, path, server.url, n, seed) for seed in (1, 1))
        while server.counters.requests < 12:
            assert first.poll() is None
            time.sleep(0.005)
        first.kill()
        first.communicate()
        out, errors = second.communicate()

        assert out.split()[0] == "0", errors
        assert len(server.counters.asked) == n
        assert server.counters.requests - n <= 8, "only what was under way at the kill"


@pytest.mark.parametrize("after", [0, 2], ids=["none", "none from the first call on"])
def test_a_file_system_without_locks_is_refused_before_anything_is_paid(
    warm, tmp_path, after, assert_message
):
    # SQLite's own locks work, those of calls do not, as on NFS without a lock manager.
    path = tmp_path / "replies.sqlite"
    with ChatServer(GOOD) as server:
        run = start(warm, path, server.url, 3, 1, NO_LOCKS.format(after=after))
        out, errors = run.communicate()

        assert server.counters.requests == 0, out
    assert run.returncode != 0
    last = errors.strip().splitlines()[-1]
    assert_message(last)
    assert "No locks available" in last
    assert "RAGBENCH_CACHE" in last


def test_engines_of_one_process_pay_once(tmp_path):
    path, n = tmp_path / "replies.sqlite", 24
    with ChatServer(GOOD, latency_s=0.02) as server:

        def ask(seed):
            requests = [asking(f"question {i}") for i in range(n)]
            random.Random(seed).shuffle(requests)
            with (
                Replies(path) as replies,
                ChatEngine(OpenAIChat(base_url=server.url), replies=replies) as engine,
            ):
                assert all(reply.text == GOOD for reply in ask_many(engine, requests))

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert server.counters.requests == n


def test_a_call_that_fails_is_tried_by_who_waits(tmp_path):
    path = tmp_path / "replies.sqlite"
    with Replies(path) as one, Replies(path) as other:
        assert one.call_locks is other.call_locks

        async def both():
            order = []

            async def first():
                async with one.call_locks.hold("k"):
                    await asyncio.sleep(0.05)
                    order.append("first")
                    raise ValueError

            async def second():
                await asyncio.sleep(0.01)
                async with other.call_locks.hold("k"):
                    order.append("second")

            await asyncio.gather(first(), second(), return_exceptions=True)
            return order

        assert asyncio.run(both()) == ["first", "second"]


def test_who_waits_too_long_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(call_locks, "_PATIENCE_S", 0.1)
    locks = call_locks.CallLocks(tmp_path / "claims")

    async def both():
        async with locks.hold("k"):
            async with locks.hold("k"):
                pass
            assert not locks._take(next(iter(locks._held))), "it stays the first one's"

    asyncio.run(both())


def test_a_folder_that_takes_no_file_still_tells_threads_apart(tmp_path):
    locks = call_locks.CallLocks(tmp_path / "no such folder" / "claims")

    assert locks._take(7)
    assert not locks._take(7)
    locks._release(7)
    assert locks._take(7)
