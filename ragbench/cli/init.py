"""Command `ragbench init`: a first config, from the files of the user where they are named."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ragbench.cli import output


@output.command(
    name="init",
    examples=("ragbench init", "ragbench init --from questions.csv --corpus docs/"),
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@output.path_option(
    "--from",
    "records",
    metavar="TABLE",
    help="A CSV, JSONL, JSON or Parquet file with a row per question, an export of "
    "traces, or a folder of BEIR, mteb, save_to_disk or AutoRAG.",
)
@output.path_option(
    "--corpus",
    metavar="PATH",
    help="The documents: a folder of .txt, .md, .html and .pdf files (the last two "
    "need the extra documents), or a JSONL, CSV or Parquet file.",
)
@output.several(
    "--column",
    "columns",
    metavar="PART=COLUMN",
    help="Names a column that is not recognised, such as question=Frage; repeatable.",
)
@output.file_option("-o", "--output", "target", help="Where to write the config; the same as FILE.")
@output.flag("--force", help="Overwrite FILE.")
def init(
    file: Path | None,
    records: Path | None,
    corpus: Path | None,
    columns: tuple[str, ...],
    target: Path | None,
    force: bool,
) -> None:
    """Write a first config into FILE (default: ragbench.yaml).

    With --from the config reads a table of questions, or a public data set in a file or folder;
    columns are recognised by name and content. If no column holds the question, or nothing could be
    scored, nothing is written: name the missing column with --column.
    With --corpus as well, retrievers search these documents, and the config can be run at once.
    Without --from the config reads a folder `dataset` in the BEIR layout, which you create and
    fill. An existing FILE is an error without --force. The command prints the columns that it
    recognised and the optional parts that are missing.
    """
    from ragbench.config.scaffold import scaffold_beir, scaffold_records
    from ragbench.files import write_file

    output.refuse((file and target, "FILE and --output mean the same; pass one of them"))
    file = file or target or Path("ragbench.yaml")
    file_exists, is_table = file.exists(), records and file.exists() and file.samefile(records)
    output.refuse(
        (corpus and not records, "--corpus needs --from TABLE, the questions"),
        (columns and not records, "--column needs --from TABLE, whose columns it names"),
        (file_exists and not force, f"{file} exists; --force overwrites it"),
        (is_table, f"{file} is the table; choose another file for the config"),
    )
    parts = _parse_columns(columns)
    config = scaffold_records(file, records, corpus, parts) if records else scaffold_beir(file)
    text, notes, verb = config
    output.write_notes(notes)
    if records and verb == "run":
        _check_scored(text, file)
    write_file(file, text)
    output.echo(f"wrote {file}")
    output.echo(f"next: ragbench {verb} {shlex.quote(str(file))}", err=True)


def _check_scored(text: str, file: Path) -> None:
    """Plan a config before it is written; raise a `DataError` if its run would score nothing."""
    from ragbench.config.load import load_config
    from ragbench.experiment.plan.plan import load_collection, make_plan
    from ragbench.experiment.plan.records import LiveComponents
    from ragbench.json_yaml import load_yaml
    from ragbench.records.manifest import Choices

    settings = load_config(load_yaml(text, typed=True), base_dir=file.parent)
    make_plan(settings, load_collection(settings), Choices(), LiveComponents(), calls=False)


def _parse_columns(columns: tuple[str, ...]) -> dict[str, str]:
    """Parse `PART=COLUMN` into part -> column."""
    from ragbench.types.tables import PARTS

    columns_of_part = output.parse_pairs("--column", columns)
    for part, names in columns_of_part.items():
        if part not in PARTS:
            problem = f"unknown part '{part}'; allowed: {', '.join(PARTS)}"
            raise click.BadParameter(problem, param_hint="--column")
        if len(names) > 1:
            problem = f"{part} has one column: '{names[0]}' or '{names[1]}'"
            raise click.BadParameter(problem, param_hint="--column")
    return {part: names[0] for part, names in columns_of_part.items()}
