"""Many calls: every one accounted for, from threads, loops and notebooks, kept when interrupted."""

import asyncio
import contextlib
import gc
import threading
import time
from collections import Counter
from typing import ClassVar

import pytest
from msgspec import structs

from ragbench.llm import CallFailure, ChatEngine, ChatReply, Limits, Replies, ask_structured
from ragbench.types import Cause
from tests.chat_server import FAULTS, Answer, Faults
from tests.llm.conftest import GOOD, SCHEMA, ask_many, asking

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

ENDS = {
    "rate_limited": "scored",
    "server_error": "scored",
    "overloaded": "scored",
    "cut": "scored",
    "hung_up": "scored",
    "prose": "scored",
    "no_choices": "scored",
    "truncated_json": "unreadable",  # asked once more, with the same result
    "not_a_number": "unreadable",
    "number_word": "unreadable",
    "slow": "timeout",
    "refusal": "refused",
    None: "scored",
}


ITEMS = 90  # each of the faults falls on some


@pytest.mark.slow(first=True)  # waits twice for the timeout
def test_every_fault_among_many_items(serve):
    # Each item ends with the cause of its fault; no item is lost, or scored twice
    script = Faults(GOOD, share=0.5)
    server, engine = serve(script, engine={"limits": Limits(concurrency=32, timeout=8)})

    async def judge(request):
        try:
            answer = await ask_structured(engine.aask, request)
        except CallFailure as failure:
            return failure.cause.word
        assert answer.value == {"reasoning": "fits", "score": 4}
        return "scored"

    requests = [asking(f"question {i}", schema=SCHEMA) for i in range(ITEMS)]
    ended = list(engine.map(judge, requests))

    assert sorted(position for position, _ in ended) == list(range(ITEMS))
    expected = [ENDS[script.kind_of(request.to_dict())] for request in requests]
    assert [word for _, word in sorted(ended)] == expected
    assert set(Counter(map(script.kind_of, (r.to_dict() for r in requests)))) == {*FAULTS, None}
    assert server.counters.most_asked == 2, "once, and once more where a try can succeed"


def test_outcomes_come_in_the_order_of_the_requests(serve):
    def script(request, times_asked):
        number = int(request["messages"][0]["content"])
        return Answer(str(number), delay_s=0.05 * (number % 3 == 0))

    _, engine = serve(script)

    texts = [outcome.text for outcome in ask_many(engine, [asking(str(i)) for i in range(50)])]

    assert texts == [str(i) for i in range(50)]


def test_one_failing_item_stops_no_other(serve):
    def script(request, times_asked):
        bad = request["messages"][0]["content"] == "3"
        return Answer("no", status=400) if bad else Answer(GOOD)

    _, engine = serve(script)

    outcomes = ask_many(engine, [asking(str(i)) for i in range(8)])

    assert [isinstance(o, CallFailure) for o in outcomes] == [i == 3 for i in range(8)]
    assert engine.totals.calls == 7
    assert engine.totals.failed == 1


def test_requests_are_taken_as_they_are_needed(serve):
    # Memory must not grow with the number of items: the iterator is read as replies come
    _, engine = serve(engine={"limits": Limits(concurrency=2)})
    requests = []

    def endless():
        for i in range(100_000):
            requests.append(i)
            yield asking(str(i))

    pairs = engine.map(engine.aask, endless())
    for _ in range(10):
        next(pairs)
    pairs.close()

    assert len(requests) < 200


def test_equal_requests_under_way_are_sent_once(serve):
    server, engine = serve(Answer(GOOD, delay_s=0.1))

    replies = ask_many(engine, [asking()] * 20)

    assert server.counters.requests == 1
    assert [reply.stored for reply in replies].count(False) == 1, "paid for once"
    assert engine.totals.calls == 1


def test_inside_a_running_loop(serve):
    # In a notebook's cell both calls work, and many items are under way at once
    _, engine = serve()

    async def cell():
        return engine.ask(asking("a")).text, (await engine.aask(asking("b"))).text

    assert asyncio.run(cell()) == (GOOD, GOOD)


def test_from_several_loops_and_threads(serve):
    server, engine = serve()
    texts = []

    def ask(name):
        texts.append(engine.ask(asking(name)).text)
        texts.append(asyncio.run(engine.aask(asking(name * 2))).text)

    threads = [threading.Thread(target=ask, args=(f"{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert texts == [GOOD] * 16
    assert server.counters.requests <= 16


def test_asynchronous_iteration(serve):
    _, engine = serve()

    pairs = asyncio.run(engine.amap(engine.aask, [asking("a"), asking("b")]))

    assert [reply.text for _, reply in pairs] == [GOOD, GOOD]


def test_blocking_from_inside_its_own_loop_is_refused(serve, assert_message):
    _, engine = serve()

    async def wrong(request):
        return engine.ask(request)

    with pytest.raises(RuntimeError) as caught:
        list(engine.map(wrong, [asking()]))
    assert_message(caught.value)


def test_cancelling_keeps_what_was_paid_for(serve, tmp_path):
    # The caller gives up in the middle: received replies are on disk, no call hangs

    def script(request, times_asked):
        return Answer(GOOD, delay_s=0.0 if request["messages"][0]["content"] < "5" else 600)

    with Replies(tmp_path / "replies.sqlite") as replies:
        limits = Limits(timeout=900)
        _, engine = serve(script, engine={"replies": replies, "limits": limits})

        async def give_up():
            task = asyncio.ensure_future(engine.amap(engine.aask, map(asking, "0123456789")))
            while len(replies) < 5:
                assert not task.done()
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        start = time.monotonic()
        asyncio.run(give_up())

        assert len(replies) == 5
        assert time.monotonic() - start < 300, "half of what an answer would take"
        assert engine.ask(asking("3")).stored


def test_what_failed_after_its_asker_had_gone_is_not_printed(tmp_path, logged):
    # The first error is the one to read: calls that end behind it add no traceback
    replies = Replies(tmp_path / "replies.sqlite")

    class Model:
        identity: ClassVar = {"type": "test"}
        asker = None

        async def complete(self, request):
            self.asker.cancel()  # just as the reply comes: it is kept all the same
            replies.close()  # as full a disk as any
            return ChatReply(GOOD)

        async def aclose(self):
            pass

    model = Model()

    async def main():
        model.asker = asyncio.ensure_future(engine.aask(asking()))
        await asyncio.wait([model.asker])
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.001)
        return model.asker.cancelled()

    with ChatEngine(model, limits=Limits(timeout=60.0), replies=replies) as engine:
        assert engine.run(main())
        model.asker = None  # asyncio speaks up when the last reference has gone
        gc.collect()

    assert [line for line in logged if not line.startswith("DEBUG ")] == []


def test_a_second_run_sends_nothing(serve, tmp_path):
    requests = [asking(f"q{i}", schema=SCHEMA) for i in range(30)]
    with Replies(tmp_path / "replies.sqlite") as replies:
        server, engine = serve(
            Faults(GOOD, 0.3, ["prose", "server_error"]), engine={"replies": replies}
        )
        first = ask_many(engine, requests)
        sent = server.counters.requests
        second = ask_many(engine, requests)

    assert server.counters.requests == sent
    assert second == [structs.replace(reply, stored=True) for reply in first]
    assert engine.totals.stored == engine.totals.calls == 30


def test_closing_twice_and_closing_what_was_never_used(serve):
    _, engine = serve()

    engine.close()
    engine.close()


def test_a_failure_of_a_user_function_ends_all(serve):
    _, engine = serve()

    async def broken(item):
        raise ZeroDivisionError(item)

    with pytest.raises(ZeroDivisionError, match="1"):
        list(engine.map(broken, [1]))


def test_interrupted_from_the_keyboard(warm, tmp_path):
    # Ctrl-C in a program that judges: it ends at once, and received replies are stored
    import signal
    import subprocess

    from tests.chat_server import ChatServer

    def script(request, times_asked):
        return Answer(GOOD, delay_s=0.0 if request["messages"][0]["content"] < "q5" else 300)

    code = (
        "from ragbench.llm import *\n"
        "import signal, sys\n"
        # a shell that starts tests in the background lets its children ignore Ctrl-C
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with Replies('replies.sqlite') as replies:\n"
        "    with ChatEngine(OpenAIChat(base_url=sys.argv[1]), replies=replies) as engine:\n"
        "        asked = (ChatRequest('m', (Message('user', f'q{i}'),)) for i in range(10))\n"
        "        for n, reply in engine.map(engine.aask, asked): print(n, flush=True)\n"
    )
    with ChatServer(script) as server:
        process = warm.popen(["-c", code, server.url], cwd=tmp_path, stderr=subprocess.PIPE)
        for _ in range(5):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()

    assert b"KeyboardInterrupt" in errors
    assert errors.count(b"Traceback") == 1
    with Replies(tmp_path / "replies.sqlite") as replies:
        assert len(replies) == 5


def test_no_thread_is_left_behind(serve):
    threads = set(threading.enumerate())
    with contextlib.ExitStack() as stack:
        from tests.chat_server import ChatServer
        from tests.llm.conftest import engine_before

        server = stack.enter_context(ChatServer())
        engine = stack.enter_context(engine_before(server.url))
        assert isinstance(engine.ask(asking()), ChatReply)

    started = [thread for thread in threading.enumerate() if thread not in threads]
    for thread in started:  # one that looked up a name ends on its own, a moment later
        thread.join(timeout=300)
    assert [thread.name for thread in started if thread.is_alive()] == []


def test_a_refusal_through_structured_is_a_failure_by_cause(serve):
    _, engine = serve(FAULTS["refusal"](GOOD))

    with pytest.raises(CallFailure, match="I cannot help") as caught:
        engine.run(ask_structured(engine.aask, asking(schema=SCHEMA)))

    assert caught.value.cause is Cause.REFUSED
    assert len(caught.value.replies) == 1
