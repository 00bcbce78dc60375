"""`ragbench show RUN QUERY`: one query, and what every system made of it."""

from __future__ import annotations

from pathlib import Path

import click


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
def command(run: Path, query: str, systems: tuple[str, ...], hits: int, prompts: bool) -> None:
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
    told = views if prompts else None
    width = terminal_width()
    write_result(render_query(view, systems=systems, hits=hits, width=width, prompts=told))
