"""Writes what `ragbench score` found: results to stdout, notes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click

from ragbench.report.scores.base import Scored

Form = Literal["table", "trec", "json", "csv"]
"""What `--format` takes."""


@dataclass(frozen=True, slots=True)
class Output:
    """What the caller wants to see."""

    form: Form
    """The format."""
    per_query: bool
    """Whether to print the values of every query."""
    summary: bool
    """Whether to print the means."""

    @property
    def parts(self) -> dict[str, bool]:
        """The two choices that every format takes."""
        return {"per_query": self.per_query, "summary": self.summary}


def write_scores(
    systems: Sequence[Scored], output: Output, notes: Sequence[str], facts: Mapping[str, Any]
) -> None:
    """Write a table, JSON or CSV.

    Args:
        systems: The runs or predictions, in order.
        output: Format and parts.
        notes: What a reader should know: part of a table, else on stderr.
        facts: What the numbers rest on, for JSON.
    """
    if output.form == "table":
        from ragbench.report.scores.table import render_table

        write_result(render_table(systems, notes=notes, **output.parts))
        return
    if output.form == "json":
        from ragbench.report.scores.json import render_json

        text = render_json(systems, per_query=output.per_query, summary=output.summary, **facts)
    else:
        from ragbench.report.scores.csv import render_csv

        text = render_csv(systems, **output.parts)
    write_notes(notes)
    write_result(text)


def write_result(text: str) -> None:
    """Write a result whose ids may be any bytes, and learn at once if the reader went away."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def write_notes(notes: Sequence[str]) -> None:
    """Write what a reader of the numbers should know, one sentence a line."""
    from ragbench.report.digits import printable

    for note in notes:
        click.echo(f"note: {printable(note)}", err=True)
