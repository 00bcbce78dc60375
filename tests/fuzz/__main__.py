"""`python -m tests.fuzz [TARGET ...] --seconds 60`: give every target bytes for so long.

Seconds are those of the processor, used by the process that fuzzes: what else runs on the machine
changes how long one waits, not how much is tried. With the package `atheris` installed, inputs that
reach new lines of ragbench are kept and changed further; without it, files of the corpus are
changed at random. What is found lies in `build/fuzz/<target>/`; put it into
`tests/fuzz/corpus/<target>/` with its fix. `--record` keeps the figures for docs/reliability.md.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import random
import resource
import subprocess
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.figures import Fuzzed, record
from tests.fuzz.mutate import mutated

CORPUS = Path(__file__).parent / "corpus"
FINDINGS = Path("build/fuzz")
# So often may the fuzzer itself end (a hang, no memory) before its target is given up.
ENDS = 20

# Bytes and seconds that one input may take in a process of its own.
MEMORY, WAIT = 1 << 30, 300.0


def corpus_of(name: str) -> list[bytes]:
    """The kept inputs of a target, and nothing."""
    files = sorted((CORPUS / name).iterdir()) if (CORPUS / name).is_dir() else []
    return [b"", *(file.read_bytes() for file in files)]


def keep(name: str, data: bytes) -> Path:
    """Write a finding where people look."""
    path = FINDINGS / name / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


class Trial:
    """Tries inputs of one target, counts them, and keeps one input for each different finding."""

    def __init__(self, name: str, seconds: float) -> None:
        """Start the clock of the processor."""
        self.name, self.seconds, self.tried, self.found = name, seconds, 0, set[str]()
        self.start = time.process_time()

    def used(self) -> float:
        """Seconds of the processor since the start."""
        return time.process_time() - self.start

    def __call__(self, data: bytes) -> bool:
        """Try one input; false as soon as the time is used up."""
        from tests.fuzz.targets import try_one

        self.tried += 1
        try:
            try_one(self.name, data)
        except Exception as error:  # noqa: BLE001 - any is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
            if kind not in self.found:
                self.found.add(kind)
                print(f"  {kind}: {keep(self.name, data)}", flush=True)
        return self.used() < self.seconds

    def figures(self, by: str) -> Fuzzed:
        """Return the figures of the trial."""
        return Fuzzed(self.name, by, self.tried, len(self.found), round(self.used(), 1))


def fuzz_at_random(name: str, seconds: float, seed: int) -> Fuzzed:
    """Change the corpus for so many seconds of the processor."""
    rng, corpus, trial = random.Random(seed), corpus_of(name), Trial(name, seconds)
    while trial(mutated(corpus, rng)):
        pass
    return trial.figures("chance")


def fuzz_here_by_coverage(name: str, seconds: float, seed: int) -> None:
    """Let atheris choose, and end this process; figures are left in a file as it goes on."""
    import atheris

    with atheris.instrument_imports(include=["ragbench"]):
        from tests.fuzz.targets import clear

    grown, seeds = FINDINGS / name / "corpus", CORPUS / name
    grown.mkdir(parents=True, exist_ok=True)
    trial, written_at = Trial(name, seconds), 0.0

    def target(data: bytes) -> None:
        nonlocal written_at
        goes_on = trial(data)
        if not goes_on or trial.used() > written_at + 1:
            written_at = trial.used()
            left_in(name).write_text(json.dumps(trial.figures("coverage").__dict__))
        if not goes_on:
            clear()
            sys.stdout.flush()
            os._exit(0)  # libFuzzer has limits of wall time and of inputs alone

    limits = ["-max_len=20000", "-timeout=120", f"-seed={seed}"]
    output = [f"-artifact_prefix={FINDINGS / name}/", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *limits, *output, str(grown), str(seeds)], target)
    atheris.Fuzz()


def left_in(name: str) -> Path:
    """Return the file for the figures of a process that fuzzes by coverage."""
    return FINDINGS / name / "figures.json"


def fuzz_by_coverage(name: str, seconds: float, seed: int) -> Fuzzed:
    """Fuzz in processes of their own: one, and another where a hang or lack of memory ended it."""
    done = Fuzzed(name, "coverage", 0, 0, 0.0)
    for turn in range(ENDS):
        left_in(name).unlink(missing_ok=True)
        before_it = set(kept_at_ends(name))
        used_before = children_used()
        options = ["--here", "--seconds", str(seconds - done.seconds), "--seed", str(seed + turn)]
        ended = subprocess.run([sys.executable, "-m", "tests.fuzz", name, *options]).returncode
        if left_in(name).is_file():
            part = Fuzzed(**json.loads(left_in(name).read_text()))
        else:
            part = Fuzzed(name, "coverage", 0, 0, round(children_used() - used_before, 1))
        new = [data for data in kept_at_ends(name) if data not in before_it]
        by_itself = bool(new) and all(ends_well(name, data) for data in new)
        done = done.plus(part, ended=int(ended != 0 and not by_itself))
        if not ended or done.seconds >= seconds:
            break
    return done


def kept_at_ends(name: str) -> list[Path]:
    """The inputs that libFuzzer wrote down when it ended."""
    kinds = ("crash-*", "oom-*", "timeout-*")
    return sorted(path for kind in kinds for path in (FINDINGS / name).glob(kind))


def ends_well(name: str, path: Path) -> bool:
    """Return True if an input alone, in a new process, ends well with little memory.

    The fuzzer's own memory grows with each input (about 3 kB), and ends it at 2 GB after some
    700,000 of them, whatever the last one was.
    """
    command = [sys.executable, "-m", "tests.fuzz", name, "--once", str(path)]
    try:
        return subprocess.run(command, timeout=WAIT).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def try_once(name: str, path: Path) -> int:
    """Try one input here; 0 if it ends well and took less than `MEMORY`."""
    from tests.fuzz.targets import try_one

    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try_one(name, path.read_bytes())
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before)
    return int(grown > MEMORY)


def children_used() -> float:
    """Seconds of the processor that ended children used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Fuzz each target in its turn."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    targets = sorted(path.name for path in CORPUS.iterdir())
    parser.add_argument("target", nargs="*", choices=[*targets, []], help="default: all")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the processor, for each target"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", action="store_true", help="without atheris")
    parser.add_argument("--record", action="store_true", help="keep the figures for the docs")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--once", type=Path, metavar="FILE", help="try this input, and end")
    options = parser.parse_args()
    names = options.target or targets
    if options.once:
        return try_once(names[0], options.once)
    if options.here:
        fuzz_here_by_coverage(names[0], options.seconds, options.seed)
    guided = not options.random and importlib.util.find_spec("atheris") is not None
    fuzz, findings = fuzz_by_coverage if guided else fuzz_at_random, 0
    for name in names:
        done = fuzz(name, options.seconds, options.seed)
        print(done.line, flush=True)
        findings += done.findings
        if options.record:
            record(done)
    print(f"{findings} findings{f', see {FINDINGS}/' if findings else ''}")
    return min(1, findings)


if __name__ == "__main__":
    raise SystemExit(main())
