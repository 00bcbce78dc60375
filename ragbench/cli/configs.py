"""Commands `ragbench validate` and `ragbench schema`: check and describe configs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli import output

if TYPE_CHECKING:
    from ragbench.config.schema import ExperimentConfig
    from ragbench.types import Collection

# Characters of a value, and rows of the data, that `validate` prints.
_WIDEST = 72
_ROWS = 2
_LABELS = 10  # columns of the labels
_SCORES = ("measures", "metrics", "judged")


@output.command(name="validate", examples=("ragbench validate my.yaml",))
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
    settings: ExperimentConfig, subject: str, earlier: list[tuple[str, list[str]]], *, judge: bool
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
        _show("named", [", ".join(chain.from_iterable(systems)) or "none"])
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
    scores = [values for label, values in plan if label in _SCORES]
    if scores and not any(scores):
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
    from ragbench.types.lookups import item_names

    plan = make_plan(config, collection, Choices(judge=judge), LiveComponents(), calls=False)
    check_startup(config, plan.retrievers, plan.generators, plan.all_judges)
    answering = item_names(plan.answering_without_controls)
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

    sizes = {"queries": len(collection.queries)}
    if collection.documents is not None:
        sizes["documents"] = len(collection.documents)
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


@output.command(name="schema", examples=("ragbench schema -o config.schema.json",))
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
