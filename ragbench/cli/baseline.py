"""`ragbench baseline RUN -o FILE`: the scores per query in one file to commit, or a history."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="baseline")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file, such as baselines/main.json; an existing file is replaced. One that ends in "
    ".jsonl starts a history: its record is this run.",
)
@click.option(
    "--append",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A history, such as history/main.jsonl, that the run is added to; started if absent.",
)
@click.option(
    "--costs",
    is_flag=True,
    help="Add the time and cost of each query, for gates with max_increase; the file then "
    "differs from run to run.",
)
def command(run: Path, output: Path | None, append: Path | None, costs: bool) -> None:
    """Write the scores of a finished RUN to one small file.

    RUN is a run folder, or the folder of an experiment, whose newest run is used. Commit the file:
    `ragbench compare FILE RUN` shows what has changed since. Equal scores give equal bytes.

    With --append the run becomes a line of a history, over which gates add up evidence.
    """
    from ragbench.cli.output import write_notes
    from ragbench.data.runs.baseline import write_baseline
    from ragbench.data.runs.history import append_to_history, is_history, start_history
    from ragbench.data.runs.run_scores import read_run_scores
    from ragbench.report.text import counted

    file = output or append
    if file is None or (output and append):
        raise click.UsageError("one of -o FILE and --append FILE is needed, not both")
    if costs and (append or is_history(file)):
        raise click.UsageError("--costs: a history holds scores alone")
    scores = read_run_scores(run)
    systems = counted(sum(bool(system.scores) for system in scores.systems), "systems")
    kept = f"{systems}, {counted(len(scores.query_ids), 'queries')}"
    if append:
        line = append_to_history(append, scores)
        click.echo(f"history: {append}: {_added(line, kept)}")
    elif is_history(file):
        start_history(file, scores)
        click.echo(f"history: {file}: {_added(1, kept)}")
    else:
        write_baseline(file, scores, costs=costs)
        click.echo(f"baseline: {file}: {kept}")
    if scores.summary is not None and not scores.summary.complete:
        write_notes(["the run is incomplete: too many items failed, and its baseline lacks them"])


def _added(line: int | None, kept: str) -> str:
    if line is None:
        return "this run is in it already; nothing was added"
    return f"line {line}{', the record' if line == 1 else ''}: {kept}"
