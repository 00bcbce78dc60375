"""`ragbench reproduce RUN`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from ragbench.cli.streams import behind


@click.command(name="reproduce")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option(
    "--trust",
    is_flag=True,
    help="Import code that lies in RUN, ask the addresses and send the variables that it names; "
    "only if you know who wrote it.",
)
@click.pass_context
def command(ctx: click.Context, run: Path, quiet: bool, trust: bool) -> None:
    """Repeat the run of the run folder RUN beside it, and show what differs.

    Values of environment variables are those that were recorded; secrets have to be set. Stored
    stages are not used, but stored replies of models are. `latest` stays. Code that the config of
    RUN names is imported from the working directory or from what is installed, and is named first;
    from RUN itself only with --trust. Other machines are asked, and keys other than OPENAI_API_KEY
    are given to what is asked, only with --trust as well. The exit code is 0 if every number is
    the same, else 1.
    """
    from ragbench.errors import EXIT_GATE_FAILED
    from ragbench.experiment.reproduce import reproduce
    from ragbench.report.progress import Progress

    with contextlib.redirect_stdout(sys.stderr):  # what a component prints is no result
        progress = Progress(quiet=quiet, stream=behind(sys.stderr))
        found = reproduce(run, progress, trust=trust, tell=click.echo)
    for line in found.environment:
        click.echo(f"environment: {line}")
    for line in found.surroundings:
        click.echo(f"changed: {line}")
    for line in found.numbers:
        click.echo(f"differs: {line}")
    same = "reproduced: every score and every ranking is the same"
    count = len(found.numbers)
    click.echo(f"{count} difference{'s' * (count > 1)}" if count else same)
    click.echo(f"{found.original} again: {found.again.path}")
    ctx.exit(EXIT_GATE_FAILED if found.numbers else 0)
