"""Commands over finished runs: `ragbench report`, `runs`, `explain` and `show`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from ragbench.cli import output
from ragbench.errors import DataError
from ragbench.records.causes import CAUSES, AnswerCause, CauseRow
from ragbench.types.lookups import item_names

if TYPE_CHECKING:
    from ragbench.data.runs.query_view import QueryView
    from ragbench.report.explanation import Explanation
    from ragbench.report.formats.base import Screen
    from ragbench.report.table import Block, TableReport


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


@output.command(
    name="explain",
    examples=("ragbench explain runs/my", "ragbench explain runs/my --cause not_retrieved"),
)
@output.run_argument
@click.option("--system", metavar="S", help="Show one system, such as bm25 or bm25/gpt.")
@click.option(
    "--cause",
    type=click.Choice(CAUSES),
    metavar="C",
    help=f"Show queries of this cause: {', '.join(CAUSES)}.",
)
@output.flag("--verbose", help="List questions of all systems, changed causes and what to change.")
@output.format_option("json", help="csv and json have every query.")
def explain(run: Path, system: str | None, cause: str | None, verbose: bool, form: str) -> None:
    """Show where the systems of RUN lose answers: in retrieval, ranking or generation.

    The command prints the number of questions of each cause for each system, and some questions
    that the first system lost. --system and --cause list all of theirs. RUN is a run folder, or the
    folder of an experiment (the newest run). Nothing is run, and no module that RUN names is
    imported.
    """
    from ragbench.report import explanation

    result = read_explanation(run, system, cause)
    if form == "json":
        from ragbench.data.runs.run_folder import to_json

        output.write_json(to_json(explanation.explanation_json(result)))
        return
    is_selected = system is not None or cause is not None
    # other formats have everything
    if form == "table" and not (verbose or is_selected):
        from ragbench.report.formats import fit_screen
        from ragbench.report.lost_questions import screen_report

        screen = output.screen()
        if result.judged_systems:
            # verdicts of a judge tell more than unknown causes
            report_of = partial(explanation.explanation_report, result)
            report = fit_screen(map(report_of, (10, 5, 3, 2, 1)), screen)
        else:
            report = screen_report(result, shlex.quote(str(run)), screen)
        output.write_report(report, form)
        return
    report = explanation.explanation_report(result)
    if not is_selected:
        report = replace(report, blocks=(*report.blocks, *_changes(run)))
    output.write_report(report, form)


def _changes(run: Path) -> Iterator[Block]:
    """Yield the changes of a run, if its fix list is quick to count; note a damaged one."""
    from ragbench.data.runs.query_view import QueryViews
    from ragbench.experiment.fix import list_fixes_of_page
    from ragbench.report.fixes import fix_report

    try:
        fixes = list_fixes_of_page(QueryViews(run, bare=True))
    except DataError as error:
        # the causes, which were asked for, do not need the files of the fix list
        output.write_notes([f"no fix list: {error}"])
        return
    if fixes is not None:
        yield from fix_report(fixes, shlex.quote(str(run)), brief=True).blocks


def read_explanation(run: Path, system: str | None, cause: str | None) -> Explanation:
    """Return causes and comparisons of a run; None selects every system, or every cause."""
    from ragbench.data.runs.query_view import QueryViews
    from ragbench.data.runs.run_folder import read_comparisons
    from ragbench.data.runs.run_lines import CAUSES_FILE
    from ragbench.report.explanation import Explanation
    from ragbench.report.lowest import read_lowest, wrong_questions
    from ragbench.report.noise import answer_texts

    views = QueryViews(run)
    causes = views.cause_rows
    systems = item_names(views.summary.systems)
    _check_systems(causes, systems, views.folder / CAUSES_FILE)  # of a damaged run folder
    _check_systems(() if system is None else (system,), causes, run)
    rows: list[CauseRow] = []
    for name, by_query in causes.items():
        if system in (None, name):
            of_system = chain.from_iterable(by_query.values())
            for row in of_system:
                if cause in (None, row.cause):
                    rows.append(row)
    queries = {row.query_id for row in rows}
    questions = {query: views.question(query) for query in queries}
    labels = {query: views.label(query) for query in queries}
    # `click.Choice` has checked the cause
    comparisons, cause_filter = read_comparisons(views.folder), cast("AnswerCause | None", cause)
    bare = QueryViews(run, bare=True)

    def references(query: str) -> Sequence[str]:
        """Return the gold answers of a query."""
        return bare[query].answers

    result = Explanation(
        *(views.summary, comparisons, rows, questions, system, cause_filter),
        labels=labels,
        answers=answer_texts(bare),
        references=references,
        wrong={entry.name: wrong_questions(views, entry) for entry in views.summary.systems},
    )
    return replace(result, lowest=read_lowest(views, result.judged_systems))


def _check_systems(names: Iterable[str], system_names: Collection[str], run: Path) -> None:
    """Raise a DataError for the first name that is no system of the run."""
    from ragbench.registry import nearest, quote

    for name in names:
        if name not in system_names:
            near, allowed = nearest(name, system_names), ", ".join(system_names)
            raise DataError(f"no system {quote(name)}", file=run, allowed=allowed, nearest=near)


@output.command(
    name="show",
    examples=("ragbench show runs/my q7",),
)
@output.run_argument
@click.argument("query")
@output.several(
    "--system", "systems", metavar="S", help="Show one system; repeatable. Default: all."
)
@output.number_option(
    "--hits",
    type=click.IntRange(min=0),
    help="Show N hits of each ranking, and gold documents below them. Default: 10; on a terminal, "
    "as many as fit a screen.",
)
@output.flag("--prompts", help="Show the full prompts of generators and judges.")
@output.flag("--verbose", help="Show everything on a terminal, as in a pipe.")
def show(
    run: Path, query: str, systems: tuple[str, ...], hits: int | None, prompts: bool, verbose: bool
) -> None:
    """Show one query of RUN: question, gold, rankings with grades, answers, verdicts, cause.

    QUERY is an id, the number of a row in a table without ids, or words that one question alone
    contains. Nothing is run, and no module that RUN names is imported. A terminal shows the systems
    and hits that fit a screen.
    """
    from ragbench.data.runs.query_view import QueryViews
    from ragbench.report.query import render_query
    from ragbench.types.display import wrap

    views = QueryViews(run)
    _check_systems(systems, item_names(views.summary.systems), run)
    view = views[views.find(query)]
    write = partial(render_query, view, systems=systems, width=output.terminal_width())
    screen = output.screen()
    if screen.is_terminal and hits is None and not (prompts or verbose):
        text = _query_screen(view, write, systems, screen)
    else:
        text = write(hits=10 if hits is None else hits, prompts=views if prompts else None)
    lines = text.splitlines()
    if screen.is_terminal:
        wrapped = (wrap(line, screen.width, _indent(line)) for line in lines)
        lines = list(chain.from_iterable(wrapped))
    output.write_result("\n".join([*lines, ""]))


def _indent(line: str) -> str:
    """Return the start of the further lines of a wrapped line: two blanks more than its own."""
    return " " * (len(line) - len(line.lstrip()) + 2)


# Shorter and shorter screens of a query: numbers of hits and of systems.
_QUERY_CUTS = (*product((10, 5, 3), (None,)), *product((3, 1), (4, 3, 2, 1)), (0, 1))


def _query_screen(
    view: QueryView, write: Callable[..., str], systems: Sequence[str], screen: Screen
) -> str:
    """Return as many hits and systems of a query as fit a screen, and how to see the others."""
    from ragbench.report.formats import MOST_LINES
    from ragbench.types.display import wrap

    names = systems or item_names(view.systems)
    text = ""
    for n_hits, n_systems in _QUERY_CUTS:
        text = write(hits=n_hits, systems=names[:n_systems])
        n_more = len(names) - len(names[:n_systems])
        more = [f"{n_more} more systems: --verbose, or --system NAME"] if n_more else []
        text = "\n".join([*text.splitlines(), *more])
        lines = chain.from_iterable(wrap(line, screen.width) for line in text.splitlines())
        if len(list(lines)) <= MOST_LINES:
            break
    return text
