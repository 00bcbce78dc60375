"""Command `ragbench fix RUN`."""

from __future__ import annotations

from pathlib import Path

import click

from ragbench.cli import output


@click.command(name="fix")
@output.run_argument
@click.option("--system", metavar="S", help="Start from this system. Default: the baseline.")
@output.json_option(help="Print all changes, with all questions, as JSON.")
def command(run: Path, system: str | None, as_json: bool) -> None:
    """Show what to change in RUN: the questions that each change rescues and loses.

    RUN is a run folder, or the folder of an experiment (the newest run). Changes are counted from
    its stored rankings: another retriever, a reranker, a fusion, more or fewer passages. Counts are
    exact; gains have an interval, confirmed on questions that did not choose. Nothing is run.
    """
    from ragbench.data.runs.run_folder import to_json
    from ragbench.experiment.fix import list_fixes
    from ragbench.records import codec
    from ragbench.report.fixes import fix_lines

    fixes = list_fixes(run, system)
    if as_json:
        output.write_json(to_json(codec.to_json(fixes)))
        return
    for line in fix_lines(fixes, str(run), output.terminal_width()):
        output.echo(line)
