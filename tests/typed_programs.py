"""Programs of users with planted errors of types: mypy finds these, and no other.

`python -m tests.typed_programs`, a part of `make types`, checks the programs of typed_programs.md.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.notebook import programs

PAGE = Path(__file__).with_name("typed_programs.md")
PLANTED = re.compile(r"  # error: ([a-z-]+)$")
REPORTED = re.compile(r"program_(\d+)\.py:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)


def planted_errors(texts: list[str]) -> list[tuple[int, int, str]]:
    """Return (program, line, code) of each planted error, sorted."""
    errors = []
    for number, text in enumerate(texts):
        for line, source in enumerate(text.splitlines(), start=1):
            if planted := PLANTED.search(source):
                errors.append((number, line, planted[1]))
    return errors


def reported_errors(output: str) -> list[tuple[int, int, str]]:
    """Return (program, line, code) of each error that mypy reports, sorted."""
    rows = REPORTED.findall(output)
    return sorted((int(number), int(line), code) for number, line, code in rows)


def check_programs(folder: Path) -> int:
    """Print the errors that mypy misses or invents; return 1 if there are any, otherwise 0."""
    texts = programs(PAGE)
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"program_{number}.py")
        files[-1].write_text(text, encoding="utf-8")
    # in the repository, with the cache that mypy has just filled: a new one takes a minute
    process = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *map(str, files)],
        capture_output=True,
        text=True,
    )
    planted, reported = planted_errors(texts), reported_errors(process.stdout)
    if reported == planted and process.stdout.count(" error: ") == len(planted):
        print(f"{len(texts)} programs of users: mypy finds the {len(planted)} planted errors")
        return 0
    print(process.stdout, process.stderr)
    print("planted, not found:", sorted({*planted} - {*reported}))
    print("found, not planted:", sorted({*reported} - {*planted}))
    return 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(check_programs(Path(temporary)))
