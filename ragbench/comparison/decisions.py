"""Decision on a pair of systems: p-value, interval and verdict, which never contradict each other.

Every letter, sign, verdict and gate without a condition reads such a decision. The rule is
`is_shown`; where the test and the interval of a pair disagree, `decide` follows the more careful
one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ragbench.records.score import Ends
from ragbench.stats.interval_p import smallest_error_rate

# Confidence -> True if the interval of a pair leaves out the value of no difference.
Excludes = Callable[[float], bool]


@dataclass(frozen=True, slots=True)
class PairDecision:
    """Numbers of a pair that tell the same story; `decide` returns it.

    Attributes:
        p: P-value of the pair alone; None without a test.
        p_adjusted: P-value adjusted for its family, at least `p`; None without a test.
        interval: Confidence limits; None, or two Nones, without any.
        differs: True if a difference is shown; None without a test.
    """

    p: float | None
    p_adjusted: float | None
    interval: Ends | None
    differs: bool | None


def is_shown(
    p: float, p_adjusted: float, interval: Ends | None, alpha: float, value: float = 0.0
) -> bool:
    """Return True if the test, its correction and the interval of a pair all show a difference.

    They are different methods: the test looks at the symmetry of the differences, the interval at
    their mean, which losses that no query has shown may turn. A difference without an interval, or
    with a `p` of NaN, is not shown.
    """
    return bool(max(p, p_adjusted) <= alpha) and leaves_out(interval, value)


def leaves_out(interval: Ends | None, value: float = 0.0) -> bool:
    """Return True if an interval has both limits and leaves out a value, which is no limit."""
    low, high = interval or (None, None)
    return low is not None and high is not None and not low <= value <= high


def decide(
    p: float,
    p_adjusted: float,
    interval: Ends | None,
    alpha: float,
    excludes: Excludes,
    value: float = 0.0,
) -> PairDecision:
    """Return the decision on a pair; test and interval that disagree give way to the careful one.

    A small p beside an interval with 0 in it becomes the p-value of the interval, and None if there
    is no interval. An interval without 0 beside a large p ends at 0. Other numbers stay as they
    are. Where only the correction stands between, p is small, the interval has no 0 in it, and
    `p_adjusted` is large.

    Args:
        p: P-value of the pair alone; NaN without a test.
        p_adjusted: P-value adjusted for its family.
        interval: Confidence limits at 1 - `alpha`.
        alpha: Error rate.
        excludes: Function that tells at any confidence whether the interval leaves out the value;
            called only where p is small beside an interval with 0 in it.
        value: Value of no difference.

    Example:
        >>> decide(0.3, 0.3, (0.01, 0.2), 0.05, lambda confidence: False)
        PairDecision(p=0.3, p_adjusted=0.3, interval=(0.0, 0.2), differs=False)
    """
    if np.isnan(p):
        return PairDecision(None, None, interval, None)
    is_outside = leaves_out(interval, value)
    if p <= alpha and (interval is None or None in interval):
        # too few changes for a score without a bound: nothing tells what p leaves open
        return PairDecision(None, None, interval, False)
    if p <= alpha and not is_outside:
        p = smallest_error_rate(excludes, least=alpha)
    elif p > alpha and is_outside and interval is not None:
        # the nearer limit moves to the value
        low, high = interval
        interval = (value, high) if low is not None and low > value else (low, value)
    # an exact p of one pair may exceed the adjusted p that random flips give
    p_adjusted = max(p, p_adjusted)
    differs = is_shown(p, p_adjusted, interval, alpha, value)
    return PairDecision(float(p), float(p_adjusted), interval, differs)
