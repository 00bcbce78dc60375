"""Programs of the docs, run as cells of a notebook are: in a loop that runs already.

`python -m tests.notebook`, a part of `make types`, checks their types strictly with mypy.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Every page that has a program.
PAGES = ("README.md", *(f"docs/{name}" for name in ("adapters.md", "against.md", "application.md",
    "architecture.md", "calibration.md", "chunkers.md", "comparing.md",
    "connect.md", "explain.md", "gates.md", "gates-ci.md", "judging.md",
    "integrations.md", "moving.md", "own.md", "run-files.md", "scores.md", "services.md",
    "statistics.md", "traces.md")))  # fmt: skip


def programs(page: Path) -> list[str]:
    """Return the Python programs of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def installed(program: str) -> bool:
    """Return True if the frameworks that a program imports are installed."""
    names = re.findall(r"^from (fastapi|langchain_core)", program, re.MULTILINE)
    return all(map(find_spec, names))


def check_types(repository: Path) -> int:
    """Check the types of all programs but those with other tools; return the exit code of mypy.

    To analyse MLflow and its like takes minutes, and `tests/test_integrations.py` and
    `tests/test_services_page.py` run their programs.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for page in sorted({*PAGES} - {"docs/integrations.md", "docs/services.md"}):
            for number, program in enumerate(filter(installed, programs(repository / page))):
                files.append(Path(folder, f"{Path(page).stem}_{number}.py"))
                files[-1].write_text(program, encoding="utf-8")
        # with the cache that mypy has just filled: to analyse the package anew takes 15 seconds
        command = [sys.executable, "-m", "mypy", "--strict", *map(str, files)]
        return subprocess.run(command, cwd=repository, check=False).returncode


def run_cell(program: str, page: str, names: dict[str, Any]) -> None:
    """Run a program in a running loop; its names are added to those given."""

    async def cell() -> None:
        exec(compile(program, page, "exec"), names)

    asyncio.run(cell())


if __name__ == "__main__":
    sys.exit(check_types(Path.cwd()))
