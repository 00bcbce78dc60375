"""Write docs/reference.md from the code, and the table of docs/rubrics.md from the rubrics.

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
RUBRICS = Path(__file__).with_name("rubrics.md")
START, END = "<!-- generated: rubrics -->\n", "<!-- end -->\n"

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
        if kind == "rubrics":
            parts.append("## Rubrics\n\nEach with its meaning: [rubrics](rubrics.md).\n")
            continue
        parts.append(f"## {kind.capitalize()}\n")
        parts += [_component(same) for same in _alike(entries)]
        later = ", ".join(f"`{entry['name']}`" for entry in entries if not entry["built"])
        if later:
            parts.append(f"Not built yet: {later}.\n")
    return "\n".join(parts)


def rubrics() -> str:
    """Return the page of rubrics with its table as the rubrics have it."""
    before, _, rest = RUBRICS.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    entries = json.loads(_printed_by("list", "rubrics", "--json"))["rubrics"]
    rows = "".join(_rubric(entry) for entry in entries)
    head = "| rubric | asks | needs | method | better | offline | measures | limits | source |\n"
    return f"{before}{START}{head}|{'---|' * 9}\n{rows}{END}{after}"


def _rubric(entry: dict[str, Any]) -> str:
    cells = [
        f"`{entry['name']}`",
        entry["asks"],
        ", ".join(entry["needs"]),
        entry["method"],
        entry["direction"],
        "`lexical`" if "lexical" in entry["judges"] else "",
        *(_cell(entry[part]) for part in ("measures", "limits", "source")),
    ]
    return f"| {' | '.join(cells)} |\n"


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


def _alike(entries: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The entries that are built; those that differ in nothing but their name together."""
    shared: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        if entry["built"]:
            rest = {key: value for key, value in entry.items() if key != "name"}
            shared.setdefault(str(rest), []).append(entry)
    return list(shared.values())


def _component(same: list[dict[str, Any]]) -> str:
    entry, names = same[0], ", ".join(f"**`{each['name']}`**" for each in same)
    text = f"{names} {entry['help']}\n"
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
    RUBRICS.write_text(rubrics(), encoding="utf-8", newline="\n")
