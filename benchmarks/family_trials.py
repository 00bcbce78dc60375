"""Families without a true difference, and the speed of permutations.

Imported by `statistics.py`, which says what the bars are.
"""

from __future__ import annotations

import math
import time

import numpy as np

from ragbench.comparison.method import Method, adjust_family
from ragbench.stats import randomization_p_values
from ragbench.types import FloatArray

SEED = 21
FLIPS = 999
QUERIES, SYSTEMS = 1_000, 10
PERMUTATIONS = 100_000
BAR = 200


def families(replicates: int) -> int:
    """Print the family-wise error of both corrections; return how many bars were missed."""
    # every family costs two sets of flips; 2,000 families are exact to half a point
    replicates, missed = min(replicates, 2_000), 0
    print(f"family-wise error, {replicates} families of 5 systems against one, 60 queries")
    for name, draw in (("normal", _normal), ("hits", _hits), ("mixed scales", _mixed)):
        rng = np.random.default_rng([SEED, *name.encode()])
        wrong = dict.fromkeys(("holm", "max_t"), 0)
        for seed in range(replicates):
            d = draw(rng)
            for correction in ("holm", "max_t"):
                family = adjust_family(d, Method(correction=correction, resamples=FLIPS, seed=seed))
                wrong[correction] += bool((family.adjusted <= 0.05).any())
        for correction, count in wrong.items():
            share = count / replicates
            # 5 %, and two standard errors of a share of .05
            within_bar = share <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / replicates)
            mark = "" if within_bar else "  MISSED"
            print(f"  {name:13s} {correction:6s} {100 * share:.1f} %{mark}")
            missed += not within_bar
    return missed


def permutations() -> int:
    """Print the speed against scipy by CPU time; return 1 if the bar was missed."""
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
    print(
        f"{PERMUTATIONS} permutations, {QUERIES} queries, {table.shape[1]} pairs: {ours:.2f} s, "
        f"scipy {theirs:.0f} s (a pair's time for each): {theirs / ours:.0f}x, bar {BAR}x; "
        f"p {p_values['ours']:.4f} and {p_values['scipy']:.4f}{'' if within_bar else '  MISSED'}"
    )
    return int(not within_bar)


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
