"""The adaptive limit against servers with limits, in virtual time; Little's law is the oracle."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.llm import ChatFailure, Limits
from ragbench.llm.limits import AdaptiveLimit
from ragbench.llm.pace import Pace
from ragbench.llm.window import as_completed, in_order
from ragbench.types import Cause
from tests.llm.virtual_time import LimitedServer, ask_all

COMPLAINT = ChatFailure(Cause.SERVER_ERROR, "slow down", throttled=True)


def test_without_complaints_it_is_littles_law():
    """32 at once, 0.102 s each: 3,200 calls in 100 rounds."""
    seconds, limit = ask_all(LimitedServer(), 3_200, 32)

    assert seconds == pytest.approx(100 * 0.102, rel=0.01)
    assert limit.size == 32


@pytest.mark.parametrize("concurrency", [64, 512])
@pytest.mark.parametrize("burst", [25, 250])
def test_a_rate_limit_is_used_up(concurrency, burst):
    server = LimitedServer(rate=250, burst=burst)

    seconds, _ = ask_all(server, 10_000, concurrency)

    assert 10_000 / seconds > 0.95 * 250
    assert server.turned_away < 0.4 * 10_000, "most of them in the first second"


@pytest.mark.parametrize("concurrent", [4, 50])
def test_a_limit_on_concurrency_is_found(concurrent):
    server = LimitedServer(concurrent=concurrent)

    seconds, limit = ask_all(server, 5_000, 128)

    assert 5_000 / seconds > 0.9 * concurrent / server.latency_s
    assert limit.size < 1.3 * concurrent + 1


def test_stray_complaints_do_not_slow_it_down():
    """Three of a hundred complaints have nothing to do with the rate: they cost their own time."""
    server = LimitedServer(rate=250, burst=250, stray=0.03)

    seconds, _ = ask_all(server, 10_000, 128)

    assert (server.answered + 0.03 * server.answered) / seconds > 0.9 * 250


def test_after_an_outage_it_grows_back():
    server = LimitedServer(latency_s=0.01)

    def is_down():
        return 2.0 < asyncio.get_running_loop().time() < 4.0

    server.is_full = is_down
    seconds, limit = ask_all(server, 10_000, 32)

    assert limit.size == 32
    assert seconds < 2 + 10_000 * 0.012 / 32 + 15


def entered(limit, n):
    async def main():
        for _ in range(n):
            await limit.enter()

    asyncio.run(main())


def test_many_complaints_halve_it_once_each():
    """10 of 10: nothing was answered, so nothing is known to be borne beyond what is under way."""
    limit = AdaptiveLimit(16, clock=lambda: 0.0)
    sizes = []

    async def main():
        for _ in range(16):
            await limit.enter()
        for _ in range(16):
            limit.leave(COMPLAINT, 0.002)
            sizes.append(limit.size)

    asyncio.run(main())

    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    assert limit.in_flight == 0


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
    """Whatever happens, there are as many places taken as callers inside."""

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


def test_a_pace_that_is_outgrown_is_dropped():
    pace = Pace()
    for i in range(100):
        pace.answered(i * 0.01)
    pace.complained(1.0)
    assert pace.rate == pytest.approx(1.05 * 100, rel=0.05)

    for i in range(30):  # two answers a second: whatever holds things up, it is not the pace
        pace.answered(1.0 + i * 0.5)

    assert pace.rate is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency: found 0, allowed: an integer >= 1"),
        ({"retries": -1}, "retries: found -1"),
        ({"timeout": 0}, "timeout: found 0, allowed: seconds > 0, or null"),
        ({"timeout": float("nan")}, "timeout: found nan"),
        ({"longest_wait": -1}, "longest_wait: found -1"),
    ],
)
def test_bad_limits(options, message):
    with pytest.raises(OptionError, match=message):
        Limits(**options)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 5), max_size=40), st.integers(1, 9), st.integers(1, 9), st.booleans()
)
def test_a_window_loses_nothing(delays, size, ahead, ordered):
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
        items = list(enumerate(delays))
        if ordered:
            return [v async for v in in_order(one, items, size=size, ahead=ahead)]
        return [v async for v in as_completed(one, items, size=size)]

    done = asyncio.run(main())

    expected = list(range(len(delays)))
    if ordered:
        assert done == expected
    else:
        assert sorted(done) == [(i, i) for i in expected]
    assert most <= size
