"""Methods in two forms: which is called, and in which loop."""

import asyncio
import threading

import pytest

from ragbench.adapters.libraries import SyncOrAsync


class Both:
    def find(self, question):
        return f"called {question}"

    async def afind(self, question):
        return f"awaited {question}"


class OnlyAsync:
    async def afind(self, question):
        return threading.current_thread().name, id(asyncio.get_running_loop())


class Refers(Both):
    def find(self, question):
        raise NotImplementedError


class Broken(Both):
    def find(self, question):
        raise TypeError("a bug of its own")


def test_the_plain_form_comes_first():
    assert SyncOrAsync(Both(), "find")("x") == "called x"
    assert SyncOrAsync(Refers(), "find")("x") == "awaited x"


def test_all_awaited_calls_share_a_loop_from_any_thread():
    either, found = SyncOrAsync(OnlyAsync(), "find"), []

    threads = [threading.Thread(target=lambda: found.append(either("x"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 4
    assert len(set(found)) == 1
    assert found[0][0] == "ragbench-adapter"


def test_inside_a_running_loop():
    async def notebook():
        return SyncOrAsync(OnlyAsync(), "find")("x")[0]

    assert asyncio.run(notebook()) == "ragbench-adapter"


def test_a_bug_is_not_taken_for_a_missing_form():
    with pytest.raises(TypeError, match="a bug of its own"):
        SyncOrAsync(Broken(), "find")("x")


def test_its_thread_ends_with_it():
    either = SyncOrAsync(OnlyAsync(), "find")
    either("x")
    [thread] = [t for t in threading.enumerate() if t.name == "ragbench-adapter"]

    del either

    thread.join(5)
    assert not thread.is_alive()


def test_neither_form():
    assert not SyncOrAsync(object(), "find")
