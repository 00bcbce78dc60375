"""`ragbench explain RUN`: where answers are lost, and in which queries."""

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
