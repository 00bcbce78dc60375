"""The adaptive limit against servers with limits, in virtual time; Little's law is the oracle."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.llm import CallFailure, Limits
from ragbench.llm.calls import as_completed
from ragbench.llm.limits import AdaptiveLimit
from ragbench.types import Cause
from tests.llm.virtual_time import LimitedServer, ask_all

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

COMPLAINT = CallFailure(Cause.SERVER_ERROR, "slow down", throttled=True)


def test_without_complaints_it_is_littles_law():
    # 32 at once, 0.102 s each: 960 calls in 30 rounds
    seconds, limit = ask_all(LimitedServer(), 960, 32)

    assert seconds == pytest.approx(30 * 0.102, rel=0.01)
    assert limit.size == 32


@pytest.mark.parametrize(("concurrency", "burst", "n"), [(64, 25, 2_000), (512, 250, 5_000)])
def test_a_rate_limit_is_used_up(concurrency, burst, n):
    server = LimitedServer(rate=250, burst=burst)

    seconds, _ = ask_all(server, n, concurrency)

    assert n / seconds > 0.95 * 250
    assert server.turned_away < 0.4 * n, "most of them in the first second"


@pytest.mark.parametrize("concurrent", [4, 50])
def test_a_limit_on_concurrency_is_found(concurrent):
    server = LimitedServer(concurrent=concurrent)

    seconds, limit = ask_all(server, 1_500, 128)

    assert 1_500 / seconds > 0.9 * concurrent / server.latency_s
    assert limit.size < 1.3 * concurrent + 1


def test_stray_complaints_do_not_slow_it_down():
    # Three of a hundred have nothing to do with how much is sent, and some answers are slow.
    # A place is taken for 0.007 s and, once in 60, a second longer: 32 places, 7,000 calls.
    server = LimitedServer(latency_s=0.005, stray=0.03, slow=1 / 60)

    seconds, _ = ask_all(server, 7_000, 32)

    assert seconds < 1.3 * 7_000 * (0.007 + 1 / 60) / 32


@pytest.mark.parametrize(
    ("concurrency", "latency_s", "share"),
    [(1, 0.05, 0.3), (4, 0.05, 0.3), (64, 0.5, 0.12)],
)
def test_complaints_at_random_cost_what_errors_cost(concurrency, latency_s, share):
    # A server without a limit says 429 by chance; one that says 500 instead is the measure

    def seconds(status: int) -> float:
        server = LimitedServer(
            latency_s=latency_s, stray=share, complaint=status, retry_after_s=1.0
        )
        return ask_all(server, 600, concurrency)[0]

    assert seconds(500) / seconds(429) > 0.8


def test_a_limit_that_falls_is_followed():
    # Earlier answers are no reason to keep the old rate
    server = LimitedServer(rate=200, burst=20, falls_to=(10.0, 50))

    seconds, _ = ask_all(server, 3_000, 64)

    assert seconds < 10 + (3_000 - 10 * 200) / (0.9 * 50)
    assert server.turned_away < 0.2 * 3_000


def test_slow_answers_do_not_take_the_places_of_others():
    # As many as 3 % of the answers take ten times as long, while the server is at its limit
    server = LimitedServer(rate=100, burst=100, stray=0.03, slow=0.03)

    seconds, _ = ask_all(server, 1_500, 128)

    assert 1.03 * 1_500 / seconds > 0.9 * 100


def test_answers_that_hang_do_not_hold_up_the_rest():
    # 75 of 1,500 take 30 s more; in turn, sixteen at once, they would take 140 s
    server = LimitedServer(slow=0.05, slow_s=30.0, latency_s=0.05)

    seconds, limit = ask_all(server, 1_500, 16)

    assert server.answered == 1_500
    assert seconds < 75
    assert limit.size == 16
    assert limit.hanging == limit.in_flight == 0
    assert server.most_at_work <= 4 * 16


def test_a_server_that_hangs_as_a_whole_is_asked_no_more():
    server = LimitedServer(stalls=(2.0, 50.0))

    seconds, _ = ask_all(server, 1_000, 16)

    assert server.answered == 1_000
    assert server.most_at_work <= 2 * 16
    assert seconds < 62


def test_complaints_that_are_no_strays_halve_it():
    # A server that turns away every second call is asked less
    _, limit = ask_all(LimitedServer(stray=0.5), 1_000, 32)

    assert limit.size < 16


def test_after_an_outage_it_grows_back():
    server = LimitedServer(latency_s=0.01)

    def is_down():
        return 0.5 < asyncio.get_running_loop().time() < 2.5

    server.is_full = is_down
    seconds, limit = ask_all(server, 5_000, 32)

    assert limit.size == 32
    assert seconds < 2 + 5_000 * 0.012 / 32 + 15


def test_complaints_alone_leave_one_place():
    time = 0.0
    limit = AdaptiveLimit(16, clock=lambda: time)
    for _ in range(1_000):
        time += 0.01
        limit.in_flight += 1
        limit.leave(COMPLAINT, 0.002)

    assert (limit.size, limit.in_flight) == (1, 0)


def test_those_turned_away_go_first():
    order = []

    async def main():
        limit = AdaptiveLimit(1)
        await limit.enter()

        async def wait(name, again):
            await limit.enter(again=again)
            order.append(name)
            limit.leave(None, 0.0)

        tasks = [asyncio.ensure_future(wait(*a)) for a in (("new", False), ("again", True))]
        await asyncio.sleep(0)
        limit.leave(None, 0.0)
        await asyncio.gather(*tasks)

    asyncio.run(main())

    assert order == ["again", "new"]


@given(st.lists(st.sampled_from(["enter", "leave", "complain", "cancel"]), max_size=60))
def test_places_are_never_lost(steps):
    # Whatever happens, there are as many places taken as callers inside

    async def main():
        limit = AdaptiveLimit(3)
        waiting, inside = [], 0
        for step in steps:
            if step == "enter":
                waiting.append(asyncio.ensure_future(limit.enter()))
            elif step == "cancel" and waiting:
                waiting.pop().cancel()
            elif step in ("leave", "complain") and inside:
                inside -= 1
                limit.leave(COMPLAINT if step == "complain" else None, 0.01)
            await asyncio.sleep(0)
            inside += sum(task.done() and not task.cancelled() for task in waiting)
            waiting = [task for task in waiting if not task.done()]
            assert limit.in_flight == inside <= 3
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"concurrency": 0}, "limits: concurrency"),
        ({"retries": -1}, "limits: retries"),
        ({"timeout": 0}, "limits: timeout"),
        ({"timeout": float("nan")}, "limits: timeout"),  # NaN is neither more nor less than 0
    ],
)
def test_bad_limits(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        Limits(**options)
    assert_message(caught.value, place)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 9))
def test_a_window_loses_nothing(delays, size):
    under_way, most = 0, 0

    async def one(entry):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(entry[1]):
            await asyncio.sleep(0)
        under_way -= 1
        return entry[0]

    async def main():
        return [v async for v in as_completed(one, list(enumerate(delays)), size=size)]

    done = asyncio.run(main())

    assert under_way == 0
    assert sorted(done) == [(i, i) for i in range(len(delays))]
    assert most <= size


def test_leaving_early_cancels_what_is_under_way():
    ended = []

    async def one(item):
        try:
            await asyncio.sleep(item)
        finally:
            ended.append(item)

    async def main():
        values = as_completed(one, [0, 30, 31], size=3)
        await values.__anext__()
        await values.aclose()
        return sorted(ended)

    assert asyncio.run(main()) == [0, 30, 31]
