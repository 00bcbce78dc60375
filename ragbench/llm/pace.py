"""How fast calls follow one another, once a server has complained: as fast as it lets them in."""

from __future__ import annotations

from collections import deque

HEADROOM = 1.05  # more than what gets through: enough to notice when the server allows more
_GROWTH_PER_S = 1.2
_MEASURED_S = 2.0  # seconds over which the rate of answers is measured,
_MEASURED = 20  # and at least as many answers
_MOST_MEASURED = 4_096
_CATCH_UP_S = 0.05  # a timer that comes late does not lose its calls
_OUTGROWN = 4.0  # a pace so far above the answers holds nobody back


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
            self.rate *= _GROWTH_PER_S ** (now - self._grown_at)
            self._grown_at = now
            measured = self.measured(now)
            if measured is not None and self.rate > _OUTGROWN * measured:
                self.rate = None

    def complained(self, now: float) -> None:
        """Count a complaint: too many calls."""
        measured = self.measured(now)
        if measured is not None:
            self.rate = HEADROOM * measured
            self._grown_at = now

    def measured(self, now: float) -> float | None:
        """Return the answers per second; None where there are too few to tell."""
        if len(self._answers) < _MEASURED or now <= self._answers[0]:
            return None
        return len(self._answers) / (now - self._answers[0])
