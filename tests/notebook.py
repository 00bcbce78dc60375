"""Programs of the docs, run as cells of a notebook are: in a loop that runs already."""

import asyncio
import re
from pathlib import Path
from typing import Any

PAGES = ("README.md", *(f"docs/{name}" for name in ("adapters.md", "application.md",
    "chunkers.md", "ci.md", "comparing.md", "data.md", "explain.md", "first-notebook.md",
    "judging.md", "integrations.md", "moving.md", "own.md", "scores.md",
    "statistics.md")))  # fmt: skip
"""Every page that has a program."""


def programs(page: Path) -> list[str]:
    """Return the Python programs of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_cell(program: str, page: str, names: dict[str, Any]) -> None:
    """Run a program in a running loop; its names are added to those given."""

    async def cell() -> None:
        exec(compile(program, page, "exec"), names)

    asyncio.run(cell())
