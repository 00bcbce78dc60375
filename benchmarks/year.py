"""Simulate the rules of gates over a year of commits with known effects.

    python benchmarks/year.py [--n 100] [--trials 12] [--write docs/gate-rules.md]

A project has a pool of 20,000 questions, of which its gate knows n. Sixty commits come one after
the other, in a random order that is the same for every rule: 20 change nothing, 20 shuffle the
ranks of a quarter of the questions (the mean over the pool stays), 12 lose 0.008 each, 4 gain
0.025, 2 lose 0.028, one loses 0.05 and one 0.11. A rule blocks a commit, or merges it.
Worlds: one gold document a question, or four; the hits of one question in twenty move by chance at
each evaluation (`noise`), as with queries that a model writes; twice as many commits drift
(`drift`), or shuffle (`shuffles`). In the worlds `flips`, 2, 5, 15 or 30 % of the questions become
right or wrong by chance at each evaluation; in `coin tosses`, a tenth of them is a coin toss. With
stored replies (`stored`), a question flips only where a commit changed its ranking, or in another
look, which asks for further replies.

The default passes a commit that changes nothing since its base. If the mean is lower and that is
not sure, it evaluates the changed questions again on both sides, up to three times, until the mean
of all looks is no longer lower, or surely so. It asks no more questions again than there are. The
mean of all looks decides. Without flips and noise all looks are the same.

A commit is compared with a base that is fixed, and made anew after each commit that gains, or
with main as it is before the commit. Drift that is too small to see in one commit cannot be seen
against main at all.

Columns, a year, in the mean over the trials: `false alarms`, commits blocked while the true mean of
the pool is not 0.005 or more below that of the baseline; `losses merged`, of the four commits that
lose more than 0.02; `harmless blocked`, commits blocked that lose nothing themselves (against a
fixed baseline, main may already be below it); `undecided`, commits of which a rule says that it
cannot tell; `quality`, the mean of the pool after the year less that before.

Bars, in both modes, over the mean of the worlds: the default has at most one false alarm a year,
merges at most one loss of four, and ends at the quality of `mean fell > 0.02` or above; in the mean
of the worlds with flips at most .005 below. They are meant for n = 100 and 12 years or more: 70
questions are too few for them, 300 more than enough, and a single year varies too much. The
standard errors stand beside the figures; a longer run takes 48 years. The rules without a bar are
simulated with `--write` alone.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from bars import Bars
from gates import write
from numpy.typing import NDArray
from trials import add_trials, mean_error, run_jobs

from ragbench.gates.drop import NotWorse
from ragbench.stats import DifferenceInterval, difference_interval, randomization_p_values
from ragbench.types import FloatArray

Ranks = NDArray[np.int64]
Verdict = Literal["fail", "undecided", "pass"]
Mode = Literal["fixed", "main"]
# Differences of the known questions, and scores of their baseline -> verdict
Rule = Callable[[FloatArray, FloatArray], Verdict]
# Number of a look -> differences of another evaluation of both sides
Look = Callable[[int], FloatArray]
MODES: dict[Mode, str] = {
    "fixed": "Against a fixed base, chosen anew after each gain",
    "main": "Against main as it is before the commit",
}
DEFAULT, USUAL = "default", "mean fell > 0.02"
POOL, DEPTH = 20_000, 10
MARGIN = 0.02
# A commit whose effect on the pool is above it loses nothing that anybody would look for
HARMLESS = -0.005
FLIP_LOSS = 0.005
FEWEST_YEARS = 12
# Evaluations besides the first one
MOST_LOOKS = 3
GAIN = np.array([1 / np.log2(rank + 1) for rank in range(1, DEPTH + 1)] + [0.0])
FIRST_RANKS = np.array([0.45, 0.14, 0.08, 0.05, 0.04, 0.03, 0.03, 0.02, 0.02, 0.02, 0.12])
EFFECTS = (0.0,) * 20 + (-0.008,) * 12 + (0.025,) * 4 + (-0.028, -0.028, -0.05, -0.11)


class Project(NamedTuple):
    """A project, and how its scores move.

    Attributes:
        name: Row of the table.
        n_gold: Gold documents of a question.
        n_shuffles: Commits that shuffle.
        shuffled: Share of the questions that such a commit moves.
        steps: Ranks by which it moves a document, up or down.
        noise: Share of the questions whose hits move at each evaluation.
        n_drift: Commits that lose 0.008 besides the twelve.
        flips: Share of the questions that turn right or wrong by chance at each evaluation.
        tosses: Share of the questions that are coin tosses.
        stored: True if a question flips only where its ranking changed.
    """

    name: str
    n_gold: int = 1
    n_shuffles: int = 20
    shuffled: float = 0.25
    steps: int = 1
    noise: float = 0.0
    n_drift: int = 0
    flips: float = 0.0
    tosses: float = 0.0
    stored: bool = False

    @property
    def has_flips(self) -> bool:
        """True if answers flip by chance."""
        return bool(self.flips or self.tosses)


WORLDS = (
    Project("one gold document"),
    Project("four gold documents", n_gold=4),
    Project("noise", noise=0.05),
    Project("drift", n_drift=12),
    Project("shuffles", n_shuffles=40),
    Project("flips, 2 %", flips=0.02),
    Project("flips, 5 %", flips=0.05),
    Project("flips, 15 %", flips=0.15),
    Project("flips, 30 %", flips=0.3),
    Project("coin tosses", tosses=0.1),
    Project("flips, 5 %, stored", flips=0.05, stored=True),
    Project("flips, 15 %, stored", flips=0.15, stored=True),
    Project("flips, 30 %, stored", flips=0.3, stored=True),
    Project("coin tosses, stored", tosses=0.1, stored=True),
)
STEADY = tuple(world for world in WORLDS if not world.has_flips)
FLIPPING = tuple(world for world in WORLDS if world.has_flips)


def scores_of(ranks: Ranks) -> FloatArray:
    """Return nDCG@10 of questions from the ranks (questions, gold), 0 is first, 10 not found."""
    return GAIN[ranks].sum(axis=1) / GAIN[: ranks.shape[1]].sum()


def first_ranks(rng: np.random.Generator, n_gold: int) -> Ranks:
    """Draw the ranks of a pool; two gold documents of a question never share a rank above 10."""
    ranks = np.sort(rng.choice(DEPTH + 1, size=(POOL, n_gold), p=FIRST_RANKS), axis=1)
    for i in range(1, n_gold):
        ranks[:, i] = np.minimum(np.maximum(ranks[:, i], ranks[:, i - 1] + 1), DEPTH)
    return ranks


def move(rng: np.random.Generator, ranks: Ranks, rows: NDArray[np.int64], steps: Ranks) -> Ranks:
    """Return ranks where one document of each of these rows is moved by so many places."""
    moved = ranks.copy()
    document = rng.integers(0, ranks.shape[1], len(rows))
    moved[rows, document] = np.clip(moved[rows, document] + steps, 0, DEPTH)
    return moved


def shuffle(rng: np.random.Generator, ranks: Ranks, share: float, steps: float) -> Ranks:
    """Return ranks where a share of the questions exchange theirs with questions of like ranks.

    The ranks of the pool stay as a whole, so each loss has a gain of the same size somewhere. Ranks
    that differ by up to `steps` are often exchanged.
    """
    rows = rng.choice(len(ranks), round(share * len(ranks)), replace=False)
    score = ranks[rows].sum(axis=1) + rng.random(len(rows))  # equal ranks in random order
    original, after = np.argsort(score), np.argsort(score + rng.normal(0, steps, len(rows)))
    result = ranks.copy()
    result[rows[after]] = ranks[rows[original]]
    return result


def shift(rng: np.random.Generator, ranks: Ranks, effect: float) -> Ranks:
    """Return ranks whose mean score is changed by `effect`, by moves of one document a question."""
    order = rng.permutation(len(ranks))
    far = rng.integers(1, DEPTH + 1, len(ranks))
    moved = move(rng, ranks, order, far if effect < 0 else -far)
    change = (scores_of(moved) - scores_of(ranks))[order]
    # as many questions, in random order, as make up the effect
    n = int(np.searchsorted(np.abs(np.cumsum(change)), abs(effect) * len(ranks)))
    result = ranks.copy()
    result[order[:n]] = moved[order[:n]]
    return result


def commit(rng: np.random.Generator, ranks: Ranks, effect: float | None, world: Project) -> Ranks:
    """Return the ranks after a commit with this effect on the pool; None shuffles."""
    if effect is not None:
        return shift(rng, ranks, effect) if effect else ranks
    return shuffle(rng, ranks, world.shuffled, world.steps)


def mean_fell(d: FloatArray, baseline: FloatArray) -> Verdict:
    """Fail where the mean is lower by more than the margin."""
    return "fail" if d.mean() < -MARGIN else "pass"


def surely_worse(d: FloatArray, baseline: FloatArray) -> Verdict:
    """Fail where the interval is below 0."""
    return _by_interval(d, baseline, 0.0)


def max_drop(margin: float) -> Rule:
    """Return the rule of `max_drop` with `decide: interval`."""
    return lambda d, baseline: _by_interval(d, baseline, margin)


def _by_interval(d: FloatArray, baseline: FloatArray, margin: float) -> Verdict:
    if not d.any():
        return "pass"
    interval = interval_of(d, baseline)
    if interval.upper < -margin:
        return "fail"
    return "pass" if interval.lower > -margin else "undecided"


def statgate(d: FloatArray, baseline: FloatArray) -> Verdict:
    """Decide as statgate 0.1.1 with its defaults: BCa, margin .02; its undecided exits with 2."""
    if not d.any():
        return "pass"
    interval = difference_interval(d, method="bca", resamples=2_000)
    return "pass" if interval.lower > -MARGIN else "fail"


def regressgate(d: FloatArray, baseline: FloatArray) -> Verdict:
    """Decide as regressgate 0.1.0 with its defaults: lower, and random signs are so in 2.5 %."""
    if d.mean() >= 0:
        return "pass"
    both_sides = float(randomization_p_values(d[:, np.newaxis], resamples=2_000)[0])
    return "fail" if both_sides < 0.05 else "undecided"


def default(d: FloatArray, baseline: FloatArray) -> Verdict:
    """Decide as a gate without a limit."""
    if not d.any():
        return "pass"
    return NotWorse(measure="score").verdict_of(interval_of(d, baseline), 1.0)[0]


def look_again(d: FloatArray, baseline: FloatArray, look: Look) -> Verdict:
    """Decide as `ragbench gate` does: the mean of all looks at the changed questions decides."""
    has_changed = d != 0
    total, n_looks, n_asked = d, 1, np.count_nonzero(has_changed)
    while n_looks <= MOST_LOOKS and is_unsure_loss(total / n_looks, baseline):
        if n_looks * n_asked > len(d):
            break
        total = total + np.where(has_changed, look(n_looks), 0.0)
        n_looks += 1
    return default(total / n_looks, baseline)


def is_unsure_loss(d: FloatArray, baseline: FloatArray) -> bool:
    """Return True if the mean is lower, and its interval does not exclude 0."""
    return d.mean() < 0 and surely_worse(d, baseline) != "fail"


def interval_of(d: FloatArray, baseline: FloatArray) -> DifferenceInterval:
    """Return the interval by which gates decide: it ends at 0 where the test shows nothing."""
    return _interval(d.tobytes(), baseline.tobytes())


@lru_cache(maxsize=64)  # a gate that looks again asks for the same interval twice or three times
def _interval(d_bytes: bytes, baseline_bytes: bytes) -> DifferenceInterval:
    d, baseline = np.frombuffer(d_bytes), np.frombuffer(baseline_bytes)
    interval = difference_interval(d, baseline=baseline)
    if interval.lower <= 0 <= interval.upper:
        return interval
    if randomization_p_values(d[:, np.newaxis], resamples=2_000)[0] <= 0.05:
        return interval
    return replace(interval, lower=min(interval.lower, 0.0), upper=max(interval.upper, 0.0))


RULES: dict[str, Rule] = {
    DEFAULT: default,
    USUAL: mean_fell,
    "surely worse": surely_worse,
    "`max_drop: 0.02`": max_drop(0.02),
    "`max_drop: 0.05`": max_drop(0.05),
    "statgate": statgate,
    "regressgate": regressgate,
}


class Year(NamedTuple):
    """Figures of a year, as the columns of the table.

    Attributes:
        false_alarms: Blocked commits at whose state the pool is not below the baseline.
        merged: Merged commits that lose more than the margin.
        harmless: Blocked commits that lose nothing.
        undecided: Commits that the rule cannot tell.
        quality: Mean of the pool after the year less that before.
    """

    false_alarms: float
    merged: float
    harmless: float
    undecided: float
    quality: float


class App:
    """Evaluations of the known questions, of which some flip by chance.

    Args:
        world: The world.
        known: Rows of the known questions in the pool.
        seed: Seed of the chance.
    """

    def __init__(self, world: Project, known: NDArray[np.int64], seed: int) -> None:
        self._world, self._known, self._seed = world, known, seed
        rng = np.random.default_rng([seed, 1])
        self._share = np.where(rng.random(len(known)) < world.tosses, 0.5, world.flips)
        # stored replies flip by look, question and ranks alone
        self._chances = rng.random((MOST_LOOKS + 1, len(known), DEPTH + 1))

    def evaluate(
        self, ranks: Ranks, noise_seed: int, look: int, evaluation: tuple[int, int]
    ) -> FloatArray:
        """Return the scores of the known questions; look and evaluation are seeds of the flips."""
        if self._world.noise:
            ranks = shuffle(np.random.default_rng(noise_seed), ranks, self._world.noise, 2)
        rows = ranks[self._known]
        scores = scores_of(rows)
        if not self._world.has_flips:
            return scores
        if self._world.stored:
            by_rank = self._chances[look][np.arange(len(rows))[:, np.newaxis], rows]
            chances = by_rank.sum(axis=1) % 1
        else:
            rng = np.random.default_rng([self._seed, look, *evaluation])
            chances = rng.random(len(rows))
        return np.where(chances < self._share, np.where(scores > 0, 0.0, 1.0), scores)

    def differences(
        self, base: tuple[Ranks, int], state: tuple[Ranks, int], commit: int, look: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the differences that a look shows, and the scores of the base.

        A side is its ranks and the seed of their noise.
        """
        old = self.evaluate(base[0], base[1] + look, look, (commit, 0))
        return self.evaluate(state[0], state[1] + look, look, (commit, 1)) - old, old


def year(rule: str, world: Project, n: int, mode: Mode, seed: int) -> Year:
    """Run a year of commits through a rule."""
    rng = np.random.default_rng(seed)
    effects: list[float | None] = [*EFFECTS, *(None,) * world.n_shuffles]
    effects += [-0.008] * world.n_drift
    pool = first_ranks(rng, world.n_gold)
    known = rng.choice(POOL, n, replace=False)
    order = rng.permutation(len(effects))
    # the noise of an evaluation depends on the commit alone, so that rules see the same
    seeds = rng.integers(0, 2**32, (len(effects) + 1, 2))
    app = App(world, known, seed)
    start = float(scores_of(pool).mean())
    base, baseline, base_seed = pool, start, int(seeds[-1, 1])
    alarms = merged = harmless = undecided = 0
    for i in order:
        effect, noise_seed = effects[i], int(seeds[i, 1])
        state = commit(np.random.default_rng(seeds[i, 0]), pool, effect, world)
        truth = float(scores_of(state).mean())
        own = truth - float(scores_of(pool).mean())
        # both sides run anew in each gate; rules see the same chance
        sides = (base, base_seed), (state, noise_seed), int(i)
        d, old = app.differences(*sides, 0)
        if rule != DEFAULT:
            verdict = RULES[rule](d, old)
        elif state is base:
            verdict = "pass"  # nothing that the system uses changed
        else:
            verdict = look_again(d, old, lambda look, sides=sides: app.differences(*sides, look)[0])
        undecided += verdict == "undecided"
        if verdict == "fail":
            alarms += truth - baseline > HARMLESS
            harmless += own > HARMLESS
            continue
        merged += own < -MARGIN
        pool = state
        if mode == "main" or (effect or 0) > 0:
            base, baseline, base_seed = state, truth, noise_seed
    return Year(alarms, merged, harmless, undecided, float(scores_of(pool).mean()) - start)


def mean_year(years: Sequence[Year]) -> Year:
    """Return the mean of some years."""
    return Year(*np.mean(years, axis=0).tolist())


HEAD = "false alarms | losses merged | harmless blocked | undecided | quality |"


def table(first: str, rows: Mapping[str, Year]) -> str:
    """Print a year a row."""
    lines = [f"| {first} | {HEAD}\n", "|---" * 6 + "|\n"]
    for name, row in rows.items():
        counts = " | ".join(f"{count:.1f}" for count in row[:-1])
        lines.append(f"| {name} | {counts} | {row.quality:+.3f} |\n")
    return "".join(lines) + "\n"


class Simulation:
    """Simulated years of each rule, world and mode.

    Args:
        n: Questions that the gate knows.
        trials: Years of each.
        rules: Rules of the worlds without flips; the others have those with a bar.
    """

    def __init__(self, n: int, trials: int, rules: Sequence[str]) -> None:
        self.n, self.rules = n, rules
        pairs = [(rule, world) for rule in rules for world in STEADY]
        pairs += [(rule, world) for rule in (DEFAULT, USUAL) for world in FLIPPING]
        jobs = [(rule, world, n, mode, trials) for mode in MODES for rule, world in pairs]
        self._years = {
            (rule, world, mode): years
            for (rule, world, _, mode, _), years in zip(
                jobs, run_jobs(run_years, jobs), strict=True
            )
        }

    def by_world(self, rule: str, mode: Mode) -> dict[str, Year]:
        """Return world -> mean year of a rule."""
        return {
            world.name: mean_year(years)
            for (name, world, of_mode), years in self._years.items()
            if (name, of_mode) == (rule, mode)
        }

    def over_trials(self, rule: str, mode: Mode, worlds: Sequence[Project]) -> list[Year]:
        """Return the year of each trial, in the mean over some worlds."""
        of_worlds = [self._years[rule, world, mode] for world in worlds]
        return [mean_year(years) for years in zip(*of_worlds, strict=True)]

    def tables(self, mode: Mode) -> str:
        """Return a table with a rule a row, and one with a world a row."""
        rows = {rule: mean_year(self.over_trials(rule, mode, STEADY)) for rule in self.rules}
        title = f"{MODES[mode]}, {self.n} questions, mean of the worlds without flips"
        text = f"{title}:\n\n{table('rule', rows)}The default in each world:\n\n"
        return text + table("world", self.by_world(DEFAULT, mode))

    def check(self, mode: Mode, bars: Bars) -> None:
        """Check the bars of the default."""
        years = self.over_trials(DEFAULT, mode, WORLDS)
        for name, column in (
            ("false alarms a year", [year.false_alarms for year in years]),
            ("losses merged", [year.merged for year in years]),
        ):
            mean = float(np.mean(column))
            figure = f"{mean:.2f} ± {mean_error(column):.2f}"
            bars.check(f"{mode}: {figure} {name}, at most 1", mean <= 1)
        for name, worlds, slack in (("", WORLDS, 0.0), (" with flips", FLIPPING, FLIP_LOSS)):
            ours, usual = (
                np.array([year.quality for year in self.over_trials(rule, mode, worlds)])
                for rule in (DEFAULT, USUAL)
            )
            gain = float(np.mean(ours - usual))
            bars.check(
                f"{mode}: quality{name} {ours.mean():+.4f}, {gain:+.4f} ± "
                f"{mean_error(ours - usual):.4f} beside `{USUAL}`, at least {-slack:+g}",
                gain >= -slack,
            )


def run_years(job: tuple[str, Project, int, Mode, int]) -> list[Year]:
    """Return so many years of a rule."""
    rule, world, n, mode, trials = job
    return [year(rule, world, n, mode, seed) for seed in range(trials)]


def main(n: int, trials: int, page_file: Path | None) -> None:
    """Print the tables, check the bars, and end the process."""
    simulation = Simulation(n, trials, [*RULES] if page_file else [DEFAULT, USUAL])
    text = "".join(simulation.tables(mode) for mode in MODES)
    print(text)
    if page_file is not None:
        write(page_file, text, "year.py")
    bars = Bars()
    if trials < FEWEST_YEARS:
        print(f"no verdict: the bars count from {FEWEST_YEARS} years")
    else:
        for mode in MODES:
            simulation.check(mode, bars)
    bars.exit()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="a year of commits through gates, simulated")
    arguments.add_argument("--n", type=int, default=100, help="questions that the gate knows")
    add_trials(arguments, FEWEST_YEARS, 48, "years of each rule, world and mode")
    arguments.add_argument(
        "--write", metavar="PAGE", type=Path, help="put the tables between its marks"
    )
    chosen = arguments.parse_args()
    main(chosen.n, chosen.trials, chosen.write)
