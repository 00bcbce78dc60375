"""`python -m tests.torture --minutes 5`: kills, faults, damage and fuzzing; docs/reliability.md.

The programs are those of the suite, so what they show is checked with every change; here they run
together, fuzzing as long as wanted, and their figures are written down.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.__main__ import CORPUS, fuzz_at_random
from tests.fuzz.figures import Fuzzed, record, recorded

PAGE = Path("docs/reliability.md")
# More than in the suite, where a few show the same.
KILLS = 100
# What is done -> the files of tests that do it.
PROGRAMS = {
    f"{KILLS} kills at random moments of a run, each followed by the same command": (
        "tests/experiment/test_kills.py",
    ),
    "full disks, places that may only be read, signals, clocks, two runs at once": (
        "tests/experiment/test_faults.py",
    ),
    "damaged and cut stores of replies, items and vectors": (
        "tests/store/test_damage.py",
        "tests/store/test_items.py",
    ),
    "links and objects of others in caches, links in run folders": (
        "tests/store/test_links.py",
        "tests/cli/test_odd_folders.py",
    ),
    "each file of a run folder damaged in ten ways": ("tests/cli/test_damaged_folders.py",),
    "writers of one file: killed, in threads, in two namespaces of process ids": (
        "tests/test_files.py",
    ),
    "forks of a process whose judge is at work": ("tests/score/judge/test_fork.py",),
    "runs that share a store, a store that may only be read": (
        "tests/store/test_call_locks.py",
        "tests/store/test_read_only.py",
    ),
    "servers that hang, drip, redirect, or answer with bombs": (
        "tests/llm/test_hanging.py",
        "tests/llm/test_redirects.py",
        "tests/llm/test_bounded.py",
        "tests/data/test_bombs.py",
    ),
}


# Other systems as far as Linux can show them -> how.
OTHER_SYSTEMS = {
    "terminals in cp1252, cp437, Latin-1 and ASCII": (
        "each command on streams of these encodings: `tests/cli/test_consoles.py`"
    ),
    "`latest` on a file system without links": "a file with the name of the run",
    "names that Windows has for itself (`con`, `nul.txt`, `a.`) or that differ only in case": (
        "refused before a run: `tests/config/test_names.py`, `tests/test_other_systems.py`"
    ),
    "names too long for a file": "one line from each command: `tests/cli/test_long_names.py`",
    "folders that tell no case apart": "a run whose paths are folded before the system sees them",
    "encodings of files": (
        "the linter (`PLW1514`) wants one of each; commands under `-X warn_default_encoding`"
    ),
    "time zones": "runs in three",
}

NOT_SHOWN = """\
Windows is not supported: use WSL there. Two things are not shown for macOS. Access
lists: a cache that may only be read is known by its permission bits. And programs that hold new
files for a moment."""


@dataclass(frozen=True)
class Outcome:
    """Result of one program."""

    program: str
    passed: int
    failed: int
    seconds: float

    @property
    def row(self) -> str:
        """Its row of the page."""
        return f"| {self.program} | {self.passed:,} | {self.failed:,} | {self.seconds:.0f} |"


def run_programs() -> Iterator[Outcome]:
    """Run the programs one after the other."""
    for program, files in PROGRAMS.items():
        print(f"{program} ...", flush=True)
        start = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *files]
        environment = {**os.environ, "RAGBENCH_TEST_KILLS": str(KILLS)}
        # one worker: the kills of one program must not meet the load of another
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        counts = {
            word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)
        }
        failed = counts.get("failed", 0) + counts.get("error", 0)
        if done.returncode:
            print(done.stdout[-4_000:], flush=True)
        seconds = time.monotonic() - start
        yield Outcome(
            program, counts.get("passed", 0), max(failed, int(done.returncode != 0)), seconds
        )


def fuzz(seconds: float) -> Iterator[Fuzzed]:
    """Fuzz each target for its part of the time, without atheris, so that it runs everywhere."""
    names = sorted(path.name for path in CORPUS.iterdir()) if seconds else []
    for name in names:
        done = fuzz_at_random(name, seconds / len(names), seed=int(time.time()))
        record(done)
        print(done.line, flush=True)
        yield done


def page(programs: Sequence[Outcome], fuzzed: Sequence[Fuzzed]) -> str:
    """Return the page with all results."""
    return "\n".join(
        [
            "# Reliability",
            "",
            "`make torture` writes this page (`make torture MINUTES=30` fuzzes longer).",
            "[SECURITY.md](../SECURITY.md) lists the promises about hostile files and servers;",
            "[resuming](resuming.md) says which results a stopped run keeps.",
            "",
            "## Kills, faults and damage",
            "",
            "Each row is a program of the suite. After each fault the same command runs again, and",
            "its results equal those of an undisturbed run.",
            "",
            "| program | checks passed | failed | seconds |",
            "|---|---|---|---|",
            *(outcome.row for outcome in programs),
            "",
            "## Fuzzing",
            "",
            "The inputs are changed copies of `tests/fuzz/corpus/`. Each must end with a result or",
            "an error of ragbench. A row shows the longest run of a target, in CPU seconds.",
            "`coverage` changes inputs further that reach new lines (`make fuzz` with `atheris`",
            "installed), `chance` changes them at random. Inputs that failed are mended and in the",
            "corpus.",
            "",
            "| what reads the bytes | by | inputs | findings | CPU seconds |",
            "|---|---|---|---|---|",
            *(trial.row for trial in fuzzed),
            "",
            "## Other systems",
            "",
            "All figures above are of Linux. Of other systems Linux can show this:",
            "",
            "| what | how |",
            "|---|---|",
            *(f"| {system} | {how} |" for system, how in OTHER_SYSTEMS.items()),
            "",
            *textwrap.wrap(" ".join(NOT_SHOWN.split()), 100),
            "",
        ]
    )


def main() -> int:
    """Run all, write the page, and fail where anything did."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument(
        "--minutes", type=float, default=2.0, help="CPU minutes of fuzzing, all targets; 0: none"
    )
    options = parser.parse_args()
    programs, fuzzed = list(run_programs()), list(fuzz(60 * options.minutes))
    PAGE.write_text(page(programs, list(recorded().values())), encoding="utf-8")
    print(f"{PAGE} is written")
    failed = sum(part.failed for part in programs) + sum(part.findings for part in fuzzed)
    return min(1, failed)


if __name__ == "__main__":
    raise SystemExit(main())
