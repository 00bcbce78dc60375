"""`ragbench schema`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="schema")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it to a file."
)
def command(output: Path | None) -> None:
    """Print the JSON Schema of configs, for completion and checks in an editor.

    A config names it in its first line: `# yaml-language-server: $schema=ragbench.schema.json`.
    """
    import json

    from ragbench.config import config_schema
    from ragbench.files import write_atomically

    text = json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        write_atomically(output, text)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror}") from error
    click.echo(f"wrote {output}", err=True)
