"""Command `ragbench explain`: where the systems of a run lose answers, and for which questions."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from ragbench.cli import output
from ragbench.errors import DataError
from ragbench.records.causes import CAUSES, AnswerCause, CauseRow
from ragbench.types.lookups import item_names

if TYPE_CHECKING:
    from ragbench.report.explanation import Explanation
    from ragbench.report.table import Block


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
    check_systems(causes, systems, views.folder / CAUSES_FILE)  # of a damaged run folder
    check_systems(() if system is None else (system,), causes, run)
    rows: list[CauseRow] = []
    for name, by_query in causes.items():
        if system in (None, name):
            of_system = chain.from_iterable(by_query.values())
            for row in of_system:
                if cause in (None, row.cause):
                    rows.append(row)
    questions = {row.query_id: views.question(row.query_id) for row in rows}
    # of all queries: one that flips may have other causes than the selected one
    labels = {query: views.label(query) for query in views.ids}
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


def check_systems(names: Iterable[str], system_names: Collection[str], run: Path) -> None:
    """Raise a DataError for the first name that is no system of the run."""
    from ragbench.registry import nearest, quote

    for name in names:
        if name not in system_names:
            near, allowed = nearest(name, system_names), ", ".join(system_names)
            raise DataError(f"no system {quote(name)}", file=run, allowed=allowed, nearest=near)
