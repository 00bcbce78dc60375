"""Configs: `ragbench init` writes one, `validate` checks one, `schema` tells editors about all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli.output import (
    config_argument,
    echo,
    file_option,
    overrides_option,
    path_option,
    refuse,
    several,
    write_json,
)

if TYPE_CHECKING:
    from ragbench.types import Collection

# characters of a value that `validate` shows
_WIDEST = 72
_ROWS = 2
_SCORES = ("measures", "metrics", "judged")
# columns of a line of the schema
_WIDTH = 100


@click.command(name="init")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@path_option(
    *("--from", "records"),
    metavar="TABLE",
    help="A CSV, JSONL, JSON or Parquet file with a row per question.",
)
@path_option(
    "--corpus",
    metavar="PATH",
    help="The documents: a folder of .txt and .md files, or a JSONL, CSV or Parquet file.",
)
@several(
    *("--column", "columns"),
    metavar="PART=COLUMN",
    help="Which column of TABLE plays a part, where its name does not say it: question=Frage.",
)
@file_option(*("-o", "--output"), help="Where to write the config; the same as the argument.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def init(
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
    from ragbench.files import write_file

    refuse((file and output, "FILE and --output are the same: give one of them"))
    file = file or output or Path("ragbench.yaml")
    is_there, is_table = file.exists(), records and file.exists() and file.samefile(records)
    refuse(
        (corpus and not records, "--corpus goes with --from TABLE, the questions"),
        (columns and not records, "--column goes with --from TABLE, whose columns it names"),
        (is_there and not force, f"{file} exists; --force overwrites it"),
        (is_table, f"{file} is the file of records: name another file for the config"),
    )
    named = _named(columns)
    config = scaffold_records(file, records, corpus, named) if records else scaffold_beir(file)
    text, notes = config
    write_file(file, text)
    echo(f"wrote {file}")
    for note in notes:
        echo(f"note: {note}", err=True)
    verb = "run" if corpus else "validate"
    echo(f"next: ragbench {verb} {file}", err=True)


def _named(columns: tuple[str, ...]) -> dict[str, str | list[str]]:
    """Part -> its column, or columns where several may play it, of `PART=COLUMN`."""
    from ragbench.types.tables import PARTS, SEVERAL

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


@click.command(name="validate")
@config_argument
@overrides_option
def validate(config: Path, overrides: tuple[str, ...]) -> None:
    """Check CONFIG, read its data, and show what a run would do; nothing is run.

    All mistakes are printed at once, with their places; the exit code is then 2. Modules that
    CONFIG names are imported, but none of their classes and functions is called.
    """
    from ragbench.config.load import load_config
    from ragbench.data.loaders.base import Previewed
    from ragbench.experiment.plan.components import loads_by_code, uncalled_components
    from ragbench.experiment.plan.plan import load_collection

    checked = load_config(config, overrides=overrides)
    uncalled = [f"{name} is not made before a run" for name in uncalled_components(checked)]
    if loads_by_code(checked):
        echo(f"ok: {config}")
        _line("data", [f"{checked.dataset.type}: not called; a run loads the data set"])
        systems = (checked.retrievers, checked.generators, checked.apps)
        _line("named", [", ".join(name for block in systems for name in block) or "none"])
        _line("note", uncalled)
        return
    collection = load_collection(checked)
    plan = _plan(checked, collection)
    echo(f"ok: {config}")
    _line("data", [f"{checked.dataset.type}: {_counts(collection)}", *collection.notes])
    dataset = checked.dataset
    # what `python:` names may be a function
    if isinstance(dataset.cls, type) and issubclass(dataset.cls, Previewed):
        rows = dataset.cls(**dataset.options).preview(_ROWS)
        for number, row in enumerate(rows, start=1):
            _line(f"row {number}", [f"{part}: {_value(value)}" for part, value in row.items()])
    for label, values in plan:
        _line(label, [", ".join(values) or "none"])
    _line("note", uncalled)
    known = any(label in _SCORES for label, _ in plan)
    if known and not any(values for label, values in plan if label in _SCORES):
        _line("warning", ["nothing would be scored: the data have no judgements and no answers"])


def _plan(config: Any, collection: Any) -> list[tuple[str, list[str]]]:
    """The systems and scores of a run; a note where an optional package is missing."""
    from ragbench.errors import MissingExtra
    from ragbench.experiment.plan.components import startup_problems
    from ragbench.experiment.plan.plan import make_plan
    from ragbench.experiment.plan.records import LiveComponents
    from ragbench.records.manifest import Choices

    try:
        plan = make_plan(config, collection, Choices(), LiveComponents(), calls=False)
    except MissingExtra as error:
        return [("note", [str(error)])]
    # apps are asked when they are run, and controls are no systems
    answering = [s.name for s in plan.answering_systems if s.type not in ("app", "control")]
    judged = [
        f"{rubric.name} ({name})"
        for name, judge in plan.judges.items()
        for rubric in (*judge.rubrics, *judge.pairwise)
    ]
    notes = [*startup_problems(plan.generators, plan.all_judges)]
    skipped = plan.skipped_judges.items()
    notes += [f"judge '{name}' would be skipped: {why}" for name, why in skipped]
    fill = plan.fill
    graded = fill and f"unjudged passages among the best {fill.rules.depth} of each retriever"
    return [
        ("systems", [*plan.retrievers, *answering]),
        ("measures", list(plan.measures)),
        *([("match", [rule])] if (rule := plan.config.metrics.retrieval.match.rule) else []),
        *([("filled", [f"{graded}, by {fill.rubric.name} ({fill.name})"])] if fill else []),
        ("metrics", [metric.name for metric in plan.metrics]),
        ("judged", judged),
        *(("warning", [warning]) for warning in plan.warnings),
        *(("note", [note]) for note in notes),
    ]


def _line(label: str, lines: Iterable[str]) -> None:
    for line in lines:
        echo(f"{label:<10}{line}")
        label = ""


def _counts(collection: Collection) -> str:
    parts = [_count(len(collection.queries), "query", "queries")]
    if collection.documents is not None:
        parts.append(_count(len(collection.documents), "document", "documents"))
    if collection.qrels is not None:
        judged = sum(len(docs) for docs in collection.qrels.to_dict().values())
        parts.append(_count(judged, "judgement", "judgements"))
    if collection.answers:
        parts.append(f"{len(collection.answers):,} with a gold answer")
    return ", ".join(parts)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return f"{len(value)}: {_short(' | '.join(map(str, value)))}" if value else "0"
    return _short(str(value))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..."


@click.command(name="schema")
@file_option(*("-o", "--output"), help="Write it to a file.")
def schema(output: Path | None) -> None:
    """Print the JSON Schema of configs, for completion and checks in an editor.

    A config names it in its first line: `# yaml-language-server: $schema=ragbench.schema.json`.
    """
    from ragbench.config.json_schema import config_schema
    from ragbench.files import write_file

    text = _laid_out(config_schema()) + "\n"
    if output is None:
        write_json(text)
        return
    write_file(output, text)
    echo(f"wrote {output}", err=True)


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
