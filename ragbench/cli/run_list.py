"""`ragbench runs [FOLDER]`: the runs of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ragbench.data.runs.run_list import RunEntry

_SHOWN_CHANGES = 3


@click.command(name="runs")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def command(folder: Path, form: str) -> None:
    """List the runs of FOLDER, oldest first: best system by the first score, commit, what changed.

    FOLDER is that of an experiment, or has several of them; default: runs. What changed is the
    config and the data since the run before of the same name. Folders that are no whole runs are
    listed at the end, with what is wrong.
    """
    from ragbench.cli.output import write_json, write_result
    from ragbench.data.runs.run_folder import to_json
    from ragbench.data.runs.run_list import list_runs

    found = list_runs(folder)
    if form == "json":
        runs = [_as_json(entry, folder) for entry in found]
        write_json(to_json({"schema": "ragbench.runs/1", "runs": runs}))
    else:
        write_result("\n".join(_lines(found, folder)) + "\n")


def _lines(found: list[RunEntry], folder: Path) -> list[str]:
    from ragbench.report.text import draw, printable, with_interval

    rows = [("started", "name", "run", "best", "score", "commit", "changed since the run before")]
    for entry in found:
        if entry.problem is None and entry.value is not None:
            score = with_interval(entry.value.mean, entry.value.interval)
            rows.append((*_facts(entry, folder), f"{entry.score} {score}", *_since(entry)))
        elif entry.problem is None:
            rows.append((*_facts(entry, folder), "nothing scored", *_since(entry)))
    shown = [[printable(cell) for cell in row] for row in rows]
    lines = draw([list(column) for column in zip(*shown, strict=True)]) if len(rows) > 1 else []
    lines += [
        f"not a whole run: {printable(_place(entry, folder))}: {printable(entry.problem)}"
        for entry in found
        if entry.problem is not None
    ]
    return lines


def _facts(entry: RunEntry, folder: Path) -> tuple[str, str, str, str]:
    mark = "" if entry.complete else " (incomplete)"
    return entry.started, entry.name, f"{_place(entry, folder)}{mark}", entry.system or "-"


def _since(entry: RunEntry) -> tuple[str, str]:
    changed = "; ".join(entry.changed[:_SHOWN_CHANGES])
    if len(entry.changed) > _SHOWN_CHANGES:
        changed += f"; {len(entry.changed) - _SHOWN_CHANGES} more"
    first = "the first run" if entry.is_first else "nothing"
    return (entry.commit or "-")[:10], changed or first


def _place(entry: RunEntry, folder: Path) -> str:
    relative = entry.path.relative_to(folder)
    return str(relative) if relative.parts else entry.path.name


def _as_json(entry: RunEntry, folder: Path) -> dict[str, object]:
    from ragbench.records.codec import to_json

    return {
        "path": _place(entry, folder),
        "name": entry.name,
        "started": entry.started,
        "queries": entry.queries,
        "complete": entry.complete,
        "system": entry.system,
        "score": entry.score,
        "value": None if entry.value is None else to_json(entry.value),
        "commit": entry.commit,
        "changed": list(entry.changed),
        "problem": entry.problem,
    }
