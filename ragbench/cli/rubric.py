"""`ragbench nuggets RUN`: make facts to look for."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ragbench.cli.output import (
    behind,
    echo,
    file_option,
    number_option,
    resumable,
    run_argument,
    several,
    write_notes,
)


@click.command(name="nuggets")
@run_argument
@file_option(
    *("-o", "--output"),
    required=True,
    help="The file, such as nuggets.jsonl; an existing file is not replaced.",
)
@click.option("--judge", metavar="NAME", help="The judge of the run; default: the first that asks.")
@number_option(
    "--depth",
    metavar=None,
    default=20,
    show_default=True,
    help="How many passages of each system are read.",
)
@several(
    *("--trust", "trusted"),
    metavar="URL|NAME",
    help="Ask this address, or send this variable, which the run folder names; repeatable. Without "
    "it no key and no text leaves for an address that only a run folder names, and no variable but "
    "OPENAI_API_KEY is sent.",
)
def nuggets(
    run: Path, output: Path, judge: str | None, depth: int, trusted: tuple[str, ...]
) -> None:
    """Let the judge of a finished RUN make nuggets of what its systems retrieved.

    The passages of all systems form one pool for each query, as in the TREC RAG track. FILE has a
    line for each query. Read it and correct it: `nuggets: FILE` at a judge then scores answers by
    these nuggets, the same for every system and every later run.
    """
    from ragbench.data.runs.run_folder import json_lines
    from ragbench.errors import DataError
    from ragbench.experiment.nuggets import make_nuggets
    from ragbench.files import write_file
    from ragbench.report.progress import Progress
    from ragbench.report.text import counted

    if output.exists():
        allowed = "a new file: this one may hold what people have corrected"
        raise DataError("exists already", file=output, allowed=allowed)
    bars = Progress(brief=not sys.stderr.isatty(), stream=behind(sys.stderr))
    with resumable():
        made = make_nuggets(run, judge, depth=depth, trusted=trusted, progress=bars)
    write_file(output, "".join(json_lines(made.rows())))
    nuggets = [nugget for found in made.nuggets.values() for nugget in found]
    vital = sum(nugget.importance == "vital" for nugget in nuggets)
    echo(
        f"nuggets: {output}: {counted(len(nuggets), 'nuggets')} ({vital} vital) of "
        f"{counted(len(made.nuggets), 'queries')}, from {counted(made.passages, 'passages')}"
    )
    sent = made.totals
    notes = [f"judge {made.judge}: {sent.calls} calls, {sent.stored} replies from the store"]
    empty = sum(not found for found in made.nuggets.values())
    if empty:
        notes.append(f"no passage of {counted(empty, 'queries')} has anything that helps to answer")
    if made.failures:
        first = next(iter(made.failures))
        notes.append(
            f"{counted(len(made.failures), 'queries')} failed and are not in the file; "
            f"{first}: {made.failures[first]}"
        )
    write_notes(notes)
