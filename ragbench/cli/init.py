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
    "--column",
    "columns",
    multiple=True,
    metavar="PART=COLUMN",
    help="Which column of TABLE plays a part, where its name does not say it: question=Frage.",
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
    file: Path | None,
    records: Path | None,
    corpus: Path | None,
    columns: tuple[str, ...],
    output: Path | None,
    force: bool,
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
    if columns and records is None:
        raise click.UsageError("--column goes with --from TABLE, whose columns it names")
    if file.exists() and not force:
        raise click.UsageError(f"{file} exists; --force overwrites it")
    if records and file.exists() and file.samefile(records):
        raise click.UsageError(f"{file} is the file of records: name another file for the config")
    named = _named(columns)
    scaffold = scaffold_records(file, records, corpus, named) if records else scaffold_beir(file)
    try:
        write_atomically(file, scaffold.text)
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror}") from error
    click.echo(f"wrote {file}")
    for note in scaffold.notes:
        click.echo(f"note: {note}", err=True)
    verb = "run" if corpus else "validate"
    click.echo(f"next: ragbench {verb} {file}", err=True)


def _named(columns: tuple[str, ...]) -> dict[str, str | list[str]]:
    """Part -> its column, or columns where several may play it, of `PART=COLUMN`."""
    from ragbench.data.files.columns import PARTS, SEVERAL

    named: dict[str, list[str]] = {}
    for each in columns:
        part, _, column = each.partition("=")
        wrong = None
        if part not in PARTS:
            wrong = f"no part '{part}' (parts: {', '.join(PARTS)})"
        elif not column:
            wrong = f"'{each}' names no column: write {part}=COLUMN"
        elif part in named and part not in SEVERAL:
            wrong = f"one column plays {part}: '{named[part][0]}' or '{column}'"
        if wrong is not None:
            raise click.BadParameter(wrong, param_hint="--column")
        named.setdefault(part, []).append(column)
    return {part: held if len(held) > 1 else held[0] for part, held in named.items()}
