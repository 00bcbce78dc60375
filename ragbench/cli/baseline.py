"""`ragbench baseline RUN -o FILE`: the scores per query in one file to commit."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="baseline")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file, such as baselines/main.json; an existing file is replaced.",
)
@click.option(
    "--costs",
    is_flag=True,
    help="Add the time and cost of each query, for gates with max_increase; the file then "
    "differs from run to run.",
)
def command(run: Path, output: Path, costs: bool) -> None:
    """Write the scores of a finished RUN to one small file.

    RUN is a run folder, or the folder of an experiment, whose newest run is used. Commit the file:
    `ragbench compare FILE RUN` shows what has changed since. Equal scores give equal bytes.
    """
    from ragbench.cli.output import write_notes
    from ragbench.data.runs.baseline import write_baseline
    from ragbench.data.runs.run_scores import read_run_scores
    from ragbench.report.text import counted

    scores = read_run_scores(run)
    write_baseline(output, scores, costs=costs)
    systems = counted(sum(bool(system.scores) for system in scores.systems), "systems")
    click.echo(f"baseline: {output}: {systems}, {counted(len(scores.query_ids), 'queries')}")
    if scores.summary is not None and not scores.summary.complete:
        write_notes(["the run is incomplete: too many items failed, and its baseline lacks them"])
