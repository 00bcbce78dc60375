"""`ragbench report RUN...`: writes the page of a run again, or one page for several runs."""

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
            click.echo(f"figure: {path}")
        return
    if output is not None and output.suffix not in PAGES:
        raise click.UsageError(f"-o {output}: a page ends in {' or '.join(PAGES)}")
    for path in write_pages(runs, output, tell=click.echo):
        click.echo(f"report: {path}")
