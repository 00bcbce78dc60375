"""Where a rising function reaches 0: false position from a guess, kept inside a bracket."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_STEPS = 200


def crossing(
    rises: Callable[[float], float], low: float, high: float, *, guess: float, within: float
) -> float:
    """Return the place in [low, high] where `rises` turns from negative to positive.

    Neither end is evaluated: the function counts as negative at `low` and as positive at `high`.
    It may jump over 0; then the place is that of the jump.

    Args:
        rises: The function; the straighter it is near its root, the fewer steps.
        low: A place where it is negative.
        high: A place where it is positive.
        guess: Where the root may be, between both.
        within: How far from the root the place may be.

    Example:
        >>> round(crossing(lambda x: x**3 - 2.0, 0.0, 8.0, guess=1.0, within=1e-9), 6)
        1.259921
    """
    left = right = 0.0  # the values at both ends, 0 where not known
    place, step = guess, max((high - guess) / 8, within)
    for count in range(_STEPS):
        if not low < place < high:
            place = low + (high - low) / 2
        value = rises(place)
        if value < 0:
            low, left = place, value
        else:
            high, right = place, value
        if high - low <= within:
            break
        if left == 0 or right == 0:  # on one side of the root so far: away from the guess
            place, step = (place + step if value < 0 else place - step), 2 * step
        elif count % 3 == 2:  # halve now and then: a jump cannot hold it up
            place = low + (high - low) / 2
        else:  # not nearer to an end than the answer has to be, so that both ends move
            place = low - left * (high - low) / (right - left)
            place = min(max(place, low + within / 2), high - within / 2)
    return low + (high - low) / 2
