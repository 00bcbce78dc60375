"""Check that `better` and `worse` are true, are printed where possible, and keep their promises.

    python benchmarks/verdicts.py [--trials 1000] [--data ../shared/data]
        [--write docs/simulations.md]

1. Wrong verdicts: two systems with equal means in the worlds of `worlds.py`, and in worlds near 0
   and near 1 where any query may lose all that its baseline has, beside small gains. In how many
   samples, in %, is the interval of the difference above 0, and in how many below?
2. Decisions on real scores (with --data): so many questions are drawn that Student's t has power
   0.9 at the observed difference. How often is it shown, over the draws that unseen losses as large
   as the interval allows for would explain with a chance under 1 in 1,000?
3. Promises (with --data): so many questions are drawn that `detectable_difference` is the observed
   one. How often is it shown? Beside it stands the promise of Student's t for as many questions.

Bars: wrong verdicts at most 3.5 %, and three standard errors; decisions at least 80 %; promises 75
to 85 %, and two standard errors. 1,000 trials are 1,000 samples a cell, with a standard error of .6
points of 3.5 %, and 200 draws a pair. A longer run takes 5,000.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# set before NumPy loads
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from bars import Bars
from gate_rules import show_differences
from gates import write
from trials import add_trials, percent, run_jobs, share_error
from worlds import BASELINES, EXPECTED_LOSSES, SEED, WORLDS, World, small_gains_beside_losses

import ragbench as rb
from ragbench.stats import (
    detectable_difference,
    difference_interval,
    minimum_detectable_difference,
    randomization_p_values,
)
from ragbench.stats.power import smallest
from ragbench.types import FloatArray

SIZES = (20, 50, 100, 300)
WRONG, DECIDED, PROMISED = 0.035, 0.80, (0.75, 0.85)
LEVEL = 0.05
# Standard errors from 0 at which Student's t has power 0.9, for some 100 questions
POWER_09 = 3.26
UNEXPLAINED = 1e-3
# questions of a draw: pairs that need fewer or more are left out
MOST, FEWEST = 700, 40
FLIPS = 1_000
MEASURES = ("nDCG@10", "P@20", "R@100")
METRICS = ("bleu", "rouge2", "token_f1")


class Wrong(NamedTuple):
    """Shares of samples of equal systems that are called better, and worse."""

    world: str
    n: int
    better: float
    worse: float


def wrong_verdicts(samples: int) -> list[Wrong]:
    """Return the wrong verdicts of each world and size; of worlds near the ends, the worst case."""
    places = [place for place, world in enumerate(WORLDS) if world.bar]
    usual = [(place, n, samples) for place in places for n in SIZES]
    near_ends = itertools.product(BASELINES, (False, True), SIZES, [samples])
    return run_jobs(wrong_in_world, usual) + run_jobs(wrong_near_ends, [*near_ends])


def wrong_in_world(job: tuple[int, int, int]) -> Wrong:
    """Return the wrong verdicts in a world."""
    place, n, samples = job
    return _wrong([WORLDS[place]], WORLDS[place].name, n, samples)


def wrong_near_ends(job: tuple[str, bool, int, int]) -> Wrong:
    """Return the most wrong verdicts over the expected numbers of lost questions."""
    baseline, best, n, samples = job
    cases = (small_gains_beside_losses(baseline, count, n, best=best) for count in EXPECTED_LOSSES)
    name = f"{baseline}, {'the best are' if best else 'any is'} lost"
    return _wrong([world for world in cases if world is not None], name, n, samples)


def _wrong(worlds: Sequence[World], name: str, n: int, samples: int) -> Wrong:
    shares = [(0.0, 0.0)]
    for world in worlds:
        # a seed per cell: one cell can be run again by itself
        rng = np.random.default_rng([SEED, n, *world.name.encode()])
        better, worse = show_differences(world.draw(rng, (samples, n), 0.0))
        shares.append((float(better.mean()), float(worse.mean())))
    # the worst case of a family of worlds stands for it
    better, worse = np.max(shares, axis=0).tolist()
    return Wrong(name, n, better, worse)


class PairScores(NamedTuple):
    """Hold the scores of two systems on the same questions; the second system is better."""

    measure: str
    pair: str
    baseline: FloatArray
    system: FloatArray

    @property
    def t(self) -> float:
        """Student's t of the differences."""
        d = self.system - self.baseline
        return float(d.mean() / d.std() * math.sqrt(len(d))) if d.any() else 0.0


def real_scores(data: Path) -> Iterator[PairScores]:
    """Yield pairs of runs of three collections, and of answers, with a difference worth a plan."""
    folders = {
        "cranfield": [("porter", "english"), ("nostem", "minilm")],
        "scifact": [("nostem", "english")],
    }
    for name, pairs in folders.items():
        lines = (data / name / "qrels/test.tsv").read_text(encoding="utf-8").splitlines()[1:]
        qrels: dict[str, dict[str, int]] = {}
        for line in lines:
            query, document, grade = line.split("\t")
            qrels.setdefault(query, {})[document] = int(grade)
        for pair in pairs:
            files = [next((data / name / "runs").glob(f"*{part}.txt.gz")) for part in pair]
            runs = [rb.evaluate_run(_run(file), qrels, list(MEASURES)) for file in files]
            for measure in MEASURES:
                columns = [run.per_query[measure] for run in runs]
                yield from _ordered(measure, f"{name}: {' against '.join(pair)}", columns)
    systems = {}
    for file in sorted((data / "aragog-rag-runs").glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines_of_file:
            rows = [json.loads(line) for line in lines_of_file]
        texts = [row["answer"] for row in rows], [row["reference"] for row in rows]
        systems[file.name.split(".")[0]] = rb.evaluate_texts(*texts, list(METRICS)).per_query
    names = [*systems]
    # each system against the one three places on: every system twice, no pair twice
    for one, other in zip(names, [*names[3:], *names[:3]], strict=True):
        for metric in METRICS:
            columns = [systems[one][metric], systems[other][metric]]
            yield from _ordered(metric, f"ARAGOG: {one} against {other}", columns)


def _run(file: Path) -> dict[str, dict[str, float]]:
    """Return query -> document -> score of a run file."""
    run: dict[str, dict[str, float]] = {}
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            query, _, document, _, score, _ = line.split()
            run.setdefault(query, {})[document] = float(score)
    return run


def _ordered(
    measure: str, pair: str, columns: Sequence[Mapping[str, float]]
) -> Iterator[PairScores]:
    """Yield the scores with the better system last, if its t is 1.8 or more."""
    first, second = (np.array([column[query] for query in columns[0]]) for column in columns)
    scores = PairScores(measure, pair, *sorted((first, second), key=np.mean))
    if scores.t >= 1.8:
        yield scores


class Shown(NamedTuple):
    """Hold the share of draws of real questions that show a difference.

    Attributes:
        scores: Scores that the draws are of.
        n: Questions of a draw.
        draws: Number of draws that count.
        share: Share of them that shows the difference.
        t_share: Share of all draws whose p-value alone is small.
        t_promise: Detectable difference of n questions by Student's t.
    """

    scores: PairScores
    n: int
    draws: int
    share: float
    t_share: float
    t_promise: float


def _draw(scores: PairScores, n: int, draws: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for each draw: shown (1 or 0), small p (1 or 0), chance of unseen losses."""
    rng = np.random.default_rng([SEED, n, *f"{scores.measure} {scores.pair}".encode()])
    differences = np.zeros((3, draws))
    for row in range(draws):
        questions = rng.integers(0, len(scores.system), n)
        baseline = scores.baseline[questions]
        d = scores.system[questions] - baseline
        interval = difference_interval(d, baseline=baseline)
        p = float(randomization_p_values(d[:, np.newaxis], resamples=FLIPS, seed=row)[0])
        # (1 - share)^n: chance that n questions hide losses which would cancel the mean
        share = max(interval.mean, 0.0) / (max(interval.mean, 0.0) + interval.largest[0])
        differences[:, row] = interval.lower > 0 and p <= LEVEL, p <= LEVEL, (1 - share) ** n
    return differences[0], differences[1], differences[2]


def decisions(pairs: Sequence[PairScores], draws: int) -> Iterator[Shown]:
    """Yield the share of draws that show a pair's difference where Student's t has power 0.9."""
    for scores in pairs:
        n = round((POWER_09 / scores.t) ** 2 * len(scores.system))
        if not FEWEST <= n <= MOST:
            continue
        is_shown, is_small, chance = _draw(scores, n, draws)
        clear = chance < UNEXPLAINED
        # a share of fewer draws would be noise
        if clear.sum() >= draws / 10:
            share = float(is_shown[clear].mean())
            yield Shown(scores, n, int(clear.sum()), share, float(is_small.mean()), math.nan)


def promises(pairs: Sequence[PairScores], draws: int) -> Iterator[Shown]:
    """Yield the share of draws that show a pair's difference with the promised questions."""
    for scores in pairs:
        d = scores.system - scores.baseline

        def keeps(n: int, d: FloatArray = d, baseline: FloatArray = scores.baseline) -> bool:
            promised = detectable_difference(d, baseline=baseline, n=n, level=LEVEL)
            return promised <= float(d.mean())

        # 2.8 standard errors: power .8 by the normal approximation, where the search begins
        n = smallest(keeps, guess=max(5, round((2.8 / scores.t) ** 2 * len(d))))
        if not FEWEST <= n <= MOST:
            continue
        is_shown, is_small, _ = _draw(scores, n, draws)
        promise = minimum_detectable_difference(float(d.std(ddof=1)), n)
        yield Shown(scores, n, draws, float(is_shown.mean()), float(is_small.mean()), promise)


def by_measure(rows: Sequence[Shown]) -> dict[str, list[Shown]]:
    """Return the rows of each measure."""
    grouped: dict[str, list[Shown]] = {}
    for row in rows:
        grouped.setdefault(row.scores.measure, []).append(row)
    return grouped


def mean_share(rows: Sequence[Shown]) -> float:
    """Return the share over all draws of some pairs that count."""
    return sum(row.share * row.draws for row in rows) / sum(row.draws for row in rows)


def wrong_table(rows: Sequence[Wrong]) -> str:
    """Return a world a row, with better / worse for each size."""
    lines = ["| world | " + " | ".join(f"n {n}" for n in SIZES) + " |\n"]
    lines.append("| --- |" + " --- |" * len(SIZES) + "\n")
    cells: dict[str, list[str]] = {}
    for row in rows:
        cells.setdefault(row.world, []).append(f"{100 * row.better:.1f} / {100 * row.worse:.1f}")
    lines += [f"| {name} | " + " | ".join(of_world) + " |\n" for name, of_world in cells.items()]
    return "".join(lines)


def real_table(decided: Sequence[Shown], promises: Sequence[Shown]) -> str:
    """Return a measure a row: decisions, promises, and those of Student's t."""
    head = ("score", "pairs", "shown, of clear draws", "promise kept", "small p", "t promises")
    lines = ["| " + " | ".join(head) + " |\n", "| --- |" + " --- |" * (len(head) - 1) + "\n"]
    of_decided, of_kept = by_measure(decided), by_measure(promises)
    for measure in dict.fromkeys([*of_decided, *of_kept]):
        rows = of_kept.get(measure, [])
        cells = [measure, str(len(rows))]
        cells.append(_percent(mean_share(of_decided[measure])) if measure in of_decided else "")
        cells.append(_percent(mean_share(rows)) if rows else "")
        cells.append(_percent(float(np.mean([row.t_share for row in rows]))) if rows else "")
        ratios = [
            row.t_promise / float((r.system - r.baseline).mean())
            for row in rows
            for r in (row.scores,)
        ]
        cells.append(f"{float(np.mean(ratios)):.2f} of it" if rows else "")
        lines.append("| " + " | ".join(cells) + " |\n")
    return "".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def check_wrong(rows: Sequence[Wrong], samples: int, bars: Bars) -> None:
    """Check the most wrong verdicts of all cells."""
    worst = max(rows, key=lambda row: max(row.better, row.worse))
    share = max(worst.better, worst.worse)
    bars.check(
        f"wrong verdicts: {percent(share, share_error(share, samples))} in the worst of "
        f"{2 * len(rows)} cells ({worst.world}, n {worst.n}), at most {100 * WRONG:g} % + 3 errors",
        share <= WRONG + 3 * share_error(WRONG, samples),
    )


def check_real(decided: Sequence[Shown], promised: Sequence[Shown], bars: Bars) -> None:
    """Check the decisions and the promises of each measure."""
    for measure, rows in by_measure(decided).items():
        share = mean_share(rows)
        error = share_error(share, sum(row.draws for row in rows))
        sentence = f"decisions on {measure}: {percent(share, error)} of clear draws, "
        bars.check(f"{sentence}at least {100 * DECIDED:g} %", share >= DECIDED)
    for measure, rows in by_measure(promised).items():
        share, error = mean_share(rows), share_error(0.8, sum(row.draws for row in rows))
        least, most = PROMISED
        bars.check(
            f"promises of {measure}: kept in {percent(share, error)} of draws, "
            f"{100 * least:g} to {100 * most:g} % ± 2 errors",
            least - 2 * error <= share <= most + 2 * error,
        )


def main() -> None:
    """Print the tables, check the bars, and end the process."""
    parser = argparse.ArgumentParser(description="verdicts: true, said, and as promised")
    add_trials(parser, 1_000, 5_000, "samples of a cell, and five times the draws of a pair")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables in a page")
    options = parser.parse_args()
    samples, draws = options.trials, max(options.trials // 5, 2)
    wrong = wrong_verdicts(samples)
    decided: list[Shown] = []
    promised_rows: list[Shown] = []
    if options.data.is_dir():
        pairs = list(real_scores(options.data))
        decided, promised_rows = list(decisions(pairs, draws)), list(promises(pairs, draws))
    else:
        print(f"no real collections in {options.data}: parts 2 and 3 are left out")
    text = f"Equal systems called better / worse, in % of {samples} samples:\n\n"
    text += wrong_table(wrong) + "\n"
    if promised_rows:
        text += f"Real scores, {draws} draws a pair:\n\n{real_table(decided, promised_rows)}\n"
    print(text)
    bars = Bars()
    check_wrong(wrong, samples, bars)
    check_real(decided, promised_rows, bars)
    if options.write is not None:
        write(options.write, text, "verdicts.py")
    bars.exit()


if __name__ == "__main__":
    main()
