"""Check that gates fire when they should, and only then: `max_drop` over simulated evaluations.

    python benchmarks/gates.py [--trials 1000] [--sizes 10,20,50] [--write docs/simulations.md]

Draws evaluations of which the truth is known (`worlds.py`): hits, reciprocal ranks, nDCG-like
scores, mixtures, small gains beside rare losses, several answers a query, clusters of equal and of
unequal size, failures; from 10 to 1,000 queries, with
margins .02 and .05. For each it prints, in %: how often a drop of exactly the margin passes and
fails (both are wrong, and in all other samples the interval covers it; a sample without any change
passes and is left out), how often equal systems pass, and how often drops of .05 and .10 fail.
With `--write`, Student's t, the percentile bootstrap ("pass where the lower end is above the
margin") and "a one-sided p below .05 and a drop below the margin" stand beside our rule. A cell has
1,000 evaluations, of 500 queries and more a half and a quarter; a longer run has 5,000. In every
cell some are decided again by `difference_interval` and must agree.

Then it plans queries for power .8, draws so many, and counts how often the gate decides.

Bars: wrong passes and wrong fails at most 3.5 %, one more than nominal; coverage at least 93 %; 100
queries of which 5 in 100 lose a hit fail at margin .02 in at least 30 %; plans decide in 80 %, give
or take 3, or 8 where they are of fewer than 250 queries, as hits are lost and won in whole numbers.
Simulated shares of hundreds of cells may miss a bar by three standard errors, plans by two. The
standard error of 3.5 % is .6 points in 1,000 trials. Worlds with a star show what no rule can
exclude, and have no bar.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from bars import Bars
from gate_rules import RULES, Verdicts, ours
from trials import add_trials, percent, run_jobs, share_error
from worlds import SEED, WORLDS, Sample, World

from ragbench.stats import difference_interval, queries_to_exclude, tilting_interval

SIZES = (10, 20, 50, 100, 200, 500, 1000)
MARGINS = (0.02, 0.05)
# Numbers of queries on the page, and the one by which rules are compared
SHOWN, COMPARED = (20, 100, 500), 100
AGREE = 2
LIKE, FEW, MOST_PLANNED = 400_000, 250, 1_600
# So many worlds are planned for: those of single queries that can be drawn anew
PLANNED = 8
TRUTHS = ((0.0, "equal: pass"), (0.10, "-.10: fail"))
WRONG = 0.035
OURS = "ragbench"
# By what the number of evaluations is divided, where each takes long
FEWER = {500: 2, 1000: 4}
END = "<!-- end -->"


class Row(NamedTuple):
    """Shares of the evaluations of one world, size and rule."""

    world: str
    is_possible: bool
    n: int
    margin: float
    rule: str
    trials: int
    wrong_pass: float
    wrong_fail: float
    right_pass: float
    fail_05: float
    fail_10: float

    @property
    def has_bar(self) -> bool:
        """Return True for a cell of our rule in a world without a star."""
        return self.rule == OURS and self.is_possible

    def __str__(self) -> str:
        return f"{self.world}, n {self.n}, margin {self.margin:g}"


def simulate(job: tuple[int, int, int, tuple[str, ...]]) -> list[Row]:
    """Simulate a world with so many queries by some rules."""
    place, n, trials, names = job
    world, count = WORLDS[place], trials // FEWER.get(n, 1)
    drawn = {
        drop: _draw(world, n, drop, count)
        for drop in (0.0, *MARGINS, 0.10)
        if drop < world.largest_drop
    }
    return [
        _row(world, n, margin, name, drawn) for margin, name in itertools.product(MARGINS, names)
    ]


def _row(world: World, n: int, margin: float, name: str, drawn: Mapping[float, Sample]) -> Row:
    verdicts = {drop: RULES[name](sample, margin) for drop, sample in drawn.items()}
    if name == OURS:
        _agree(drawn[margin], verdicts[margin], margin)
    changed = drawn[margin].d.any(axis=1)
    return Row(
        world.name, world.bar, n, margin, name, len(changed),
        float((verdicts[margin].passed & changed).mean()),
        float(verdicts[margin].failed.mean()),
        float(verdicts[0.0].passed.mean()),
        float(verdicts[0.05].failed.mean()) if margin < 0.05 else math.nan,
        float(verdicts[0.10].failed.mean()) if 0.10 in verdicts else math.nan,
    )  # fmt: skip


def _draw(world: World, n: int, drop: float, count: int) -> Sample:
    rng = np.random.default_rng([SEED, n, round(1000 * drop), *world.name.encode()])
    return world.draw(rng, (count, n), drop)


def _agree(sample: Sample, verdicts: Verdicts, margin: float) -> None:
    """Stop where the rule is not what the package computes; clusters are given as their values."""
    for row in range(AGREE):
        d = sample.d[row]
        if sample.loss[row] == 1:
            interval = difference_interval(d)
            lower, upper = interval.lower, interval.upper
        else:
            largest = (float(sample.loss[row]), float(sample.gain[row]))
            ends = max(largest[0], -float(d.min())), max(largest[1], float(d.max()))
            lower, upper = tilting_interval(d, largest=ends)
        expected = lower > -margin or not d.any(), upper < -margin
        assert (verdicts.passed[row], verdicts.failed[row]) == expected, (margin, row, lower, upper)


def table(rows: Sequence[Row], margin: float) -> str:
    """Print a world a row: wrong verdicts by size, power, and wrong verdicts of other rules."""
    simulated = {row.n for row in rows}
    sizes = [n for n in SHOWN if n in simulated] or sorted(simulated)
    compared = COMPARED if COMPARED in simulated else sizes[-1]
    rivals = [name for name in dict.fromkeys(row.rule for row in rows) if name != OURS]
    head = ["world", *(f"n {n}" for n in sizes), "equal: pass", "-.05: fail", "-.10: fail", *rivals]
    lines = [head, ["---"] * len(head)]
    by_world: dict[str, dict[tuple[int, str], Row]] = {}
    for row in rows:
        if row.margin == margin:
            name = row.world if row.is_possible else f"{row.world} *"
            by_world.setdefault(name, {})[row.n, row.rule] = row
    for world, cases in by_world.items():
        one = cases[compared, OURS]
        cells = [world, *(_wrong(cases[n, OURS]) for n in sizes)]
        cells += [_percent(share) for share in (one.right_pass, one.fail_05, one.fail_10)]
        cells += [_wrong(cases[compared, name]) for name in rivals]
        lines.append(cells)
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def _wrong(row: Row) -> str:
    """Return the shares of wrong passes and wrong fails of a cell."""
    return f"{_percent(row.wrong_pass)} / {_percent(row.wrong_fail)}"


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{100 * share:.1f}"


def page(rows: Sequence[Row]) -> str:
    """Return the text between the marks of a page: the largest errors, and a row a world."""
    with_bar = [row for row in rows if row.has_bar]
    passed = _percent(max(row.wrong_pass for row in with_bar))
    failed = _percent(max(row.wrong_fail for row in with_bar))
    parts = [f"Largest wrong pass / fail at any size: {passed} / {failed} %.\n\n"]
    for margin in MARGINS:
        count = max(row.trials for row in rows)
        parts.append(f"`max_drop: {margin:g}`, up to {count} evaluations a cell, in %:\n\n")
        parts.append(table(rows, margin) + "\n")
    return "".join(parts)


def write(path: Path, text: str, script: str) -> None:
    """Replace what stands between the marks of a script of this folder in a page."""
    mark = f"<!-- made by benchmarks/{script} -->"
    head, tail = path.read_text(encoding="utf-8").split(mark)
    after = tail.split(END, 1)[1]
    path.write_text(f"{head}{mark}\n\n{text}{END}{after}", encoding="utf-8")


class Planned(NamedTuple):
    """Hold the result of a plan for power .8."""

    world: str
    margin: float
    truth: str
    n: int
    power: float

    @property
    def most_off(self) -> float:
        """Return the distance from .8 that is allowed."""
        return 0.08 if self.n < FEW else 0.03


def plan(job: tuple[int, int]) -> list[Planned]:
    """Plan for equal systems and for a drop of .10 in a world, and decide so many queries."""
    place, trials = job
    world, plans = WORLDS[place], []
    for margin, (drop, truth) in itertools.product(MARGINS, TRUTHS):
        like = np.round(_draw(world, LIKE, drop, 1).d[0], 3)  # few distinct values
        if drop == 0:
            like = np.concatenate((like, -like))
        n = queries_to_exclude(like, -margin) if like.any() else None
        if n is None or n > MOST_PLANNED:
            continue
        verdicts = ours(_draw(world, n, drop, trials), margin)
        decided = verdicts.failed if drop > margin else verdicts.passed
        plans.append(Planned(world.name, margin, truth, n, float(decided.mean())))
    return plans


def planned_table(plans: Sequence[Planned]) -> str:
    """Print a plan a row."""
    lines = ["| world | max_drop | truth | queries planned | decided, % |\n"]
    lines.append("| --- | --- | --- | --- | --- |\n")
    for plan in plans:
        cells = [plan.world, f"{plan.margin:g}", plan.truth, str(plan.n), _percent(plan.power)]
        lines.append("| " + " | ".join(cells) + " |\n")
    return "".join(lines)


def check_rows(rows: Sequence[Row], bars: Bars) -> None:
    """Check the worst cell of each kind of error, and the power in one cell."""
    with_bar = [row for row in rows if row.has_bar]
    wrong = {
        "wrong passes": (lambda row: row.wrong_pass, WRONG),
        "wrong fails": (lambda row: row.wrong_fail, WRONG),
        "intervals without the truth": (lambda row: row.wrong_pass + row.wrong_fail, 2 * WRONG),
    }
    for name, (share_of, most) in wrong.items():
        # cells of many queries have fewer trials, and so a larger error
        worst = max(with_bar, key=lambda row: share_of(row) - 3 * share_error(most, row.trials))
        share = share_of(worst)
        figure = percent(share, share_error(share, worst.trials))
        bars.check(
            f"{name}: {figure} in the worst of {len(with_bar)} cells ({worst}), "
            f"at most {100 * most:g} % + 3 errors",
            share <= most + 3 * share_error(most, worst.trials),
        )
    for row in with_bar:
        if (row.world, row.n, row.margin) == ("hits, churn 0", 100, 0.02):
            figure = percent(row.fail_05, share_error(row.fail_05, row.trials))
            bars.check(
                f"drops of .05 that fail: {figure} ({row}), at least 30 %", row.fail_05 >= 0.3
            )


def check_plans(plans: Sequence[Planned], trials: int, bars: Bars) -> None:
    """Check the plan whose power is furthest from .8."""
    error = share_error(0.8, trials)
    worst = max(plans, key=lambda plan: abs(plan.power - 0.8) - plan.most_off)
    bars.check(
        f"plans for power .8: {percent(worst.power, error)} decide in the worst of {len(plans)} "
        f"({worst.world}, {worst.truth}, margin {worst.margin:g}, n {worst.n}), "
        f"80 % ± {100 * worst.most_off:g} + 2 errors",
        abs(worst.power - 0.8) <= worst.most_off + 2 * error,
    )


def gates(trials: int, sizes: Sequence[int], page_file: Path | None) -> None:
    """Print the tables, check the bars, and end the process."""
    names = tuple(RULES) if page_file else (OURS,)
    # cells of many queries take longest, so they begin
    jobs = [(place, n, trials, names) for n in sorted(sizes)[::-1] for place in range(len(WORLDS))]
    results = dict(zip(jobs, run_jobs(simulate, jobs), strict=True))
    rows = [row for job in sorted(jobs) for row in results[job]]
    plans = [*itertools.chain(*run_jobs(plan, [(place, trials) for place in range(PLANNED)]))]
    text = page(rows) + "Plans for power 0.8:\n\n" + planned_table(plans) + "\n"
    print(text)
    bars = Bars()
    check_rows(rows, bars)
    check_plans(plans, trials, bars)
    if page_file is not None:
        write(page_file, text, "gates.py")
    bars.exit()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="whether gates fire, simulated")
    add_trials(arguments, 1_000, 5_000, "evaluations of a cell")
    arguments.add_argument("--sizes", metavar="N,N...", help="numbers of queries")
    arguments.add_argument(
        "--write", metavar="PAGE", type=Path, help="put the tables between its marks"
    )
    chosen = arguments.parse_args()
    queries = [int(size) for size in chosen.sizes.split(",")] if chosen.sizes else SIZES
    gates(chosen.trials, queries, chosen.write)
