"""`ragbench run CONFIG`."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli.output import config_argument, limit_option, no_judge_option, overrides_option
from ragbench.cli.streams import behind

if TYPE_CHECKING:
    from ragbench.experiment.result import Experiment


class _Command(click.Command):
    """Lets `--only` take several names: `--only bm25 exact` is `--only bm25 --only exact`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        expanded: list[str] = []
        names_follow = False
        for arg in args:
            names_follow = arg == "--only" or (
                names_follow and not arg.startswith("-") and not arg.endswith((".yaml", ".yml"))
            )
            if names_follow and arg != "--only" and expanded[-1] != "--only":
                expanded.append("--only")
            expanded.append(arg)
        return super().parse_args(ctx, expanded)


@click.command(name="run", cls=_Command)
@config_argument
@limit_option
@click.option(
    "--only", multiple=True, metavar="NAME...", help="Only these retrievers, generators or pairs."
)
@no_judge_option
@click.option("--judge-replay", is_flag=True, help="Judge from stored replies only; send nothing.")
@click.option("--retry-failed", is_flag=True, help="Try failed items again.")
@overrides_option
@click.option("--strict", is_flag=True, help="Exit with 4 if a gate is undecided.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of the tables.")
@click.option("--quiet", is_flag=True, help="No progress and no notes.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: Path,
    overrides: tuple[str, ...],
    strict: bool,
    as_json: bool,
    quiet: bool,
    **choices: Any,
) -> None:
    """Run the experiment that CONFIG describes.

    Prints the tables, and where the report is. Results are stored item by item: a second run
    computes only what changed, and a stopped run resumes. The run folder is written at the end,
    complete or not at all.
    """
    from ragbench.cli.output import report_to_github, write_drawn, write_json
    from ragbench.config.load import load_config
    from ragbench.data.runs.run_folder import to_json
    from ragbench.errors import AdapterError
    from ragbench.experiment.plan.records import Choices
    from ragbench.experiment.result import exit_code_of
    from ragbench.experiment.runner import run_experiment
    from ragbench.redaction import redact
    from ragbench.report.markdown import render_markdown
    from ragbench.report.progress import Progress
    from ragbench.report.terminal import STYLES

    judge = not choices.pop("no_judge")
    if choices["judge_replay"] and not judge:
        raise click.UsageError("--no-judge and --judge-replay exclude each other")
    names = [name.strip() for part in choices.pop("only") for name in part.split(",")]
    chosen = Choices(judge=judge, only=tuple(names), **choices)
    checked = load_config(config, overrides=overrides)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a component prints is no result
            progress = Progress(quiet=quiet, stream=behind(sys.stderr))
            experiment = run_experiment(checked, choices=chosen, progress=progress)
    except KeyboardInterrupt:
        click.echo("finished items are stored; the same command resumes the run", err=True)
        raise
    except AdapterError as error:  # its text is the user's own and may hold a key
        raise AdapterError(redact(Exception.__str__(error), checked.secrets)) from error
    summary, comparisons = experiment.record, experiment.compared
    if as_json:
        write_json(to_json(experiment.summary))
    else:
        write_drawn(_tables(experiment, notes=not quiet), STYLES)
    page = partial(render_markdown, summary, comparisons)
    report_to_github(page, summary.gates, config, os.environ)
    code = exit_code_of(summary, strict=strict)
    if checked.metrics.verify:
        from ragbench.cli.verification import verify_experiment

        code = code or verify_experiment(checked, experiment)
    ctx.exit(code)


def _tables(experiment: Experiment, *, notes: bool) -> str:
    from ragbench.cli.output import terminal_width
    from ragbench.report.terminal import render_terminal

    color = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    page = experiment.path / "report.html"
    return render_terminal(
        experiment.record,
        experiment.compared,
        width=terminal_width(),
        color=color and sys.stdout.isatty(),
        notes=notes,
        # short where it lies below the working directory
        report=str(page.relative_to(Path.cwd()) if page.is_relative_to(Path.cwd()) else page),
    )
