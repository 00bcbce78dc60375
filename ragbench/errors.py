"""Every error that ragbench raises on purpose, and the one text form that they share.

    RagbenchError                    exit code 2
    |-- ConfigError                  a YAML file; all its problems at once, with positions
    |-- DataError                    a data file or object: file, line, record
    |-- OptionError (ValueError)     an argument outside what is allowed
    |-- MissingExtra (ImportError)   a component whose optional package is not installed
    |-- WorkerEnded                  a worker process that ended with a block that the run needs
    |-- ModelError                   a language model that brought nothing usable; in ragbench.llm:
    |   |-- CallFailure              a call without a reply that can be used, with its cause
    |   `-- Unreadable (ValueError)   a reply that does not hold what was asked for
    |       `-- Broken               one that began as JSON and did not go on as such
    `-- AdapterError                 a user's own component that failed or broke its contract

A message names the place, what was found, and what is allowed or what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

EXIT_OK = 0
EXIT_GATE_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INCOMPLETE = 3
EXIT_UNDECIDED = 4
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130

_EXCERPT = 110  # columns of a source line that are quoted; longer lines are cut around the caret


_LONGEST_LINE = 800  # characters; of a longer one the middle is left out
_UNSEEN = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
# delete and the second set of controls; what turns the direction of a text; line breaks that only
# some programs know; bytes that are no UTF-8
_UNSEEN |= {0x7F: 0x2421} | dict.fromkeys(
    [*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A),
     0xFEFF, *range(0xD800, 0xE000)],
    0xFFFD,
)  # fmt: skip


def is_interrupt(error: BaseException | None) -> bool:
    """Return True for Ctrl-C, and for an error that was raised while Ctrl-C was handled.

    A `KeyboardInterrupt` comes between any two steps, also between those that take and release
    the lock of a `threading.Condition`, whose own RuntimeError then stands before it.

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
    seen: set[int] = set()
    while error is not None and not isinstance(error, KeyboardInterrupt) and id(error) not in seen:
        seen.add(id(error))
        error = error.__context__
    return isinstance(error, KeyboardInterrupt)


def visible(text: str) -> str:
    r"""Replace each character that a terminal would obey by one that it shows.

    Line breaks and tabs stay. Controls get their pictures, all others the replacement character,
    one for one, so that columns stay where they were.

    Example:
        >>> visible("a\x1b[31mb\tc")
        'a␛[31mb\tc'
    """
    return text if text.isprintable() else text.translate(_UNSEEN)


def shortened(text: str) -> str:
    r"""Leave out the middle of each line that is too long to be read.

    Example:
        >>> len(shortened("x" * 70_000 + "\ny"))
        802
    """
    half = _LONGEST_LINE // 2
    return "\n".join(
        line if len(line) <= _LONGEST_LINE else f"{line[: half - 5]} ... {line[-half:]}"
        for line in text.split("\n")
    )


class RagbenchError(Exception):
    """An error that the user can act on; the command line prints it without a traceback."""

    exit_code = EXIT_BAD_INPUT

    def __str__(self) -> str:
        """The message as anything may show it: nothing in it is obeyed, no line is endless."""
        return shortened(visible(super().__str__()))


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, or the name of another source, which has no lines."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    source: str | None = None
    width: int = 1

    def problem(
        self, found: str, path: str, allowed: str | None = None, nearest: str | None = None
    ) -> Problem:
        """Return a problem that stands here."""
        where = (self.file, self.line, self.column)
        return Problem(found, *where, path, allowed, nearest, self.source, self.width)


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a file or an override.

    Attributes:
        found: What was found, as a phrase: `1.4 is out of range`, `unknown key 'methd'`.
        file: The file, as the user named it, or the override's source (`--set`).
        line: 1-based line.
        column: 1-based column, counted in characters.
        path: Dotted path inside the file: `retrievers.bm25.b`.
        allowed: What would be right: `a number from 0 to 1`.
        nearest: The right spelling that is nearest to a wrong one.
        source: The line as it stands in the file.
        width: How many characters of the line are meant.
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
        """Render as `file:line:column: path: found`, then the line with a caret."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        head = ": ".join(part for part in (place, self.path, self.found) if part)
        parts = []
        if self.nearest:
            parts.append(f"did you mean '{self.nearest}'?")
        if self.allowed:
            parts.append(f"allowed: {first_of(self.allowed) if self.nearest else self.allowed}")
        hint = " ".join(parts)
        if self.source is None or self.line is None or self.column is None:
            return f"{head}; {hint}" if hint else head
        return f"{head}\n{self._excerpt(hint)}"

    def cleaned(self, clean: Callable[[str], str]) -> Problem:
        """Return the problem with its texts rewritten; the caret stays under what is meant."""
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
        """The line, and where what is meant stands in it then; the whole line where that is cut."""
        if self.source is None or self.column is None:
            return self.source, self.column, self.width
        source, start, end = self.source, self.column - 1, self.column - 1 + self.width
        whole = clean(source)
        if whole[:start] == source[:start]:
            return whole, self.column, max(1, min(self.width, len(whole) - start))
        before, meant = clean(source[:start]), clean(source[start:end])
        if f"{before}{meant}{clean(source[end:])}" == whole:
            return whole, len(before) + 1, max(1, len(meant))
        return whole, 1, max(1, len(whole))

    def _excerpt(self, hint: str) -> str:
        source, column = self.source or "", (self.column or 1) - 1
        start = max(0, column + self.width - _EXCERPT) if len(source) > _EXCERPT else 0
        shown = source[start : start + _EXCERPT].expandtabs(1)
        number = f"{self.line:>4}"
        caret = "^" * max(1, min(self.width, len(shown) - (column - start)))
        margin = " " * len(number)
        return f"{number} | {shown}\n{margin} | {' ' * (column - start)}{caret} {hint}".rstrip()


_MOST_NAMES, _FEW_NAMES = 12, 6


def first_of(allowed: str) -> str:
    """A long list of names, cut: beside the right spelling it is not needed."""
    names = allowed.split(", ")
    if len(names) <= _MOST_NAMES or any(" " in name for name in names):
        return allowed
    return f"{', '.join(names[:_FEW_NAMES])}, ... ({len(names) - _FEW_NAMES} more)"


class ConfigError(RagbenchError):
    """Everything that is wrong with a config, in file order: a `Problem` per mistake."""

    def __init__(self, problems: Sequence[Problem], subject: str = "the config") -> None:
        self.problems = tuple(problems)
        self.subject = subject
        count = len(self.problems)
        total = f"{count} error{'s' if count != 1 else ''} in {subject}; nothing was run"
        super().__init__("\n".join([*map(str, self.problems), total]))


class DataError(RagbenchError):
    """A data file or object that cannot be read as what it should be; `problem` says where."""

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
        super().__init__(str(self.problem))


class OptionError(RagbenchError, ValueError):
    """An argument outside what is allowed.

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
        hint = f"; did you mean '{nearest}'?" if nearest else ""
        shown = first_of(allowed) if nearest else allowed
        super().__init__(f"{place}: found {found!r}, allowed: {shown}{hint}")


class MissingExtra(RagbenchError, ImportError):
    """A component whose optional package is not installed.

    Example:
        >>> print(MissingExtra("retriever 'dense'", "sentence-transformers", "dense"))
        retriever 'dense' needs sentence-transformers: pip install 'ragbench[dense]'
        >>> print(MissingExtra("metric", "mecab", advice="pip install mecab"))
        metric needs mecab: pip install mecab
    """

    def __init__(
        self, subject: str, package: str, extra: str = "", *, advice: str | None = None
    ) -> None:
        """Name what cannot be done, and what brings it: an extra of ragbench, or `advice`."""
        self.subject, self.package, self.extra = subject, package, extra
        self.advice = advice or f"pip install 'ragbench[{extra}]'"
        super().__init__(f"{subject} needs {package}: {self.advice}")


class AdapterError(RagbenchError):
    """A component of the user's own that failed or returned something else than it should."""


class ModelError(RagbenchError):
    """A language model that brought nothing usable."""
