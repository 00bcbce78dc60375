"""Write the pages of docs/ that can be read off the code: reference, metrics, rubrics.

python docs/generate.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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
        parts += _for_all(kind)
        group = None
        for same in _alike(entries):
            if same[0].get("group") != group:
                group = same[0]["group"]
                parts.append(f"### {group.capitalize()}\n")
            parts.append(_component(same))
    return "\n".join(parts)


METRICS_HEAD = """# Metrics of answers

Generated from the code by `make generated`; do not edit. What each option means is in the
[reference](reference.md). Measures of rankings: [how they are computed](scores.md). What is checked
against which implementation: [conformance](conformance.md).

Every metric is between 0 and 1 unless its range says otherwise. Several references: each metric
takes them as its reference implementation does. An answer that is empty scores 0 (TER: what
sacrebleu gives); an item without a reference has no score, and is counted; a system that has no
answer has failed, and is counted by cause. The signature is what two numbers must share to be
compared; `gold` stands for a fingerprint of the references.
"""


def metrics() -> str:
    """Return the page on the metrics of answers."""
    entries = json.loads(_printed_by("list", "metrics", "--json"))["metrics"]
    parts = [METRICS_HEAD]
    for same in _alike(entries):
        entry, names = same[0], ", ".join(f"`{each['name']}`" for each in same)
        rows = [
            ("parts", ", ".join(f"`.{part}`" for part in entry["parts"]) or "none"),
            ("range", _range(entry)),
            ("equal to", entry["equals"]),
            ("not for", entry["not_for"]),
            ("signature", f"`{_cell(_signature(entry['name']))}`"),
        ]
        table = "".join(f"| {key} | {value} |\n" for key, value in rows)
        parts.append(f"## {names}\n\n{entry['help']}.\n\n| | |\n|---|---|\n{table}")
    return "\n".join(parts)


def _range(entry: dict[str, Any]) -> str:
    low, high = (f"{end:g}" if end is not None else "unbounded" for end in entry["range"])
    return f"{low} to {high}, {entry['direction']} is better"


def _signature(name: str) -> str:
    """What the values of a metric depend on, the references' fingerprint left out."""
    from ragbench.score.text.columns import signature_of

    return signature_of(name)


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
        ", ".join(f"`{name}`" for name in ("nli", "lexical") if name in entry["judges"]),
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
    return f"{text}\n{_table(entry['options'])}" if entry["options"] else text


def _table(options: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"| `{o['name']}` | {_cell(o['allowed'])} | {_default(o)} | {_cell(o['help'])} |\n"
        for o in options
    )
    return f"| option | allowed | default | |\n|---|---|---|---|\n{rows}"


def _for_all(kind: str) -> list[str]:
    """What is said of all members of a family: the keys that each takes besides its own."""
    if kind == "gates":
        return ["The keys of an entry of `gates` say which of these it is. See [gates](ci.md).\n"]
    from ragbench.config.components import common_keys
    from ragbench.generate import APPS, GENERATORS
    from ragbench.rerank import RERANKERS
    from ragbench.retrieve import RETRIEVERS

    families = {"retrievers": RETRIEVERS, "rerankers": RERANKERS, "generators": GENERATORS}
    family = {**families, "apps": APPS}.get(kind)
    if family is None:
        return []
    options = [
        {
            "name": name,
            "allowed": key.allowed,
            "required": key.required,
            "default": None if key.required else key.default,
            "help": key.option.help,
        }
        for name, key in common_keys(family).items()
    ]
    return [f"Each takes besides:\n\n{_table(options)}"]


def _default(option: dict[str, Any]) -> str:
    return "required" if option["required"] else f"`{json.dumps(option['default'])}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {"reference.md": reference, "metrics.md": metrics, "rubrics.md": rubrics}

if __name__ == "__main__":
    for name, page in PAGES.items():
        Path(__file__).with_name(name).write_text(page(), encoding="utf-8", newline="\n")
