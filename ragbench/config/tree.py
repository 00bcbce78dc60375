"""Tree of a config: its values with their places, and the problems that are reported at them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragbench.errors import ConfigError, DataError, Place, Problem
from ragbench.registry import nearest as nearest_name
from ragbench.secrets import is_secret_option, looks_secret

# Keys from the root down; an index of a list is its decimal number.
KeyPath = tuple[str, ...]

_SHOWN_NAMES = 20
# Earlier name of a key -> its name.
RENAMED = {"samples": "repeat"}
_PLAIN_KEY = re.compile(r"[^\s.\"'=]+")


def dotted(path: Iterable[str]) -> str:
    """Return a path as `--set` takes it; keys with a dot, a quote, `=` or a space stand in quotes.

    An empty path gives ''. A key with both kinds of quotes cannot be read back.

    Example:
        >>> dotted(["retrievers", "a.b", "k1"])
        'retrievers."a.b".k1'
    """
    keys = []
    for key in path:
        if not _PLAIN_KEY.fullmatch(key):
            key = f"'{key}'" if '"' in key else f'"{key}"'
        keys.append(key)
    return ".".join(keys)


def some_of(names: Sequence[str]) -> str:
    """Return names joined by commas, the first 20 and then `...`; '' without names."""
    return ", ".join([*names[:_SHOWN_NAMES], "..."] if len(names) > _SHOWN_NAMES else names)


# Keys in a line of YAML that cannot be parsed; a key begins where no other word ends.
_KEY = re.compile(r"""(?<![\w.-])["']?([\w.-]+)["']?\s*:(?:\s|$)""")


@dataclass(slots=True)
class Report:
    """Problems of a config, each once; sorted by their places when they are raised.

    Its length is the number of problems, and iteration is in the order of adding. `error` returns
    the ConfigError with all of them, which the caller raises.
    """

    _problems: dict[Problem, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._problems)

    def add(
        self,
        place: Place,
        path: KeyPath,
        found: str,
        allowed: str | None = None,
        nearest: str | None = None,
    ) -> None:
        """Add one problem; an equal problem is added once.

        Args:
            place: Place in the file, or the override.
            path: Keys that lead to the value.
            found: The mistake, in lower case.
            allowed: The allowed values; None if nothing in particular.
            nearest: The allowed name that is nearest to a wrong one.
        """
        self._problems[place.problem(found, dotted(path), allowed, nearest)] = None

    def wrong(
        self,
        placed: Node | KeyEntry,
        found: str,
        allowed: str | None = None,
        nearest: str | None = None,
    ) -> None:
        """Add one problem of a value, or of an entry at its key; for other parameters see `add`."""
        self.add(placed.place, placed.path, found, allowed, nearest)

    def unknown_key(self, place: Place, path: KeyPath, key: str, allowed: Iterable[str]) -> None:
        """Add the problem of a key that is not allowed there, with the allowed keys.

        `path` is that of the mapping; the nearest allowed key, or its new name, is suggested.
        """
        names = list(allowed)
        if (renamed := RENAMED.get(key)) in names:
            self.add(place, path, f"unknown key '{key}'", f"'{renamed}', which has its meaning")
            return
        allowed_names = ", ".join(names) or "no keys"
        self.add(place, path, f"unknown key '{key}'", allowed_names, nearest_name(key, names))

    def refused(self, placed: Node | KeyEntry, error: DataError) -> None:
        """Add the problem of an error that reading the value raised, at the place of the value.

        The allowed values and the nearest one are those of the error.
        """
        problem = error.problem
        self.wrong(placed, problem.found, problem.allowed, problem.nearest)

    def conceal(self, lines: Sequence[str]) -> None:
        """Remove source lines of problems behind the first secret of a file that cannot be read.

        The key of a value is a guess there, so that any later line may hold the secret.
        """
        first = len(lines) + 1
        for number, line in reversed([*enumerate(lines, start=1)]):
            has_key = any(map(is_secret_option, _KEY.findall(line)))
            if has_key or any(map(looks_secret, line.split())):
                first = number
        problems = list(self)
        self._problems = {}
        for problem in problems:
            is_hidden = (problem.line or 0) >= first
            self._problems[replace(problem, source=None) if is_hidden else problem] = None

    def under(self, path: KeyPath) -> list[Problem]:
        """Return the problems at a path or below it, in the order of adding; all for ()."""
        if not path:
            return list(self)
        prefix = dotted(path)
        problems = []
        for problem in self:
            if f"{problem.path}.".startswith(f"{prefix}."):
                problems.append(problem)
        return problems

    def error(self, subject: str, clean: Callable[[str], str] = str) -> ConfigError:
        """Return every problem as one error, in file order; those of overrides come last.

        Args:
            subject: Name of the config in the last line of the message.
            clean: Removes secrets from a text; applied to every problem.
        """
        # problems without a line, of overrides, come last
        ordered = sorted(self, key=lambda p: (p.line is None, p.line or 0, p.column or 0))
        return ConfigError([problem.cleaned(clean) for problem in ordered], subject)


Scalar = str | int | float | bool | None

# Plain words of the core schema of YAML 1.2; `yes`, `no`, `on` and `off` are text there
_WORDS: dict[str, Scalar] = {"": None, "~": None}
_WORDS |= dict.fromkeys(("null", "Null", "NULL"))
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True)
_WORDS |= dict.fromkeys(("false", "False", "FALSE"), False)

_INTEGER = re.compile(r"[-+]?(?:0|[1-9](?:_?[0-9])*)")
# YAML 1.1 reads 010 as 8, YAML 1.2 as 10, so that such numbers are refused
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_OF_ANOTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST = 300  # digits; Python itself refuses to read integers beyond 4,300


class ScalarError(ValueError):
    """A word that looks like a number but is none; `resolve` raises it.

    Attributes:
        found: The mistake.
        allowed: The text to write instead.
    """

    def __init__(self, found: str, allowed: str) -> None:
        self.found, self.allowed = found, allowed
        super().__init__(f"{found}, allowed: {allowed}")


def resolve(text: str) -> Scalar:
    """Return the value of an unquoted word as YAML 1.2 core reads it.

    Words such as `yes` and dates are text; `.inf` and `.nan` are floats; '', `~` and `null` are
    None.

    Raises:
        ScalarError: A number has a leading zero, which YAML 1.1 reads as octal and YAML 1.2 as
            decimal, or more than 300 characters.

    Example:
        >>> [resolve(word) for word in ("no", "1e-3", "1_000", "0x1F", "12:30", "true", "~")]
        ['no', 0.001, 1000, 31, '12:30', True, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if len(text) > _LONGEST and _FLOAT.fullmatch(text.replace("_", "")):
        raise ScalarError(f"a number of {len(text)} characters", "a shorter one, or text in quotes")
    if _INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    if _LEADING_ZERO.fullmatch(text):
        number = int(text.replace("_", ""))
        raise ScalarError(f"{text} has a leading zero", f"{number}, or '{text}' in quotes for text")
    if _OF_ANOTHER_BASE.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return float(text.replace(".", "")) if _NOT_FINITE.fullmatch(text) else text


# Half of a surrogate pair, which UTF-8 cannot encode
SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_SHOWN = 60
_LARGEST = 10**300  # larger integers are no floats


# Value of a scalar that cannot be read: it has a problem, so that later checks skip it
UNREADABLE: Any = object()


class Quoted(str):
    """Text that stands in quotes in the config: `"3"` and `"${N}"` stay text."""

    __slots__ = ()


class WrittenPath(str):
    """Text of a path as the config has it, relative to the config.

    It marks a path in a resolved config, which `dump_config` may make relative to another folder.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """A `${NAME}` or `${NAME:-default}` in a scalar, with the value of the variable.

    Attributes:
        value: Value of the variable; empty if it is not set.
        default: Text that counts if the value is empty; None without a default.
        is_set: True if the environment has the variable, empty or not.
        name: Name of the variable.
    """

    name: str
    value: str
    default: str | None = None
    is_set: bool = True

    @property
    def text(self) -> str:
        """Text that replaces the reference: the value, or else the default, or else nothing."""
        return self.value or self.default or ""


def text_of(parts: Sequence[str | Reference]) -> str:
    """Return the text of a scalar with its references replaced; '' for no parts."""
    return "".join(part if isinstance(part, str) else part.text for part in parts)


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A key of a mapping with its value.

    Attributes:
        place: Place of the key.
        node: The value.
    """

    place: Place
    node: Node

    @property
    def path(self) -> KeyPath:
        """Path of the value."""
        return self.node.path


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the config: a scalar, a list or a mapping; the YAML and Python readers make it.

    A node does not change: `with_entry` and `without` return new ones. `get(key)` returns the value
    of a key, or None; `plain` the value as lists, dicts and scalars.

    Attributes:
        value: The scalar, the elements of the list, or key -> entry of the mapping. `UNREADABLE`
            for a scalar with a problem in the report.
        path: Keys from the root to the value.
        source: A scalar as it is written, without quotes.
        quoted: True if a scalar stands in quotes.
        parts: Texts and references of a scalar with `${VAR}` in it; else empty.
        place: Place of the value in the file.
    """

    value: Scalar | tuple[Node, ...] | dict[str, KeyEntry]
    place: Place
    path: KeyPath
    source: str = ""
    quoted: bool = False
    parts: tuple[str | Reference, ...] = ()

    def references(self) -> Iterator[Reference]:
        """Yield every reference of a scalar."""
        for part in self.parts:
            if isinstance(part, Reference):
                yield part

    def scalars(self) -> Iterator[Node]:
        """Yield every scalar at or below the node, in file order."""
        if isinstance(self.value, dict):
            for entry in self.value.values():
                yield from entry.node.scalars()
        elif isinstance(self.value, tuple):
            for node in self.value:
                yield from node.scalars()
        else:
            yield self

    @property
    def entries(self) -> dict[str, KeyEntry]:
        """Entries of a mapping by key; empty for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def elements(self) -> tuple[Node, ...]:
        """Elements of a list; empty for anything else."""
        return self.value if isinstance(self.value, tuple) else ()

    def get(self, key: str) -> Node | None:
        """Return the value of a key; None if the node is no mapping or lacks the key."""
        entry = self.entries.get(key)
        return None if entry is None else entry.node

    def text(self, key: str) -> str | None:
        """Return the value of a key if it is text, also an empty one; else None."""
        node = self.get(key)
        return node.value if node is not None and isinstance(node.value, str) else None

    def quote(self) -> str:
        """Return the value as messages quote it: `1.4`, `'abc'`, `a list`; long texts are cut.

        A variable stands as `${NAME}`, as the config has it.
        """
        if isinstance(self.value, dict):
            return "a mapping" if self.value else "{}"
        if isinstance(self.value, tuple):
            return "a list" if self.value else "[]"
        if self.value is None and not self.source:
            return "an empty value"
        text = self.source
        if len(text) > _LONGEST_SHOWN:
            text = f"{text[:_LONGEST_SHOWN]}..."
        is_text = isinstance(self.value, str) or self.quoted or self.parts
        text = repr(text) if is_text else text
        # a variable with a default: tell the reader that its value counts, not the default
        names: dict[str, None] = {}
        for reference in self.references():
            if reference.default and reference.value:
                names[reference.name] = None
        if names:
            text += f" ({', '.join(names)} {'is' if len(names) == 1 else 'are'} set)"
        return text

    def plain(self) -> Any:
        """Return the value as new lists, dicts and scalars; unreadable ones stay `UNREADABLE`."""
        if isinstance(self.value, dict):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    def with_entry(self, key: str, node: Node, place: Place | None = None) -> Node:
        """Return the mapping with one value added or replaced; a replaced value keeps its position.

        The node itself is not changed; one that is no mapping becomes one.

        Args:
            key: The key.
            node: The new value.
            place: Place of the key; default: its old place, or that of the value.
        """
        old = self.entries.get(key)
        place = place or (old.place if old else node.place)
        return replace(self, value={**self.entries, key: KeyEntry(place, node)})

    def without(self, key: str) -> Node:
        """Return a copy of the mapping without a key, which need not exist.

        A node that is no mapping gives an empty mapping.
        """
        entries = dict(self.entries)
        entries.pop(key, None)
        return replace(self, value=entries)


@dataclass(slots=True)
class PythonReader:
    """Reader of a config that a Python caller passes as a mapping; makes the same tree as YAML.

    `read(value)` returns the tree; parts that no config can hold are reported and become null.

    Attributes:
        report: Receives what a config cannot hold.
        place: Place of every node: Python values have no lines.
    """

    report: Report
    place: Place = field(default_factory=Place)

    def read(self, value: Any, path: KeyPath = (), depth: int = 0) -> Node:
        """Return the tree of a value; a part that no config can hold is reported and becomes null.

        Enumerations of texts, paths and NumPy scalars become texts and numbers, and any sequence a
        list. A key that is no text is reported and left out. More than 50 levels are a problem;
        `depth` is the number of levels above the value.
        """
        if depth > MAX_DEPTH:
            return self._refuse(f"more than {MAX_DEPTH} levels", path)
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, str):
            if SURROGATE.search(value):
                return self._refuse("text with half a character (a lone surrogate)", path)
            text = str.__str__(value)  # a member of a str enumeration: its value, not its name
            return Node(text, self.place, path, text, isinstance(value, Quoted))
        if isinstance(value, Mapping):
            return self._mapping(value, path, depth + 1)
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
            parts = enumerate(value)
            items = tuple(self.read(part, (*path, str(i)), depth + 1) for i, part in parts)
            return Node(items, self.place, path)
        # a scalar of NumPy or torch; arrays are refused below
        if hasattr(value, "dtype") and callable(getattr(value, "item", None)):
            value = value.item() if getattr(value, "ndim", 1) == 0 else value
        if isinstance(value, int) and abs(value) > _LARGEST:
            return self._refuse("an integer of hundreds of digits", path)
        if value is None or isinstance(value, (bool, int, float)):
            word = repr(value) if isinstance(value, float) else json.dumps(value)
            return Node(value, self.place, path, word)
        return self._refuse(f"an object of type {type(value).__name__}", path)

    def _mapping(self, value: Mapping[Any, Any], path: KeyPath, depth: int) -> Node:
        """Return a mapping as a node; keys that are no text are problems."""
        entries = {}
        for key, part in value.items():
            if is_level(key, path):
                key = str(key)
            if isinstance(key, str) and not SURROGATE.search(key):
                entries[key] = KeyEntry(self.place, self.read(part, (*path, key), depth))
            else:
                self.report.add(self.place, path, f"the key {key!r} is not text", "text")
        return Node(entries, self.place, path)

    def _refuse(self, problem: str, path: KeyPath) -> Node:
        """Report a value of another type, and return a node of null in its place."""
        self.report.add(self.place, path, problem, "text, numbers, lists and mappings")
        return Node(None, self.place, path, "null")


def is_level(key: object, path: KeyPath) -> bool:
    """Return True if a key is a level in the scale of a rubric: the only keys that may be numbers.

    Example:
        >>> is_level(5, ("metrics", "judge", "rubrics", 0, "scale")), is_level(5, ("metrics",))
        (True, False)
    """
    # rubrics may stand in a config as mappings
    of_rubric = path[-1:] == ("scale",) and "rubrics" in path
    return of_rubric and isinstance(key, int) and not isinstance(key, bool)


# Levels of nesting; the deepest useful config has six
MAX_DEPTH = 50
