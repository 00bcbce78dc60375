"""Early stopping: five looks err no more often than one, and what they save."""

from __future__ import annotations

import math

import numpy as np
from worlds import SEED, hits

from ragbench.comparison.method import Method, paired_interval
from ragbench.score.base import Look
from ragbench.stats import look_sizes

MARGIN = 0.05
SIZES = (50, 200)
RESAMPLES = 200
CASES = (("equal", 0.10, 0.0), ("at margin", 0.02, MARGIN))
"""Name, churn and drop: equal systems, and a drop of exactly the margin."""


def early(replicates: int) -> int:
    """Print a row per world, size and kind of look; return how many bars were missed.

    Looks go on until the gate is decided, which is when a wrong verdict is likeliest to be met.
    """
    trials = max(100, replicates // 5)  # every look is an interval of its own
    print(f"early stopping at max_drop {MARGIN:g}, {trials} replicates a cell; shares in %")
    print(f"{'world':12s} {'n':>5s} {'looks':>8s} {'cover':>6s} {'fail':>6s} {'pass':>6s} judged")
    missed = 0
    for name, churn, drop in CASES:
        for n in SIZES:
            for bets in (False, True):
                found = _cell(churn, drop, n, trials, bets)
                wrong = _missed(drop, found, trials)
                cells = " ".join(f"{100 * share:6.1f}" for share in found[:3])
                kind = "bets" if bets else "planned"
                said = f"MISSED: {', '.join(wrong)}" if wrong else ""
                print(f"{name:12s} {n:5d} {kind:>8s} {cells} {found[3]:6.1f} {said}")
                missed += len(wrong)
    return missed


def _missed(drop: float, found: tuple[float, ...], trials: int) -> list[str]:
    def slack(share: float) -> float:
        return 2 * math.sqrt(share * (1 - share) / trials)

    coverage, failed, passed, _ = found
    wrong = {
        "coverage": coverage < 0.93 - slack(0.93),
        "false fail": drop <= MARGIN and failed > 0.035 + slack(0.035),
        "false pass": drop >= MARGIN and passed > 0.035 + slack(0.035),
    }
    return [name for name, is_wrong in wrong.items() if is_wrong]


def _cell(
    churn: float, drop: float, n: int, trials: int, bets: bool
) -> tuple[float, float, float, float]:
    """Coverage of the interval that is printed, shares of fail and pass, mean number judged."""
    rng = np.random.default_rng([SEED, n, round(1000 * churn)])
    sizes, found = look_sizes(n), []
    method = Method(resamples=RESAMPLES)
    for d in hits(churn).draw(rng, (trials, n), drop):
        for number, size in enumerate(sizes, start=1):
            look = Look(number, sizes, size, n, bets, np.arange(size) if bets else None)
            interval = paired_interval(d[:size], method, look=look)
            failed, passed = interval.upper < -MARGIN, interval.lower > -MARGIN
            if failed or passed:
                break
        covers = interval.lower - 1e-12 <= -drop <= interval.upper + 1e-12
        found.append((covers, failed, passed, size))
    cover, fail, passes, judged = np.asarray(found, dtype=float).mean(axis=0).tolist()
    return cover, fail, passes, judged
