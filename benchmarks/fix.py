"""Check that `ragbench fix` counts as a real run does, keeps its promises, and is quick.

    python benchmarks/fix.py [--data ../shared/data] [--trials 1000] [--part counts coverage speed]
        [--collection scifact cranfield cacm]

Counts: on each lent collection, four retrievers are run, and 30 changes are then run for real: the
other retrievers, all fusions of two and three by rrf and by weighted scores, and seven numbers of
passages (by the measure `hit_rate`). Every question that a change rescues or loses is compared.
Bar: 0 differences.

Coverage: the questions are cut at random into two halves. One half chooses among all changes and
promises a gain; the other half was not touched. Bar: its gain is within the promised range in at
least 93 % of the splits of each collection; 1,000 splits have a standard error of .8 points, and a
longer run takes 5,000. The interval of the mean gain is held against nine tenths of the questions
after a choice by one tenth, which hardly vary themselves.

Speed: 5,000 questions x 8 systems x 100 hits, in CPU seconds. Bar: the counts of all changes, from
rankings in memory, take less than 2; reading the run files is printed beside it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

# set before NumPy loads: CPU seconds of several threads would not compare
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from bars import Bars
from trials import add_trials, percent, run_jobs, share_error

import ragbench as rb
from ragbench.data.files.trec_files import read_run, write_run
from ragbench.data.runs.run_folder import read_tables
from ragbench.data.runs.run_lines import read_causes
from ragbench.experiment.fix import RunReader, list_fixes
from ragbench.fixes.changes import config_changes, price_changes
from ragbench.fixes.cross_fitting import choose, gain_of, parts_of
from ragbench.fixes.priced_run import PricedRun
from ragbench.fixes.rankings import StoredRankings
from ragbench.records.fixes import PricedChange
from ragbench.types import Qrels, Run

COLLECTIONS = ("scifact", "cranfield", "cacm")
RETRIEVERS = {
    "bm25": {"type": "bm25"},
    "tuned": {"type": "bm25", "k1": 1.5, "b": 0.75},
    "exact": {"type": "bm25", "stemmer": "none"},
    "rm3": {"type": "rm3", "retriever": "bm25"},
}
# passages a generator could read; `fix` prices each of them
DEPTHS = (1, 2, 3, 10, 20, 50, 100)
SETTINGS, COVERAGE, SECONDS = 30, 0.93, 2.0


def run_folder(data: Path, name: str, output: Path, **changes: Any) -> Path:
    """Run the retrievers over a collection and return the run folder."""
    config = {
        "name": name,
        "dataset": {"type": "beir", "path": str(data / name), "split": "test"},
        "retrievers": {**RETRIEVERS, **changes.pop("retrievers", {})},
        "metrics": {"retrieval": {"measures": [f"hit_rate@{k}" for k in DEPTHS]}},
        "statistics": {"resamples": 100},
        "output": str(output),
        **changes,
    }
    return rb.run_experiment(config).path


def differences(change: PricedChange, base: set[str], after: set[str]) -> int:
    """Return the number of questions that a real run moves otherwise than a change says."""
    return len((after - base) ^ set(change.rescued)) + len((base - after) ^ set(change.lost))


class Counts(NamedTuple):
    """Settings of a collection, and questions that a real run moves otherwise than `fix` says."""

    settings: int
    moved: int
    differences: int


def check_counts(data: Path, work: Path, collections: Sequence[str], bars: Bars) -> None:
    """Check the settings and differences of each collection."""
    results = run_jobs(count_differences, [(data, work, name) for name in collections])
    for name, counts in zip(collections, results, strict=True):
        bars.check(
            f"{name}: {counts.settings} settings, {counts.moved} questions moved, "
            f"{counts.differences} differences, at most 0 in {SETTINGS} settings",
            # fewer settings would mean that a kind of change was never priced
            counts.differences == 0 and counts.settings == SETTINGS,
        )


def count_differences(job: tuple[Path, Path, str]) -> Counts:
    """Price all changes of a collection, and run those that can be run."""
    data, work, name = job
    fixes = list_fixes(RunReader(run_folder(data, name, work)))
    fusions = {f"f{n}": c for n, c in enumerate(c for c in fixes.changes if c.fusion)}
    # every fusion that `fix` priced becomes a retriever of a real run
    entries = {
        key: {
            "type": "fusion",
            "retrievers": list(change.fusion.retrievers),
            "method": change.fusion.method,
            **({"weights": list(change.fusion.weights)} if change.fusion.weights else {}),
        }
        for key, change in fusions.items()
    }
    folder = run_folder(data, name, work, retrievers=entries)
    causes, scores = read_causes(folder / "causes.csv"), read_tables(folder / "per_query.csv")
    queries_by_system = {
        system: {query for query, row in rows.items() if row.cause == "found"}
        for system, rows in causes.items()
    }
    pairs = [(change, queries_by_system[key]) for key, change in fusions.items()]
    # a change of retriever is checked against that retriever's own queries
    pairs += [(c, queries_by_system[c.retriever]) for c in fixes.changes if c.kind == "retriever"]
    for change in fixes.changes:
        if change.kind == "passages" and change.passages in DEPTHS:
            column = f"hit_rate@{change.passages}"
            table = scores[fixes.system]
            hits = zip(table.query_ids, table.columns[column], strict=True)
            pairs.append((change, {query for query, hit in hits if hit == 1}))
    base = queries_by_system[fixes.system]
    return Counts(
        len(pairs),
        sum(len(change.rescued) + len(change.lost) for change, _ in pairs),
        sum(differences(change, base, after) for change, after in pairs),
    )


def check_coverage(
    data: Path, work: Path, trials: int, collections: Sequence[str], bars: Bars
) -> None:
    """Check how often the gain on untouched questions is as promised."""
    for name in collections:
        run = RunReader(run_folder(data, name, work)).priced_run()
        hits = np.concatenate([rows for _, rows in config_changes(run)])
        n = len(run.is_found)
        covered, promised, promises_met = [0, 0], 0.0, 0.0
        for seed in range(trials):
            # the choice sees `inside` alone; `outside` stays untouched
            order = np.random.default_rng(seed).permutation(n)
            for number, size in enumerate((n // 2, max(n // 10, 20))):
                inside, outside = order[:size], order[size:]
                best, confirmed = choose(
                    hits[:, inside], run.is_found[inside], parts_of(size, seed)
                )
                gain = gain_of(confirmed, 0.95)
                after = hits[best, outside].astype(float) - run.is_found[outside]
                # a tenth chooses: nine tenths then stand for the true mean
                low, high = gain.interval if number else gain.untouched
                covered[number] += low <= after.mean() * size <= high
                if not number:
                    promised, promises_met = (
                        promised + gain.mean,
                        promises_met + after.mean() * size,
                    )
        share = covered[0] / trials
        print(
            f"{name}: {trials} splits of {n} questions, promised {promised / trials:+.2f}, "
            f"kept {promises_met / trials:+.2f}; "
            f"mean gain covered after a choice by a tenth: {covered[1] / trials:.1%}"
        )
        figure = percent(share, share_error(share, trials))
        bars.check(f"{name}: {figure} covered, at least {COVERAGE:.0%}", share >= COVERAGE)


def check_speed(work: Path, bars: Bars) -> None:
    """Check the CPU seconds of a large run."""
    rng = np.random.default_rng(1)
    n, depth, pool = 5_000, 100, 100_000
    documents = rng.integers(0, pool, (n, 250))
    relevance = rng.normal(size=(n, 250))
    # document 0 is the gold one: three standard deviations above the rest
    relevance[:, 0] += 3
    names = np.array([f"doc{number}" for number in range(pool)])
    for system in range(8):
        scores = relevance + rng.normal(size=relevance.shape)
        order = np.argsort(-scores, axis=1)[:, :depth]
        rows = {
            f"q{q}": dict(zip(names[documents[q, o]].tolist(), scores[q, o].tolist(), strict=True))
            for q, o in enumerate(order)
        }
        write_run(Run.from_dict(rows), work / f"s{system}.trec")
    gold = Qrels.from_dict({f"q{q}": {str(names[documents[q, 0]]): 1} for q in range(n)})
    start = time.process_time()
    runs = {f"s{system}": read_run(work / f"s{system}.trec") for system in range(8)}
    reading = time.process_time() - start
    start = time.process_time()
    rankings = StoredRankings(gold, runs)
    run = PricedRun(rankings, "s0", 5, 5, depth, fusible=list(runs), weighable=list(runs))
    changes, _ = price_changes(run)
    seconds = time.process_time() - start
    bars.check(
        f"5,000 questions x 8 systems x 100 hits: {len(changes)} changes in {seconds:.2f} CPU s, "
        f"less than {SECONDS:g}; reading the files {reading:.2f}; {run.is_found.mean():.0%} found",
        seconds < SECONDS,
    )


def main() -> None:
    """Check the parts that are named, and end the process."""
    root = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=root.parent / "shared/data")
    add_trials(parser, 1_000, 5_000, "splits of a collection")
    parts = ("counts", "coverage", "speed")
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--collection", nargs="+", choices=COLLECTIONS, default=COLLECTIONS)
    options = parser.parse_args()
    data, collections, bars = options.data.resolve(), options.collection, Bars()
    with tempfile.TemporaryDirectory(prefix="ragbench-fix-") as folder:
        work = Path(folder)
        os.environ["RAGBENCH_CACHE"] = str(work / "cache")
        if "counts" in options.part:
            check_counts(data, work, collections, bars)
        if "coverage" in options.part:
            check_coverage(data, work, options.trials, collections, bars)
        if "speed" in options.part:
            check_speed(work, bars)
    bars.exit()


if __name__ == "__main__":
    main()
