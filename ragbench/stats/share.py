"""Exact upper limit of a share: of leaks, of which hardly any or none was seen."""

from __future__ import annotations

import math

from ragbench.errors import OptionError
from ragbench.stats import arguments
from ragbench.stats.student import incomplete_beta

# Halvings of an interval of length 1 down to the distance of neighbouring numbers.
_STEPS = 60


def share_upper_limit(count: int, n: int, *, confidence: float = 0.95) -> float:
    """Return the exact one-sided upper limit of a share, by Clopper and Pearson.

    At this share, `count` events or fewer in `n` queries have the probability 1 - `confidence`. The
    true share is below the limit in at least `confidence` of all samples, at any share and any n.

    Args:
        count: Number of queries with the event, from 0 to n.
        n: Number of queries, at least 1.
        confidence: Coverage that is guaranteed.

    Raises:
        OptionError: A number is out of range.

    Example:
        No leak in 60 queries: 1 - 0.05^(1/60).

        >>> round(share_upper_limit(0, 60), 4)
        0.0487

    References:
        Clopper and Pearson (1934), The use of confidence or fiducial limits illustrated in the case
        of the binomial. Biometrika 26.
    """
    owner = "share_upper_limit"
    arguments.probability(owner, "confidence", confidence)
    if n < 1:
        raise OptionError(owner, "n", n, "an integer >= 1")
    if not 0 <= count <= n:
        raise OptionError(owner, "count", count, f"an integer from 0 to {n}")
    if count == n:
        return 1.0
    if count == 0:
        return -math.expm1(math.log1p(-confidence) / n)
    low, high = count / n, 1.0
    for _ in range(_STEPS):
        share = (low + high) / 2
        # P(X > count) of a binomial is I_share(count + 1, n - count)
        is_below = incomplete_beta(count + 1, n - count, share) < confidence
        low, high = (share, high) if is_below else (low, share)
    return high
