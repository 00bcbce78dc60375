"""Evidence over commits: false alarms over 100 equal commits, and when a small drop is failed.

    python benchmarks/evidence_trials.py [REPLICATES]

Each row is a world of which the truth is known: how 100 queries are scored at each commit, against
a record that was scored once. In the upper part no commit is worse than allowed, and the e-value
may exceed its limit in at most 5 % of the histories of 100 commits, whenever one looks. What lasts
from commit to commit differs: nothing, the luck of the record, the luck of the questions, what a
commit left as it was. In the lower part scores fell; `by 8` is the share that is failed by the 8th
commit, `alone` the share of single commits that the gate fails without a history.

A random walk of single queries, up as often as down, is no drop of the questions that these were
drawn from, though it may be one of these queries. It counts as no drop here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ragbench.stats import difference_interval
from ragbench.stats.evidence import evidence_path
from ragbench.types import FloatArray

QUERIES, COMMITS, SOON = 100, 100, 8
LIMIT = 20.0
MOST_ALARMS, LEAST_FAILED = 0.05, 0.80
SEED, BLOCK, ALONE, RESAMPLES = 14, 250, 200, 200
Shape = tuple[int, int, int]
"""Histories, commits, queries."""
Draw = Callable[[np.random.Generator, Shape], FloatArray]


class World(NamedTuple):
    """How the differences from the record come about."""

    name: str
    margin: float
    draw: Draw
    is_bar: bool = True


def hits(lost: float, gained: float) -> Draw:
    """Other queries lose and gain a hit at each commit."""

    def draw(rng: np.random.Generator, shape: Shape) -> FloatArray:
        v = rng.random(shape)
        return np.where(v < lost, -1.0, np.where(v < lost + gained, 1.0, 0.0))

    return draw


def graded(mean: float, sd: float) -> Draw:
    """Graded scores with noise of their own at each commit."""
    return lambda rng, shape: np.clip(mean + sd * rng.standard_normal(shape), -1, 1)


def renewed(base: Draw, share: float) -> Draw:
    """Each commit renews a share of the queries, and leaves the others as they were."""

    def draw(rng: np.random.Generator, shape: Shape) -> FloatArray:
        d = base(rng, shape)
        for commit in range(1, shape[1]):
            kept = rng.random((shape[0], shape[2])) >= share
            d[:, commit] = np.where(kept, d[:, commit - 1], d[:, commit])
        return d

    return draw


def effects(lasting: float, noise: float, mean: float = 0.0) -> Draw:
    """Each query has a lasting difference, and the record and each commit noise of their own."""

    def draw(rng: np.random.Generator, shape: Shape) -> FloatArray:
        of_query = (shape[0], 1, shape[2])
        last = lasting * rng.standard_normal(of_query) - noise * rng.standard_normal(of_query)
        return np.clip(mean + last + noise * rng.standard_normal(shape), -1, 1)

    return draw


def three_layers(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Lasting differences, slow ones that fade by a fifth each commit, and noise."""
    slow = 0.1 * rng.standard_normal(shape)
    for commit in range(1, shape[1]):
        slow[:, commit] = 0.8 * slow[:, commit - 1] + 0.6 * slow[:, commit]
    return np.clip(slow + effects(0.1, 0.1)(rng, shape), -1, 1)


def flaky(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Each query is hit with a chance of its own, at each commit and in the record."""
    chance = rng.beta(0.5, 0.5, (shape[0], 1, shape[2]))
    return (rng.random(shape) < chance) * 1.0 - (rng.random(chance.shape) < chance)


def redrawn(values: FloatArray, share: float, every: int = 1) -> Draw:
    """Scores, not differences, of which a share is drawn anew every so many commits."""

    def draw(rng: np.random.Generator, shape: Shape) -> FloatArray:
        of_all = (shape[0], shape[2])
        record = rng.choice(values, of_all)
        now, d = record, np.empty(shape)
        for commit in range(shape[1]):
            if commit % every == 0:
                now = np.where(rng.random(of_all) < share, rng.choice(values, of_all), now)
            d[:, commit] = now - record
        return d

    return draw


def walk(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Each query goes up or down by a small step, and stays between 0 and 1."""
    record = rng.random((shape[0], shape[2]))
    now, d = record, np.empty(shape)
    for commit in range(shape[1]):
        now = np.abs(now + 0.05 * rng.standard_normal(now.shape))
        now = 1 - np.abs(1 - now)
        d[:, commit] = now - record
    return d


def gains_lost(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Ten commits are better by .05, all others are as the record was."""
    d = effects(0.1, 0.1)(rng, shape)
    d[:, :10] += 0.05
    return d


def same_again(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """One change, then commits that change no score."""
    return np.repeat(hits(0.05, 0.05)(rng, (shape[0], 1, shape[2])), shape[1], axis=1)


def decay(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Each commit loses half a hit in a hundred more than the one before."""
    v, lost = rng.random(shape), 0.01 + 0.005 * np.arange(1, shape[1] + 1)[:, np.newaxis]
    return np.where(v < lost, -1.0, np.where(v > 0.99, 1.0, 0.0))


def late(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Twenty equal commits, then a drop of .03."""
    d = hits(0.01, 0.01)(rng, shape)
    d[:, 20:] = hits(0.04, 0.01)(rng, (shape[0], shape[1] - 20, shape[2]))
    return d


_RANKS = np.repeat([1, 1 / 2, 1 / 3, 1 / 5, 1 / 8, 0.0], [45, 14, 12, 10, 7, 12])
_HITS = np.repeat([1.0, 0.0], [70, 30])

EQUAL = (
    World("hits 5/5, fresh", 0.0, hits(0.05, 0.05)),
    World("hits 2/2, fresh", 0.0, hits(0.02, 0.02)),
    World("hits 5/3, at the margin", 0.02, hits(0.05, 0.03)),
    World("hits 2/0, at the margin", 0.02, hits(0.02, 0.0)),
    World("graded .1, fresh", 0.0, graded(0.0, 0.1)),
    World("graded .2, fresh", 0.0, graded(0.0, 0.2)),
    World("graded .1, at the margin", 0.02, graded(-0.02, 0.1)),
    World("hits 5/5, 10 % renewed", 0.0, renewed(hits(0.05, 0.05), 0.1)),
    World("hits 5/5, 50 % renewed", 0.0, renewed(hits(0.05, 0.05), 0.5)),
    World("graded .2, 2 % renewed", 0.0, renewed(graded(0.0, 0.2), 0.02)),
    World("graded .2, 10 % renewed", 0.0, renewed(graded(0.0, 0.2), 0.1)),
    World("graded .2, 50 % renewed", 0.0, renewed(graded(0.0, 0.2), 0.5)),
    World("noisy record", 0.0, effects(0.0, 0.2)),
    World("lasting .1, noisy record", 0.0, effects(0.1, 0.1)),
    World("lasting .2, noisy record", 0.0, effects(0.2, 0.05)),
    World("the same, at the margin", 0.02, effects(0.1, 0.1, -0.02)),
    World("lasting, fading, fresh", 0.0, three_layers),
    World("flaky queries", 0.0, flaky),
    World("hits, 10 % drawn anew", 0.0, redrawn(_HITS, 0.1)),
    World("hits, 30 % every tenth", 0.0, redrawn(_HITS, 0.3, every=10)),
    World("rr, 2 % drawn anew", 0.0, redrawn(_RANKS, 0.02)),
    World("rr, 10 % drawn anew", 0.0, redrawn(_RANKS, 0.1)),
    World("rr, 50 % drawn anew", 0.0, redrawn(_RANKS, 0.5)),
    World("random walk", 0.0, walk),
    World("better, then as before", 0.0, gains_lost),
    World("one change, then none", 0.0, same_again),
)
FALLEN = (
    World("hits 4/1", 0.0, hits(0.04, 0.01)),
    World("hits 3/0", 0.0, hits(0.03, 0.0)),
    World("hits 5/0", 0.02, hits(0.05, 0.0)),
    World("graded .2, -.03", 0.0, graded(-0.03, 0.2)),
    World("graded .1, -.03", 0.01, graded(-0.03, 0.1)),
    World("graded .07, -.03", 0.02, graded(-0.03, 0.07), is_bar=False),
    World("lasting .1, -.03", 0.0, effects(0.1, 0.1, -0.03), is_bar=False),
    World("decay, .005 a commit", 0.0, decay, is_bar=False),
    World("equal 20, then 4/1", 0.0, late, is_bar=False),
)


def evidence(n_replicates: int) -> int:
    """Print a row per world; return how many bars were missed."""
    trials = max(200, n_replicates // 2)
    print(f"evidence over commits: {QUERIES} queries, {COMMITS} commits, {trials} histories a row")
    print(f"{'no commit is worse than allowed':32s} {'margin':>6s} {'alarms %':>8s}")
    missed = 0
    for world in EQUAL:
        share = float(np.isfinite(_alarms(world, trials)).mean())
        is_missed = share > MOST_ALARMS + _slack(MOST_ALARMS, trials)
        said = "  MISSED" if is_missed else ""
        print(f"{world.name:32s} {world.margin:6.2f} {100 * share:8.1f}{said}")
        missed += is_missed
    print(
        f"{'scores fell':32s} {'margin':>6s} {'by 8, %':>8s} {'median commit':>14s} {'alone %':>8s}"
    )
    for world in FALLEN:
        alarms = _alarms(world, trials)
        share = float((alarms <= SOON).mean())
        is_missed = world.is_bar and share < LEAST_FAILED - _slack(LEAST_FAILED, trials)
        said = "  MISSED" if is_missed else ""
        cells = f"{100 * share:8.1f} {np.median(alarms):14g} {100 * _alone(world):8.1f}"
        print(f"{world.name:32s} {world.margin:6.2f} {cells}{said}")
        missed += is_missed
    return missed


def _slack(share: float, trials: int) -> float:
    return 2 * math.sqrt(share * (1 - share) / trials)


def _rng(world: World) -> np.random.Generator:
    return np.random.default_rng([SEED, *world.name.encode()])


def _alarms(world: World, trials: int) -> FloatArray:
    """The commit of the first alarm of each history, from 1; infinite where there is none."""
    rng, found = _rng(world), []
    for start in range(0, trials, BLOCK):
        d = world.draw(rng, (min(BLOCK, trials - start), COMMITS, QUERIES))
        over = evidence_path(d, world.margin)[0] >= LIMIT
        found.append(np.where(over.any(axis=1), over.argmax(axis=1) + 1.0, np.inf))
    return np.concatenate(found)


def _alone(world: World) -> float:
    """The share of eighth commits that the rule for one run fails."""
    eighth = world.draw(_rng(world), (ALONE, COMMITS, QUERIES))[:, SOON - 1]
    ends = [difference_interval(d, resamples=RESAMPLES).upper for d in eighth]
    return float(np.mean(np.array(ends) < -world.margin))


if __name__ == "__main__":
    n_missed = evidence(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
    print(f"{n_missed} bars missed" if n_missed else "all bars met")
    sys.exit(1 if n_missed else 0)
