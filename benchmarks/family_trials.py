"""Families without a true difference, and the speed of permutations.

Imported by `families.py`, which says what the bars are.
"""

from __future__ import annotations

import time

import numpy as np
from bars import Bars
from trials import percent, share_error

from ragbench.comparison.method import Method, adjust_family
from ragbench.stats import randomization_p_values
from ragbench.types import FloatArray

SEED = 21
FLIPS = 999
QUERIES, SYSTEMS = 1_000, 10
PERMUTATIONS = 100_000
BAR = 200
MOST_WRONG = 0.05


def families(trials: int, bars: Bars) -> None:
    """Check the family-wise error of both corrections."""
    print(f"family-wise error, {trials} families of 5 systems against one, 60 queries")
    # two standard errors of the simulation
    most = MOST_WRONG + 2 * share_error(MOST_WRONG, trials)
    for name, draw in (("normal", _normal), ("hits", _hits), ("mixed scales", _mixed)):
        rng = np.random.default_rng([SEED, *name.encode()])
        wrong = dict.fromkeys(("holm", "max_t"), 0)
        for seed in range(trials):
            d = draw(rng)
            for correction in ("holm", "max_t"):
                family = adjust_family(d, Method(correction=correction, resamples=FLIPS, seed=seed))
                wrong[correction] += bool((family.adjusted <= 0.05).any())
        for correction, count in wrong.items():
            share = count / trials
            figure = percent(share, share_error(share, trials))
            bars.check(f"{name}, {correction}: {figure} err, at most 5 % + 2 errors", share <= most)


def permutations(bars: Bars) -> None:
    """Check the speed against scipy by CPU time."""
    from scipy import stats

    scores = np.random.default_rng(SEED).random((QUERIES, SYSTEMS))
    first, second = np.triu_indices(SYSTEMS, 1)
    table = scores[:, first] - scores[:, second]
    times: dict[str, list[float]] = {"ours": [], "scipy, one pair": []}
    p_values = {}
    for _ in range(2):
        start = time.process_time()
        p_values["ours"] = randomization_p_values(table, resamples=PERMUTATIONS)[0]
        times["ours"].append(time.process_time() - start)
        start = time.process_time()
        p_values["scipy"] = stats.permutation_test(
            (table[:, 0],),
            np.mean,
            permutation_type="samples",
            vectorized=True,
            n_resamples=PERMUTATIONS,
            batch=2_000,
            rng=np.random.default_rng(SEED),
        ).pvalue
        times["scipy, one pair"].append(time.process_time() - start)
    ours, theirs = min(times["ours"]), min(times["scipy, one pair"]) * table.shape[1]
    within_bar = theirs / ours >= BAR and abs(p_values["ours"] - p_values["scipy"]) < 0.01
    bars.check(
        f"{PERMUTATIONS} permutations, {QUERIES} queries, {table.shape[1]} pairs: {ours:.2f} s, "
        f"scipy {theirs:.0f} s (a pair's time for each): {theirs / ours:.0f}x, at least {BAR}x; "
        f"p {p_values['ours']:.4f} and {p_values['scipy']:.4f}",
        within_bar,
    )


def _normal(rng: np.random.Generator) -> FloatArray:
    scores = rng.normal(0, 1, (60, 6))
    return scores[:, 1:] - scores[:, :1]


def _hits(rng: np.random.Generator) -> FloatArray:
    scores = (rng.random((60, 6)) < 0.7).astype(np.float64)
    return scores[:, 1:] - scores[:, :1]


def _mixed(rng: np.random.Generator) -> FloatArray:
    """Skewed counts beside scores of 0..1, few of them changed."""
    d = _normal(rng) * (rng.random((60, 5)) < 0.4)
    return d * np.array([1.0, 1.0, 0.1, 100.0, 1000.0])
