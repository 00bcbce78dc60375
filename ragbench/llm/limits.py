"""How many calls are under way at once: as many as the server answers without complaints."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ragbench.errors import OptionError
from ragbench.llm.base import CallFailure

_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_WINDOW_S, _WINDOW = 1.0, 45  # the rate changes after so many seconds and so many calls
_FULL_WINDOW_S = 0.1  # while it is full: each such second may turn away thousands
_GUESSED_S = 0.1  # the latency before the first answers: complaints come in a millisecond
_FEW = 10  # answers in a window, from which the rate of the server is not known
_STRAY = 0.06  # so small a share of complaints says nothing about the rate
_FULL = 0.4  # a server that turns away a larger share is full, whatever else it says
_IN_VAIN = 0.7  # a cut that leaves more than this of the complaints did not help
_NEARLY = 0.8  # of the answers per second of the window before
_GROWTH = 0.06  # in the first window after a cut; twice as much in each that follows
_CATCH_UP_S = 0.05  # a timer that comes late does not lose its calls
_HANGS, _HANGS_S = 10.0, 5.0  # a call hangs after so many times the usual latency, and seconds
_HANGING = 3  # as many calls as this times the most may hang without a place


@dataclass(frozen=True, slots=True)
class Limits:
    """How a server is asked.

    Attributes:
        concurrency: The most calls under way at once; fewer while the server complains. A call that
            hangs while others are answered counts no more, so that a few of them do not hold up the
            rest.
        timeout: Seconds that the server may take over one item, all tries together; waiting for a
            free place or because the server asked to does not count. None: no limit.
        retries: How often an item is tried again, if a try can succeed.
        longest_wait: Seconds; a server that asks to wait longer fails the item.
    """

    concurrency: int = 16
    timeout: float | None = 60.0
    retries: int = 6
    longest_wait: float = 300.0

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise OptionError("limits", "concurrency", self.concurrency, "an integer >= 1")
        if self.retries < 0:
            raise OptionError("limits", "retries", self.retries, "an integer >= 0")
        if self.timeout is not None and not self.timeout > 0:
            raise OptionError("limits", "timeout", self.timeout, "seconds > 0, or null")
        if not self.longest_wait >= 0:
            raise OptionError("limits", "longest_wait", self.longest_wait, "seconds >= 0")


class Backoff:
    """How long to wait before the next try.

    0.5 s, doubled with every try up to 30 s, with seeded jitter, so that calls that were turned
    away together do not come back together. Where the server says how long, that long instead;
    from the second try on both, since it was not enough.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def seconds(self, failure: CallFailure, tried: int) -> float:
        """Return the seconds to wait after the n-th try (from 1)."""
        asked_s = failure.retry_after_s
        doubled = tried - 1 if asked_s is None else tried - 2
        longest = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(doubled, 16))
        own_s = longest * (0.5 + 0.5 * self._random.random())
        if asked_s is None:
            return own_s
        return asked_s * (1 + 0.1 * self._random.random()) + (own_s if tried > 1 else 0.0)


class AdaptiveLimit:
    """A limit on the calls under way, and on calls per second once the server complains.

    Complaints are 429, 503 and 529. Once a second, the rate of calls falls to the answers
    per second, or to a half where there were hardly any. If that leaves the share of complaints as
    it was, the server turns away calls at random: the cut is undone, and the next one waits for
    twice that share. More than 40 % are never random, and halve the rate again, down to one call
    at a time. Without complaints it grows by 6 %, 12 %, 24 % ... a second, until `most` calls
    under way are the only limit again. A call that takes ten times as long as usual, and 5 s, gives
    its place to another one as long as others are answered: three times `most` may hang so. Belongs
    to one event loop.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.in_flight = most, 0
        # Calls under way that have given up their place.
        self.hanging = 0
        # Calls per second; None without complaints.
        self.rate: float | None = None
        self._clock = clock
        self._next = 0.0  # when the rate allows the next call
        self._stray = 0.0  # share of complaints that a cut did not lower
        self._cut: tuple[float | None, float] | None = None  # rate and share before the latest cut
        self._growth = _GROWTH
        self._usual_s: float | None = None  # mean latency in the latest window with answers
        self._answered_at = -math.inf
        self._per_s = 0.0  # answers in the latest window
        self._left_at = self._clock()
        self._opened_at = self._left_at
        self._answers = self._successes = self._complaints = 0
        self._busy_s = 0.0  # of the calls that were answered
        # who was turned away goes first: a row must not fail because newer ones overtook it
        self._again: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def size(self) -> int:
        """Calls under way at once that the rate amounts to (Little 1961), at most `most`."""
        if self.rate is None:
            return self.most
        return max(1, min(self.most, round(self.rate * (self._usual_s or 0.0))))

    async def enter(self, *, again: bool = False) -> None:
        """Wait for a place; those that were turned away before go first."""
        queue = self._again if again else self._new
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(place)
        self._wake()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.in_flight -= 1
                self._wake()
            else:
                queue.remove(place)
            raise

    def patience_s(self) -> float:
        """Return the seconds after which a call hangs; infinite before the first answers."""
        return math.inf if self._usual_s is None else max(_HANGS_S, _HANGS * self._usual_s)

    def step_aside(self) -> bool:
        """Give the place of a call that hangs to another one, if others are answered meanwhile.

        Where none is, the server as a whole hangs, and more calls would not help it.
        """
        if self.hanging >= _HANGING * self.most or self._clock() > self._answered_at + _HANGS_S:
            return False
        self.hanging += 1
        self.in_flight -= 1
        self._wake()
        return True

    def leave(
        self, failure: CallFailure | None, took_s: float, *, stood_aside: bool = False
    ) -> None:
        """Give a place back, and count the answer."""
        now = self._clock()
        self._answers += 1
        if failure is None:
            if self._usual_s is None and not self._successes:
                self._opened_at = now  # the rate of answers is not that of the first latency
            self._answered_at = now
            if not stood_aside:  # a call that hung says nothing about the number of calls
                self._successes += 1
                self._busy_s += took_s
        elif failure.throttled:
            self._complaints += 1
            if self._usual_s is None and self.rate is None:
                self.rate = self.most / _GUESSED_S  # until there are answers to go by
        elapsed_s = now - self._opened_at
        is_full = self._complaints > _FULL * self._answers
        least_s = _FULL_WINDOW_S if is_full or self._usual_s is None else _WINDOW_S
        # a slow rate without complaints need not wait for many answers to grow
        enough = _WINDOW if self._complaints else _FEW
        if self._answers >= enough and elapsed_s >= max(least_s, self._usual_s or 0.0):
            self._close_window(elapsed_s)
        self._left_at = now
        if stood_aside:
            self.hanging -= 1
        else:
            self.in_flight -= 1
        self._wake()

    def _close_window(self, elapsed_s: float) -> None:
        """Change the rate by what the calls of the window met."""
        share = self._complaints / self._answers
        per_s = self._successes / elapsed_s
        rate = None if self._usual_s is None else self.rate
        if self._successes:
            self._usual_s = self._busy_s / self._successes
        in_vain = self._cut is not None and share > max(_STRAY, _IN_VAIN * self._cut[1])
        if self._cut is not None and not in_vain:
            self._stray = min(self._stray, share)
        if self._cut is not None and in_vain and share <= _FULL:
            self.rate, self._stray, self._cut = self._cut[0], share, None
        elif share > min(_FULL, max(_STRAY, 2 * self._stray)):
            if in_vain or self._successes < _FEW:
                smaller = (self.rate or self._answers / elapsed_s) / 2
            elif per_s > _NEARLY * self._per_s:  # too many calls cost some answers
                smaller = max(per_s, self._per_s)
            else:
                smaller = per_s
            self._cut, self._growth = (rate, share), _GROWTH
            self.rate = max(smaller, 1 / (self._usual_s or 1.0))
        elif self.rate is not None:
            self._cut = None
            # a cut after a stall is too deep: the calls that were under way show what is answered
            self.rate = max(self.rate * (1 + self._growth), per_s)
            self._growth *= 2
            if rate is None or self.rate * (self._usual_s or 0.0) > self.most:
                self.rate = None
        self._per_s, self._opened_at = per_s, self._clock()
        self._answers = self._successes = self._complaints = 0
        self._busy_s = 0.0

    def _wake(self) -> None:
        """Let in as many calls as there are places, those that were turned away first."""
        now = self._clock()
        while (self._again or self._new) and self.in_flight < self.most:
            if self.rate is not None and self._next > now:
                if self._alarm is None:
                    loop = asyncio.get_running_loop()
                    self._alarm = loop.call_later(self._next - now, self._alarmed)
                return
            place = (self._again or self._new).popleft()
            if not place.done():
                if not self.in_flight:
                    self._opened_at += now - self._left_at  # without a call nothing is measured
                self.in_flight += 1
                if self.rate is not None:
                    self._next = max(self._next, now - _CATCH_UP_S) + 1 / self.rate
                place.set_result(None)

    def _alarmed(self) -> None:
        self._alarm = None
        self._wake()
