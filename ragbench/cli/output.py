"""Print results and messages of commands without secrets and controls; declare shared options."""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from ragbench.errors import DataError, is_interrupt, shortened, visible
from ragbench.secrets import printed

if TYPE_CHECKING:
    from ragbench.records.gate import Decision
    from ragbench.report.scores import Scored

_BYTES = re.compile("[\udc80-\udcff]+")

# An option whose value is a number of things.
number_option = partial(click.option, type=click.IntRange(min=1), metavar="N")
path_option = partial(click.option, type=click.Path(path_type=Path), metavar="FILE")
# An option whose value is a file that is written.
file_option = partial(click.option, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
# An option that is repeatable.
several = partial(click.option, multiple=True, metavar="NAME")
run_argument = click.argument("run", type=click.Path(path_type=Path))
config_argument = click.argument("config", type=click.Path(path_type=Path))
json_option = partial(click.option, "--json", "as_json", is_flag=True)
overrides_option = several(
    "--set", "overrides", metavar="KEY=VALUE", help="Change a value of the config."
)
confidence_option = partial(
    click.option, "--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True)
)
seed_option = partial(number_option, "--seed", type=click.IntRange(min=0))


# What `--format` takes.
Form = Literal["table", "trec", "json", "csv"]


def refuse(*rules: tuple[object, str]) -> None:
    """Raise a usage error with the text of the first rule whose condition holds."""
    for is_broken, text in rules:
        if is_broken:
            raise click.UsageError(text)


@contextmanager
def resumable(
    how: str = "replies of models are stored; the same command asks for the rest",
) -> Iterator[None]:
    """Print how to resume if the block is interrupted."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error):
            echo(how, err=True)
        raise


class Door:
    """A stream that shows the control characters of what is written to it, instead of sending them.

    Nor does it send the secrets of the configs that were read, which a library may print as well.

    What a caller has made safe itself goes to `stream`: bars, colours, and data that a program
    reads. On stderr, long lines are cut, and a line may be drawn again from its start, as bars of
    other packages are.
    """

    def __init__(self, stream: TextIO, *, is_stderr: bool) -> None:
        self.stream, self._is_stderr = stream, is_stderr
        if isinstance(stream, io.TextIOWrapper):
            # what an encoding lacks is an escape, and no error
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write a text, with what a terminal would obey made visible."""
        if not isinstance(text, str):
            raise TypeError(f"found {type(text).__name__}, allowed: str")
        # the name of a file in another locale: bytes that are UTF-8 nonetheless
        byte = "surrogateescape"
        text = _BYTES.sub(lambda run: run[0].encode("utf-8", byte).decode("utf-8", byte), text)
        text = printed(text)  # before it is cut: a part of a secret would be left
        start = "\r" if self._is_stderr and text[:1] == "\r" else ""
        shown = visible(text[len(start) :])
        return self.stream.write(start + (shortened(shown) if self._is_stderr else shown))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """All else is that of the stream."""
        return getattr(self.stream, name)


def echo(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print a line, on stderr with `err`; a terminal that knows how shows it `bold`."""
    stream = sys.stderr if err else sys.stdout
    if bold and stream.isatty():
        behind(stream).write(f"\x1b[1m{visible(printed(text))}\x1b[0m\n")
    else:
        stream.write(f"{text}\n")
    stream.flush()


def confirm(question: str) -> None:
    """Ask on stderr whether to go on, until there is an answer; no answer is none.

    That of click writes around the door.
    """
    while True:
        sys.stderr.write(f"{question} [y/N]: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if line.strip().lower() in ("y", "yes"):
            return
        if line.strip().lower() in ("", "n", "no"):
            raise click.Abort
        echo("please answer y or n", err=True)


def _escaped_or_raw(error: UnicodeError) -> tuple[str | bytes, int]:
    """A byte of an id that is no text as it was; of all else an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeEncodeError:
        return codecs.backslashreplace_errors(error)


codecs.register_error("ragbench.exact", _escaped_or_raw)


def write_exactly(text: str) -> None:
    """Write data for programs on stdout: ids are the bytes that they were."""
    stream = behind(sys.stdout)
    stream.flush()
    stream.buffer.write(text.encode(stream.encoding, "ragbench.exact"))
    stream.buffer.flush()


def open_doors() -> tuple[TextIO, TextIO]:
    """Put a door before stdout and stderr; returns the streams as they were."""
    before = sys.stdout, sys.stderr
    sys.stdout = Door(before[0], is_stderr=False)
    sys.stderr = Door(before[1], is_stderr=True)
    return before


def behind(stream: TextIO | Door) -> TextIO:
    """Return the stream behind a door, for what is drawn; one without a door is itself."""
    return stream.stream if isinstance(stream, Door) else stream


@dataclass(frozen=True, slots=True)
class Output:
    """The format of the scores, and which parts of them are printed."""

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
        write_json(render_json(systems, **output.parts, **facts))
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
    escaped = re.sub(
        r"[^\n\x20-\x7e]",
        lambda sign: sign[0] if seen(sign[0]) == sign[0] else json.dumps(sign[0])[1:-1],
        printed(text),
    )
    write_result(escaped if escaped.endswith("\n") else f"{escaped}\n", exact=True)


def write_drawn(text: str, styles: Iterable[str]) -> None:
    """Write what is drawn with these styles, which are sent; nothing else in it is."""
    parts = re.split(f"({'|'.join(map(re.escape, styles))})", printed(text))
    shown = (part if number % 2 else visible(part) for number, part in enumerate(parts))
    behind(sys.stdout).write("".join(shown) + "\n")


def terminal_width() -> int:
    """Columns of the terminal; of what is piped or stored 100, the same on every machine."""
    if not sys.stdout.isatty():
        return 100
    import shutil

    return shutil.get_terminal_size().columns


def write_notes(notes: Sequence[str]) -> None:
    """Write what a reader of the numbers should know, one sentence a line."""
    from ragbench.report.text import printable

    for note in notes:
        echo(f"note: {printable(note)}", err=True)


def report_to_github(
    report: Callable[[], str],
    gates: Sequence[Decision],
    config: Path | None,
    environment: Mapping[str, str],
) -> None:
    """Append the summary of the step and annotate the gates; nothing outside of GitHub.

    `GITHUB_STEP_SUMMARY` names the file of the summary; annotations are printed, on stderr, where
    `GITHUB_ACTIONS` is `true`. `config` is None where the gates are from the command line.
    """
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
        file = None
        if config is not None:  # as GitHub finds it: relative to the checkout
            path, checkout = config.absolute(), environment.get("GITHUB_WORKSPACE")
            if checkout and path.is_relative_to(checkout):
                config = path.relative_to(checkout)
            file = config.as_posix()
        for line in annotate(gates, file):
            echo(line, err=True)
