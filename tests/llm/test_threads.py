"""An event loop in a thread: what Ctrl-C may do to the thread that waits for it."""

import asyncio
import concurrent.futures
import os
import signal
import subprocess
import sys

import pytest

from ragbench.llm.threads import in_thread

PROGRAM = """
import asyncio, collections, random, signal, warnings
from ragbench.llm import threads

warnings.simplefilter("ignore")  # of coroutines that were interrupted before they were handed over
threads._POLL_S = 0.0002  # many waits, so that interrupts come between two of them
armed, came = False, collections.Counter()

def interrupt(*_):
    if armed:
        raise KeyboardInterrupt

async def work():
    await asyncio.sleep(0.003)
    return "done"

signal.signal(signal.SIGALRM, interrupt)
loop, draw = threads.LoopThread("test"), random.Random(0)
for _ in range(500):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-4, 2e-3))
        loop.run(work())
        armed = False
    except BaseException as error:
        armed = False
        came[type(error).__name__] += 1
    armed = False
print(sorted(came), loop.run(work()))
loop.close()
"""


@pytest.mark.costly
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers by signal here")
def test_interrupts_at_any_point_of_a_wait(repository):
    # Each interrupt is raised as it is, and leaves no lock for which the next call would wait
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.stdout == "['KeyboardInterrupt'] done\n", done.stderr


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (concurrent.futures.CancelledError("the pool was shut down"), "the pool was shut down"),
        (StopIteration(), "coroutine raised StopIteration"),
    ],
)
def test_an_error_of_the_users_code_is_no_cancellation_and_ends_the_wait(error, raised):
    # Asyncio takes the first error for a cancellation, and waits for ever after the second

    def ask():
        raise error

    with pytest.raises(Exception, match=raised) as caught:
        asyncio.run(asyncio.wait_for(in_thread(ask), 5.0))

    assert not isinstance(caught.value, asyncio.CancelledError)
