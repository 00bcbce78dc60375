"""Pages of finished runs: `ragbench report RUN...` writes one again, `runs` lists many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragbench.cli.streams import echo

if TYPE_CHECKING:
    from ragbench.data.runs.run_list import RunEntry


@click.command(name="report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The page, .html or .md; an existing file is replaced. Of several runs: "
    "side-by-side.html.",
)
@click.option(
    "--figures",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write the pictures of one run there as files, for papers and slides.",
)
@click.option(
    "--format",
    "kinds",
    metavar="KIND,...",
    help="Of pictures: svg, pdf, png, or several. Default: svg. For pdf and png: "
    "pip install 'ragbench[figures]'.",
)
def command(
    runs: tuple[Path, ...], output: Path | None, figures: Path | None, kinds: str | None
) -> None:
    """Write the page of a finished RUN again, or one page for several runs.

    Each RUN is a run folder, or the folder of an experiment, whose newest run is used. For one RUN,
    its report.html and report.md are written again, or one page with -o. For several, one page has
    all systems, each compared with the system of the same name in the first RUN: what changed in
    config and data, and what moved in scores, causes and queries. If they are not comparable, the
    page lists what differs.
    """
    from ragbench.experiment.output.pages import FIGURES, PAGES, write_figures, write_pages

    asked = [FIGURES[0]] if kinds is None else list(dict.fromkeys(map(str.strip, kinds.split(","))))
    if kinds is not None and figures is None:
        raise click.UsageError("--format is of pictures: give --figures FOLDER, too")
    if not set(asked) <= set(FIGURES):
        raise click.UsageError(f"--format {kinds}: allowed: {', '.join(FIGURES)}, with commas")
    if figures is not None:
        if len(runs) > 1 or output is not None:
            raise click.UsageError("--figures is of one run, and without -o")
        for path in write_figures(runs[0], figures, asked):
            echo(f"figure: {path}")
        return
    if output is not None and output.suffix not in PAGES:
        raise click.UsageError(f"-o {output}: a page ends in {' or '.join(PAGES)}")
    for path in write_pages(runs, output, tell=echo):
        echo(f"report: {path}")


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
def runs(folder: Path, score: str | None, output: Path | None, form: str) -> None:
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
        echo(f"report: {output}")
    elif form == "json":
        rows = [_as_json(entry, folder) for entry in found]
        write_json(to_json({"schema": "ragbench.runs/1", "runs": rows}))
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
