"""Calling components that raise, hang, are slow or answer nonsense."""

import threading
import time
from operator import itemgetter
from types import SimpleNamespace

import pytest

from ragbench.errors import AdapterError
from ragbench.experiment.calls import Calls, call_once, calling
from ragbench.llm import CallFailure
from ragbench.types import Cause
from ragbench.types.rows import Mapped


def double(x):
    return 2 * x


def call_all(function, items, calls):
    """The outcomes in the order of the items."""
    return [outcome for _, outcome in sorted(calling(function, items, calls), key=itemgetter(0))]


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("timeout", [None, 5.0])
def test_outcomes_come_in_the_order_of_the_items(concurrency, timeout):
    by_position = dict(calling(double, range(50), Calls("x", timeout, concurrency)))

    outcomes = [by_position[position] for position in range(50)]
    assert [outcome.value for outcome in outcomes] == list(range(0, 100, 2))
    assert all(outcome.latency_ms >= 0 for outcome in outcomes)


def test_one_that_raises_fails_alone(assert_message):
    def picky(x):
        if x == 3:
            raise ValueError("not three")
        return x

    outcomes = call_all(picky, range(5), Calls("retriever 'mine'"))

    assert [outcome.value for outcome in outcomes] == [0, 1, 2, None, 4]
    assert outcomes[3].cause is Cause.ERROR
    assert_message(outcomes[3].detail)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (AdapterError("hit 1 is None"), Cause.MALFORMED),
        (SystemExit(1), Cause.ERROR),
        (RuntimeError(), Cause.ERROR),
    ],
)
def test_causes(error, cause):
    def raises(x):
        raise error

    outcome = call_once(raises, 1, Calls("x"))

    assert (outcome.value, outcome.cause) == (None, cause)
    assert outcome.cause.failed


@pytest.mark.costly
@pytest.mark.parametrize("concurrency", [1, 3])
def test_one_that_hangs_fails_in_time(concurrency, assert_message):
    release = threading.Event()

    def hangs(x):
        if x == 1:
            # an event instead of a sleep: the test ends the call, so that no thread outlives it
            release.wait(600)
        return x

    start = time.monotonic()
    outcomes = call_all(hangs, range(3), Calls("x", 0.5, concurrency))
    seconds = time.monotonic() - start
    release.set()

    assert [outcome.value for outcome in outcomes] == [0, None, 2]
    assert outcomes[1].cause is Cause.TIMEOUT
    assert_message(outcomes[1].detail)
    # half of the wait: a loaded machine cannot fail the test, a missing timeout does
    assert seconds < 300


def test_no_more_than_concurrency_at_once():
    lock, running, most = threading.Lock(), 0, 0
    # passes only if four calls run at once; a fifth one would raise `most`
    all_four = threading.Barrier(4, timeout=300)

    def watch(x):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        all_four.wait()
        with lock:
            running -= 1

    call_all(watch, range(40), Calls("x", None, 4))

    assert most == 4


def test_an_interrupt_is_not_swallowed():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_all(interrupted, [1], Calls("x"))
    with pytest.raises(KeyboardInterrupt):
        # a timeout runs the call in a thread, which has another path for interrupts
        call_all(interrupted, [1], Calls("x", 5.0))
    with pytest.raises(KeyboardInterrupt):
        call_all(interrupted, [1, 2, 3], Calls("x", concurrency=2))


@pytest.mark.parametrize("concurrency", [1, 2])
def test_an_error_of_the_items_is_raised(concurrency):
    items = Mapped(int, ["1", "x", "3"])

    with pytest.raises(ValueError, match="'x'"):
        call_all(double, items, Calls("x", concurrency=concurrency))


def test_an_interrupt_that_broke_a_lock_is_no_failure_of_an_item():
    # `threading.Condition` raises this error for Ctrl-C while it releases its lock.
    def interrupted(x):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("cannot release un-acquired lock")

    with pytest.raises(RuntimeError, match="un-acquired"):
        call_all(interrupted, [1], Calls("x"))


@pytest.mark.parametrize("cause", [Cause.REFUSED, Cause.SERVER_ERROR, Cause.OVER_BUDGET])
def test_a_servers_failure_keeps_its_cause(cause, assert_message):
    def ask(item):
        raise CallFailure(cause, "it said no")

    outcome = call_once(ask, "q", Calls("generator 'gpt'"))

    assert outcome.cause == cause
    assert_message(outcome.detail)


class Status(Exception):
    """An HTTP error as clients of Python raise it; it asks for no wait."""

    def __init__(self, status_code):
        super().__init__(f"status {status_code}")
        self.status_code = status_code
        self.response = SimpleNamespace(headers={"retry-after": "0"})


@pytest.mark.parametrize(
    ("errors", "retries", "n_tries", "detail"),
    [
        ([Status(503)], 2, 2, ""),
        ([Status(503), Status(429)], 2, 3, ""),
        ([Status(503)], 0, 1, "x: Status: status 503"),
        ([Status(503)] * 3, 2, 3, "x: the server answered 503: status 503; tried 3 times"),
        ([Status(404)], 2, 1, "x: Status: status 404"),
        ([ValueError("no")], 2, 1, "x: ValueError: no"),
    ],
)
def test_errors_that_may_be_temporary_are_tried_again(errors, retries, n_tries, detail):
    calls, failures = [], [*errors]

    def flaky(item):
        calls.append(item)
        if failures:
            raise failures.pop(0)
        return "here"

    outcome = call_once(flaky, "q", Calls("x", 60.0, retries=retries))

    assert len(calls) == n_tries
    assert outcome.detail == detail
    assert outcome.value == (None if detail else "here")


def test_no_try_starts_after_the_time_limit(assert_message):
    calls = []

    def down(item):
        calls.append(item)
        raise ConnectionRefusedError("down")

    outcome = call_once(down, "q", Calls("x", 0.2, retries=9))

    assert (len(calls), outcome.cause) == (1, Cause.SERVER_ERROR), (
        "the first wait is 0.25 s or more"
    )
    assert_message(outcome.detail)
