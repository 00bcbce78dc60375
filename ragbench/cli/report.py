"""Commands `ragbench report` and `ragbench runs`: pages, tables and lists of finished runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragbench.cli import output

if TYPE_CHECKING:
    from ragbench.report.table import TableReport


@output.command(
    name="report",
    examples=(
        "ragbench report runs/my",
        "ragbench report runs/my --format latex -o table.tex",
    ),
)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@output.file_option(
    "-o",
    "--output",
    "target",
    help="The page, .html or .md, or the file of --format; an existing file is "
    "replaced. Default for several runs: side-by-side.html.",
)
@output.flag(
    "--brief",
    help="Write the main results of one RUN on one A4 page, -o FILE.html; print it in a browser.",
)
@click.option(
    "--figures",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write the pictures of one run into FOLDER as SVG, for papers and slides.",
)
@output.several(
    "-m",
    "--measure",
    "measures",
    help="A score that --format prints; repeatable. Default: all.",
)
@output.format_option(
    default=None,
    hint="--figures FOLDER writes SVG",
    help="Print the scores of one RUN with their intervals.",
)
@click.option(
    "--to",
    "tool",
    type=click.Choice(["mlflow", "otel"]),
    help="Send the scores of one RUN to MLflow (MLFLOW_TRACKING_URI), or to an "
    "OpenTelemetry collector (OTEL_EXPORTER_OTLP_ENDPOINT).",
)
def command(
    runs: tuple[Path, ...],
    target: Path | None,
    brief: bool,
    figures: Path | None,
    form: str | None,
    tool: str | None,
    measures: tuple[str, ...],
) -> None:
    """Write the page of a finished RUN again, or one page for several runs, or its scores.

    Each RUN is a run folder, or the folder of an experiment (the newest run). For one RUN, the
    command writes its report.html and report.md again, or one page with -o. For several, it writes
    one page with all systems. Each system is compared with the system of the same name in the first
    RUN: changes of config and data, of scores, causes and queries. If runs are not comparable, the
    page lists the differences.
    """
    from ragbench.experiment.pages import PAGES, write_figures, write_pages

    several = len(runs) > 1
    of_pages = several or brief or figures
    output.refuse(
        (
            tool and (of_pages or form or target),
            "--to takes one RUN, without -o, --brief, --figures and --format",
        ),
        (measures and not form, "-m chooses the scores of --format"),
        (form and of_pages, f"--format {form} takes one RUN alone"),
        (figures and (several or target), "--figures takes one RUN and no -o"),
    )
    suffix = None if target is None else target.suffix
    output.refuse(
        (brief and (several or suffix != ".html"), "--brief takes one RUN and -o FILE.html")
    )
    if tool is not None:
        for line in _export(runs[0], tool):
            output.echo_wrapped(line, "  ")
    elif form is not None:
        output.write_report(_scores(runs[0], measures), form, target=target)
    elif figures is not None:
        for path in write_figures(runs[0], figures):
            output.echo_wrapped(f"figure: {path}", "  ")
    else:
        unknown_suffix = suffix not in (None, *PAGES)
        output.refuse((unknown_suffix, f"-o {target}: a page ends in {' or '.join(PAGES)}"))
        for path in write_pages(runs, target, tell=output.echo_wrapped, brief=brief):
            output.echo_wrapped(f"report: {path}", "  ")


def _scores(run: Path, measures: Sequence[str]) -> TableReport:
    """Return the scores of a run by some measures, or all scores of several collections."""
    from ragbench.data.runs.run_folder import collections_folder
    from ragbench.experiment.collections import read_collections
    from ragbench.experiment.result import load_experiment
    from ragbench.report.collections import collections_report
    from ragbench.report.results import score_report, select_scores

    if (over_all := collections_folder(run)) is not None:
        output.refuse((measures, f"-m takes a run of one collection: {run} has several"))
        return collections_report(read_collections(over_all))
    experiment = load_experiment(run)
    summary = select_scores(experiment.record, measures) if measures else experiment.record
    return score_report(summary, experiment.compared)


def _export(run: Path, tool: str) -> Iterator[str]:
    """Send the scores of a run to `mlflow` or `otel`; yield a line for each part that was sent."""
    if tool == "mlflow":
        from ragbench.report.export.mlflow import log_runs

        for line in log_runs(run):
            yield f"mlflow: {line}"
    else:
        from ragbench.report.export.otel import send_scores

        yield f"otel: {send_scores(run)}"


@output.command(
    name="runs",
    examples=("ragbench runs", "ragbench runs runs --score ndcg@10"),
)
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@click.option(
    "--score",
    metavar="NAME",
    help="The score that ranks the systems and is followed over the runs. Default: the first one.",
)
@output.flag("--verbose", help="List all runs and trends on a terminal, as in a pipe.")
@output.format_option("json", help="csv has a row and json an object for each run.")
def runs(folder: Path, score: str | None, verbose: bool, form: str) -> None:
    """List the runs of FOLDER, oldest first: best system, score, commit, changes, trend.

    FOLDER is the folder of one experiment or of several; default: runs. Changes are those of config
    and data since the run before with the same name. Below the list, each system has its score over
    the runs. Folders without a complete run are listed with the reason. A terminal shows the newest
    runs that fit a screen.
    """
    from ragbench.data.runs.run_folder import to_json
    from ragbench.data.runs.run_list import list_runs
    from ragbench.records import codec
    from ragbench.report.run_list import place_of, runs_report, runs_screen

    entries = list_runs(folder, score)
    if form == "json":
        rows = []
        for entry in entries:
            rows.append(codec.to_json(entry) | {"path": place_of(entry, folder)})
        output.write_json(to_json({"schema": "ragbench.runs/1", "runs": rows}))
    elif form == "table" and not verbose and (screen := output.screen()).is_terminal:
        output.write_report(runs_screen(entries, folder, screen), form)
    else:
        output.write_report(runs_report(entries, folder), form)
