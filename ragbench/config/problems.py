"""Everything that is wrong with a config, gathered with its places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ragbench.errors import ConfigError, DataError, Place, Problem
from ragbench.redaction import mask_addresses
from ragbench.registry import nearest as nearest_name
from ragbench.secrets import MASK, is_placeholder, is_secret_option, mask_url

KeyPath = tuple[str, ...]
"""Keys from the root down; an index of a list is its decimal number."""

_MANY = 20
_BARE = re.compile(r"[^\s.\"'=]+")


def dotted(path: Iterable[str]) -> str:
    """Return a path as `--set` takes it.

    Example:
        >>> dotted(["retrievers", "a.b", "k1"])
        'retrievers."a.b".k1'
    """
    return ".".join(part if _BARE.fullmatch(part) else f'"{part}"' for part in path)


def some_of(names: Sequence[str]) -> str:
    """Return names as a list for people, cut where it is long."""
    return ", ".join([*names[:_MANY], "..."] if len(names) > _MANY else names)


class Placed(Protocol):
    """What stands somewhere: a value, or an entry, which stands where its key does."""

    @property
    def place(self) -> Place:
        """Where it stands."""

    @property
    def path(self) -> KeyPath:
        """The keys that lead to it."""


_ENTRIES = re.compile(r"""((?:^|(?<=[{,]))[\s-]*["']?)([\w.-]+)(["']?\s*:(?=\s|$))""")
_VALUE = re.compile(r"""[^\s,{}\[\]"'|>]+""")
_ADDRESS = re.compile(r"""\w+://[^\s'",{}\[\]]+""")
_KEY = re.compile(r"""(?P<indent>[\s-]*)["']?(?P<key>[\w.-]+)["']?\s*:""")


def _masker(lines: Sequence[str], problem: Problem) -> Callable[[str], str]:
    """What masks all values of a line where a key on it, or one of those above it, is a secret's.

    The file could not be read: what belongs to which key is a guess, and so it is a wide one.
    """
    index = (problem.line or 1) - 1
    shown = lines[index] if index < len(lines) else ""
    above: list[str] = []
    indent = _indent(shown)
    for line in reversed(lines[:index]):
        found = _KEY.match(line)
        if found and _indent(line) < indent:
            above.insert(0, found["key"])
            indent = _indent(line)
    keys = [*above, *(match[2] for match in _ENTRIES.finditer(shown))]

    def masked(match: re.Match[str]) -> str:
        value = match[0]
        return value if is_placeholder(value) or value.startswith("${") else MASK

    def clean(text: str) -> str:
        if text == shown and any(map(is_secret_option, keys)):
            parts = _ENTRIES.split(text)  # every fourth is no key, nor what stands around one
            parts[::4] = [_VALUE.sub(masked, part) for part in parts[::4]]
            text = "".join(parts)
        return _ADDRESS.sub(lambda match: mask_url(match[0]), mask_addresses(text))

    return clean


def _indent(line: str) -> int:
    line = line.expandtabs()
    return len(line) - len(line.lstrip(" -"))


@dataclass(slots=True)
class Report:
    """Gathers problems, each once, and puts them into file order."""

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
        """Note one problem."""
        self._problems[place.problem(found, dotted(path), allowed, nearest)] = None

    def wrong(
        self, at: Placed, found: str, allowed: str | None = None, nearest: str | None = None
    ) -> None:
        """Note one problem of a value, or of a key."""
        self.add(at.place, at.path, found, allowed, nearest)

    def unknown_key(self, place: Place, path: KeyPath, key: str, allowed: Iterable[str]) -> None:
        """Note a key that does not belong there."""
        names = list(allowed)
        known = ", ".join(names) or "no keys"
        self.add(place, path, f"unknown key '{key}'", known, nearest_name(key, names))

    def refused(self, at: Placed, error: DataError) -> None:
        """Note what a reader says of a value."""
        problem = error.problem
        self.wrong(at, problem.found, problem.allowed, problem.nearest)

    def include(self, problems: Iterable[Problem]) -> None:
        """Take over problems of another report."""
        self._problems |= dict.fromkeys(problems)

    def conceal(self, lines: Sequence[str]) -> None:
        """Mask what the lines of a file that cannot be read show under the name of a secret."""
        self._problems = {problem.cleaned(_masker(lines, problem)): None for problem in self}

    def under(self, path: KeyPath) -> list[Problem]:
        """Return the problems at a path or below it."""
        prefix = dotted(path)
        return [
            problem
            for problem in self
            if not prefix or problem.path == prefix or problem.path.startswith(f"{prefix}.")
        ]

    def error(self, subject: str, clean: Callable[[str], str] = str) -> ConfigError:
        """Return every problem as one error, in file order; overrides come last.

        `clean` writes what they say and show without secrets.
        """
        ordered = sorted(self, key=lambda p: (p.line is None, p.line or 0, p.column or 0))
        return ConfigError([problem.cleaned(clean) for problem in ordered], subject)
