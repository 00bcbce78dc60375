"""Command `ragbench show`: everything about one question of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragbench.cli import output
from ragbench.cli.explain import check_systems
from ragbench.types.lookups import item_names

if TYPE_CHECKING:
    from ragbench.data.runs.query_view import QueryView
    from ragbench.report.formats.base import Screen


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
    check_systems(systems, item_names(views.summary.systems), run)
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
