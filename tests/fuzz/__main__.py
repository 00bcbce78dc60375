"""`python -m tests.fuzz [TARGET ...] --seconds 60`: give every target bytes for so much CPU time.

With the package `atheris` installed, inputs that reach new lines of ragbench are kept and changed
further; without it, files of the corpus are changed at random. What is found lies in
`build/fuzz/<target>/`; put it into `tests/fuzz/corpus/<target>/` with its fix. The longest session
of each target is kept in `longest.csv`, which docs/reliability.md shows.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import importlib.util
import os
import random
import subprocess
import sys
import time
import traceback
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path

from tests.fuzz.mutate import mutated

CORPUS = Path(__file__).parent / "corpus"
LONGEST = Path(__file__).parent / "longest.csv"
FOUND = Path("build/fuzz")


def corpus_of(name: str) -> list[bytes]:
    """The kept inputs of a target, and nothing."""
    files = sorted((CORPUS / name).iterdir()) if (CORPUS / name).is_dir() else []
    return [b"", *(file.read_bytes() for file in files)]


@dataclass(frozen=True)
class Figures:
    """What one session of one target came to."""

    target: str
    inputs: int
    findings: int
    cpu_seconds: int
    how: str


def longest() -> dict[str, Figures]:
    """Target -> its longest session so far."""
    if not LONGEST.exists():
        return {}
    with LONGEST.open(encoding="utf-8", newline="") as file:
        rows = [
            Figures(row["target"], int(row["inputs"]), int(row["findings"]), seconds, row["how"])
            for row in csv.DictReader(file)
            if (seconds := int(row["cpu_seconds"]))
        ]
    return {row.target: row for row in rows}


def note(figures: Figures) -> None:
    """Keep a session that was as long as the longest of its target."""
    kept = longest()
    before = kept.get(figures.target)
    if before is None or before.cpu_seconds <= figures.cpu_seconds:
        kept[figures.target] = figures
        with LONGEST.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(each.name for each in fields(Figures))
            rows.writerows(astuple(kept[name]) for name in sorted(kept))


@dataclass
class Session:
    """Inputs given to one target, and the different findings among them."""

    name: str
    seconds: float
    how: str
    tried: int = 0
    kinds: set[str] = field(default_factory=set)
    start: float = field(default_factory=time.process_time)

    @property
    def over(self) -> bool:
        return time.process_time() - self.start >= self.seconds

    def one(self, data: bytes) -> None:
        """Try an input; keep the first of each kind of finding, and go on."""
        from tests.fuzz.targets import try_one

        self.tried += 1
        try:
            try_one(self.name, data)
        except Exception as error:  # noqa: BLE001 - any is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
            if kind not in self.kinds:
                self.kinds.add(kind)
                print(f"  {kind}: {keep(self.name, data)}", flush=True)

    def end(self) -> Figures:
        """Say what came of it."""
        seconds = round(time.process_time() - self.start)
        figures = Figures(self.name, self.tried, len(self.kinds), seconds, self.how)
        print(f"{self.name}: {self.tried:,} inputs {self.how}, {seconds} s of CPU,", end=" ")
        print(f"{len(self.kinds)} findings", flush=True)
        return figures


def keep(name: str, data: bytes) -> Path:
    """Write a finding where people look."""
    path = FOUND / name / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def fuzz_at_random(name: str, seconds: float, seed: int) -> Figures:
    """Change the corpus for so long."""
    rng, corpus, session = random.Random(seed), corpus_of(name), Session(name, seconds, "at random")
    while not session.over:
        session.one(mutated(corpus, rng))
    return session.end()


def fuzz_by_coverage(name: str, seconds: float, seed: int) -> None:
    """Let atheris choose, and end the process, with 1 where something was found."""
    import atheris

    with atheris.instrument_imports(include=["ragbench"]):
        import tests.fuzz.targets  # noqa: F401 - what it imports is to be watched

    session = Session(name, seconds, "by coverage")

    def one(data: bytes) -> None:
        session.one(data)
        if session.over:
            figures = session.end()
            note(figures)
            os._exit(min(1, figures.findings))  # atheris has no other way out of its loop

    grown, kept = FOUND / name / "corpus", CORPUS / name
    grown.mkdir(parents=True, exist_ok=True)
    # in seconds of the clock, which a loaded machine stretches
    limits = ["-max_len=20000", "-timeout=300", f"-seed={seed}"]
    output = [f"-artifact_prefix={FOUND / name}/", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *limits, *output, str(grown), str(kept)], one)
    atheris.Fuzz()


def main() -> int:
    """Fuzz each target in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    known = sorted(path.name for path in CORPUS.iterdir())
    parser.add_argument("target", nargs="*", choices=[*known, []], help="default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="of CPU, for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", action="store_true", help="without atheris")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.target or known
    guided = not given.random and importlib.util.find_spec("atheris") is not None
    if given.here:
        fuzz_by_coverage(names[0], given.seconds, given.seed)
    failed = 0
    for name in names:
        if guided:
            options = ["--here", "--seconds", str(given.seconds), "--seed", str(given.seed)]
            command = [sys.executable, "-m", "tests.fuzz", name, *options]
            failed += subprocess.run(command).returncode != 0
        else:
            figures = fuzz_at_random(name, given.seconds, given.seed)
            note(figures)
            failed += figures.findings > 0
    print(f"{failed} of {len(names)} targets with findings, see {FOUND}/")
    return min(1, failed)


if __name__ == "__main__":
    raise SystemExit(main())
