"""Two samples of different queries with a known difference of means: misses of the interval.

Imported by `families.py`, which says what the bars are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from bars import Bars
from scipy.special import stdtrit
from trials import largest, run_jobs, share_cell, share_error

from ragbench.stats import UnpairedInterval, unpaired_interval
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


class Misses(NamedTuple):
    """Shares of 95 % intervals that miss the truth: ours, and Welch's."""

    ours: float
    welch: float


def unpaired(trials: int, bars: Bars) -> None:
    """Check the misses of 95 % intervals; scipy's Welch interval stands beside."""
    print(f"95 % intervals of two samples of different queries, {trials} trials: misses in %")
    jobs = [(name, size, trials) for name in WORLDS for size in SIZES]
    misses = dict(zip(jobs, run_jobs(count_misses, jobs), strict=True))
    for name in WORLDS:
        cells = []
        for size in SIZES:
            row = misses[name, size, trials]
            cells.append(f"{size[0]}, {size[1]}: {100 * row.ours:.1f} ({100 * row.welch:.1f})")
        print(f"  {name:15s} {'; '.join(cells)}  (in brackets: Welch)")
    # two standard errors of the simulation
    most = BAR + 2 * share_error(BAR, trials)
    cells = [share_cell(f"{job[0]}; {job[1]}", row.ours, trials) for job, row in misses.items()]
    worst = largest(cells)
    bars.check(
        f"misses: {worst} in the worst cell, at most {100 * BAR:g} % + 2 errors",
        worst.value <= most,
    )


def count_misses(job: tuple[str, tuple[int, int], int]) -> Misses:
    """Draw pairs of samples of a world in both sizes."""
    name, (n, m), trials = job
    draw, other, truth = WORLDS[name]
    rng = np.random.default_rng([SEED, n, m, *name.encode()])
    # the interval is the same for any order of the scores, and hits are often drawn again
    intervals: dict[bytes, UnpairedInterval] = {}
    wrong = welch = 0
    for _ in range(trials):
        x, y = np.sort(draw(rng, n)), np.sort(other(rng, m))
        key = x.tobytes() + y.tobytes()
        if key not in intervals:
            intervals[key] = unpaired_interval(x, y)
        wrong += not intervals[key].lower <= truth <= intervals[key].upper
        low, high = welch_interval(x, y)
        welch += not low <= truth <= high
    return Misses(wrong / trials, welch / trials)


def welch_interval(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return Welch's 95 % interval; it has no width where neither sample has any spread."""
    mean = float(x.mean() - y.mean())
    squares = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    if sum(squares) == 0:
        return mean, mean
    parts = squares[0] ** 2 / (len(x) - 1) + squares[1] ** 2 / (len(y) - 1)
    half = float(stdtrit(sum(squares) ** 2 / parts, 0.975) * math.sqrt(sum(squares)))
    return mean - half, mean + half
