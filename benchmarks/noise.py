"""Simulated worlds with known noise: do shares, intervals and named questions tell the truth?

    python benchmarks/noise.py [--trials 500]

Each world has questions that an app gets right with a chance of their own, and a judge that errs or
not; scores are binary or graded, and the app and the judge are repeated one to five times. A second
app is asked the same questions, for the difference of both. Bars, of the mean and of the
difference: estimated shares within 10 % of the true ones on average, 93 to 97 % of the 95 %
intervals hold the truth; at most 10 % of the named questions never flip, and 100 questions x 3
repetitions x 3 judgements take less than 5 CPU seconds. A trial is a world. The shares of 500
trials have a standard error of about .03, coverage one of 1 point; a longer run takes 5,000.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from bars import Bars
from trials import add_trials, share_error

from ragbench import stats
from ragbench.experiment.noise import find_flips, noise_of
from ragbench.experiment.repeated_scores import RepeatedScores
from ragbench.records.noise import Noise
from ragbench.signature import Signature
from ragbench.types import ScoreColumn

N_QUESTIONS = 100
LEVELS = ("questions", "app", "judge")
GRADES = 4  # steps of a graded score


@dataclass(frozen=True)
class NoiseWorld:
    """Questions with known chances, and the repeats that are made of them.

    Attributes:
        is_graded: True for scores of 0, 1/4 ... 1; False for hits and misses.
        flip_share: Share of the questions whose answers vary.
        is_equal: True if these questions have one chance; False for chances from 0.1 to 0.9.
        error: Share of the verdicts of the judge that are wrong; of graded scores, 0 is no noise.
        repeats: Number of repetitions of the app.
        judgements: Number of judgements of an answer.
    """

    is_graded: bool
    flip_share: float
    is_equal: bool
    error: float
    repeats: int
    judgements: int

    def chances(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Return the chance of each of n questions to be right in one repetition."""
        varying = np.full(n, 0.5) if self.is_equal else rng.uniform(0.1, 0.9, n)
        fixed = (rng.random(n) < 0.7).astype(float)
        return np.where(rng.random(n) < self.flip_share, varying, fixed)

    def draw(self, rng: np.random.Generator, chances: np.ndarray) -> np.ndarray:
        """Return scores of shape (questions, 1, repetitions, judgements)."""
        steps = GRADES if self.is_graded else 1
        shape = (len(chances), 1, self.repeats)
        runs = rng.binomial(steps, chances[:, None, None], shape) / steps
        repeated = np.repeat(runs[..., None], self.judgements, axis=3)
        if not self.error:
            return repeated
        if self.is_graded:
            return rng.binomial(GRADES, repeated) / GRADES
        return np.where(rng.random(repeated.shape) < self.error, 1 - repeated, repeated)

    @property
    def slope(self) -> float:
        """Change of the mean score with the chance: errors of the judge flatten it."""
        return 1.0 if self.is_graded else 1 - 2 * self.error

    def mean(self, chances: np.ndarray) -> float:
        """Return the true mean score of such questions."""
        return float(chances.mean()) * self.slope + (1 - self.slope) / 2

    def variances(self, chances: np.ndarray) -> dict[str, float]:
        """Return the true part of each level in the variance of the mean of such questions."""
        steps, slope = GRADES if self.is_graded else 1, self.slope
        of_run = chances * (1 - chances) / steps
        judge = 0.0
        if self.error and self.is_graded:
            # E[v (1 - v)] / 4 of a value v with this mean and variance
            judge = float((chances - chances**2 - of_run).mean()) / GRADES
        elif self.error:
            judge = self.error * (1 - self.error)
        app = slope**2 * float(of_run.mean())
        return {
            "questions": slope**2 * float(chances.var()),
            "app": app / self.repeats,
            "judge": judge / (self.repeats * self.judgements),
        }


@dataclass
class Tally:
    """Sums over the worlds, of means or of differences.

    Attributes:
        counts: Number of intervals, of those that hold the truth, of named and wrongly named
            questions.
        true: Level -> sum of its true shares, over the worlds in which it is repeated.
        estimated: Level -> sum of its estimated shares.
        pairs: Level -> true and estimated share of each world.
    """

    counts: Counter[str] = field(default_factory=Counter)
    true: Counter[str] = field(default_factory=Counter)
    estimated: Counter[str] = field(default_factory=Counter)
    pairs: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def add_interval(self, lower: float, upper: float, truth: float) -> None:
        """Count an interval, and whether it holds the truth."""
        self.counts["intervals"] += 1
        self.counts["held"] += lower <= truth <= upper

    def add_shares(self, noise: Noise, variances: Mapping[str, float]) -> None:
        """Add the true and the estimated share of each level."""
        total = sum(variances.values())
        for level in LEVELS:
            pair = variances[level] / total, getattr(noise, level).share
            self.true[level] += pair[0]
            self.estimated[level] += pair[1]
            self.pairs[level].append(pair)

    def ratio(self, level: str) -> tuple[float, float]:
        """Return the estimated share over the true one, and the standard error of the ratio."""
        ratio = self.estimated[level] / self.true[level]
        # of a ratio of sums, by its linear approximation
        residuals = [estimated - ratio * true for true, estimated in self.pairs[level]]
        return ratio, float(np.sqrt(np.square(residuals).sum()) / self.true[level])


def random_world(rng: np.random.Generator) -> NoiseWorld:
    """Draw a world by chance."""
    return NoiseWorld(
        is_graded=bool(rng.integers(2)),
        flip_share=float(rng.choice([0.1, 0.3, 0.6])),
        is_equal=bool(rng.integers(2)),
        error=float(rng.choice([0.0, 0.05, 0.1])),
        repeats=int(rng.integers(1, 6)),
        judgements=int(rng.integers(1, 4)),
    )


def scores_of(world: NoiseWorld, table: np.ndarray) -> RepeatedScores:
    """Return the scores of an app that were drawn in a world."""
    values = table.mean(axis=(1, 2, 3))
    column = ScoreColumn("right", values, np.zeros(len(values), np.uint8), Signature("right"))
    return RepeatedScores(column, table, {"answers": 1.0, "judge": 1.0}, bool(world.error))


def try_world(world: NoiseWorld, rng: np.random.Generator, tally: Tally) -> None:
    """Draw one data set of a world, and count what its estimates tell."""
    population = world.chances(rng, 20_000)
    chances = rng.choice(population, N_QUESTIONS)
    scores = scores_of(world, world.draw(rng, chances))
    interval = stats.mean_interval(scores.column.values, range=(0, 1))
    tally.add_interval(interval.lower, interval.upper, world.mean(population))
    noise = noise_of(scores, (interval.lower, interval.upper), 0.95)
    if noise is not None and world.repeats > 1 and world.judgements > 1:
        tally.add_shares(noise, world.variances(population))
    if not world.is_graded and (world.judgements > 1 or not world.error):
        _, flips = find_flips(scores, [str(row) for row in range(N_QUESTIONS)])
        tally.counts["named"] += len(flips)
        rows = [int(flip.query_id) for flip in flips]
        tally.counts["wrongly named"] += int(np.isin(chances[rows], (0.0, 1.0)).sum())


def try_difference(world: NoiseWorld, rng: np.random.Generator, tally: Tally) -> None:
    """Draw two apps on one data set of a world, and count what estimates of their difference tell.

    The second app has its own repeats. It differs from the first one on a third of the questions.
    """
    other = replace(world, repeats=int(rng.integers(1, 6)))
    first = world.chances(rng, 20_000)
    second = np.where(rng.random(len(first)) < 1 / 3, other.chances(rng, len(first)), first)
    rows = rng.integers(0, len(first), N_QUESTIONS)
    one = scores_of(world, world.draw(rng, first[rows]))
    two = scores_of(other, other.draw(rng, second[rows]))
    gains = two.column.values - one.column.values
    interval = stats.difference_interval(gains, baseline=one.column.values)
    truth = other.mean(second) - world.mean(first)
    tally.add_interval(interval.lower, interval.upper, truth)
    noise = noise_of(two, (interval.lower, interval.upper), 0.95, against=one)
    if noise is None or min(world.repeats, other.repeats, world.judgements) == 1:
        return
    variances = {"questions": world.slope**2 * float((second - first).var())}
    for level in ("app", "judge"):
        variances[level] = world.variances(first)[level] + other.variances(second)[level]
    tally.add_shares(noise, variances)


def measure_seconds() -> float:
    """Return the CPU seconds of 100 questions x 3 repetitions x 3 judgements."""
    rng = np.random.default_rng(1)
    world = NoiseWorld(False, 0.3, False, 0.1, 3, 3)
    start = time.process_time()
    try_world(world, rng, Tally())
    return time.process_time() - start


def main(trials: int) -> None:
    """Check the bars over some worlds, and end the process."""
    rng, bars = np.random.default_rng(52), Bars()
    means, differences = Tally(), Tally()
    for _ in range(trials):
        world = random_world(rng)
        try_world(world, rng, means)
        try_difference(world, rng, differences)

    def check(text: str, value: float, error: float, low: float, high: float) -> None:
        sentence = f"{text}: {value:.3f} ± {error:.3f}, {low:g} to {high:g}"
        bars.check(sentence, low <= value <= high)

    def check_share(text: str, count: int, n: int, low: float, high: float) -> None:
        check(text, count / n, share_error(count / n, n), low, high)

    print(f"{trials} worlds of {N_QUESTIONS} questions")
    for name, tally in (("mean", means), ("difference", differences)):
        for level in LEVELS:
            check(f"{name}: share of {level}: estimated / true", *tally.ratio(level), 0.9, 1.1)
        text = f"95 % intervals that hold the {name}"
        check_share(text, tally.counts["held"], tally.counts["intervals"], 0.93, 0.97)
    counts = means.counts
    text = "named questions that never flip"
    check_share(text, counts["wrongly named"], max(counts["named"], 1), 0, 0.1)
    seconds = measure_seconds()
    bars.check(f"100 x 3 x 3: {seconds:.2f} CPU s, less than 5", seconds < 5)
    bars.exit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="shares of the noise, simulated")
    add_trials(parser, 500, 5_000, "worlds")
    main(parser.parse_args().trials)
