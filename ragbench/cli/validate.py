"""`ragbench validate CONFIG`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ragbench.types import Collection

_WIDEST = 72
_ROWS = 2


@click.command(name="validate")
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value of the config."
)
def command(config: Path, overrides: tuple[str, ...]) -> None:
    """Check CONFIG, read its data, and say what a run would do; nothing is run.

    Every mistake is printed at once, with its place; the exit code is then 2.
    """
    from ragbench.config import load_config
    from ragbench.experiment.load import load_collection

    checked = load_config(config, overrides=overrides)
    collection = load_collection(checked)
    plan = _plan(checked, collection)
    click.echo(f"ok: {config}")
    _line("data", [f"{checked.dataset.type}: {_counts(collection)}", *collection.notes])
    if collection.given:
        for number, query in enumerate(collection.queries[:_ROWS], start=1):
            _line(f"row {number}", _row(collection, query))
    for label, values in plan:
        _line(label, [", ".join(values) or "none"])


def _plan(config: Any, collection: Any) -> list[tuple[str, list[str]]]:
    """The systems and scores of a run; a note where an optional package is missing."""
    from ragbench.errors import MissingExtra
    from ragbench.experiment.plan import Choices, LiveComponents, make_plan

    try:
        plan = make_plan(config, collection, Choices(), LiveComponents())
    except MissingExtra as error:
        return [("note", [str(error)])]
    pairs = [f"{retriever}/{generator}" for retriever, generator in plan.pairs]
    judged = [
        f"{rubric.name} ({name})" for name, judge in plan.judges.items() for rubric in judge.rubrics
    ]
    return [
        ("systems", [*plan.retrievers, *pairs, *plan.given]),
        ("measures", list(plan.measures)),
        ("metrics", list(plan.metrics)),
        ("judged", judged),
    ]


def _line(label: str, lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(f"{label:<10}{line}")
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


def _row(collection: Collection, query: Any) -> list[str]:
    """One row of the records, as it was understood."""
    lines = [f"id: {query.id}", f"question: {_short(query.text)}"]
    for system, rows in collection.given.items():
        for row in rows:
            if row.query_id != query.id:
                continue
            if row.answer is not None:
                lines.append(f"answer of {system}: {_short(row.answer)}")
            if row.contexts is not None:
                first = f"; the first: {_short(row.contexts[0].text)}" if row.contexts else ""
                lines.append(f"contexts of {system}: {len(row.contexts)}{first}")
    references = collection.answers.get(query.id)
    return [*lines, f"reference: {_short(' | '.join(references)) if references else 'none'}"]


def _short(text: str) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..."
