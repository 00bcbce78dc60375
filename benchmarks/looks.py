"""Does a gate print the true difference, also after further looks at a loss that is not sure?

    python benchmarks/looks.py [--trials 1000]

An app gets nine of ten questions right. A change loses a share of all answers, spread over all
questions alike or taken from some of them. Besides, each evaluation turns a share of the answers to
their opposite (`flips`). The gate looks again as `look_again` of year.py does. It prints difference
and interval of the first look; the mean of all looks only decides. A row has the mean of what is
printed less the truth, the share of the 95 % intervals that hold the truth, and the same of the
means of all looks, which ask only questions that changed and so are too near to 0.

Bars: in each world, what is printed is within .02 of the truth on average, and the intervals of all
trials of a size hold the truth in at least 93 %. With 1,000 trials of a world, what is printed has
a standard error of up to .005, and the share of a size one of .2 points. A longer run takes 5,000.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from bars import Bars
from numpy.typing import NDArray
from trials import Cell, add_trials, largest, mean_error, percent, run_jobs, share_error
from year import MOST_LOOKS, interval_of, is_unsure_loss

RIGHT = 0.9
LOSSES = (0.0, 0.05, 0.1, 0.2, 0.35)
FLIPS = (0.0, 0.1, 0.3)
SIZES = (20, 100)
WORST_ERROR, LEAST_COVERAGE = 0.02, 0.93

Chances = NDArray[np.float64]


class App(NamedTuple):
    """World of an app and a change.

    Attributes:
        n: Questions.
        is_spread: True if each question loses alike; False if some lose everything.
        loss: True loss of the mean.
        flips: Share of the answers that an evaluation turns.
    """

    n: int
    is_spread: bool
    loss: float
    flips: float


class Trial(NamedTuple):
    """What a gate printed, the truth subtracted, and what the means of all looks would say."""

    printed: float
    is_covered: float
    all_looks: float
    all_looks_cover: float
    looks_again: float


WORLDS = [
    App(n, is_spread, loss, flips)
    for n in SIZES
    for is_spread in (True, False)
    for loss in LOSSES
    for flips in FLIPS
]


def draw_chances(app: App, rng: np.random.Generator) -> tuple[Chances, Chances]:
    """Return the chance of each question to be right, of base and head."""
    slope = 1 - 2 * app.flips
    right = (rng.random(app.n) < RIGHT).astype(float)
    lost = app.loss / slope / RIGHT
    kept = right * (1 - lost if app.is_spread else rng.random(app.n) >= lost)
    return app.flips + slope * right, app.flips + slope * kept


def run_trial(app: App, rng: np.random.Generator) -> Trial:
    """Return what a gate says of one change."""
    base, head = draw_chances(app, rng)
    old = (rng.random(app.n) < base).astype(float)
    first = (rng.random(app.n) < head) - old
    has_changed = first != 0
    total, n_looks = first, 1
    while n_looks <= MOST_LOOKS and is_unsure_loss(total / n_looks, old):
        if n_looks * np.count_nonzero(has_changed) > app.n:
            break
        again = (rng.random(app.n) < head).astype(float) - (rng.random(app.n) < base)
        total = total + np.where(has_changed, again, 0.0)
        n_looks += 1
    row = []
    for d in (first, total / n_looks):
        interval = interval_of(d, old)
        row += [float(d.mean()) + app.loss, float(interval.lower <= -app.loss <= interval.upper)]
    return Trial(*row, float(n_looks > 1))


def run_world(job: tuple[App, int]) -> tuple[Trial, float]:
    """Return the mean of the trials of a world, and the standard error of what is printed."""
    app, trials = job
    rng = np.random.default_rng(WORLDS.index(app))
    rows = [run_trial(app, rng) for _ in range(trials)]
    return Trial(*np.mean(rows, axis=0).tolist()), mean_error(row.printed for row in rows)


def main(trials: int) -> None:
    """Print the tables, check the bars, and end the process."""
    results = dict(zip(WORLDS, run_jobs(run_world, [(app, trials) for app in WORLDS]), strict=True))
    print("questions  loss   lost from  flips  looked  printed  covers  all looks  covers")
    for app, (row, _) in results.items():
        print(
            f"{app.n:9}  {app.loss:.2f}   {place_of(app):9}  {app.flips:5.0%}  "
            f"{row.looks_again:6.0%}  {row.printed:+7.3f}  {row.is_covered:6.1%}  "
            f"{row.all_looks:+9.3f}  {row.all_looks_cover:6.1%}"
        )
    bars = Bars()
    for n in SIZES:
        rows = {app: of_app for app, of_app in results.items() if app.n == n}
        cells = [
            Cell(f"loss {app.loss} of {place_of(app)}, flips {app.flips}", abs(row.printed), error)
            for app, (row, error) in rows.items()
        ]
        worst = largest(cells)
        bars.check(
            f"{n} questions: printed {worst.value:.3f} ± {worst.error:.3f} off the truth in the "
            f"worst world ({worst.name}), at most {WORST_ERROR}",
            worst.value <= WORST_ERROR,
        )
        coverage = float(np.mean([row.is_covered for row, _ in rows.values()]))
        error = share_error(coverage, trials * len(rows))
        bars.check(
            f"{n} questions: {percent(coverage, error)} of the intervals hold the truth, "
            f"at least {LEAST_COVERAGE:.0%}",
            coverage >= LEAST_COVERAGE,
        )
        off = max(abs(row.all_looks) for row, _ in rows.values())
        of_all = float(np.mean([row.all_looks_cover for row, _ in rows.values()]))
        print(f"{n} questions: all looks are off by up to {off:.3f}, and cover {of_all:.1%}")
    bars.exit()


def place_of(app: App) -> str:
    """Return which questions lose."""
    return "all" if app.is_spread else "some"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="what a gate prints after further looks")
    add_trials(parser, 1_000, 5_000, "trials of a world")
    main(parser.parse_args().trials)
