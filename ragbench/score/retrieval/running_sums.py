"""Running sums within queries, all queries at once."""

from __future__ import annotations

import numpy as np

from ragbench.types import FloatArray, IntArray


def running_sums(values: FloatArray, starts: IntArray) -> FloatArray:
    """Add up, for each row, the values of its query down to it, itself included.

    By doubling, log(longest query) passes: one running sum over all queries would be one pass, but
    what earlier queries leave in it rounds away the last digits of later ones.

    Args:
        values: Row -> value.
        starts: Shape (n + 1,): where each query's rows start.

    Example:
        >>> running_sums(np.array([1.0, 2.0, 4.0, 0.5]), np.array([0, 3, 4]))
        array([1. , 3. , 7. , 0.5])
    """
    sums = values.astype(np.float64)  # a copy
    lengths = np.diff(starts)
    place = np.arange(len(values)) - np.repeat(starts[:-1], lengths)
    step = 1
    while step < lengths.max(initial=0):
        reach = np.flatnonzero(place >= step)
        sums[reach] += sums[reach - step]
        step *= 2
    return sums
