"""Commands `ragbench init`, `validate` and `schema`: write, check and describe configs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli import output
from ragbench.types.lookups import item_names

if TYPE_CHECKING:
    from ragbench.config.schema import ExperimentConfig
    from ragbench.types import Collection

# Characters of a value, and rows of the data, that `validate` prints.
_WIDEST = 72
_ROWS = 2
_LABELS = 10  # columns of the labels
_SCORES = ("measures", "metrics", "judged")


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


@output.command(
    name="validate",
    examples=("ragbench validate my.yaml",),
)
@output.config_argument
@output.no_judge_option
@output.overrides_option
def validate(config: Path, overrides: tuple[str, ...], no_judge: bool) -> None:
    """Check CONFIG, read its data, and list its systems and scores; nothing is run.

    All mistakes are printed at once with their places, and the exit code is 2. A key or package
    that is missing for `ragbench run CONFIG` is a mistake, too. Modules that CONFIG names are
    imported, but none of their classes and functions is called.
    """
    from ragbench.config.load import load_config

    settings = load_config(config, overrides=overrides)
    earlier: list[tuple[str, list[str]]] = []
    for name, part in (settings.collections or {"": settings}).items():
        subject = f"{config} ({name})" if name else str(config)
        earlier = _validate(part, subject, earlier, judge=not no_judge)


def _validate(
    settings: ExperimentConfig,
    subject: str,
    earlier: list[tuple[str, list[str]]],
    *,
    judge: bool,
) -> list[tuple[str, list[str]]]:
    """Read a collection; print and return systems and scores, in one line if equal to `earlier`."""
    from ragbench.data.loaders.base import Previewed
    from ragbench.experiment.plan.components import loads_by_code, uncalled_components
    from ragbench.experiment.plan.plan import check_without_data, load_collection
    from ragbench.records.manifest import Choices
    from ragbench.types.display import cut

    width = max(output.terminal_width() - _LABELS, 40)
    notes = [f"{name} is created by a run only" for name in uncalled_components(settings)]
    if loads_by_code(settings):
        check_without_data(settings, Choices(judge=judge))
        output.echo(f"ok: {subject}")
        _show("data", [f"{settings.dataset.type}: loaded by a run only"])
        systems = (settings.retrievers, settings.generators, settings.apps)
        _show("named", [", ".join(name for block in systems for name in block) or "none"])
        _show("note", notes)
        return []
    collection = load_collection(settings)
    plan = _plan_lines(settings, collection, judge=judge)
    output.echo(f"ok: {subject}")
    _show("data", [f"{settings.dataset.type}: {_sizes(collection)}", *collection.notes])
    dataset = settings.dataset
    # `python:` may name a function, which has no preview
    if isinstance(dataset.cls, type) and issubclass(dataset.cls, Previewed):
        rows = dataset.cls(**dataset.options).preview(_ROWS)
        for number, row in enumerate(rows, start=1):
            lines = []
            for part, value in row.items():
                lines.append(f"{part}: {_format(value)}")
            # an excerpt of the data is no longer than a line of a terminal
            _show(f"row {number}", [cut(line, width) for line in lines])
    if plan == earlier:
        _show("systems", ["and scores: as above"])
    else:
        for label, values in plan:
            _show(label, [", ".join(values) or "none"])
    _show("note", notes)
    has_scores = any(label in _SCORES for label, _ in plan)
    if has_scores and not any(values for label, values in plan if label in _SCORES):
        _show("warning", ["nothing would be scored: the data have no gold, and there is no judge"])
    return plan


def _plan_lines(
    config: ExperimentConfig, collection: Collection, *, judge: bool
) -> list[tuple[str, list[str]]]:
    """Return (label, names of the systems and scores of a run, or notes) in the printed order."""
    from ragbench.experiment.plan.components import check_startup
    from ragbench.experiment.plan.plan import make_plan
    from ragbench.experiment.plan.records import LiveComponents
    from ragbench.records.manifest import Choices

    plan = make_plan(config, collection, Choices(judge=judge), LiveComponents(), calls=False)
    check_startup(config, plan.retrievers, plan.generators, plan.all_judges)
    answering = []
    for answering_system in plan.answering_systems:
        if answering_system.type != "control":
            answering.append(answering_system.name)
    judged = []
    for name, planned in plan.judges.items():
        for rubric in (*planned.rubrics, *planned.pairwise):
            judged.append(f"{rubric.name} ({name})")
    lines = [("systems", [*plan.scored_retrievers, *answering]), ("measures", list(plan.measures))]
    if rule := plan.config.metrics.retrieval.match.rule:
        lines.append(("match", [rule]))
    if (fill := plan.fill) is not None:
        graded = f"unjudged passages among the best {fill.rules.depth} hits of each retriever"
        lines.append(("filled", [f"{graded}, by {fill.rubric.name} ({fill.name})"]))
    metrics = item_names(plan.metrics)
    for entry in plan.pass_metrics():
        metrics.append(entry.metric.name)
    lines += [("metrics", metrics), ("judged", judged)]
    for warning in plan.warnings:
        lines.append(("warning", [warning]))
    for name, why in plan.skipped_judges.items():
        lines.append(("note", [f"judge '{name}' would be skipped: {why}"]))
    return lines


def _show(label: str, lines: Iterable[str]) -> None:
    """Print lines, the first one behind its label, all behind its column; nothing for no lines."""
    for line in lines:
        output.echo_wrapped(f"{label:<{_LABELS}}{line}", " " * _LABELS)
        label = ""


def _sizes(collection: Collection) -> str:
    """Return the counts of a data set: `66 queries, 132 documents, 300 judgements`."""
    from ragbench.report.text import counted

    parts = {"queries": collection.queries, "documents": collection.documents}
    sizes = {}
    for noun, part in parts.items():
        if part is not None:
            sizes[noun] = len(part)
    if collection.qrels is not None:
        sizes["judgements"] = sum(map(len, collection.qrels.to_dict().values()))
    texts = []
    for noun, n in sizes.items():
        texts.append(f"{n:,} {counted(n, noun).partition(' ')[2]}")
    if collection.answers:
        texts.append(f"{len(collection.answers):,} with a gold answer")
    return ", ".join(texts)


def _format(value: Any) -> str:
    """Format a value in one line: a list has its length first, None is `none`."""
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return f"{len(value)}: {_shorten(' | '.join(map(str, value)))}" if value else "0"
    return _shorten(str(value))


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..."


def _short_objects(text: str) -> str:
    """Return indented JSON with each object of one plain value on one line."""
    lines: list[str] = []
    for line in text.split("\n"):
        value = lines[-1].strip() if lines else ""
        is_plain = value.startswith('"') and not value.endswith(("{", "[", ","))
        if line.strip() in ("}", "},") and is_plain and lines[-2].endswith("{"):
            start = lines[-2]
            del lines[-2:]
            line = f"{start}{value}{line.strip()}"
        lines.append(line)
    return "\n".join(lines)


@output.command(
    name="schema",
    examples=("ragbench schema -o config.schema.json",),
)
@click.argument("file", type=click.Choice(["config", "summary"]), default="config")
@output.file_option("-o", "--output", "target", help="Write it to a file.")
def schema(file: str, target: Path | None) -> None:
    """Print the JSON Schema of configs, for completion and checks in an editor.

    The first line of a config names the schema: `# yaml-language-server:
    $schema=ragbench.schema.json`. `ragbench schema summary` prints the schema of summary.json.
    """
    from ragbench.config.json_schema import config_schema
    from ragbench.files import write_file
    from ragbench.records.json_schema import summary_schema

    content = config_schema() if file == "config" else summary_schema()
    text = _short_objects(json.dumps(content, ensure_ascii=False, indent=1)) + "\n"
    if target is None:
        output.write_json(text)
        return
    write_file(target, text)
    output.echo(f"wrote {target}", err=True)
