"""`ragbench runs [FOLDER]`: the runs of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ragbench.data.runs.run_list import RunEntry


@click.command(name="runs")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@click.option(
    "--score",
    metavar="NAME",
    help="What says which system is best, and is followed over the runs. Default: the first one.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a page with pictures, .html or .md; an existing file is replaced.",
)
@click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def command(folder: Path, score: str | None, output: Path | None, form: str) -> None:
    """List the runs of FOLDER, oldest first: best system by a score, commit, what changed, trend.

    FOLDER is that of an experiment, or has several of them; default: runs. What changed is the
    config and the data since the run before of the same name. Below the list the score of each
    system goes on over the runs. Folders that are no whole runs are named, with what is wrong.
    """
    from ragbench.cli.output import write_json, write_result
    from ragbench.data.runs.run_folder import to_json
    from ragbench.data.runs.run_list import list_runs
    from ragbench.experiment.output.pages import PAGES, write_list
    from ragbench.report.runs.run_list import list_lines

    if output is not None and output.suffix not in PAGES:
        raise click.UsageError(f"-o {output}: a page ends in {' or '.join(PAGES)}")
    found = list_runs(folder, score)
    if output is not None:
        write_list(output, found, folder)
        click.echo(f"report: {output}")
    elif form == "json":
        runs = [_as_json(entry, folder) for entry in found]
        write_json(to_json({"schema": "ragbench.runs/1", "runs": runs}))
    else:
        write_result("\n".join(list_lines(found, folder)) + "\n")


def _as_json(entry: RunEntry, folder: Path) -> dict[str, object]:
    from ragbench.records.codec import to_json
    from ragbench.report.runs.run_list import place_of

    return {
        "path": place_of(entry, folder),
        "name": entry.name,
        "started": entry.started,
        "queries": entry.queries,
        "complete": entry.complete,
        "system": entry.system,
        "score": entry.score,
        "value": None if entry.value is None else to_json(entry.value),
        "scores": {system: to_json(score) for system, score in entry.scores.items()},
        "commit": entry.commit,
        "changed": list(entry.changed),
        "problem": entry.problem,
    }
