"""`ragbench report RUN...`: draws the page of a run again, or of several side by side."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The page, .html or .md; an old one is replaced. Several runs need it.",
)
def command(runs: tuple[Path, ...], output: Path | None) -> None:
    """Draw the page of a finished RUN again, or of several runs side by side.

    Each RUN is a run folder, or the folder of an experiment, whose newest run is taken. One RUN:
    its report.html and report.md are written again, or one page with -o. Several: one page with
    all systems, each compared with that of the same name in the first RUN, where they may be
    compared; what differs otherwise is said.
    """
    from ragbench.experiment.output.pages import PAGES, write_pages

    if len(runs) > 1 and output is None:
        raise click.UsageError("several runs are one page: say where with -o side-by-side.html")
    if output is not None and output.suffix not in PAGES:
        raise click.UsageError(f"-o {output}: a page ends in {' or '.join(PAGES)}")
    for path in write_pages(runs, output):
        click.echo(f"report: {path}")
