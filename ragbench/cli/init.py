"""`ragbench init`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="init")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default="ragbench.yaml")
@click.option(
    "--from",
    "records",
    type=click.Path(path_type=Path),
    metavar="RECORDS",
    help="A CSV, JSONL or Parquet file with a row per question.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def command(file: Path, records: Path | None, force: bool) -> None:
    """Write a config to start from into FILE (default: ragbench.yaml).

    With --from the config reads a file of records, whose columns are recognised by name; without it
    reads a folder in the BEIR layout, which you fill. What is still missing is printed.
    """
    from ragbench.config.scaffold import scaffold_beir, scaffold_records
    from ragbench.files import write_atomically

    if file.exists() and not force:
        raise click.UsageError(f"{file} exists; --force overwrites it")
    if records and file.exists() and file.samefile(records):
        raise click.UsageError(f"{file} is the file of records: name another file for the config")
    scaffold = scaffold_records(file, records) if records else scaffold_beir(file)
    try:
        write_atomically(file, scaffold.text)
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror}") from error
    click.echo(f"wrote {file}")
    for note in scaffold.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"next: ragbench validate {file}", err=True)
