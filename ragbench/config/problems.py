"""Report of everything that is wrong with a config, with the places in the file."""

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

_SHOWN_NAMES = 20
_PLAIN_KEY = re.compile(r"[^\s.\"'=]+")


def dotted(path: Iterable[str]) -> str:
    """Return a path as `--set` takes it; keys with a dot, a quote, `=` or a space stand in quotes.

    An empty path gives ''.

    Example:
        >>> dotted(["retrievers", "a.b", "k1"])
        'retrievers."a.b".k1'
    """
    return ".".join(part if _PLAIN_KEY.fullmatch(part) else f'"{part}"' for part in path)


def some_of(names: Sequence[str]) -> str:
    """Return names joined by commas, the first 20 and then `...`; '' without names."""
    return ", ".join([*names[:_SHOWN_NAMES], "..."] if len(names) > _SHOWN_NAMES else names)


class Placed(Protocol):
    """A value of a config, or an entry with the place of its key."""

    @property
    def place(self) -> Place:
        """The place in the file."""

    @property
    def path(self) -> KeyPath:
        """The keys that lead to it."""


# Keys in a line of YAML that cannot be parsed
_KEY = re.compile(r"""(?:^|[{,\s-])["']?([\w.-]+)["']?\s*:(?:\s|$)""")


def _names_secret(line: str) -> bool:
    """Return True if a line has a key of a secret, or a word in the form of a secret."""
    return any(map(is_secret_option, _KEY.findall(line))) or any(map(looks_secret, line.split()))


@dataclass(slots=True)
class Report:
    """Problems of a config, each once; sorted by their places when they are raised.

    Its length is the number of problems; `error` makes the error to raise.
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
            allowed: What is allowed there instead; None if nothing in particular.
            nearest: The allowed name that is nearest to a wrong one.
        """
        self._problems[place.problem(found, dotted(path), allowed, nearest)] = None

    def wrong(
        self, placed: Placed, found: str, allowed: str | None = None, nearest: str | None = None
    ) -> None:
        """Add one problem of a value or a key, at its place; for the other parameters see `add`."""
        self.add(placed.place, placed.path, found, allowed, nearest)

    def unknown_key(self, place: Place, path: KeyPath, key: str, allowed: Iterable[str]) -> None:
        """Add the problem of a key that is not allowed there, with the allowed keys."""
        names = list(allowed)
        allowed_names = ", ".join(names) or "no keys"
        self.add(place, path, f"unknown key '{key}'", allowed_names, nearest_name(key, names))

    def refused(self, placed: Placed, error: DataError) -> None:
        """Add the problem of an error that reading the value raised."""
        problem = error.problem
        self.wrong(placed, problem.found, problem.allowed, problem.nearest)

    def include(self, problems: Iterable[Problem]) -> None:
        """Add problems of another report, each once."""
        self._problems |= dict.fromkeys(problems)

    def conceal(self, lines: Sequence[str]) -> None:
        """Remove source lines of problems behind the first secret of a file that cannot be read.

        The key of a value is a guess there, so that any later line may hold the secret.
        """
        # lines are counted from 1 in problems, from 0 here
        secret = next((i for i, line in enumerate(lines) if _names_secret(line)), len(lines))
        self._problems = {
            replace(problem, source=None) if (problem.line or 0) > secret else problem: None
            for problem in self
        }

    def under(self, path: KeyPath) -> list[Problem]:
        """Return the problems at a path or below it, in the order of adding; all for ()."""
        prefix = dotted(path)
        return [
            problem
            for problem in self
            if not prefix or problem.path == prefix or problem.path.startswith(f"{prefix}.")
        ]

    def error(self, subject: str, clean: Callable[[str], str] = str) -> ConfigError:
        """Return every problem as one error, in file order; those of overrides come last.

        Args:
            subject: Name of the config in the first line.
            clean: Removes secrets from a text; applied to every problem.
        """
        # problems without a line, of overrides, come last
        ordered = sorted(self, key=lambda p: (p.line is None, p.line or 0, p.column or 0))
        return ConfigError([problem.cleaned(clean) for problem in ordered], subject)
