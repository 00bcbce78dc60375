"""Command `ragbench gate CONFIG --base REF`."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from ragbench.cli import output


@click.command(name="gate")
@output.config_argument
@click.option(
    "--base",
    required=True,
    metavar="REF",
    help="A run folder, a baseline file, or a Git reference such as origin/main, whose merge base "
    "is run.",
)
@output.no_judge_option
@output.overrides_option
@click.option("--strict", is_flag=True, help="Exit with 4 if a gate is undecided.")
@click.option("--quiet", "-q", is_flag=True, help="No progress; print the first three lines only.")
@click.option("--as-base", type=click.Path(path_type=Path), hidden=True)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: Path,
    base: str,
    overrides: tuple[str, ...],
    as_base: Path | None,
    no_judge: bool,
    strict: bool,
    quiet: bool,
) -> None:
    """Run CONFIG and its base, and fail if a system is surely worse than in the base.

    The questions that both have in the same form are compared. The first three lines say what got
    worse, on how many questions, and on which one most. If all rankings and answers are those of
    the base, the command prints "nothing changed" and exits with 0. Gates against baseline files
    are decided against the base. Without gates, a system fails that is surely worse (the whole
    interval of the difference is below 0), or lower by more than 0.02 of the range, by the first
    measure of rankings or the first score of answers. Judges whose key or package is missing are
    skipped with their gates.
    """
    from ragbench.experiment.base_run import load_for_gate, open_base
    from ragbench.experiment.gate_run import run_gate
    from ragbench.experiment.runner import run_experiment
    from ragbench.records.gate import exit_code_of
    from ragbench.records.manifest import Choices
    from ragbench.report.gate import review_lines
    from ragbench.report.progress import Progress

    settings, choices = load_for_gate(config, overrides, as_base), Choices(judge=not no_judge)
    # text that a component prints would spoil the result on stdout
    with contextlib.redirect_stdout(sys.stderr), output.resumable(output.RESUMES):
        progress = Progress(quiet=quiet, stream=output.progress_stream())
        if as_base is not None:
            run_experiment(replace(settings, gates=()), choices=choices, progress=progress)
            return
        flags = {"--no-judge": no_judge, "--quiet": quiet}
        options = [f"--set={text}" for text in overrides] + [f for f in flags if flags[f]]
        output.echo(f"base: {base}", err=True)
        with open_base(base, config, settings, options) as scored:
            output.echo("head: this checkout", err=True)
            review = run_gate(settings, scored, choices, progress)
    lines = list(review_lines(review))
    for line in lines[:3] if quiet else lines:
        output.echo(line)
    decisions = () if review.is_same else review.decisions
    output.report_to_github(
        lambda: "\n".join(["```text", *lines, "```"]), decisions, config, os.environ
    )
    code = exit_code_of(decisions, complete=review.summary.complete, strict=strict)
    ctx.exit(0 if review.is_same else code)
