"""Write docs/reference.md from the code: every command's help, every name that a config may use.

python docs/generate.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from ragbench.cli import group
from ragbench.cli.list import command as list_command

PAGE = Path(__file__).with_name("reference.md")

HEAD = """# Reference

Generated from the code by `make generated`; do not edit.

## Commands
"""


def reference() -> str:
    """Return the page."""
    parts = [HEAD]
    context = click.Context(group, info_name="ragbench", terminal_width=88)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None  # noqa: S101 - list_commands has just named it
        inner = click.Context(command, parent=context, info_name=name, terminal_width=88)
        parts.append(f"### ragbench {name}\n\n```text\n{command.get_help(inner)}\n```\n")
    catalog = json.loads(CliRunner().invoke(list_command, ["--json"]).stdout)
    for kind, entries in catalog.items():
        parts.append(f"## {kind.capitalize()}\n")
        parts += [_component(entry) for entry in entries if entry["built"]]
        later = ", ".join(f"`{entry['name']}`" for entry in entries if not entry["built"])
        if later:
            parts.append(f"Not built yet: {later}.\n")
    return "\n".join(parts)


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
