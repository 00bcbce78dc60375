"""Commands `ragbench gate CONFIG --base REF` and `ragbench gate OLD NEW`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import click
from msgspec import structs

from ragbench.cli import output
from ragbench.errors import RagbenchError

if TYPE_CHECKING:
    from ragbench.records.summary import Summary
    from ragbench.report.gate import GateReview
    from ragbench.report.progress import Progress
    from ragbench.report.table import TableReport


class GateResult(NamedTuple):
    """Result of a comparison.

    Attributes:
        summary: Summary of the head with the decisions.
        report: Report of the review.
        folder: Run folder of the head; None for a table.
        worse: Questions that got worse, for JSON; empty for other formats.
    """

    summary: Summary
    report: TableReport
    folder: Path | None
    worse: Sequence[dict[str, object]] = ()


@output.command(
    name="gate",
    examples=(
        "ragbench gate my.yaml --base origin/main",
        "ragbench gate old.jsonl new.jsonl --max-drop 0.02",
    ),
)
@output.config_argument
@click.argument("new", type=click.Path(path_type=Path), required=False)
@click.option(
    "--base",
    metavar="REF",
    help="A run folder, a baseline file, or a Git reference such as origin/main, "
    "whose merge base is run.",
)
@output.path_option("--qrels", help="Judgements of two run files OLD and NEW.")
@output.several("-m", "--measure", "measures", help="A score that decides; for OLD and NEW.")
@click.option(
    "--max-drop",
    type=output.FiniteRange(min=0),
    metavar="X",
    help="Fail if a score surely dropped by more than X; for OLD and NEW.",
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
@output.flag("--quiet", "-q", help="No progress; print the first three lines and the verdicts.")
@output.flag("--verbose", help="Print all lines, and all questions that got worse.")
@output.format_option(
    "json",
    help="csv has a row for each decision; json has the whole decision, and all questions that "
    "got worse.",
)
@output.json_option(help="The same as --format json.")
@output.junit_option
@click.option(
    "--recheck",
    type=output.FiniteRange(min=0),
    metavar="USD",
    help="Largest cost of all further looks at a loss that is not sure, for each side; 0 takes "
    "none. Default: the cost of the run itself.",
)
@click.option("--as-base", type=click.Path(path_type=Path), hidden=True)
@click.option("--queries", type=click.Path(path_type=Path), hidden=True)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: Path,
    new: Path | None,
    base: str | None,
    overrides: tuple[str, ...],
    as_base: Path | None,
    form: str,
    junit: Path | None,
    **flags: Any,
) -> None:
    """Run CONFIG and its base, and fail if a system is surely worse than in the base.

    `ragbench gate OLD NEW` decides on two tables without a config: JSON lines, JSON, CSV or Parquet
    with a row per question, and ids of hits and gold documents, or answers and references. A run
    folder, a baseline file, or a run file with --qrels may stand for either.

    If the base has no such config, the command prints the first lines of the run, with which later
    pull requests are compared, and exits with 0. The questions that both have in the same form are
    compared. The first lines are the news: what is surely worse and surely better, answers that
    became right or wrong, failures, changed documents and new questions. If all rankings and
    answers are those of the base, the command prints "nothing changed" and exits with 0, or with 3
    if the run is incomplete. Gates against baseline files are decided against the base. Without
    gates, a system fails that is surely worse (the verdict of `ragbench compare`), or lower by more
    than 0.019 of the range, by the first measure of rankings (`found` decides only alone) or by
    `right`, else the first score of answers. Judges and generators whose key is missing are
    skipped, and their gates are undecided.

    A comment needs the variables of a job of GitHub and GITHUB_TOKEN, or of GitLab and
    GITLAB_TOKEN. Without a comment, as in pull requests from forks, the exit code is the same.
    """
    from ragbench.data.runs.run_folder import to_json
    from ragbench.report.formats import render
    from ragbench.report.gate import review_json

    tables = {name: flags.pop(name) for name in ("qrels", "measures", "max_drop")}
    of_runs = {
        "--base": base,
        "--set": overrides,
        "--no-judge": flags["no_judge"],
        "--require-judge": flags["require_judge"],
        "--recheck": flags["recheck"] is not None,
    }
    output.refuse(
        (flags["require_judge"] and flags["no_judge"], "pass --require-judge or --no-judge"),
        (new is None and base is None, "pass --base REF, or two files: OLD NEW"),
        (
            new is None and tables != {"qrels": None, "measures": (), "max_drop": None},
            "--qrels, -m and --max-drop are for OLD and NEW",
        ),
        (flags["quiet"] and flags["verbose"], "pass --quiet or --verbose, not both"),
        *((new and value, f"{name} is for a CONFIG") for name, value in of_runs.items()),
        (
            flags["as_json"] and form not in ("table", "json"),
            f"pass --json or --format {form}, not both",
        ),
    )
    subject, strict = new or config, flags["strict"]
    form = "json" if flags["as_json"] else form
    with output.running(flags["quiet"]) as progress, _commented_errors(subject, flags["comment"]):
        if new is not None:
            result = _compare_tables(config, new, **tables, form=form, verbose=flags["verbose"])
        elif as_base is not None:
            _run_base(config, overrides, as_base, flags, progress)
            return
        else:
            result = _run_head(config, base or "", overrides, {**flags, "form": form}, progress)
    summary, report, folder, worse = result
    exit_code = summary.exit_code(strict=strict)
    report_page = None if folder is None else output.short_path(folder / "report.html")
    if form == "json":
        output.write_json(to_json(review_json(report, summary, exit_code, report_page, worse)))
    else:
        _write_review(report, form, report_page, quiet=flags["quiet"], verbose=flags["verbose"])
    if flags["comment"]:  # first, since it raises no error
        _comment(subject, report)
    page = partial(render, report, "markdown")
    output.report_gates(page, summary, None if new else config, junit, strict=strict)
    ctx.exit(exit_code)


def _write_review(
    report: TableReport, form: str, page: str | None, *, quiet: bool, verbose: bool
) -> None:
    """Print a review and the path of its page; on a terminal one screen unless `verbose`."""
    from ragbench.report.formats import MOST_LINES
    from ragbench.report.gate import brief_review, review_screen
    from ragbench.report.table import Paragraph

    screen = output.screen()
    if quiet:
        report = brief_review(report)
    elif form == "table" and screen.is_terminal and not verbose:
        # one line tells the base, one the head, and one the page
        report = review_screen(report, screen, MOST_LINES - 3)
    if page and form == "table" and not quiet:
        report = replace(report, blocks=(*report.blocks, Paragraph((f"report: {page}",))))
    output.write_report(report, form)


def _compare_tables(
    old: Path,
    new: Path,
    qrels: Path | None,
    measures: Sequence[str],
    max_drop: float | None,
    *,
    form: str,
    verbose: bool,
) -> GateResult:
    """Compare two tables, and return the decisions and the report."""
    from ragbench.experiment.gate_tables import gate_tables

    review, notes = gate_tables(old, new, qrels=qrels, measures=measures, max_drop=max_drop)
    output.write_notes(notes)
    return _result(review, form, verbose=verbose)


def _run_base(
    config: Path,
    overrides: Sequence[str],
    folder: Path,
    flags: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Run the config of the base into a folder, in the process that the head has started."""
    from ragbench.experiment.base_run import (
        load_for_gate,
        read_look,
        stored_errors,
        stored_files,
        without_keyless_generators,
    )
    from ragbench.experiment.runner import run_experiment
    from ragbench.records.manifest import Choices

    with stored_errors(folder), stored_files(folder):
        settings, _ = without_keyless_generators(load_for_gate(config, overrides, folder))
        choices = read_look(flags["queries"], Choices(judge=not flags["no_judge"]))
        settings = replace(settings, gates=(), has_page=False)
        run_experiment(settings, choices=choices, progress=progress)


def _run_head(
    config: Path,
    base: str,
    overrides: Sequence[str],
    flags: Mapping[str, Any],
    progress: Progress,
) -> GateResult:
    """Run base and head, and return the decisions, the report and the run folder."""
    from ragbench.experiment.base_run import load_for_gate, open_base, without_keyless_generators
    from ragbench.experiment.gate_run import run_first, run_gate
    from ragbench.experiment.watched_files import watch_files
    from ragbench.records.manifest import Choices

    with watch_files() as at_load:  # modules read files when they are imported
        settings = load_for_gate(config, overrides, require_judge=flags["require_judge"])
    skipped: Mapping[str, str] = {}
    if not flags["require_judge"]:
        settings, skipped = without_keyless_generators(settings)
    choices = Choices(judge=not flags["no_judge"])
    options = [f"--set={text}" for text in overrides] + ["--quiet"] * flags["quiet"]
    options += ["--no-judge"] * flags["no_judge"]
    output.echo(f"base: {base}", err=True)
    with open_base(base, config, settings, options) as opened:
        output.echo("head: this checkout", err=True)
        if opened is None:
            return GateResult(*run_first(settings, base, choices, progress))
        opened = opened.with_used(at_load)
        review = run_gate(settings, opened, choices, progress, skipped, recheck=flags["recheck"])
        # the lines on questions read the run of the base, which is removed
        return _result(review, flags["form"], verbose=flags["verbose"])


def _result(review: GateReview, form: str, *, verbose: bool) -> GateResult:
    """Return the result of a review, whose report has all worse questions if `verbose`."""
    from ragbench.report.gate import review_report, worse_json

    report = review_report(review, is_complete=verbose)
    worse = worse_json(review) if form == "json" else ()
    return GateResult(_decided(review), report, review.folder, worse)


def _decided(review: GateReview) -> Summary:
    """Return the summary of the head with the decisions that count for the exit code."""
    return structs.replace(review.summary, gates=tuple(review.deciding))


@contextlib.contextmanager
def _commented_errors(config: Path, comment: bool) -> Iterator[None]:
    """Write a RagbenchError of the block as the comment, if wanted, and raise it again."""
    from ragbench.experiment.base_run import error_lines

    try:
        yield
    # without a comment, the earlier one would still show the verdict on an older commit
    except RagbenchError as error:
        if comment:
            from ragbench.report.gate import review_blocks
            from ragbench.report.table import TableReport, data_table

            first, *further = error_lines(error)
            blocks = review_blocks([f"no decision: {first}", *further])
            _comment(config, TableReport(tuple(blocks), data_table((), ())))
        raise


def _comment(config: Path, report: TableReport) -> None:
    """Write a report as the comment of a config on the pull request; tell the outcome on stderr."""
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
