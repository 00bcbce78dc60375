"""Command `ragbench gate CONFIG --base REF`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click
from msgspec import structs

from ragbench.cli import output
from ragbench.errors import RagbenchError

if TYPE_CHECKING:
    from ragbench.report.table import TableReport


@output.command(name="gate")
@output.config_argument
@click.option(
    "--base",
    required=True,
    metavar="REF",
    help="A run folder, a baseline file, or a Git reference such as origin/main, "
    "whose merge base is run.",
)
@output.no_judge_option
@output.overrides_option
@output.flag("--strict", help="Exit with 4 if a gate is undecided.")
@output.flag(
    "--require-judge",
    help="Exit with 2 if the key or the package of a judge or a generator is missing.",
)
@output.flag(
    "--comment",
    help="Write the result as a comment on the pull request of this job, or edit the earlier one.",
)
@output.flag("--quiet", "-q", help="No progress; print the first three lines only.")
@output.format_option(help="csv has a row for each decision.")
@output.junit_option
@click.option("--as-base", type=click.Path(path_type=Path), hidden=True)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: Path,
    base: str,
    overrides: tuple[str, ...],
    as_base: Path | None,
    form: str,
    junit: Path | None,
    **flags: bool,
) -> None:
    """Run CONFIG and its base, and fail if a system is surely worse than in the base.

    If the base has no such config, the command prints the first lines of the run, with which later
    pull requests are compared, and exits with 0. The questions that both have in the same form are
    compared. The first lines are the news: what is surely worse and surely better, answers that
    became right or wrong, failures, changed documents and new questions. If all rankings and
    answers are those of the base, the command prints "nothing changed" and exits with 0, or with 3
    if the run is incomplete. Gates against baseline files are decided against the base. Without
    gates, a system fails that is surely worse (the verdict of `ragbench compare`), or lower by more
    than 0.02 of the range, by the first measure of rankings (`found` alone if there is no other) or
    by `right`, else the first score of answers. Judges and generators whose key is missing are
    skipped, and their gates are undecided.

    A comment needs the variables of a job of GitHub and GITHUB_TOKEN, or of GitLab and
    GITLAB_TOKEN. Without a comment, as in pull requests from forks, the exit code is the same.
    """
    from ragbench.experiment.base_run import (
        load_for_gate,
        open_base,
        stored_errors,
        without_keyless_generators,
    )
    from ragbench.experiment.gate_run import run_first, run_gate
    from ragbench.experiment.runner import run_experiment
    from ragbench.records.manifest import Choices
    from ragbench.report.formats import render
    from ragbench.report.gate import brief_review, review_report

    if flags["require_judge"] and flags["no_judge"]:
        raise click.UsageError("pass --require-judge or --no-judge, not both")
    choices, quiet = Choices(judge=not flags["no_judge"]), flags["quiet"]
    with output.running(quiet) as progress, _commented_errors(config, flags["comment"]):
        if as_base is not None:
            with stored_errors(as_base):
                settings = load_for_gate(config, overrides, as_base)
                settings, _ = without_keyless_generators(settings)
                run_experiment(replace(settings, gates=()), choices=choices, progress=progress)
            return
        settings = load_for_gate(config, overrides, require_judge=flags["require_judge"])
        skipped: Mapping[str, str] = {}
        if not flags["require_judge"]:
            settings, skipped = without_keyless_generators(settings)
        options = [f"--set={text}" for text in overrides] + ["--quiet"] * quiet
        options += ["--no-judge"] * flags["no_judge"]
        output.echo(f"base: {base}", err=True)
        with open_base(base, config, settings, options) as opened:
            output.echo("head: this checkout", err=True)
            if opened is None:
                summary, report = run_first(settings, base, choices, progress)
            else:
                review = run_gate(settings, opened, choices, progress, skipped)
                report = review_report(review)
                decisions = review.blind if review.is_same else review.decisions
                summary = structs.replace(review.summary, gates=tuple(decisions))
    output.write_report(brief_review(report) if quiet else report, form)
    if flags["comment"]:  # first, since it raises no error
        _comment(config, report)
    page, strict = partial(render, report, "markdown"), flags["strict"]
    output.report_gates(page, summary, config, junit, strict=strict)
    ctx.exit(summary.exit_code(strict=strict))


@contextlib.contextmanager
def _commented_errors(config: Path, comment: bool) -> Iterator[None]:
    """Write a RagbenchError of the block as the comment, if wanted, and raise it again.

    Otherwise the comment would still show the verdict on an older commit. Each mistake of a config
    is a line, without its source. Other errors pass through without a comment.
    """
    from ragbench.experiment.base_run import error_lines

    try:
        yield
    except RagbenchError as error:
        if comment:
            from ragbench.report.gate import review_blocks
            from ragbench.report.table import TableReport, data_table

            first, *further = error_lines(error)
            blocks = review_blocks([f"no decision: {first}", *further])
            _comment(config, TableReport(tuple(blocks), data_table((), ())))
        raise


def _comment(config: Path, report: TableReport) -> None:
    """Write a report as the comment of a config on the pull request, and tell it on stderr.

    A failure is reported too, and raises nothing: the decision does not depend on it.
    """
    from ragbench.adapters.review_comments import find_thread
    from ragbench.report.ci import COMMENT_LIMIT, fit_markdown
    from ragbench.report.formats import render
    from ragbench.report.gate import with_link
    from ragbench.report.table import rewrite
    from ragbench.secrets import printed

    marker = f"<!-- ragbench:{quote(config.as_posix())} -->"
    try:
        thread = find_thread(os.environ)
        # before the texts are escaped: an escaped secret is not recognised
        report = replace(report, blocks=tuple(rewrite(report.blocks, printed)))
        text = render(with_link(report, thread.link), "markdown").rstrip()
        thread.publish(marker, fit_markdown(text, COMMENT_LIMIT - len(marker) - 1))
    except RagbenchError as error:
        output.echo(f"no comment was written: {error}", err=True)
    else:
        output.echo("the comment was written", err=True)
