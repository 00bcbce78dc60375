"""Measure time and memory as work grows: queries, systems, documents, rows, judgements, workers.

    python benchmarks/scale.py [queries] [systems] [hits]
    python benchmarks/scale.py documents [--documents N ...] [--retrievers bm25 exact faiss]
    python benchmarks/scale.py rows [--rows N ...] [--workers N ...]
    python benchmarks/scale.py judgements [--judgements N ...]
    python benchmarks/scale.py systems [--systems N ...] [--folders N]
    python benchmarks/scale.py questions [--questions N] [--million]

The first is an experiment over run files, beside `ragbench compare` on the same files, for the
first run and for one that has everything stored. All take turns, five times; the smallest of the
turns counts. Bar: 1.8 times of what `compare` takes, with its own four measures and with those of
the experiment.

The others are in `scale_parts.py`: they print one line of JSON for each size; with `--keep`, the
lines go to `scale.jsonl`, of which `docs/scale.md` is made. Two have bars of memory. Systems: 600
MB for 200 systems over 200 queries, 1 GB for a page of 50 run folders of 10 systems each.
Questions: 800 MB for a run over 100,000 questions by three run files of 10 hits, 600 MB for
`report` and `explain` of it, 6 GB for a million questions by one run file.

Each command is a fresh process, and its modules are compiled before. CPU time, that of the system
included, and the most memory that it had.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from bars import Bars

from ragbench.experiment.plan.scores import DEFAULT_MEASURES

ROOT = Path(__file__).resolve().parent.parent
BAR = 1.8
TURNS = 5  # a single turn beside other work varies by a third


class Took(NamedTuple):
    """Hold CPU time and peak memory of a process."""

    cpu_s: float
    peak_mb: float


def write_files(folder: Path, queries: int, systems: int, hits: int) -> None:
    """Systems that find each of three judged documents at a rank of their own, or not at all."""
    rng = random.Random(19)
    gold = [[f"d{rng.randrange(10**7)}" for _ in range(3)] for _ in range(queries)]
    with (folder / "topics.tsv").open("w") as topics, (folder / "qrels.txt").open("w") as qrels:
        for query, documents in enumerate(gold):
            topics.write(f"q{query}\twhat is known of number {query}\n")
            for grade, document in enumerate(documents):
                qrels.write(f"q{query} 0 {document} {grade % 2 + 1}\n")
    for system in range(systems):
        reach = hits * (1.5 + system / systems)  # a rank beyond the hits is a miss
        with (folder / f"{system}.trec").open("w") as run:
            for query, documents in enumerate(gold):
                ranking = [f"d{rng.randrange(10**7)}" for _ in range(hits)]
                for document in documents:
                    rank = int(rng.random() ** 2 * reach)
                    if rank < hits:
                        ranking[rank] = document
                run.writelines(
                    f"q{query} Q0 {document} {rank} {(hits - rank) / 8 + 0.1} s{system}\n"
                    for rank, document in enumerate(ranking, start=1)
                )
    names = "".join(f"  s{n}: {{type: run_file, path: {n}.trec}}\n" for n in range(systems))
    (folder / "run.yaml").write_text(
        "dataset: {type: trec, qrels: qrels.txt, topics: topics.tsv}\n"
        f"retrievers:\n{names}metrics: {{retrieval: {{top_k: {hits}}}}}\n"
    )


def took(command: list[str], folder: Path, compiled: Path | None = None) -> Took:
    """Run a command of ragbench to its end; `compiled` has the modules, by default in `folder`."""
    # compiled once, as an installed package is
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(compiled or folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment |= {"RAGBENCH_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "ragbench", *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Took(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def compile_modules(comparison: list[str], folder: Path, systems: int) -> None:
    """Run both commands on a few queries, so that neither compiles its modules when measured."""
    small = folder / "small"
    small.mkdir()
    write_files(small, 50, systems, 10)
    for command in (comparison, ["run", "run.yaml", "--quiet"]):
        took(command, small, folder / "compiled")
    shutil.rmtree(small)


def size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    if sys.argv[1:] and not sys.argv[1].isdigit():
        import scale_parts

        scale_parts.main(sys.argv[1:])
        return
    queries, systems, hits = [int(number) for number in sys.argv[1:]] or [2_000, 4, 50]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, queries, systems, hits)
        runs = [f"{system}.trec" for system in range(systems)]
        comparison = ["compare", *runs, "--qrels", "qrels.txt"]
        compile_modules(comparison, folder, systems)
        # those of an experiment but `found@5`, which counts its causes
        measures = [part for name in DEFAULT_MEASURES for part in ("-m", name)]
        run = ["run", "run.yaml", "--quiet"]
        commands = {
            "compare": comparison,
            "compare alike": [*comparison, *measures],
            "run": run,
            "run again": run,
        }
        turns: dict[str, list[Took]] = {label: [] for label in commands}
        for _ in range(TURNS):
            for kept in ("cache", "runs"):
                shutil.rmtree(folder / kept, ignore_errors=True)
            for label, command in commands.items():
                turns[label].append(took(command, folder))
        least = {label: Took(*map(min, zip(*of, strict=True))) for label, of in turns.items()}
        print(
            f"{systems} run files of {queries} queries x {hits} hits, "
            f"{sum((folder / run).stat().st_size for run in runs) / 1e6:.0f} MB; the cache takes "
            f"{size_mb(folder / 'cache'):.0f} MB, a run folder {size_mb(folder / 'runs') / 2:.0f}"
        )
    bars = Bars()
    alike = f"compare, {len(DEFAULT_MEASURES)} measures"
    for label, base in (("compare", least["compare"]), (alike, least["compare alike"])):
        print(f"{label:<20} {base.cpu_s:6.2f} CPU s {base.peak_mb:6.0f} MB")
        for name in ("run", "run again"):
            of_run = least[name]
            ratios = of_run.cpu_s / base.cpu_s, of_run.peak_mb / base.peak_mb
            bars.check(
                f"{name:<9} {of_run.cpu_s:6.2f} CPU s {of_run.peak_mb:6.0f} MB: "
                f"{ratios[0]:.2f} and {ratios[1]:.2f} times, at most {BAR:g}",
                max(ratios) <= BAR,
            )
    bars.exit()


if __name__ == "__main__":
    main()
