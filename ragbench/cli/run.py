"""`ragbench run CONFIG`."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

import click

_WIDTH = 100  # columns of what is piped or stored: the same on every machine


@click.command(name="run")
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="A seeded sample of N queries."
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Only this retriever, generator or pair; may be repeated, or several with commas.",
)
@click.option("--no-judge", is_flag=True, help="Ask no judge.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value of the config."
)
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of the tables.")
@click.option("--quiet", is_flag=True, help="No progress and no notes.")
@click.pass_context
def command(
    ctx: click.Context,
    config: Path,
    limit: int | None,
    only: tuple[str, ...],
    no_judge: bool,
    overrides: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Run the experiment that CONFIG describes.

    Prints the tables, and where the report is. The run folder is written at the end, whole or
    not at all.
    """
    from ragbench.config import load_config
    from ragbench.data.run_folder import to_json
    from ragbench.experiment.choices import Choices
    from ragbench.experiment.runner import run_experiment
    from ragbench.report.progress import Progress
    from ragbench.report.table import render_terminal

    checked = load_config(config, overrides=overrides)
    names = tuple(name.strip() for part in only for name in part.split(","))
    with contextlib.redirect_stdout(sys.stderr):  # what a component prints is no result
        experiment = run_experiment(
            checked,
            choices=Choices(limit=limit, only=names, judge=not no_judge),
            progress=Progress(quiet=quiet),
        )
    if as_json:
        click.echo(to_json(experiment.summary), nl=False)
    else:
        terminal = sys.stdout.isatty()
        tables = render_terminal(
            experiment.summary,
            experiment.comparisons,
            width=shutil.get_terminal_size().columns if terminal else _WIDTH,
            color=terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
            notes=not quiet,
            report=_shown(experiment.path),
        )
        click.echo(tables)
    ctx.exit(experiment.exit_code)


def _shown(folder: Path) -> str:
    """The page's path, short where it lies below the working directory."""
    page = folder / "report.html"
    return str(page.relative_to(Path.cwd()) if page.is_relative_to(Path.cwd()) else page)
