"""Commands `ragbench compare BASE RUN...` and `ragbench baseline RUN`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli import output

if TYPE_CHECKING:
    from ragbench.experiment.compare import Comparison


# Measures that are printed with all their tables.
_MOST_MEASURES = 2
# Options of a decision, which `ragbench gate OLD NEW` makes
_DECIDING = ("--fail-if", "--strict", "--junit")


class _CompareCommand(click.Command):
    """Command whose error for an option of a decision names `ragbench gate`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments without options; raise UsageError for an unknown option."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in _DECIDING:  # click would propose --family
                remedy = "'ragbench gate OLD NEW --max-drop X' fails on a drop"
                text = f"No such option '{error.option_name}': {remedy}"
                raise click.UsageError(text, ctx) from error
            raise


@output.command(
    name="compare",
    cls=_CompareCommand,
    examples=(
        "ragbench compare runs/old runs/new",
        "ragbench compare bm25.run dense.run --qrels qrels.txt -m ndcg@10",
    ),
)
@click.argument("base")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@output.several(
    "-m",
    "--measure",
    "measures",
    help="A measure or metric; repeatable. Default: all that BASE and RUN have.",
)
@click.option("--qrels", metavar="FILE", help="The judgements of TREC run files.")
@click.option(
    "--cluster",
    metavar="metadata.KEY",
    help="Count queries with the same value as one unit; needs a run folder. Default: "
    "the statistics.cluster of the runs.",
)
@click.option(
    "--family",
    type=click.Choice(["measure", "all"]),
    default="measure",
    show_default=True,
    help="Correct p-values over the comparisons of each measure, or of all measures.",
)
@output.flag(
    "--intersect",
    help="Compare the common queries if the sets differ; leave out queries that have changed.",
)
@output.flag(
    "--unpaired", help="Compare runs over different questions, such as two weeks, as two samples."
)
@output.number_option(
    "--moved",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="List the N queries that changed most on the first measure, with both rankings.",
)
@output.confidence_option(default=0.95, show_default=True, help="Coverage of the intervals.")
@output.number_option(
    "--resamples",
    default=10_000,
    show_default=True,
    help="Sign flips of a test and bootstrap resamples.",
)
@output.seed_option(default=13, show_default=True, help="Equal seeds give equal results.")
@output.flag("--verbose", help="Print all measures, the moved queries, and the legend.")
@output.format_option("json", help="csv has a row for each comparison.")
def command(base: str, runs: tuple[str, ...], verbose: bool, form: str, **options: Any) -> None:
    """Compare each RUN with BASE, query by query.

    BASE and RUN are run folders, folders of an experiment (the newest run), baseline files, or TREC
    run files with --qrels. Systems are compared by name; two single systems are compared whatever
    their names. With BASE alone, its systems are compared with its own baseline. If data, options
    or judges differ, the command lists the differences and exits with 2. `ragbench gate OLD NEW`
    decides whether a system became worse.
    """
    from ragbench.data.runs.run_folder import to_json
    from ragbench.errors import DataError
    from ragbench.experiment.compare import compare
    from ragbench.report.compared_screen import screen_report
    from ragbench.report.comparison import comparison_report
    from ragbench.report.formats import fit_screen

    # click gives an empty tuple without -m, where `compare` expects None
    measures = options.pop("measures") or None
    comparison = compare(base, *runs, measures=measures, **options)
    is_short = not verbose
    if form == "json":
        output.write_json(to_json(comparison.to_dict()))
    else:
        screen = output.screen()
        report = comparison_report(comparison.record)
        if form == "table" and is_short:
            has_all = measures is not None or bool(options["unpaired"])
            brief = screen_report(comparison.record, screen, has_all_measures=has_all)
            # in a pipe, measures that were asked for have all their tables
            has_many = len(comparison.record.measures) > _MOST_MEASURES and not has_all
            report = brief if has_many else report
            report = fit_screen((report, brief), screen) if screen.is_terminal else report
        output.write_report(report, form)
    # rendered as Markdown only if GitHub wants a summary, hence the `partial`
    output.write_step_summary(partial(_page, comparison))
    if comparison.is_empty:
        raise DataError("nothing was compared: no query has a score of both systems")


def _page(result: Comparison) -> str:
    """Return a comparison as Markdown."""
    from ragbench.report.comparison import comparison_report
    from ragbench.report.formats import render

    return render(comparison_report(result.record), "markdown")


@output.command(
    name="baseline",
    examples=("ragbench baseline runs/my -o baselines/main.json",),
)
@output.run_argument
@output.file_option(
    "-o",
    "--output",
    "target",
    required=True,
    help="The file, such as baselines/main.json; an existing file is replaced.",
)
def baseline(run: Path, target: Path) -> None:
    """Write the scores of a finished RUN to one small file.

    RUN is a run folder, or the folder of an experiment (the newest run). Commit the file; later,
    `ragbench compare FILE RUN` shows the changes. Equal scores give equal bytes.
    """
    from ragbench.data.runs.run_scores import read_run_scores, write_baseline
    from ragbench.report.text import counted

    scores = read_run_scores(run)
    systems = counted(sum(bool(system.columns) for system in scores.systems.values()), "systems")
    content = f"{systems}, {counted(len(scores.query_ids), 'queries')}"
    write_baseline(target, scores)
    output.echo_wrapped(f"baseline: {target}: {content}", "  ")
    if scores.summary is not None and not scores.summary.complete:
        output.write_notes(
            ["the run is incomplete: too many items failed; the baseline lacks them"]
        )
