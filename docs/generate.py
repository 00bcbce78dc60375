"""Write docs/reference.md from the code: every command's help, every name that a config may use.

python docs/generate.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("reference.md")

HEAD = """# Reference

Generated from the code by `make generated`; do not edit.

## Commands
"""


def reference() -> str:
    """Return the page."""
    parts = [HEAD]
    catalog = json.loads(_printed_by("list", "--json"))
    for name in _commands():
        parts.append(f"### ragbench {name}\n\n```text\n{_printed_by(name, '--help')}```\n")
    for kind, entries in catalog.items():
        parts.append(f"## {kind.capitalize()}\n")
        group = None
        for entry in filter(lambda entry: entry["built"], entries):
            if entry.get("group") != group:
                group = entry["group"]
                parts.append(f"### {group.capitalize()}\n")
            parts.append(_component(entry))
        later = ", ".join(f"`{entry['name']}`" for entry in entries if not entry["built"])
        if later:
            parts.append(f"Not built yet: {later}.\n")
    return "\n".join(parts)


def _printed_by(*arguments: str) -> str:
    """What the command prints in a process of its own, at a fixed width."""
    done = subprocess.run(
        [sys.executable, "-m", "ragbench", *arguments],
        env={**os.environ, "COLUMNS": "90"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.replace("python -m ragbench", "ragbench")


def _commands() -> list[str]:
    """The names under `Commands` of the help."""
    listed = _printed_by("--help").partition("Commands:\n")[2].partition("\n\n")[0]
    return [
        line.split()[0]
        for line in listed.splitlines()
        if line.startswith("  ") and line[2:3] != " "
    ]


def _component(entry: dict[str, Any]) -> str:
    text = f"**`{entry['name']}`** {entry['help']}\n"
    if not entry["options"]:
        return text
    rows = "".join(
        f"| `{o['name']}` | {_cell(o['allowed'])} | {_default(o)} | {_cell(o['help'])} |\n"
        for o in entry["options"]
    )
    return f"{text}\n| option | allowed | default | |\n|---|---|---|---|\n{rows}"


def _default(option: dict[str, Any]) -> str:
    return "required" if option["required"] else f"`{json.dumps(option['default'])}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8", newline="\n")
