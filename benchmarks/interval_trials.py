"""Rule G over simulated worlds: coverage of its intervals, and verdicts that are false.

Imported by `statistics.py`, which says what the bars are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.gates.drop import ENOUGH_QUERIES, Drop
from ragbench.score.base import ScoreColumn
from ragbench.signature import Signature
from ragbench.stats import difference_interval, t_quantile
from ragbench.types import FloatArray

BoolArray = NDArray[np.bool_]
Draw = Callable[[np.random.Generator, tuple[int, int]], FloatArray]

SIZES = (10, 20, 50, 100, 200, 500, 1000)
RESAMPLES = 2_000
SEED = 20
ALPHA = 0.025
AGREE = 3  # replicates of a cell that are computed again
BLOCK = 500
FEW = 20  # changed queries
MANY = 60  # changed queries from which an interval may not be too wide

RANKS = np.array([1 / rank for rank in range(1, 11)] + [0.0])
FOUND = np.array([0.45, 0.14, 0.08, 0.05, 0.04, 0.03, 0.03, 0.02, 0.02, 0.02, 0.12])
FOUND_LESS = np.array([0.33, 0.14, 0.10, 0.06, 0.05, 0.04, 0.04, 0.03, 0.03, 0.02, 0.16])


class World(NamedTuple):
    """Two systems whose true difference is known."""

    name: str
    draw: Draw
    mean: float
    changed: float


class Tally(NamedTuple):
    """Shares of the replicates of one cell."""

    coverage: float
    false_fail: float
    false_pass: float
    decided: float
    identical: float


def redrawn(name: str, share: float, then: FloatArray) -> World:
    """A reciprocal rank that is drawn anew for a share of the queries."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
        before, after = rng.choice(RANKS, shape, p=FOUND), rng.choice(RANKS, shape, p=then)
        return (rng.random(shape) < share) * (after - before)

    return World(name, draw, share * float(RANKS @ (then - FOUND)), share * 0.75)


def hits(gained: float, lost: float) -> World:
    """A share of the queries gains a hit, another loses one."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
        u = rng.random(shape)
        return np.where(u < lost, -1.0, np.where(u < lost + gained, 1.0, 0.0))

    name = f"hit {lost * 100:.0f}/{gained * 100:.0f}"
    return World(name, draw, gained - lost, gained + lost)


def _dropped(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    before = rng.choice(RANKS[:-1], shape, p=FOUND[:-1] / FOUND[:-1].sum())
    return (rng.random(shape) < 0.06) * -before


def _graded(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    moved = rng.beta(0.8, 0.8, shape) - rng.beta(0.8, 0.8, shape)
    return (rng.random(shape) < 0.6) * moved


WORLDS = (
    redrawn("RR .15 null", 0.15, FOUND),
    redrawn("RR .5 null", 0.5, FOUND),
    redrawn("RR .5 worse", 0.5, FOUND_LESS),
    World("RR 6 % drop", _dropped, -0.06 * float(RANKS @ FOUND) / (1 - FOUND[-1]), 0.06),
    hits(0.05, 0.05),
    hits(0.02, 0.10),
    hits(0.02, 0.02),
    hits(0.00, 0.04),
    hits(0.00, 0.02),
    World("nDCG .6 null", _graded, 0.0, 0.6),
)


def intervals(replicates: int, sizes: Sequence[int] = SIZES) -> int:
    """Print a row per world and size; return how many bars were missed."""
    print(f"rule G, {replicates} replicates a cell, {RESAMPLES} resamples; shares in %")
    print(f"{'world':12s} {'n':>5s} {'cover':>6s} {'f.fail':>6s} {'f.pass':>6s} {'.05':>6s} same")
    missed = 0
    for world in WORLDS:
        for n in sizes:
            tally = _cell(world, n, replicates)
            wrong = _missed(tally, n, n * world.changed, replicates)
            cells = " ".join(f"{100 * share:6.1f}" for share in tally)
            print(
                f"{world.name:12s} {n:5d} {cells} {'MISSED: ' + ', '.join(wrong) if wrong else ''}"
            )
            missed += len(wrong)
    return missed


def _missed(tally: Tally, n: int, changed: float, replicates: int) -> list[str]:
    def slack(share: float) -> float:
        return 2 * math.sqrt(share * (1 - share) / replicates)

    wrong = {
        "coverage": tally.coverage < 0.93 - slack(0.93),
        "width": changed >= MANY and tally.coverage > 0.975 + slack(0.975),
        "false fail": tally.false_fail > 0.035 + slack(0.035),
        "false pass": tally.false_pass > 0.045 + slack(0.045),
        "decided": n < ENOUGH_QUERIES and tally.decided > 0,
    }
    return [name for name, is_wrong in wrong.items() if is_wrong]


def _cell(world: World, n: int, replicates: int) -> Tally:
    rng = np.random.default_rng([SEED, n, *world.name.encode()])
    counts, found = resample_counts(n), []
    for start in range(0, replicates, BLOCK):
        d = world.draw(rng, (min(BLOCK, replicates - start), n))
        lower, upper = rule_g(d, counts)
        if start == 0:
            _agree(d, lower, upper)
        # A rounding error is no verdict: +-1 / 2 of a hit.
        slack, changed = 1e-12, d.any(axis=1)
        found.append(
            np.column_stack(
                [
                    (lower <= world.mean + slack) & (world.mean <= upper + slack),
                    upper < world.mean - slack,
                    lower > world.mean + slack,
                    _decided(d, (upper < -0.05) | (lower > -0.05)) & changed,
                    ~changed,
                ]
            )
        )
    return Tally(*np.concatenate(found).mean(axis=0).tolist())


def _decided(d: FloatArray, beyond: BoolArray) -> BoolArray:
    """Which replicates a gate decides, of those whose interval lies on one side of the margin.

    Few queries decide no small margin, whatever the interval: there the package's gate is asked.
    """
    if d.shape[1] >= ENOUGH_QUERIES:
        return beyond
    found, zeros = beyond.copy(), np.zeros(d.shape[1])
    for row in np.flatnonzero(beyond):
        pairs = PairedScores(_column(d[row]), _column(zeros), [str(q) for q in range(d.shape[1])])
        gate = Drop(measure="score", max_drop=0.05)
        found[row] = gate.decide_pairs(pairs, Method(resamples=RESAMPLES)).verdict != "undecided"
    return found


def _column(values: FloatArray) -> ScoreColumn:
    scored = np.zeros(len(values), np.uint8)
    return ScoreColumn("drawn", values, scored, Signature("drawn"))


def resample_counts(n: int) -> FloatArray:
    """Count how often each query is in each resample, as `difference_interval` draws them."""
    rng = np.random.default_rng(SEED)
    counts = np.zeros((RESAMPLES, n))
    rows = max(1, 8 * 2**20 // (8 * n))
    for start in range(0, RESAMPLES, rows):
        drawn = rng.integers(0, n, size=(min(rows, RESAMPLES - start), n))
        for row, picked in enumerate(drawn, start=start):
            counts[row] = np.bincount(picked, minlength=n)
    return counts


def rule_g(d: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the limits for each row of differences in -1..1."""
    n = d.shape[1]
    mean, sd, t = d.mean(axis=1), d.std(axis=1, ddof=1), t_quantile(1 - ALPHA, n - 1)
    lower, upper = mean - t * sd / math.sqrt(n), mean + t * sd / math.sqrt(n)
    unlike = np.abs(d - np.median(d, axis=1, keepdims=True)) > 1e-12
    enough = np.minimum(np.count_nonzero(d, axis=1), unlike.sum(axis=1)) >= FEW
    second = np.empty((2, len(d)))
    second[:, ~enough] = _plus_four(d[~enough], t)
    if enough.any():
        second[:, enough] = _studentized(d[enough], counts)
    return np.maximum(np.minimum(lower, second[0]), -1), np.minimum(np.maximum(upper, second[1]), 1)


def _plus_four(d: FloatArray, t: float) -> FloatArray:
    added = NormalDist().inv_cdf(1 - ALPHA) ** 2
    total = d.shape[1] + added
    mean = d.sum(axis=1) / total
    squares = ((d - mean[:, np.newaxis]) ** 2).sum(axis=1) + added * (1 + mean**2)
    half = t * np.sqrt(squares / (total - 1) / total)
    return np.stack([mean - half, mean + half])


def _studentized(d: FloatArray, counts: FloatArray) -> FloatArray:
    n = d.shape[1]
    mean = d.mean(axis=1)
    centred = (d - mean[:, np.newaxis]).T
    means, squares = counts @ centred / n, counts @ centred**2
    spread = squares - n * means**2
    spread[spread <= 1e-12 * squares] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        student = np.where(means == 0, 0.0, means / np.sqrt(spread / (n * (n - 1))))
    tail = max(math.floor((RESAMPLES + 1) * ALPHA + 1e-9), 1) - 1
    ends = np.partition(student, [tail, RESAMPLES - 1 - tail], axis=0)
    error = d.std(axis=1, ddof=1) / math.sqrt(n)
    return np.stack([mean - error * ends[RESAMPLES - 1 - tail], mean - error * ends[tail]])


def _agree(d: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
    """Stop where the rule is not what the package computes."""
    for row in range(min(AGREE, len(d))):
        found = difference_interval(d[row], resamples=RESAMPLES, seed=SEED)
        ours = (found.lower, found.upper)
        assert np.allclose(ours, (lower[row], upper[row]), rtol=0, atol=1e-9), (ours, row)
