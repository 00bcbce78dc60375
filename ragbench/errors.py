"""Errors that ragbench raises on purpose, and the text form that they share.

    RagbenchError                    exit code 2
    |-- ConfigError                  a YAML file; all its problems at once, with positions
    |-- DataError                    a data file or object, with file, line and record
    |   |-- FolderLocked             another run is at work in the folder; exit code 5
    |   |-- UnknownIds               a retriever whose hits are in no judgement and no corpus
    |   |-- UnclearColumns           columns of a table whose parts cannot be told
    |   |   `-- UnclearAnswer        a column of answers, gold or generated
    |   |-- TextTooLong              a text beyond the limit of a metric
    |   `-- DiskFull                 no space left for a file; exit code 6
    |-- OptionError (ValueError)     an argument outside what is allowed
    |-- MissingExtra (ImportError)   a component whose optional package is not installed
    |-- WorkerEnded                  a worker process that ended during its work
    |-- ModelError                   a language model without a usable result; in ragbench.llm:
    |   |-- CallFailure              a call without a usable reply, with its cause; exit code 7 if
    |   |                            its server cannot be reached
    |   `-- Unreadable (ValueError)   a reply that lacks the requested values
    |       `-- Broken               a reply that begins as JSON and is not valid JSON
    |-- AdapterError                 a user's own component that failed or broke its contract
    `-- ExportError                  a server that did not take the results of a run; exit code 7 if
                                     it cannot be reached

A message names the place, what was found, and what is allowed or what to do.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

# Name of the package on an index; the import and the command are `ragbench`.
DISTRIBUTION = "ragbench-eval"

EXIT_OK = 0
EXIT_GATE_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INCOMPLETE = 3
EXIT_UNDECIDED = 4
EXIT_LOCKED = 5
EXIT_NO_SPACE = 6
EXIT_UNREACHABLE = 7
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130

# exit code -> its only meaning, as help, annotations and JUnit files have it
EXIT_MEANINGS: Mapping[int, str] = {
    EXIT_GATE_FAILED: "a gate or a check failed",
    EXIT_BAD_INPUT: "bad usage, config or data",
    EXIT_INCOMPLETE: "incomplete",
    EXIT_UNDECIDED: "a gate cannot be decided (--strict)",
    EXIT_LOCKED: "another run holds the lock",
    EXIT_NO_SPACE: "no space left",
    EXIT_UNREACHABLE: "a server cannot be used",
    EXIT_INTERNAL: "internal error",
    EXIT_INTERRUPTED: "interrupted",
}
# A limit on the size of files (EFBIG) is met where a quota or a small file system is.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_EXCERPT = 110  # columns of a quoted source line; longer lines are cut around the caret
_LONGEST_ALLOWED = 150  # characters of a list of allowed names that stands as a whole
_LONGEST_LINE = 800  # characters of a line of a message; longer lines lose their middle
# Control characters are shown by their pictures (U+2400 on), so that a text cannot move the cursor.
_UNSEEN = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
# Delete, the second set of controls, marks that turn the direction of a text, line breaks that only
# some programs know, and surrogates of bytes that are no UTF-8.
_UNSEEN |= {0x7F: 0x2421} | dict.fromkeys(
    [*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A),
     0xFEFF, *range(0xD800, 0xE000)],
    0xFFFD,
)  # fmt: skip


def is_interrupt(error: BaseException | None) -> bool:
    """Return True for Ctrl-C, and for an error that was raised while Ctrl-C was handled.

    A `KeyboardInterrupt` may come between taking and releasing the lock of a `threading.Condition`,
    which then raises a RuntimeError with the interrupt as its context.

    Example:
        >>> try:
        ...     try:
        ...         raise KeyboardInterrupt
        ...     finally:
        ...         raise RuntimeError("cannot release un-acquired lock")
        ... except RuntimeError as error:
        ...     is_interrupt(error)
        True
    """
    visited: set[int] = set()
    while (
        error is not None and not isinstance(error, KeyboardInterrupt) and id(error) not in visited
    ):
        visited.add(id(error))
        error = error.__context__
    return isinstance(error, KeyboardInterrupt)


def visible(text: str) -> str:
    r"""Replace each character that a terminal would obey by a visible character.

    Line breaks and tabs stay. ASCII control characters become their pictures; other controls, marks
    of direction and lone surrogates become the replacement character. Each becomes one character,
    so that columns stay the same. An empty text stays empty.

    Example:
        >>> visible("a\x1b[31mb\tc")
        'a␛[31mb\tc'
    """
    return text if text.isprintable() else text.translate(_UNSEEN)


def shortened(text: str) -> str:
    r"""Replace the middle of each line of more than 800 characters by ` ... `, to 800 in all.

    Example:
        >>> len(shortened("x" * 70_000 + "\ny"))
        802
    """
    half = _LONGEST_LINE // 2
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if len(line) > _LONGEST_LINE:
            lines[number] = f"{line[: half - 5]} ... {line[-half:]}"
    return "\n".join(lines)


class RagbenchError(Exception):
    """Base of the errors that a user can mend; the command line prints them without traceback.

    It takes the message; `str` returns it without control characters, and with lines of at most 800
    characters.

    Attributes:
        exit_code: Exit code of the command, 2; some subclasses have another.
        problems: Mistakes with their places in files; empty without any.
    """

    exit_code = EXIT_BAD_INPUT
    problems: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        """Return the message without control characters and without endless lines."""
        return shortened(visible(super().__str__()))


@dataclass(frozen=True, slots=True)
class Place:
    """Place in a file, such as a line and column of a config.

    Attributes:
        line: Line from 1; None if unknown.
        column: Column from 1, in characters; None if unknown.
        source: The line as it stands in the file; None if it cannot be quoted.
        width: Number of characters that a caret marks.
        file: File as the user named it; None if unknown.
    """

    file: str | None = None
    line: int | None = None
    column: int | None = None
    source: str | None = None
    width: int = 1

    def problem(
        self, found: str, path: str, allowed: str | None = None, nearest: str | None = None
    ) -> Problem:
        """Return a problem at this place, with the same fields as `Problem`.

        An empty `path` is left out of the text.
        """
        where = (self.file, self.line, self.column)
        return Problem(found, *where, path, allowed, nearest, self.source, self.width)


@dataclass(frozen=True, slots=True)
class Problem:
    """Mistake in a file or an override.

    Fields other than `found` may be missing (None or ''), and are then left out of the text.
    `str` returns `file:line:column: path: found`, then the quoted line with a caret and the hint.

    Attributes:
        found: The mistake, as a phrase: `1.4 is out of range`, `unknown key 'methd'`.
        file: The file, as the user named it, or the override's source (`--set`).
        line: 1-based line.
        column: 1-based column, counted in characters.
        path: Dotted path inside the file: `retrievers.bm25.b`.
        allowed: The allowed values: `a number from 0 to 1`.
        nearest: The allowed name that is nearest to a misspelt one.
        source: The line as it stands in the file.
        width: Number of characters of the line that the caret marks.
    """

    found: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str = ""
    allowed: str | None = None
    nearest: str | None = None
    source: str | None = None
    width: int = 1

    def __str__(self) -> str:
        """Render as `file:line:column: path: found`, then the line with a caret.

        The hint (`did you mean ...`, `allowed: ...`) follows the caret, or, without a quoted line,
        the head after '; '.
        """
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        head = ": ".join(part for part in (place, self.path, self.found) if part)
        parts = []
        if self.nearest:
            parts.append(f"did you mean '{self.nearest}'?")
        if self.allowed:
            is_cut = self.nearest is not None or len(self.allowed) > _LONGEST_ALLOWED
            parts.append(f"allowed: {shorten_names(self.allowed) if is_cut else self.allowed}")
        hint = " ".join(parts)
        if self.source is None or self.line is None or self.column is None:
            return f"{head}; {hint}" if hint else head
        return f"{head}\n{self._excerpt(hint)}"

    def cleaned(self, clean: Callable[[str], str]) -> Problem:
        """Return the problem with `clean` applied to its texts, such as to mask secrets.

        The caret stays under the same part of the line, whose length may change. `path` and
        `nearest` stay as they are.
        """
        source, column, width = self._cleaned_line(clean)
        return replace(
            self,
            found=clean(self.found),
            file=None if self.file is None else clean(self.file),
            allowed=None if self.allowed is None else clean(self.allowed),
            source=source,
            column=column,
            width=width,
        )

    def _cleaned_line(self, clean: Callable[[str], str]) -> tuple[str | None, int | None, int]:
        """Return (cleaned line, column from 1, width of the caret); unchanged without a column."""
        if self.source is None or self.column is None:
            return self.source, self.column, self.width
        source, start, end = self.source, self.column - 1, self.column - 1 + self.width
        cleaned_line = clean(source)
        if cleaned_line[:start] == source[:start]:
            return cleaned_line, self.column, max(1, min(self.width, len(cleaned_line) - start))
        prefix, marked = clean(source[:start]), clean(source[start:end])
        if f"{prefix}{marked}{clean(source[end:])}" == cleaned_line:
            return cleaned_line, len(prefix) + 1, max(1, len(marked))
        return cleaned_line, 1, max(1, len(cleaned_line))

    def _excerpt(self, hint: str) -> str:
        """Return the line of the mistake, with `^^^` and a hint below it."""
        source, column = self.source or "", (self.column or 1) - 1
        start = max(0, column + self.width - _EXCERPT) if len(source) > _EXCERPT else 0
        excerpt = source[start : start + _EXCERPT].expandtabs(1)
        number = f"{self.line:>4}"
        caret = "^" * max(1, min(self.width, len(excerpt) - (column - start)))
        margin = " " * len(number)
        return f"{number} | {excerpt}\n{margin} | {' ' * (column - start)}{caret} {hint}".rstrip()


_MOST_NAMES, _FEW_NAMES = 12, 6


def shorten_names(allowed: str) -> str:
    """Cut a list of more than 12 names, joined by ', ', to its first 6 and the number of others.

    Beside the nearest spelling, the whole list is not needed. A shorter list, and one with a blank
    within a name, is returned as it is.
    """
    names = allowed.split(", ")
    return allowed if any(" " in name for name in names) else list_names(names)


def list_names(names: Sequence[str]) -> str:
    """Join names by ', '; of more than 12, the first 6 and the number of others."""
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:_FEW_NAMES])}, ... ({len(names) - _FEW_NAMES} more)"


class ConfigError(RagbenchError):
    """All mistakes of a config, each a `Problem`, in the order of the caller; exit code 2.

    Its text has a line or more per mistake, and then their number: `2 errors in the config; nothing
    was run`.

    Attributes:
        problems: All mistakes, as a tuple.
        subject: Their place, for the last line: `the config`.
    """

    def __init__(self, problems: Sequence[Problem], subject: str = "the config") -> None:
        self.problems = tuple(problems)
        self.subject = subject
        count = len(self.problems)
        total = f"{count} error{'s' if count != 1 else ''} in {subject}; nothing was run"
        super().__init__("\n".join([*map(str, self.problems), total]))


class DataError(RagbenchError):
    """Data file or object that cannot be read in its format; `problem` has the place.

    Its text is that of the problem: `file:line: record: found; allowed: ...`. Parts that are None
    or '' are left out; `nearest` is a suggested spelling, and `file` becomes text. The exit code is
    2.

    Attributes:
        problem: Place, what was found, and what is allowed.
    """

    def __init__(
        self,
        found: str,
        *,
        file: object = None,
        line: int | None = None,
        record: str = "",
        allowed: str | None = None,
        nearest: str | None = None,
    ) -> None:
        place = Place(None if file is None else str(file), line)
        self.problem = place.problem(found, record, allowed, nearest)
        self.problems = (self.problem,)
        super().__init__(str(self.problem))


class FolderLocked(DataError):
    """Folder in which another run is at work; exit code 5, arguments as those of `DataError`."""

    exit_code = EXIT_LOCKED


class DiskFull(DataError):
    """File for which the disk or a quota has no space left; exit code 6.

    The arguments are those of `DataError`.
    """

    exit_code = EXIT_NO_SPACE


def is_disk_full(error: Exception) -> bool:
    """Return True for an error of a full disk, a spent quota, or a limit on the size of a file.

    The error is one of the operating system or of SQLite.
    """
    if isinstance(error, OSError):
        return error.errno in _FULL
    return "disk is full" in str(error)  # Python 3.10 has no code of SQLite's errors


def storage_error(problem: str, error: Exception, **place: Any) -> DataError:
    """Return the error for a file that cannot be written; a DiskFull if `error` says so.

    It is returned, not raised. `problem` and `place` are arguments of `DataError`.
    """
    return (DiskFull if is_disk_full(error) else DataError)(problem, **place)


class Phrase(str):
    """Words in place of a value that `OptionError` found: the message shows them without quotes.

    Example:
        >>> print(OptionError("map", "k", Phrase("3 cut-offs"), "one"))
        map: k: found 3 cut-offs, allowed: one
    """

    __slots__ = ()
    __repr__ = str.__str__


class OptionError(RagbenchError, ValueError):
    """Argument outside the allowed values, of an option of `owner`, such as a function.

    It is a ValueError as well; exit code 2. `nearest` is a suggested spelling, beside which a long
    list of allowed names is shortened; None suggests none. If it equals `found`, as for a number in
    quotes, the message says to leave out the quotes. An empty `option` is left out. All arguments
    are attributes.

    Example:
        >>> print(OptionError("map", "k", 0, "an integer >= 1"))
        map: k: found 0, allowed: an integer >= 1
    """

    def __init__(
        self, owner: str, option: str, found: object, allowed: str, nearest: str | None = None
    ) -> None:
        self.owner, self.option, self.found = owner, option, found
        self.allowed, self.nearest = allowed, nearest
        place = ": ".join(part for part in (owner, option) if part)
        if (
            nearest is not None and found == nearest
        ):  # the text of a number: the same letters help nobody
            nearest = None
            allowed = f"{allowed}, without quotes"
        hint = f"; did you mean '{nearest}'?" if nearest else ""
        names = shorten_names(allowed) if nearest or len(allowed) > _LONGEST_ALLOWED else allowed
        super().__init__(f"{place}: found {found!r}, allowed: {names}{hint}")


class MissingExtra(RagbenchError, ImportError):
    """Component whose optional package is not installed.

    It is an ImportError as well; exit code 2. `subject` is the component. One of `extra` and
    `advice` is needed; the latter says how to install a package that no extra has.

    Example:
        >>> print(MissingExtra("retriever 'dense'", "sentence-transformers", "dense"))
        retriever 'dense' needs sentence-transformers: pip install 'ragbench-eval[dense]'
        >>> print(MissingExtra("metric", "mecab", advice="pip install mecab"))
        metric needs mecab: pip install mecab
    """

    def __init__(
        self, subject: str, package: str, extra: str = "", *, advice: str | None = None
    ) -> None:
        """Keep the subject, its package, and the way to install it: an extra, or `advice`."""
        self.subject, self.package, self.extra = subject, package, extra
        self.advice = advice or f"pip install '{DISTRIBUTION}[{extra}]'"
        super().__init__(f"{subject} needs {package}: {self.advice}")


class AdapterError(RagbenchError):
    """User's own component that failed, returned a wrong type, or refused its options.

    It takes the message; exit code 2.
    """


class ExportError(RagbenchError):
    """Server that did not take the results of a run; exit code 7 if it cannot be reached, else 2.

    Attributes:
        exit_code: Exit code of the command.
    """

    def __init__(self, text: str, *, unreachable: bool = False) -> None:
        super().__init__(text)
        self.exit_code = EXIT_UNREACHABLE if unreachable else EXIT_BAD_INPUT


class ModelError(RagbenchError):
    """Language model without a usable result: a failed call, or a reply that cannot be read."""
