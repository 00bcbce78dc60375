"""Check that gates fire when they should, and only then: `max_drop` over simulated evaluations.

    python benchmarks/gates.py [--full] [--sizes 10,20,50] [--write docs/simulations.md]

Draws evaluations of which the truth is known (`worlds.py`): hits, reciprocal ranks, nDCG-like
scores, mixtures, small gains beside rare losses, several answers a query, clusters of equal and of
unequal size, failures; from 10 to 1,000 queries, with
margins .02 and .05. For each it prints, in %: how often a drop of exactly the margin passes and
fails (both are wrong, and in all other samples the interval covers it; a sample without any change
passes and is left out), how often equal systems pass, and how often drops of .05 and .10 fail.
Beside our rule stand Student's t, the percentile bootstrap ("pass where the lower end is above the
margin") and "a one-sided p below .05 and a drop below the margin". 500 evaluations a cell (two
minutes), 5,000 with `--full`. In every cell some are decided again by `difference_interval` and
must agree.

Then it plans queries for power .8, draws so many, and counts how often the gate decides.

Bars: wrong passes and wrong fails at most 3.5 %, one more than nominal; coverage at least 93 %; 100
queries of which 5 in 100 lose a hit fail at margin .02 in at least 30 %; plans decide in 80 %, give
or take 3, or 8 where they are of fewer than 250 queries, as hits are lost and won in whole numbers.
Simulated shares may miss a bar by two standard errors. Worlds with a star show what no rule can
exclude, and have no bar.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from gate_rules import RULES, Verdicts, ours
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
# By what the number of evaluations is divided, where each takes long
FEWER = {500: 2, 1000: 4}
END = "<!-- end -->"


class Row(NamedTuple):
    """Shares of the evaluations of one world, size and rule."""

    world: World
    n: int
    margin: float
    rule: str
    replicates: int
    wrong_pass: float
    wrong_fail: float
    right_pass: float
    fail_05: float
    fail_10: float

    def missed(self) -> list[str]:
        """The bars that it misses; other rules have none."""
        if self.rule != "ragbench" or not self.world.bar:
            return []
        cases = {
            "wrong pass": self.wrong_pass > _at_most(0.035, self.replicates),
            "wrong fail": self.wrong_fail > _at_most(0.035, self.replicates),
            "coverage": self.wrong_pass + self.wrong_fail > _at_most(0.07, self.replicates),
        }
        case = (self.world.name, self.n, self.margin)
        cases["power"] = case == ("hits, churn 0", 100, 0.02) and self.fail_05 < 0.30
        return [name for name, is_missed in cases.items() if is_missed]


def _at_most(share: float, replicates: int) -> float:
    # three standard errors: of hundreds of cells, some are two above by chance
    return share + 3 * math.sqrt(share * (1 - share) / replicates)


def rows(replicates: int, sizes: Sequence[int]) -> Iterator[Row]:
    """Simulate every cell."""
    for world in WORLDS:
        for n in sizes:
            count = replicates // FEWER.get(n, 1)
            drawn = {
                drop: _draw(world, n, drop, count)
                for drop in (0.0, *MARGINS, 0.10)
                if drop < world.largest_drop
            }
            for margin in MARGINS:
                for name, rule in RULES.items():
                    verdicts = {drop: rule(sample, margin) for drop, sample in drawn.items()}
                    if name == "ragbench":
                        _agree(drawn[margin], verdicts[margin], margin)
                    changed = drawn[margin].d.any(axis=1)
                    yield Row(
                        world, n, margin, name, count,
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
    rivals = [name for name in RULES if name != "ragbench"]
    head = ["world", *(f"n {n}" for n in sizes), "equal: pass", "-.05: fail", "-.10: fail", *rivals]
    lines = [head, ["---"] * len(head)]
    by_world: dict[str, dict[tuple[int, str], Row]] = {}
    for row in rows:
        if row.margin == margin:
            name = row.world.name if row.world.bar else f"{row.world.name} *"
            by_world.setdefault(name, {})[row.n, row.rule] = row
    for world, cases in by_world.items():
        one = cases[compared, "ragbench"]
        cells = [world, *(_wrong(cases[n, "ragbench"]) for n in sizes)]
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
    with_bar = [row for row in rows if row.rule == "ragbench" and row.world.bar]
    passed = _percent(max(row.wrong_pass for row in with_bar))
    failed = _percent(max(row.wrong_fail for row in with_bar))
    parts = [f"Largest wrong pass / fail at any size: {passed} / {failed} %.\n\n"]
    for margin in MARGINS:
        count = max(row.replicates for row in rows)
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

    def missed(self, replicates: int) -> bool:
        """Return True if the gate decides too seldom or too often."""
        slack = 2 * math.sqrt(0.16 / replicates)
        return abs(self.power - 0.8) > (0.08 if self.n < FEW else 0.03) + slack


def plans(replicates: int) -> Iterator[Planned]:
    """Plan for equal systems and for a drop of .10 and decide so many queries."""
    for world in WORLDS[:PLANNED]:
        for margin in MARGINS:
            for drop, truth in ((0.0, "equal: pass"), (0.10, "-.10: fail")):
                like = np.round(_draw(world, LIKE, drop, 1).d[0], 3)  # few distinct values
                if drop == 0:
                    like = np.concatenate((like, -like))
                n = queries_to_exclude(like, -margin) if like.any() else None
                if n is None or n > MOST_PLANNED:
                    continue
                verdicts = ours(_draw(world, n, drop, replicates), margin)
                decided = verdicts.failed if drop > margin else verdicts.passed
                yield Planned(world.name, margin, truth, n, float(decided.mean()))


def planned_table(plans: Sequence[Planned]) -> str:
    """Print a plan a row."""
    lines = ["| world | max_drop | truth | queries planned | decided, % |\n"]
    lines.append("| --- | --- | --- | --- | --- |\n")
    for plan in plans:
        cells = [plan.world, f"{plan.margin:g}", plan.truth, str(plan.n), _percent(plan.power)]
        lines.append("| " + " | ".join(cells) + " |\n")
    return "".join(lines)


def gates(replicates: int, sizes: Sequence[int], to: Path | None = None) -> int:
    """Print the tables; return how many bars were missed."""
    results, planned = list(rows(replicates, sizes)), list(plans(replicates))
    text = page(results) + "Plans for power 0.8:\n\n" + planned_table(planned) + "\n"
    print(text)
    missed = [
        f"{name}: {row.world.name}, n {row.n}, margin {row.margin:g}"
        for row in results
        for name in row.missed()
    ]
    missed += [f"plan: {plan}" for plan in planned if plan.missed(replicates)]
    for bar in missed:
        print(f"MISSED: {bar}")
    if to is not None:
        write(to, text, "gates.py")
    return len(missed)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="whether gates fire, simulated")
    arguments.add_argument("--full", action="store_true", help="5,000 evaluations a cell")
    arguments.add_argument("--sizes", metavar="N,N...", help="numbers of queries")
    arguments.add_argument("--write", metavar="PAGE", help="put the tables between its marks")
    chosen = arguments.parse_args()
    queries = [int(size) for size in chosen.sizes.split(",")] if chosen.sizes else SIZES
    n_missed = gates(
        5_000 if chosen.full else 500, queries, Path(chosen.write) if chosen.write else None
    )
    print(f"{n_missed} bars missed" if n_missed else "all bars met")
    sys.exit(1 if n_missed else 0)
