"""Two samples of different queries with a known difference of means: misses of the interval.

Imported by `statistics.py`, which says what the bars are.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ragbench.stats import unpaired_interval
from ragbench.types import FloatArray

Rng = np.random.Generator
Draw = Callable[[Rng, int], FloatArray]

SEED = 34
SIZES = ((20, 20), (20, 80), (80, 80), (300, 300))
BAR = 0.06
# Reciprocal ranks of a retriever that finds little, and of one that finds more
RANKS = np.array([0.0, 0.1, 0.2, 0.5, 1.0])


def hits(share: float) -> Draw:
    """Return a function that draws hits and misses with a share of hits."""
    return lambda rng, n: (rng.random(n) < share).astype(np.float64)


def ranks(*shares: float) -> Draw:
    """Return a function that draws reciprocal ranks with these shares of `RANKS`."""
    return lambda rng, n: rng.choice(RANKS, n, p=shares)


# World -> draws of both samples, and the true difference of their means
WORLDS: dict[str, tuple[Draw, Draw, float]] = {
    "hits .7, .5": (hits(0.7), hits(0.5), 0.2),
    "hits .95, .95": (hits(0.95), hits(0.95), 0.0),
    "hits .98, .9": (hits(0.98), hits(0.9), 0.08),
    "graded .67, .5": (lambda r, n: r.beta(2, 1, n), lambda r, n: r.beta(1, 1, n), 1 / 6),
    "ranks .78, .21": (
        ranks(0.1, 0.05, 0.05, 0.1, 0.7),
        ranks(0.6, 0.1, 0.1, 0.1, 0.1),
        0.765 - 0.18,
    ),
    "nearly all 1": (ranks(0.02, 0, 0, 0.01, 0.97), ranks(0.05, 0, 0, 0, 0.95), 0.025),
}


def unpaired(replicates: int) -> int:
    """Print the misses of 95 % intervals and of false verdicts; return how many bars were missed.

    Samples of all sizes of `SIZES` are drawn from both, and scipy's Welch interval stands beside.
    """
    from scipy.stats import ttest_ind

    missed = 0
    print(f"two samples of different queries, 95 % intervals, {replicates} replicates: misses in %")
    for name, (draw, other, truth) in WORLDS.items():
        cells = []
        for n, m in SIZES:
            rng, wrong, welch = np.random.default_rng([SEED, n, m, *name.encode()]), 0, 0
            for _ in range(replicates):
                x, y = draw(rng, n), other(rng, m)
                interval = unpaired_interval(x, y)
                wrong += not interval.lower <= truth <= interval.upper
                if x.std() + y.std() > 0:  # Welch's interval has no width without any spread
                    low, high = ttest_ind(x, y, equal_var=False).confidence_interval()
                    welch += not low <= truth <= high
                else:
                    welch += x.mean() - y.mean() != truth
            within_bar = wrong / replicates <= BAR + 2 * math.sqrt(BAR * (1 - BAR) / replicates)
            missed += not within_bar
            shares = f"{100 * wrong / replicates:.1f} ({100 * welch / replicates:.1f})"
            cells.append(f"{n}, {m}: {shares}{'' if within_bar else ' MISSED'}")
        print(f"  {name:15s} {'; '.join(cells)}  (in brackets: Welch)")
    return missed
