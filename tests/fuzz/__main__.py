"""`python -m tests.fuzz [TARGET ...] --seconds 60`: give every target bytes for so long.

With the package `atheris` installed, inputs that reach new lines of ragbench are kept and changed
further; without it, files of the corpus are changed at random. What is found lies in
`build/fuzz/<target>/`; put it into `tests/fuzz/corpus/<target>/` with its fix.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import random
import subprocess
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.mutate import mutated

CORPUS = Path(__file__).parent / "corpus"
FOUND = Path("build/fuzz")


def corpus_of(name: str) -> list[bytes]:
    """The kept inputs of a target, and nothing."""
    files = sorted((CORPUS / name).iterdir()) if (CORPUS / name).is_dir() else []
    return [b"", *(file.read_bytes() for file in files)]


def fuzz_at_random(name: str, seconds: float, seed: int) -> tuple[int, int]:
    """Change the corpus for so long; how many were tried, and the different findings."""
    from tests.fuzz.targets import try_one

    rng, corpus, found, tried = random.Random(seed), corpus_of(name), set(), 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        data = mutated(corpus, rng)
        tried += 1
        try:
            try_one(name, data)
        except Exception as error:  # noqa: BLE001 - any is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
            if kind not in found:
                found.add(kind)
                print(f"  {kind}: {keep(name, data)}", flush=True)
    print(f"{name}: {tried:,} inputs at random, {len(found)} findings", flush=True)
    return tried, len(found)


def keep(name: str, data: bytes) -> Path:
    """Write a finding where people look."""
    path = FOUND / name / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def fuzz_by_coverage(name: str, seconds: float, seed: int) -> None:
    """Let atheris choose; it ends the process, with an error where it found something."""
    import atheris

    with atheris.instrument_imports(include=["ragbench"]):
        from tests.fuzz.targets import try_one

    grown, kept = FOUND / name / "corpus", CORPUS / name
    grown.mkdir(parents=True, exist_ok=True)
    kept.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={int(seconds)}", "-max_len=20000", "-timeout=20", f"-seed={seed}"]
    output = [f"-artifact_prefix={FOUND / name}/", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup(
        [sys.argv[0], *limits, *output, str(grown), str(kept)], lambda d: try_one(name, d)
    )
    atheris.Fuzz()


def main() -> int:
    """Fuzz each target in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    known = sorted(path.name for path in CORPUS.iterdir())
    parser.add_argument("target", nargs="*", choices=[*known, []], help="default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", action="store_true", help="without atheris")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.target or known
    guided = not given.random and importlib.util.find_spec("atheris") is not None
    if given.here:
        fuzz_by_coverage(names[0], given.seconds, given.seed)
    if not guided:
        return min(1, sum(fuzz_at_random(name, given.seconds, given.seed)[1] for name in names))
    failed = 0
    for name in names:
        print(f"{name}: by coverage", flush=True)
        options = ["--here", "--seconds", str(given.seconds), "--seed", str(given.seed)]
        failed += (
            subprocess.run([sys.executable, "-m", "tests.fuzz", name, *options]).returncode != 0
        )
    print(f"{failed} of {len(names)} targets with findings, see {FOUND}/")
    return min(1, failed)


if __name__ == "__main__":
    raise SystemExit(main())
