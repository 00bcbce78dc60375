"""Single queries: `ragbench explain RUN` says where answers are lost, `show RUN QUERY` shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragbench.records.causes import CAUSES

if TYPE_CHECKING:
    from ragbench.report.explain.explanation import Explanation


@click.command(name="explain")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--system", metavar="S", help="One system: bm25, bm25/gpt.")
@click.option(
    "--cause",
    type=click.Choice(CAUSES),
    metavar="C",
    help=f"Queries of one cause: {', '.join(CAUSES)}.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "markdown", "json"]),
    default="table",
    show_default=True,
    help="json has every query.",
)
def command(run: Path, system: str | None, cause: str | None, form: str) -> None:
    """Say where the systems of RUN lose answers: retrieval, ranking, generation, or nowhere.

    A line per system with how many queries have which cause; what moved against the baseline; then
    the queries that are not right, each with its reason. RUN is a run folder, or the folder of an
    experiment. Nothing is run, and nothing that RUN names is imported.
    """
    from ragbench.cli.output import terminal_width, write_json, write_result
    from ragbench.report.explain import explanation

    found = _explain(run, system, cause)
    if form == "json":
        from ragbench.data.runs.run_folder import to_json

        write_json(to_json(explanation.explained(found)))
    elif form == "markdown":
        write_result(explanation.render_markdown(found))
    else:
        write_result(explanation.render_table(found, width=terminal_width()))


def _explain(run: Path, system: str | None, cause: str | None) -> Explanation:
    from typing import cast

    from ragbench.data.runs.query_view import QueryViews
    from ragbench.data.runs.run_folder import read_comparisons
    from ragbench.errors import DataError
    from ragbench.records.causes import AnswerCause
    from ragbench.registry import nearest, shown
    from ragbench.report.explain.explanation import Explanation

    views = QueryViews(run)
    causes = views.causes()
    if not causes:
        allowed = "a run of this version: run the experiment again, what is stored is not made anew"
        raise DataError("no causes.csv", file=views.folder, allowed=allowed)
    if system is not None and system not in causes:
        near = nearest(system, causes)
        known = ", ".join(causes)
        raise DataError(f"no system {shown(system)}", file=run, allowed=known, nearest=near)
    rows = [
        row
        for name, of_system in causes.items()
        for row in of_system.values()
        if system in (None, name) and cause in (None, row.cause)
    ]
    questions = {query: views.question(query) for query in {row.query_id for row in rows}}
    return Explanation(
        views.summary,
        read_comparisons(views.folder),
        rows,
        questions,
        system,
        cast("AnswerCause | None", cause),
    )


@click.command(name="show")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("query")
@click.option(
    "--system", "systems", multiple=True, metavar="S", help="One system; repeatable. Default: all."
)
@click.option(
    "--hits",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Show N hits of each ranking; gold documents below them are shown as well.",
)
@click.option("--prompts", is_flag=True, help="Show what generators and judges were sent, in full.")
def show(run: Path, query: str, systems: tuple[str, ...], hits: int, prompts: bool) -> None:
    """Show one query of RUN: question, gold, rankings with grades, answers, verdicts, cause.

    QUERY is an id, or words that stand in one question alone. Nothing is run, and nothing that RUN
    names is imported.
    """
    from ragbench.cli.output import terminal_width, write_result
    from ragbench.data.runs.query_view import QueryViews
    from ragbench.errors import DataError
    from ragbench.registry import nearest, shown
    from ragbench.report.explain.query import render_query

    views = QueryViews(run)
    known = [system.name for system in views.summary.systems]
    for name in systems:
        if name not in known:
            near, allowed = nearest(name, known), ", ".join(known)
            raise DataError(f"no system {shown(name)}", file=run, allowed=allowed, nearest=near)
    view = views[views.find(query)]
    sent, width = views if prompts else None, terminal_width()
    write_result(render_query(view, systems=systems, hits=hits, width=width, prompts=sent))
