"""How many calls are under way and how fast they follow: as the server bears, by its complaints."""

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
_MEMORY = 0.02  # the latency is an average over about 50 answers
_FEW, _MANY = 0.05, 0.005  # complaints are counted among about the last 20, and 200, answers
_SUDDEN, _STRAY = 0.25, 0.06  # from these shares on it is the number of calls that is too large
_EPISODE_S = 1.0  # complaints further apart have causes of their own
_USUAL_S = 2.0  # what is usually under way is an average over about so many seconds
_SLOWLY = 0.1  # per answer: a full server may turn away one call in twenty
HEADROOM = 1.05  # more than what gets through: enough to notice when the server allows more
_GROWTH_PER_S = 1.2
_MEASURED_S = 2.0  # seconds over which the rate of answers is measured,
_MEASURED = 20  # and at least as many answers
_MOST_MEASURED = 4_096
_CATCH_UP_S = 0.05  # a timer that comes late does not lose its calls
_OUTGROWN = 4.0  # a pace so far above the answers limits nothing
_PROBE = 0.85  # a limit does not complain of so much of what it lets through,
_PROBE_S, _LONG_PROBE_S = 2.0, 10.0  # for so long; longer where answers come slowly,
_PROBED, _LEAST_PROBED = 60, 25  # for so many answers, or at least so many
_PROBES = 2  # the first ends what a burst had left, the second decides
_FULL = 0.45  # a server that turns away more of the calls is full
_OUTRUN = 0.6  # a probe faster than 1 / 0.6 times the answers began with a burst
_HANGS, _HANGS_S = 10.0, 5.0  # times the usual latency, and seconds: who waits longer hangs
_HANGING = 3  # as many calls as this times the most may hang without a place
_TYPICAL = 64  # the usual latency is the median of so many answers,
_FEW_TYPICAL = 5  # and not known from fewer
_KNOWN, _KNOWN_S = 5_000, 60.0  # after so many answers and so long it is asked anew


@dataclass(frozen=True, slots=True)
class Limits:
    """How a server is asked."""

    concurrency: int = 16
    """The most calls under way at once; fewer while the server complains. A call that hangs while
    others are answered counts no more, so that a few of them do not hold up the rest."""
    timeout: float | None = 60.0
    """Seconds that the server may take over one item, all tries together; waiting for a free
    place or because the server asked to does not count. None: no limit."""
    retries: int = 6
    """How often an item is tried again, if a try can succeed."""
    longest_wait: float = 300.0
    """Seconds; a server that asks to wait longer fails the item."""

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
    """A limit on the calls under way that halves when the server complains and grows back.

    Additive increase, multiplicative decrease, as in TCP (Chiu and Jain 1989; RFC 5681). Complaints
    are 429, 503 and 529. Where more than 6 % of about the last 200 answers are complaints (or a
    quarter of the last 20), each halves the limit, though not below what the server is seen to
    bear. Rarer ones take away one place. Answers give back one place each up to half of the old
    limit, from there a tenth each, up to `most`, where it starts. `Pace` spreads the calls in time,
    and `Probe` finds out which share is turned away whatever is sent: that share counts as none.
    A call that takes ten times as long as usual, and 5 s, gives its place to another one as long as
    others are answered: three times `most` may hang so. Belongs to one event loop.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.size, self.in_flight = most, float(most), 0
        self.pace = Pace()
        self._probe = Probe()
        self._fast_until = float(most)
        self._share_of_few, self._share_of_many = 0.0, 0.0
        self._usual, self._latency_s = 0.0, 0.0
        self._counted_at, self._cut_at = clock(), -math.inf
        self.hanging = 0
        """Calls under way that have given up their place."""
        self._took: deque[float] = deque(maxlen=_TYPICAL)
        self._answered_at = -math.inf
        self._clock = clock
        # who was turned away goes first: a row must not fail because newer ones overtook it
        self._again: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()
        self._alarm: asyncio.TimerHandle | None = None

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
                self._count(-1)
                self._wake()
            else:
                queue.remove(place)
            raise

    def patience_s(self) -> float:
        """Return the seconds after which a call hangs; more than any where that is not known."""
        if len(self._took) < _FEW_TYPICAL:
            return math.inf
        return max(_HANGS_S, _HANGS * sorted(self._took)[len(self._took) // 2])

    def step_aside(self) -> bool:
        """Give the place of a call that hangs to another one, if others are answered meanwhile.

        Where none is, the server as a whole hangs, and more calls would not help it.
        """
        now = self._clock()
        if self.hanging >= _HANGING * self.most or now > self._answered_at + _HANGS_S:
            return False
        self.hanging += 1
        self._count(-1)
        self._wake()
        return True

    def leave(
        self, failure: CallFailure | None, took_s: float, *, stood_aside: bool = False
    ) -> None:
        """Give a place back, and learn from what came of the call."""
        now = self._clock()
        if failure is None:
            self._took.append(took_s)
            self._answered_at = now
        complaint = failure is not None and failure.throttled
        self._share_of_few += _FEW * (complaint - self._share_of_few)
        self._share_of_many += _MANY * (complaint - self._share_of_many)
        if not complaint:
            self.pace.answered(now)
        if self._probe.learn(complaint, now - took_s, now):
            self._end_probe(now)
        if complaint:
            self._complained(now)
        elif not stood_aside:  # else it says nothing about what the server bears
            weight = _MEMORY if self._latency_s else 1.0
            self._latency_s += weight * (took_s - self._latency_s)
            # a limit that is not reached has not been tried
            is_open = not self._probe.is_on or not self._probe.complaints
            if failure is None and self.in_flight >= int(self.size) and is_open:
                step = 1.0 if self.size < self._fast_until else _SLOWLY
                self.size = min(float(self.most), self.size + step)
        if stood_aside:
            self.hanging -= 1
        else:
            self._count(-1)
        self._wake()

    def _complained(self, now: float) -> None:
        if self._probe.is_on:
            measured = self.pace.measured(now)
            if measured is not None and self.pace.rate and measured < _OUTRUN * self.pace.rate:
                self.size = max(1.0, min(self.size, self._borne(now)))
                self._probe.is_on = False
                self._start_probe(now, again=True)
            return
        stray = self._probe.stray
        if self._share_of_few <= _SUDDEN + 2 * stray and self._share_of_many <= _STRAY + 2 * stray:
            if not stray:
                self.size = max(1.0, self.size - 1)
            return
        if now >= self._cut_at + _EPISODE_S:
            self._fast_until = self.size / 2
        self._cut_at = now
        self.pace.complained(now)
        bears = self._borne(now)
        self.size = max(1.0, self.size / 2, min(self.size, bears))
        if self._probe.is_due(now):
            self._start_probe(now)

    def _start_probe(self, now: float, *, again: bool = False) -> None:
        measured = self.pace.measured(now)
        if measured is not None and _PROBE * measured * _LONG_PROBE_S >= _LEAST_PROBED:
            self.pace.hold(_PROBE * measured)
            self._probe.start(now, again=again)

    def _end_probe(self, now: float) -> None:
        """Go on with what was learnt: probe again, send as before, or keep to the limit."""
        if self._probe.goes_on:
            self._start_probe(now)
        elif self._probe.stray:
            self.pace.rate, self.size = None, float(self.most)
        else:
            self.pace.release(HEADROOM / _PROBE, now)

    def _borne(self, now: float) -> float:
        """How many calls at once the server bears, from what it has answered.

        Its answers per second times their latency (Little 1961), or the calls usually under way
        less the share that is turned away: the first misses what hangs, the second the pauses of a
        server that counts per second.
        """
        measured = self.pace.measured(now)
        if measured is None:
            return self.in_flight - 1.0
        kept = self._usual * (1 - self._share_of_few)
        return HEADROOM * max(measured * self._latency_s, kept)

    def _count(self, step: int) -> None:
        """Take or give back a place; keep the usual number of calls under way, over seconds."""
        now = self._clock()
        weight = -math.expm1((self._counted_at - now) / _USUAL_S)
        self._usual += weight * (self.in_flight - self._usual)
        self._counted_at = now
        self.in_flight += step

    def _wake(self) -> None:
        """Let in as many as there are places, those that were turned away first."""
        now = self._clock()
        while (self._again or self._new) and self.in_flight < int(self.size):
            wait_s = self.pace.wait_s(now)
            if wait_s > 0:
                if self._alarm is None:
                    loop = asyncio.get_running_loop()
                    self._alarm = loop.call_later(wait_s, self._alarmed)
                return
            place = (self._again or self._new).popleft()
            if not place.done():
                self._count(+1)
                self.pace.sent(now)
                place.set_result(None)

    def _alarmed(self) -> None:
        self._alarm = None
        self._wake()


class Probe:
    """Whether a server turns away calls at random, or because there are too many.

    A limit lets through as much as it allows, so of a little less it complains no more, while what
    is turned away by chance is the same share of few calls as of many. Fewer calls are no remedy
    for that, and each cut would lead to the next one. So the first complaints that cut the number
    of calls are followed by two seconds at 85 % of the rate of answers, twice if complaints go on:
    what was measured first may have been a burst.

    Example:
        Two probes of 60 answers each, of which every eighth is a complaint.

        >>> probe = Probe()
        >>> for start in (0.0, 10.0):
        ...     probe.start(start)
        ...     ends = [probe.learn(i % 8 == 0, start + i / 9, start + i / 9) for i in range(60)]
        >>> ends.count(True), probe.goes_on, round(probe.stray, 2)
        (1, False, 0.13)
    """

    def __init__(self, *, known: bool = False) -> None:
        self.stray = 0.0
        """Share of calls that are turned away whatever their number."""
        self.is_on = False
        self._started_at = 0.0
        self._answers = self.complaints = self._number = 0
        self._known, self._known_at = int(known), -math.inf

    @property
    def goes_on(self) -> bool:
        """Whether the probe that ended has to be followed by another one."""
        return 0 < self._number < _PROBES

    def is_due(self, now: float) -> bool:
        """Whether it is not known what complaints mean."""
        return not self._known or (self._known > _KNOWN and now > self._known_at + _KNOWN_S)

    def start(self, now: float, *, again: bool = False) -> None:
        """Begin, or begin the same one again: what is sent from now on is counted."""
        self.is_on, self._started_at = True, now
        self._answers = self.complaints = 0
        self._number += not again

    def learn(self, complaint: bool, sent: float, now: float) -> bool:
        """Count an answer to what was sent at a time; whether the probe ends with it."""
        self._known += self._known > 0
        if not self.is_on or sent < self._started_at:
            return False
        self._answers += 1
        self.complaints += complaint
        took_s = now - self._started_at
        few = _PROBED if took_s < _LONG_PROBE_S else _LEAST_PROBED
        # complaints come at once, and answers later
        if took_s < _PROBE_S or self._answers < few:
            return False
        full = self.complaints > _FULL * self._answers
        self.is_on = False
        random = self.complaints > 1 and not full
        if random and self._number < _PROBES:
            return True
        self.stray = self.complaints / self._answers if random else 0.0
        self._number, self._known, self._known_at = 0, 1, now
        return True


class Pace:
    """A rate of calls that follows the rate of answers.

    A limit on requests per second lets through its rate however many are sent, so what gets
    through while the server complains IS the limit. A complaint sets the pace to 105 % of it,
    which leaves a few complaints to tell when there is more to be had; without complaints it grows
    by a fifth every second. Before the first complaint there is no pace.

    Example:
        >>> pace = Pace()
        >>> for tenth in range(21):  # ten answers a second, for two seconds
        ...     pace.answered(tenth / 10)
        >>> pace.complained(2.0)
        >>> round(pace.rate, 2)
        11.03
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self._answers: deque[float] = deque(maxlen=_MOST_MEASURED)
        self._next = 0.0
        self._grown_at = 0.0
        self._is_held = False

    def wait_s(self, now: float) -> float:
        """Return the seconds until the next call may be sent."""
        return 0.0 if self.rate is None else max(0.0, self._next - now)

    def sent(self, now: float) -> None:
        """Count a call that is sent now."""
        if self.rate is not None:
            self._next = max(self._next, now - _CATCH_UP_S) + 1 / self.rate

    def answered(self, now: float) -> None:
        """Count an answer, whatever it says."""
        answers = self._answers
        answers.append(now)
        while len(answers) > _MEASURED and answers[0] < now - _MEASURED_S:
            answers.popleft()
        if self.rate is not None:
            if not self._is_held:
                self.rate *= _GROWTH_PER_S ** (now - self._grown_at)
            self._grown_at = now
            measured = self.measured(now)
            if measured is not None and self.rate > _OUTGROWN * measured:
                self.rate = None

    def complained(self, now: float) -> None:
        """Count a complaint: too many calls."""
        measured = self.measured(now)
        self._is_held = False
        if measured is not None:
            self.rate = HEADROOM * measured
            self._grown_at = now

    def hold(self, rate: float) -> None:
        """Keep to a rate until the next complaint."""
        self.rate, self._is_held = rate, True

    def release(self, times: float, now: float) -> None:
        """Go on at a multiple of the rate that was kept to."""
        self._is_held = False
        if self.rate is not None:
            self.rate, self._grown_at = times * self.rate, now

    def measured(self, now: float) -> float | None:
        """Return the answers per second; None where there are too few to tell."""
        if len(self._answers) < _MEASURED or now <= self._answers[0]:
            return None
        return len(self._answers) / (now - self._answers[0])
