"""`ragbench init`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="init")
@click.argument(
    "file", type=click.Path(dir_okay=False, path_type=Path), required=False, default=None
)
@click.option(
    "--from",
    "records",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="A CSV, JSONL, JSON or Parquet file with a row per question.",
)
@click.option(
    "--corpus",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The documents: a folder of .txt and .md files, or a JSONL, CSV or Parquet file.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write the config; the same as the argument.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def command(
    file: Path | None, records: Path | None, corpus: Path | None, output: Path | None, force: bool
) -> None:
    """Write a config to start from into FILE (default: ragbench.yaml).

    With --from the config reads a table, whose columns are recognised by name and content, and with
    --corpus it retrieves from these documents: it can be run at once. Without --from it reads a
    folder in the BEIR layout, which you fill. What was understood and what is still missing is
    printed.
    """
    from ragbench.config.scaffold import scaffold_beir, scaffold_records
    from ragbench.files import write_atomically

    if file is not None and output is not None:
        raise click.UsageError("FILE and --output are the same: give one of them")
    file = file or output or Path("ragbench.yaml")
    if corpus is not None and records is None:
        raise click.UsageError("--corpus goes with --from TABLE, the questions")
    if file.exists() and not force:
        raise click.UsageError(f"{file} exists; --force overwrites it")
    if records and file.exists() and file.samefile(records):
        raise click.UsageError(f"{file} is the file of records: name another file for the config")
    scaffold = scaffold_records(file, records, corpus) if records else scaffold_beir(file)
    try:
        write_atomically(file, scaffold.text)
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror}") from error
    click.echo(f"wrote {file}")
    for note in scaffold.notes:
        click.echo(f"note: {note}", err=True)
    verb = "run" if corpus else "validate"
    click.echo(f"next: ragbench {verb} {file}", err=True)
