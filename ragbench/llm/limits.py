"""Limits on concurrent calls, adapted to the complaints of the server, and waits between tries."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Annotated

from ragbench.llm.base import CallFailure
from ragbench.registry import Option, OptionSet, check_values, declared_options
from ragbench.types.lookups import attributes_of

_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_WINDOW_S, _WINDOW = 1.0, 45  # the rate changes after this many seconds and this many calls
_FULL_WINDOW_S = 0.1  # window of a full server, which may turn away thousands of calls a second
_GUESSED_S = 0.1  # assumed latency before the first answer: complaints come in a millisecond
_FEW = 10  # fewer answers in a window do not show the rate of the server
_STRAY = 0.06  # a smaller share of complaints says nothing about the rate
_FULL = 0.4  # a server with a larger share of complaints is full
_IN_VAIN = 0.7  # a cut that leaves more than this share of the complaints did not help
_NEARLY = 0.8  # share of the answers per second of the previous window
_GROWTH = 0.06  # growth of the rate in the first window after a cut; doubled in each later window
_CATCH_UP_S = 0.05  # a timer that fires late does not lose its calls
_HANGS, _HANGS_S = 10.0, 5.0  # a call hangs after 10 times the usual latency, and 5 seconds
_HANGING = 3  # this many times the largest concurrency may hang without a place


class Limits(OptionSet):
    """Limits on the calls to one server: options of judges and generators.

    A call that hangs while others are answered does not count in `concurrency`. Waiting for a free
    place, or at the request of the server, does not count in `timeout`.

    Raises:
        OptionError: A number is out of range.
    """

    concurrency: Annotated[
        int,
        Option(
            "Largest number of concurrent calls; lowered while the server reports overload.", ge=1
        ),
    ] = 16
    timeout: Annotated[
        float | None,
        Option("Time limit of one reply, in seconds, retries included; null: none.", gt=0),
    ] = 60.0
    retries: Annotated[int, Option("Retries of errors that may be temporary.", ge=0)] = 6

    def __post_init__(self) -> None:
        declared = declared_options(Limits)
        check_values("limits", declared, attributes_of(self, declared))


class Backoff:
    """Waiting time before the next try: 0.5 s, doubled with every try up to 30 s, with jitter.

    `seconds` returns it; the object does not wait and counts no tries. A wait that the server asks
    for replaces the first doubling, and is added to later ones, since it was not enough. Jitter
    separates calls that were turned away together; it is seeded.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def seconds(self, failure: CallFailure, tried: int) -> float:
        """Return the seconds to wait after try number `tried`, from 1.

        They are 50 % to 100 % of the doubled wait, and never less than the server asks for.
        """
        server_s = failure.retry_after_s
        doublings = tried - 1 if server_s is None else tried - 2
        longest = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(doublings, 16))
        backoff_s = longest * (0.5 + 0.5 * self._random.random())
        if server_s is None:
            return backoff_s
        return server_s * (1 + 0.1 * self._random.random()) + (backoff_s if tried > 1 else 0.0)


class AdaptiveLimit:
    """Limit on concurrent calls, and on calls per second once the server complains.

    Complaints are the statuses 429, 503 and 529. The rate changes once a second:

    - With complaints, it falls to the calls per second that the server let through, or to a half if
      there were hardly any answers.
    - If a cut leaves the share of complaints unchanged, the server turns calls away at random: the
      cut is undone, and the next one waits for twice that share. A share above 40 % is never
      random and halves the rate again, down to one call at a time.
    - Without complaints, it grows by 6 %, 12 %, 24 % ..., until `most` is the only limit again.

    A call that takes ten times the usual latency and 5 s gives its place to another call, as long
    as others are answered; three times `most` calls may hang so. A call waits in `enter` and ends
    with `leave`. It belongs to one event loop.

    Args:
        most: Largest number of concurrent calls.
        clock: Returns the time in seconds.

    Attributes:
        in_flight: Number of running calls with a place.
        hanging: Number of running calls that have given up their place.
        rate: Calls per second; None while no server complains.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.in_flight = most, 0
        self.hanging = 0
        self.rate: float | None = None
        self._clock = clock
        self._next = 0.0  # time at which the rate allows the next call
        self._stray = 0.0  # share of complaints that a cut did not lower
        self._cut: tuple[float | None, float] | None = None  # rate and share before the latest cut
        self._growth = _GROWTH
        self._usual_s: float | None = None  # mean latency in the latest window with answers
        self._answered_at = -math.inf
        self._per_s = 0.0  # answers in the latest window
        self._left_at = self._clock()
        self._opened_at = self._left_at
        self._answers = self._successes = self._complaints = 0
        self._busy_s = 0.0  # total latency of the answered calls
        # Calls that were turned away go first: newer calls must not use up their time limit.
        self._again: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def size(self) -> int:
        """Number of concurrent calls that the rate amounts to (Little 1961), at most `most`.

        It is `most` without a rate, and never less than 1, also while no latency is known yet.
        """
        if self.rate is None:
            return self.most
        return max(1, min(self.most, round(self.rate * (self._usual_s or 0.0))))

    async def enter(self, *, again: bool = False) -> None:
        """Wait for a place; calls with `again`, which the server turned away before, go first.

        A caller that is cancelled while it waits leaves the queue or passes its place on.
        """
        queue = self._again if again else self._new
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(place)
        self._wake()
        try:
            await place
        except asyncio.CancelledError:
            # Cancelled after the place was given: it goes to the next call.
            if place.done() and not place.cancelled():
                self.in_flight -= 1
                self._wake()
            else:
                queue.remove(place)
            raise

    def patience_s(self) -> float:
        """Return the seconds after which a call counts as hanging; inf before the first answers.

        It is ten times the mean latency, and at least 5 s.
        """
        return math.inf if self._usual_s is None else max(_HANGS_S, _HANGS * self._usual_s)

    def step_aside(self) -> bool:
        """Give the place of a hanging call to another call; return False if it must keep it.

        It keeps the place if no other call was answered lately, since the server as a whole then
        hangs, or if too many calls hang already.
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
        """Return the place of a finished call and count its outcome.

        Args:
            failure: Failure of the call; None for an answer.
            took_s: Time of the call, in seconds.
            stood_aside: True if the call had given up its place before.
        """
        time_s = self._clock()
        self._answers += 1
        if failure is None:
            if self._usual_s is None and not self._successes:
                self._opened_at = time_s  # the first latency would falsify the rate of answers
            self._answered_at = time_s
            if not stood_aside:  # a call that hung says nothing about the number of calls
                self._successes += 1
                self._busy_s += took_s
        elif failure.throttled:
            self._complaints += 1
            if self._usual_s is None and self.rate is None:
                self.rate = self.most / _GUESSED_S  # until answers show the rate
        elapsed_s = time_s - self._opened_at
        is_full = self._complaints > _FULL * self._answers
        least_s = _FULL_WINDOW_S if is_full or self._usual_s is None else _WINDOW_S
        # Without complaints a slow rate may grow after few answers.
        enough = _WINDOW if self._complaints else _FEW
        if self._answers >= enough and elapsed_s >= max(least_s, self._usual_s or 0.0):
            self._close_window(elapsed_s)
        self._left_at = time_s
        if stood_aside:
            self.hanging -= 1
        else:
            self.in_flight -= 1
        self._wake()

    def _close_window(self, elapsed_s: float) -> None:
        """Set the rate from the answers and complaints of the window, then start a new window."""
        share = self._complaints / self._answers
        # a call that fails for another reason than the rate was let through as well
        per_s = (self._answers - self._complaints) / elapsed_s
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
            # A cut after a stall is too deep; the answers of this window show the real rate.
            self.rate = max(self.rate * (1 + self._growth), per_s)
            self._growth *= 2
            if rate is None or self.rate * (self._usual_s or 0.0) > self.most:
                self.rate = None
        self._per_s, self._opened_at = per_s, self._clock()
        self._answers = self._successes = self._complaints = 0
        self._busy_s = 0.0

    def _wake(self) -> None:
        """Give free places to waiting calls, first to those that were turned away."""
        time_s = self._clock()
        while (self._again or self._new) and self.in_flight < self.most:
            if self.rate is not None and self._next > time_s:
                if self._alarm is None:
                    loop = asyncio.get_running_loop()
                    self._alarm = loop.call_later(self._next - time_s, self._wake_later)
                return
            place = (self._again or self._new).popleft()
            if not place.done():
                if not self.in_flight:
                    self._opened_at += time_s - self._left_at  # idle time is no part of the window
                self.in_flight += 1
                if self.rate is not None:
                    self._next = max(self._next, time_s - _CATCH_UP_S) + 1 / self.rate
                place.set_result(None)

    def _wake_later(self) -> None:
        self._alarm = None
        self._wake()
