"""`ragbench schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ragbench.cli.output import write_json

_WIDTH = 100


@click.command(name="schema")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it to a file."
)
def command(output: Path | None) -> None:
    """Print the JSON Schema of configs, for completion and checks in an editor.

    A config names it in its first line: `# yaml-language-server: $schema=ragbench.schema.json`.
    """
    from ragbench.config.json_schema import config_schema
    from ragbench.files import write_atomically

    text = _laid_out(config_schema()) + "\n"
    if output is None:
        write_json(text)
        return
    try:
        write_atomically(output, text)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror}") from error
    click.echo(f"wrote {output}", err=True)


def _laid_out(value: Any, indent: str = "") -> str:
    """The value as JSON; what fits in a line stays there: a third of the size, and readable."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= _WIDTH or not isinstance(value, (dict, list)):
        return line
    inner = indent + "  "
    if isinstance(value, list):
        parts = [inner + _laid_out(part, inner) for part in value]
        return "[\n" + ",\n".join(parts) + f"\n{indent}]"
    parts = [f"{inner}{json.dumps(key)}: {_laid_out(part, inner)}" for key, part in value.items()]
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
