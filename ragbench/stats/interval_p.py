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
    low, high = arguments.probability("interval_p_value", "least", least), 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        lower, upper = limits(1 - middle)
        if lower > value or upper < value:
            high = middle
        else:
            low = middle
    return high
