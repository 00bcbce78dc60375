"""Everything that is wrong with a config, gathered with its places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ragbench.errors import ConfigError, DataError, Place, Problem
from ragbench.registry import nearest as nearest_name
from ragbench.secrets import is_secret_option, looks_secret

# Keys from the root down; an index of a list is its decimal number.
KeyPath = tuple[str, ...]

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
    """A value, or an entry with the place of its key."""

    @property
    def place(self) -> Place:
        """The place in the file."""

    @property
    def path(self) -> KeyPath:
        """The keys that lead to it."""


_KEY = re.compile(r"""(?:^|[{,\s-])["']?([\w.-]+)["']?\s*:(?:\s|$)""")


def _names_secret(line: str) -> bool:
    return any(map(is_secret_option, _KEY.findall(line))) or any(map(looks_secret, line.split()))


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
        """Remove the excerpts from a file that cannot be read, from its first secret key on.

        Which value belongs to which key is a guess there.
        """
        secret = next((i for i, line in enumerate(lines) if _names_secret(line)), len(lines))
        self._problems = {
            replace(problem, source=None) if (problem.line or 0) > secret else problem: None
            for problem in self
        }

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
