"""Where results of commands go, and the options that several commands share."""

from __future__ import annotations

import codecs
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ragbench.cli.streams import behind, echo, write_exactly
from ragbench.errors import visible
from ragbench.redaction import printed

if TYPE_CHECKING:
    from ragbench.records.gate import GateVerdict
    from ragbench.report.scores import Scored


config_argument = click.argument("config", type=click.Path(path_type=Path))
limit_option = click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="A seeded sample of N queries."
)
no_judge_option = click.option("--no-judge", is_flag=True, help="Ask no judge.")
shard_option = click.option(
    "--shard", metavar="I/N", help="Only part I of N of the queries and documents."
)
token_option = click.option(
    "--token",
    envvar="RAGBENCH_TOKEN",
    metavar="WORD",
    help="The same word for all parts of a run, and the last run.",
)
overrides_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value of the config."
)
confidence_type = click.FloatRange(0, 1, min_open=True, max_open=True)


Form = Literal["table", "trec", "json", "csv"]
"""What `--format` takes."""


@dataclass(frozen=True, slots=True)
class Output:
    """What the caller wants to see."""

    form: Form
    per_query: bool
    summary: bool

    @property
    def parts(self) -> dict[str, bool]:
        """The two choices that every format takes."""
        return {"per_query": self.per_query, "summary": self.summary}


def write_scores(
    systems: Sequence[Scored], output: Output, notes: Sequence[str], facts: Mapping[str, Any]
) -> None:
    """Write a table, JSON or CSV; notes are part of a table, else on stderr; facts are for JSON."""
    from ragbench.report.scores import render_csv, render_json, render_table

    if output.form == "table":
        write_result(render_table(systems, notes=notes, **output.parts))
        return
    write_notes(notes)
    if output.form == "json":
        chosen = {"per_query": output.per_query, "summary": output.summary}
        write_json(render_json(systems, **chosen, **facts))
    else:
        write_result(render_csv(systems, **output.parts), exact=True)


def write_result(text: str, *, exact: bool = False) -> None:
    """Write a result whose ids may be any bytes, and learn at once if the reader went away.

    What is `exact` is for programs, which look ids up: it is changed for a terminal alone.
    """
    if exact and not sys.stdout.isatty():
        write_exactly(text)
    else:
        behind(sys.stdout).write(visible(printed(text)))
        sys.stdout.flush()


def write_json(text: str) -> None:
    """Write JSON; what a terminal would obey is an escape, which programs read as the same.

    So is what is not ASCII where the output is not UTF-8.
    """
    seen = visible if codecs.lookup(sys.stdout.encoding).name == "utf-8" else ascii
    escaped = re.sub(r"[^\n\x20-\x7e]+", lambda run: _escaped(run[0], seen), printed(text))
    write_result(escaped if escaped.endswith("\n") else f"{escaped}\n", exact=True)


def _escaped(text: str, seen: Callable[[str], str]) -> str:
    return "".join(c if seen(c) == c else json.dumps(c)[1:-1] for c in text)


def write_drawn(text: str, styles: Iterable[str]) -> None:
    """Write what is drawn with these styles, which are sent; nothing else in it is."""
    parts = re.split(f"({'|'.join(map(re.escape, styles))})", printed(text))
    shown = (part if number % 2 else visible(part) for number, part in enumerate(parts))
    behind(sys.stdout).write("".join(shown) + "\n")


def terminal_width() -> int:
    """Columns of the terminal; of what is piped or stored 100, the same on every machine."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 100


def write_notes(notes: Sequence[str]) -> None:
    """Write what a reader of the numbers should know, one sentence a line."""
    from ragbench.report.text import printable

    for note in notes:
        echo(f"note: {printable(note)}", err=True)


def report_to_github(
    report: Callable[[], str],
    gates: Sequence[GateVerdict],
    config: Path | None,
    environment: Mapping[str, str],
) -> None:
    """Append the summary of the step and annotate the gates; nothing outside of GitHub.

    `GITHUB_STEP_SUMMARY` names the file of the summary; annotations are printed, on stderr, where
    `GITHUB_ACTIONS` is `true`. `config` is None where the gates are from the command line.
    """
    from ragbench.errors import DataError
    from ragbench.report.ci import annotate, step_summary

    if target := environment.get("GITHUB_STEP_SUMMARY"):
        data = step_summary(report()).encode("utf-8", "backslashreplace")
        try:
            with Path(target).open("ab") as stream:
                stream.write(data)
        except OSError as error:
            found = f"GITHUB_STEP_SUMMARY cannot be written: {error.strerror}"
            raise DataError(found, file=target) from error
    if environment.get("GITHUB_ACTIONS") == "true":
        file = None if config is None else _in_repository(config, environment)
        for line in annotate(gates, file):
            echo(line, err=True)


def _in_repository(config: Path, environment: Mapping[str, str]) -> str:
    """The config as GitHub finds it: relative to the checkout."""
    checkout = environment.get("GITHUB_WORKSPACE")
    absolute = config.absolute()
    if checkout and absolute.is_relative_to(checkout):
        return absolute.relative_to(checkout).as_posix()
    return config.as_posix()
