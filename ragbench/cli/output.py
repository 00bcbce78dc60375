"""Output of commands without secrets and control characters, and options that commands share."""

from __future__ import annotations

import codecs
import io
import json
import math
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar, cast

import click

from ragbench.errors import DataError, Problem, is_interrupt, shortened, storage_error, visible
from ragbench.secrets import printed

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ragbench.config.schema import BudgetLimits
    from ragbench.llm.usage import Estimate, Totals
    from ragbench.records.summary import Summary
    from ragbench.report.formats.base import Screen
    from ragbench.report.progress import Progress, StageProgress
    from ragbench.report.scores import ScoredFile
    from ragbench.report.table import TableReport
    from ragbench.types.json_fields import Record

    _NameType = click.ParamType[str]
else:
    _NameType = click.ParamType  # generic from click 8.3 on

_BYTES = re.compile("[\udc80-\udcff]+")

# Variables of GitHub, Azure and TeamCity, whose runners execute commands in what a job prints:
# `::` at the start of a line, blanks ignored, and the others anywhere. A carriage return and any
# other line separator starts a line, since runners differ in what they count.
_CI_VARIABLES = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
_LINE_ENDS = r"\n\v\f\r\x1c-\x1e\x85\u2028\u2029"
_CI_COMMAND = re.compile(
    rf"(?:^|(?<=[{_LINE_ENDS}]))[^\S{_LINE_ENDS}]*:(?=:)|##(?=\[|vso\[|teamcity\[)", re.IGNORECASE
)
_WORD_JOINER = "\u2060"
# function of a command, which a decorator returns with an option
Command = TypeVar("Command", bound=Callable[..., Any])


def command(
    name: str,
    cls: type[click.Command] = click.Command,
    *,
    examples: Sequence[str] = (),
    group: click.Command | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command of a function, whose docstring is its help.

    Args:
        name: Name of the command.
        examples: Command lines that end the help.
        cls: Class of the command.
        group: Group that the command belongs to, as `cache` of `ragbench cache prune`.
        **options: Further arguments of `click.command`.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        # imported here: `ragbench --help` loads click alone
        from ragbench.registry import docstring

        lines = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])
        epilog = lines if examples else None
        decorated = click.command(name, cls, help=docstring(function), epilog=epilog, **options)(
            function
        )
        if isinstance(group, click.Group):
            group.add_command(decorated)
        return decorated

    return decorate


# Options are declared once for all commands, so that name and type are the same everywhere.
# An option whose value is a count.
number_option = partial(click.option, type=click.IntRange(min=1), metavar="N")
path_option = partial(click.option, type=click.Path(path_type=Path), metavar="FILE")
# An option whose value is a file to write.
file_option = partial(click.option, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
flag = partial(click.option, is_flag=True)
# An option that is repeatable.
several = partial(click.option, multiple=True, metavar="NAME")
run_argument = click.argument("run", type=click.Path(path_type=Path))
config_argument = click.argument("config", type=click.Path(path_type=Path), default="ragbench.yaml")
no_judge_option = flag("--no-judge", help="Call no judge.")
json_option = partial(flag, "--json", "as_json")


class NamesCommand(click.Command):
    """Command with an option that takes several names, or files: `--only bm25 exact`.

    Attributes:
        names_option: The option.
    """

    names_option: str

    # the names end at the next option, or at the path of a config (`.yaml` or `.yml`)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with the option before each of its names."""
        expanded: list[str] = []
        option, names_follow = self.names_option, False
        for arg in args:
            names_follow = arg == option or (
                names_follow and not arg.startswith("-") and not arg.endswith((".yaml", ".yml"))
            )
            if names_follow and arg != option and expanded[-1] != option:
                expanded.append(option)
            expanded.append(arg)
        return super().parse_args(ctx, expanded)


class FiniteRange(click.FloatRange):
    """Numbers of a range, without `nan` and `inf`."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of a text; a usage error if it is out of the range or not finite."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class FormatType(_NameType):
    """Type of `--format`: the formats of tables (`report.formats`), and further ones of a command.

    Attributes:
        more: Names of further formats, such as `json`.
        hint: Remark behind the allowed names in the message for another name.
    """

    name = "format"

    def __init__(self, *more: str, hint: str = "") -> None:
        self.more, self.hint = more, hint

    @property
    def choice(self) -> click.Choice[str]:
        """All names, as a choice."""
        from ragbench.report.formats import FORMATS

        return click.Choice([*FORMATS, *self.more])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; a BadParameter with the allowed names for another one."""
        if value in self.choice.choices:
            return str(value)
        allowed = ", ".join(self.choice.choices)
        hint = f"; {self.hint}" if self.hint else ""
        return self.fail(f"{value}: allowed: {allowed}{hint}", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the names for the help: `[table|markdown]`."""
        return f"[{'|'.join(self.choice.choices)}]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin with a text."""
        return self.choice.shell_complete(ctx, param, incomplete)


def format_option(
    *more: str, help: str, default: str | None = "table", hint: str = ""
) -> Callable[[Command], Command]:
    """Return the option `--format`, with further formats of a command beside those of tables.

    Options of LaTeX come with it: `write_report` reads them from the context of the command.
    """
    option = click.option(
        "--format",
        "form",
        type=FormatType(*more, hint=hint),
        default=default,
        show_default=default is not None,
        help=help,
    )

    def decorate(function: Command) -> Command:
        @wraps(function)
        def run(*args: Any, form: str | None, **options: Any) -> Any:
            latex = {name: options.pop(name) for name in ("caption", "label", "plain", "columns")}
            is_set = any(value not in (None, "", False) for value in latex.values())
            needs_latex = "--caption, --label, --plain and --columns need --format latex"
            refuse((is_set and form != "latex", needs_latex))
            if is_set:
                from ragbench.report.formats.latex import Latex

                click.get_current_context().meta[_LATEX] = Latex(**latex)
            return function(*args, form=form, **options)

        return option(_latex_options(cast("Command", run)))

    return decorate


# key of the context, for options of LaTeX
_LATEX = "ragbench.latex"


def _latex_options(function: Command) -> Command:
    """Add the options of LaTeX tables to a command."""
    options = (
        click.option("--caption", default="", metavar="TEXT", help="Caption of a LaTeX table."),
        click.option("--label", default="", metavar="NAME", help="Label of a LaTeX table."),
        flag("--plain", help="No intervals in a LaTeX table."),
        number_option("--columns", help="N measures in a LaTeX table, the rest in further ones."),
    )
    for option in reversed(options):
        function = option(function)
    return function


overrides_option = several(
    "--set", "overrides", metavar="KEY=VALUE", help="Change a value of the config."
)
confidence_option = partial(
    click.option, "--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True)
)
seed_option = partial(number_option, "--seed", type=click.IntRange(min=0))


ASKS_REST = "replies of models are stored; the same command asks for the rest"
RESUMES = "finished items are stored; the same command resumes the run"

# What `--format` takes.
Form = Literal["table", "trec", "json", "csv"]
# Parts of scores to print: `per_query`, the values of each query, and `summary`, the means.
Parts = Mapping[str, bool]


def refuse(*rules: tuple[object, str]) -> None:
    """Raise a UsageError with the text of the first (condition, text) whose condition holds."""
    for is_broken, text in rules:
        if is_broken:
            raise click.UsageError(text)


def parse_pairs(option: str, pairs: Sequence[str]) -> dict[str, list[str]]:
    """Return name -> values of pairs such as `name=value`, in order; {} for no pairs.

    Raises:
        BadParameter: A pair lacks its name, its sign or its value; it names `option`.
    """
    values: dict[str, list[str]] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not (name and value):
            raise click.BadParameter(f"found '{pair}', allowed: NAME=VALUE", param_hint=option)
        values.setdefault(name, []).append(value)
    return values


def without_ci_commands(text: str) -> str:
    """Return a text in which no runner of CI finds a command; outside of CI the text itself.

    A word joiner, which is invisible, breaks `::`, `##[`, `##vso[` and `##teamcity[`.
    """
    if not any(map(os.environ.get, _CI_VARIABLES)):
        return text
    return _CI_COMMAND.sub(lambda start: start[0] + _WORD_JOINER, text)


@contextmanager
def resumable(how: str = ASKS_REST) -> Iterator[None]:
    """Print the text `how` on stderr if Ctrl-C interrupts the block, and raise the error again.

    Other errors pass through without the text.
    """
    try:
        yield
    except BaseException as error:
        if is_interrupt(error):
            echo(how, err=True)
        raise


@contextmanager
def running(
    quiet: bool,
    how: str = RESUMES,
    secrets: Mapping[str, str] = MappingProxyType({}),
    *,
    verbose: bool = False,
) -> Iterator[Progress]:
    """Yield the progress of a run, quiet or not; text that components print goes to stderr.

    A long stage shows how far it is.

    Args:
        quiet: Show no progress.
        how: Text for `resumable`.
        secrets: Values of the config, which are left out of messages of components.
        verbose: Print a line for each stage, however short.

    Raises:
        AdapterError: That of the block, without the values of `secrets`.
    """
    from ragbench.errors import AdapterError
    from ragbench.report.progress import Progress
    from ragbench.secrets import redact

    try:
        # text that a component prints would spoil the result on stdout
        with redirect_stdout(sys.stderr), resumable(how):
            yield Progress(quiet=quiet, brief=not verbose, stream=progress_stream())
    except AdapterError as error:  # the component wrote the message, which may contain a key
        raise AdapterError(redact(Exception.__str__(error), secrets)) from error


def stage(
    name: str, total: int | None, unit: str, *, brief: bool = False
) -> AbstractContextManager[StageProgress]:
    """Return a block that shows the progress of work outside of a run.

    Without a terminal, or with `brief`, a stage leaves a line only if it takes long.

    Args:
        name: Name of the stage.
        total: Number of items; None if it is unknown.
        unit: Plural noun for the items.
        brief: Leave no line of a short stage on a terminal either.
    """
    from ragbench.report.progress import Progress

    brief = brief or not sys.stderr.isatty()
    return Progress(brief=brief, stream=progress_stream()).stage(name, total, unit)


def spent(totals: Totals, *, tokens: bool = False) -> str:
    """Return the calls of a model and their cost as text: `3 calls, 1 stored reply, 0.02 USD`.

    With `tokens`, the tokens stand before the cost; an unknown cost is `cost unknown`.
    """
    from ragbench.report.text import counted

    sent = f"{totals.input_tokens + totals.output_tokens:,} tokens, " if tokens else ""
    usd = "cost unknown" if totals.unknown_cost else f"{totals.cost_usd:.2g} USD"
    stored = counted(totals.stored, "stored replies")
    return f"{counted(totals.calls, 'calls')}, {stored}, {sent}{usd}"


def number_range(numbers: tuple[float, float], number_format: str = ",.0f") -> str:
    """Return a low and a high number as text: `20 to 40`, or `20` if both print alike."""
    low, high = (format(number, number_format) for number in numbers)
    return low if low == high else f"{low} to {high}"


def estimated(cost: Estimate) -> str:
    """Return estimated calls, tokens and cost as text: `20 calls, 5,000 tokens, 0.002 USD`."""
    usd = "of unknown price" if cost.usd is None else f"{number_range(cost.usd, '.2g')} USD"
    return f"{number_range(cost.calls)} calls, {number_range(cost.tokens)} tokens, {usd}"


def short_budgets(budget: BudgetLimits, cost: Estimate) -> Iterator[str]:
    """Yield a line for each limit of a budget that an estimated cost may exceed."""
    if budget.usd is not None and cost.usd is not None and cost.usd[1] > budget.usd:
        yield f"budget: {budget.usd:g} USD may not be enough"
    if budget.tokens is not None and cost.tokens[1] > budget.tokens:
        yield f"budget: {budget.tokens:,} tokens may not be enough"


class Door:
    """Text stream that replaces control characters, secrets and commands of CI before it writes.

    Libraries may print a secret of a config, or text of a model that controls the terminal. Callers
    write text that is already safe to `stream` itself: progress bars, colours, data for programs.
    On stderr, long lines are cut. A leading carriage return stays, since progress bars of other
    packages draw their line again. `open_doors` makes one for stdout and stderr. `write` returns
    the length of the written text, and raises TypeError for an object that is no `str`.
    """

    def __init__(self, stream: TextIO, *, is_stderr: bool) -> None:
        self.stream, self._is_stderr = stream, is_stderr
        if isinstance(stream, io.TextIOWrapper):
            # a character that the encoding lacks becomes an escape instead of an error
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write a text as `clean` returns it, and return the length of the written text.

        Raises:
            TypeError: The text is no `str`.
        """
        if not isinstance(text, str):
            raise TypeError(f"found {type(text).__name__}, allowed: str")
        return self.stream.write(self.clean(text))

    def clean(self, text: str) -> str:
        """Return a text as `write` writes it: without secrets, its control characters visible.

        Commands of CI are broken, and long lines of stderr cut; an empty text stays empty.
        """
        # file names in a locale that is not UTF-8 have surrogates for bytes that are valid UTF-8
        byte = "surrogateescape"
        text = _BYTES.sub(lambda run: run[0].encode("utf-8", byte).decode("utf-8", byte), text)
        text = printed(text)  # before long lines are cut: a cut secret is not recognised
        start = "\r" if self._is_stderr and text[:1] == "\r" else ""
        line = visible(text[len(start) :])
        line = shortened(line) if self._is_stderr else line
        return start + without_ci_commands(line)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, as `write` does; no line ends are added."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream behind the door; AttributeErrors of the stream pass."""
        return getattr(self.stream, name)


def echo(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print a line on stdout, or on stderr with `err`; `bold` has an effect on a terminal only."""
    stream = sys.stderr if err else sys.stdout
    if bold and stream.isatty():
        behind(stream).write(f"\x1b[1m{visible(printed(text))}\x1b[0m\n")
    else:
        stream.write(f"{text}\n")
    stream.flush()


def _escaped_or_raw(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode a surrogate as the byte that it stands for, another character as an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeEncodeError:
        return codecs.backslashreplace_errors(error)


codecs.register_error("ragbench.exact", _escaped_or_raw)


def write_exactly(text: str) -> None:
    """Write data for programs on stdout, without a further line end.

    Ids are written as the bytes that were read.
    Secrets and control characters are not removed. Characters that the encoding lacks become
    escapes. In CI, commands are broken, unless stdout is a file: a runner reads pipes only.
    """
    stream = behind(sys.stdout)
    if not _is_file(stream):
        text = without_ci_commands(text)
    stream.flush()  # text written before must come first: the buffer below bypasses it
    stream.buffer.write(text.encode(stream.encoding, "ragbench.exact"))
    stream.buffer.flush()


def _is_file(stream: TextIO) -> bool:
    """Return True if a stream writes into a file; False for a pipe or a terminal."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:
        return False


def open_doors() -> tuple[TextIO, TextIO]:
    """Replace stdout and stderr by doors; return (stdout, stderr) as they were."""
    streams = sys.stdout, sys.stderr
    sys.stdout = Door(streams[0], is_stderr=False)
    sys.stderr = Door(streams[1], is_stderr=True)
    return streams


def progress_stream() -> TextIO:
    """Return the stream for progress: the terminal itself, whose cursor bars move, or the door."""
    return behind(sys.stderr) if sys.stderr.isatty() else sys.stderr


def behind(stream: TextIO | Door) -> TextIO:
    """Return the stream behind a door; a stream without a door is returned as it is."""
    return stream.stream if isinstance(stream, Door) else stream


def write_scores(
    systems: Sequence[ScoredFile],
    form: Form,
    parts: Parts,
    notes: Sequence[str],
    facts: Mapping[str, Any],
) -> None:
    """Write scores on stdout as a table, JSON or CSV.

    Notes are part of a table; for other formats they go to stderr. `facts` are further JSON keys.
    The format trec counts as CSV here.
    """
    from ragbench.report.scores import render_csv, render_json, render_table

    if form == "table":
        write_result(render_table(systems, notes=notes, **parts))
        return
    write_notes(notes)
    if form == "json":
        write_json(render_json(systems, **parts, **facts))
    else:
        write_result(render_csv(systems, **parts), exact=True)


def write_result(text: str, *, exact: bool = False) -> None:
    """Write a result on stdout without secrets or a further line end, and flush it.

    An `exact` result is for programs, which look up ids: it is written unchanged unless stdout is
    a terminal. The flush raises BrokenPipeError at once if the reader has ended.
    """
    if exact and not sys.stdout.isatty():
        write_exactly(text)
    else:
        behind(sys.stdout).write(without_ci_commands(visible(printed(text))))
        sys.stdout.flush()


def write_json(text: str) -> None:
    """Write JSON on stdout without secrets, with a line end, control characters as JSON escapes.

    If stdout is not UTF-8, all characters beyond ASCII are escapes too, and so is the `#` of a
    command of CI. Programs read the same value.
    """
    escape = visible if codecs.lookup(sys.stdout.encoding).name == "utf-8" else ascii
    escaped = re.sub(
        r"[^\n\x20-\x7e]",
        lambda sign: sign[0] if escape(sign[0]) == sign[0] else json.dumps(sign[0])[1:-1],
        printed(text),
    )
    escaped = _CI_COMMAND.sub(lambda start: start[0].replace("##", "#\\u0023"), escaped)
    write_result(escaped if escaped.endswith("\n") else f"{escaped}\n", exact=True)


def write_drawn(text: str, styles: Iterable[str]) -> None:
    """Write a drawn text, which ends with a line end, on stdout, without secrets.

    Only the escape sequences in `styles` reach the terminal; other control characters become
    visible.
    """
    parts = re.split(f"({'|'.join(map(re.escape, styles))})", printed(text))
    parts[::2] = [without_ci_commands(visible(part)) for part in parts[::2]]
    behind(sys.stdout).write("".join(parts))
    sys.stdout.flush()


def print_record(record: Record, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a record as JSON on stdout, or else its lines of text, each with a line end."""
    from ragbench.data.runs.run_folder import to_json
    from ragbench.records import codec

    if as_json:
        write_json(to_json(codec.to_json(record)))
        return
    for line in lines:
        echo_wrapped(line, " " * (len(line) - len(line.lstrip()) + 2))


def screen() -> Screen:
    """Return the terminal; a pipe or file has 100 columns and no colours on every machine."""
    from ragbench.report.formats.base import Screen

    if not sys.stdout.isatty():
        return Screen()
    has_color = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Screen(terminal_width(), is_terminal=True, has_color=has_color)


def short_path(path: Path) -> str:
    """Return a path as a reader types it, if it is below the working directory."""
    folder = Path.cwd()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def write_report(report: TableReport, form: str, *, target: Path | None = None) -> None:
    """Write a report in a format on stdout, or into a file.

    Raises:
        DataError: The file cannot be written.
        KeyError: The format is not registered.
    """
    from ragbench.files import write_file
    from ragbench.report.formats import load_format
    from ragbench.report.formats.base import Screen
    from ragbench.report.formats.terminal import STYLES

    latex = click.get_current_context().meta.get(_LATEX)
    table_format = load_format(form) if latex is None else latex
    if target is not None:
        write_file(target, table_format.render(report, Screen()))
        echo(f"{form}: {target}")
        return
    text = table_format.render(report, screen())
    if table_format.is_exact:
        write_result(text, exact=True)
    else:
        write_drawn(text, STYLES)


def terminal_width() -> int:
    """Return the columns of the terminal; 100 for a pipe or file, the same on every machine."""
    if not sys.stdout.isatty():
        return 100
    import shutil

    return shutil.get_terminal_size().columns


def echo_wrapped(line: str, indent: str = "") -> None:
    """Print a line, wrapped at words on a terminal; further lines of it begin with `indent`."""
    if sys.stdout.isatty():
        from ragbench.types.display import wrap

        line = "\n".join(wrap(line, terminal_width(), indent))
    echo(line)


def write_notes(notes: Sequence[str]) -> None:
    """Write a line `note: ...` on stderr for each note, in order; nothing without notes."""
    from ragbench.types.display import printable, wrap

    for note in notes:
        line = f"note: {printable(note)}"
        if sys.stderr.isatty():
            line = "\n".join(wrap(line, terminal_width(), "  "))
        echo(line, err=True)


def report_gates(
    report: Callable[[], str],
    summary: Summary,
    config: Path | None,
    junit: Path | None,
    *,
    strict: bool,
    seconds: float | None = None,
) -> None:
    """Report the gates of a finished run to CI: JUnit file, step summary of GitHub, annotations.

    The variable `GITHUB_STEP_SUMMARY` names the file of the summary, which is appended to;
    annotations, on stderr, need `GITHUB_ACTIONS=true`. Without them and `junit` nothing happens. An
    incomplete run has an annotation too.

    Args:
        report: Returns the report for the step summary; called only if that is written.
        summary: Summary of the run, with its gates.
        config: Config of the gates; None for gates of the command line, whose annotations have no
            file.
        junit: File of `--junit`; None without one.
        strict: True makes undecided gates errors.
        seconds: Duration of the run, for the JUnit file; None leaves it out.

    Raises:
        DataError: A file cannot be written.
    """
    from ragbench.files import write_file
    from ragbench.report.ci import annotate, why_incomplete
    from ragbench.report.junit import render_junit

    if junit is not None:
        write_file(junit, render_junit(summary, seconds, strict=strict))
    write_step_summary(report)
    file = None if config is None else _in_checkout(config)
    incomplete = why_incomplete(summary)
    _write_annotations(annotate(summary.gates, file, strict=strict, incomplete=incomplete))


def write_step_summary(report: Callable[[], str]) -> None:
    """Append a report to the file of `GITHUB_STEP_SUMMARY`; without it, `report` is not called."""
    if target := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append_summary(target, report())


def _append_summary(target: str, report: str) -> None:
    """Append a Markdown report to the step summary, shortened to the limit of GitHub."""
    from ragbench.report.ci import fit_markdown

    data = fit_markdown(report).encode("utf-8", "backslashreplace")
    try:
        with Path(target).open("ab") as stream:
            stream.write(data)
    except OSError as error:
        problem = f"GITHUB_STEP_SUMMARY cannot be written: {error.strerror}"
        raise storage_error(problem, error, file=target) from error


def _in_checkout(path: Path) -> str:
    """Return a path as GitHub finds it, with '/': relative to the checkout, if it is in it."""
    whole, checkout = path.absolute(), os.environ.get("GITHUB_WORKSPACE")
    if checkout and whole.is_relative_to(checkout):
        path = whole.relative_to(checkout)
    return path.as_posix()


def _write_annotations(lines: Iterable[str]) -> None:
    """Write annotations on GitHub, past the door of stderr, which breaks commands."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in lines:
            behind(sys.stderr).write(f"::{without_ci_commands(printed(line[2:]))}\n")


# Commands that have `--junit`, and report their gates themselves.
GATED = ("run", "gate")
# `run --junit c.yaml` by mistake must not write over the config.
_CONFIG_SUFFIXES = (".yaml", ".yml")


def _claim(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """Write the JUnit file that a killed command leaves, and return its path; None writes none."""
    from ragbench.errors import EXIT_INTERRUPTED

    if path is not None and path.suffix in _CONFIG_SUFFIXES:
        raise click.BadParameter(f"'{path}' is a config; allowed: a file to write, as junit.xml")
    if path is not None and not ctx.resilient_parsing:  # as for the completion of a shell
        _write_error(path, EXIT_INTERRUPTED, "the command was killed")
    return path


junit_option = file_option("--junit", callback=_claim, help="Write gates or an error as JUnit XML.")


def _write_error(path: Path, code: int, text: str) -> None:
    """Write a JUnit file with one error; raise DataError if it cannot be written."""
    from ragbench.files import write_file
    from ragbench.report.junit import render_error

    write_file(path, render_error(code, text))


def report_failure(code: int, text: str, problems: Sequence[Problem], words: Sequence[str]) -> None:
    """Report the error of a command to CI, as `report_gates` does for gates.

    No error is raised: a line on stderr names a file that cannot be written, unless `text` does.

    Args:
        code: Exit code.
        text: Message, which may hold secrets.
        problems: Mistakes with their places, an annotation each; without any, `text` has one.
        words: Arguments of the command line, the command first. They may be wrong: an error of
            them belongs into the file of `--junit` too.
    """
    import argparse

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--junit", nargs="?")
    junit = parser.parse_known_args(words)[0].junit if words and words[0] in GATED else None
    target, text = os.environ.get("GITHUB_STEP_SUMMARY"), visible(printed(text))
    if not (junit or target or os.environ.get("GITHUB_ACTIONS")):
        return
    from ragbench.report.ci import annotate_error, error_summary

    writers = [partial(_append_summary, target, error_summary(code, text))] if target else []
    # a folder or a config is the mistake that is reported
    if junit and not os.path.isdir(junit) and not junit.endswith(_CONFIG_SUFFIXES):
        writers.append(partial(_write_error, Path(junit), code, text))
    for write in writers:
        try:
            write()
        except DataError as error:
            if str(error) not in text:
                echo(str(error), err=True)
    reported = []
    for problem in problems:
        problem = problem.cleaned(printed)
        if problem.line:
            problem = replace(problem, file=_in_checkout(Path(problem.file or "")))
        reported.append(problem)
    _write_annotations(annotate_error(code, text, reported))
