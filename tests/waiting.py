"""Waiting for threads and processes in tests."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, for a minute at most; the test then asserts what it needs."""
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
