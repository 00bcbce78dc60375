"""P-value that an interval gives: the smallest error rate at which it leaves out a value."""

from __future__ import annotations

from collections.abc import Callable

from ragbench.stats import arguments

# Halvings of the error rates: p is within 1e-6 of the crossing.
_STEPS = 20


def interval_p_value(
    limits: Callable[[float], tuple[float, float]], *, least: float, value: float = 0.0
) -> float:
    """Return the smallest error rate above `least` at which an interval leaves out a value.

    It inverts any interval whose limits move apart as the confidence grows. Bisection calls
    `limits` some 20 times, which is slow beside a test.

    Args:
        limits: Function from a confidence to the lower and upper limit; NaN for no limit.
        least: Error rate at which the interval still holds the value.
        value: The value.

    Returns:
        A p-value above `least`, at most 1; 1 if the interval holds the value at any confidence.

    Raises:
        OptionError: `least` is outside (0, 1).

    Example:
        The interval of a mean of 1 with a half width of 2 times its confidence.

        >>> round(interval_p_value(lambda c: (1 - 2 * c, 1 + 2 * c), least=0.05), 4)
        0.5
    """
    arguments.probability("interval_p_value", "least", least)

    def excludes(confidence: float) -> bool:
        """Return True if the interval at a confidence leaves out the value."""
        lower, upper = limits(confidence)
        return lower > value or upper < value

    return smallest_error_rate(excludes, least=least)


def smallest_error_rate(excludes: Callable[[float], bool], *, least: float) -> float:
    """Return the smallest error rate above `least` at which an interval leaves out a value.

    Use it instead of `interval_p_value` where a test is faster than the limits. The result is 1 if
    the interval holds the value at any confidence.

    Args:
        excludes: Function from a confidence to True if the interval leaves out the value.
        least: Error rate in (0, 1) at which the interval still holds the value.
    """
    low, high = least, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if excludes(1 - middle):
            high = middle
        else:
            low = middle
    return high
