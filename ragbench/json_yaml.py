"""JSON and YAML that somebody else wrote, read within bounds; everything else is a ValueError.

What one interpreter refuses as too deep the next one reads, and the first function that walks the
value ends with a RecursionError; aliases in YAML make a small file a large value. Bounds of our own
are the same everywhere. The linter keeps `json.loads` and `yaml.load` out of all other modules.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

_Node = dict[str, object] | list[object]

# Lists and objects within each other.
DEEPEST = 100
# Values in YAML, aliases counted in full; and in what a server answers.
MOST_NODES = 1_000_000


class YamlError(ValueError):
    """Text that is no YAML, or too much of it; with the line where that is known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        """Keep the line, from 1."""
        super().__init__(problem if line is None else f"{problem} in line {line}")
        self.problem, self.line = problem, line


def load_json(
    text: str | bytes,
    *,
    deepest: int = DEEPEST,
    most: float = math.inf,
    **hooks: Callable[..., object],
) -> Any:
    """Return the value of a JSON text; `hooks` are those of `json.loads`.

    Of a text that may have more than `most` values none is made: empty lists take 30 times as much
    memory as their text.

    Raises:
        ValueError: It is no JSON (a `JSONDecodeError`), no UTF-8, nested more than that deep, or
            too much.

    Example:
        >>> load_json('{"a": [1]}')
        {'a': [1]}
        >>> load_json("[" * 101 + "]" * 101)
        Traceback (most recent call last):
        ValueError: nested more than 100 deep
    """
    opened = _count(text, "[") + _count(text, "{")
    if most < len(text) and opened + _count(text, ",") > most:
        raise ValueError(f"more than {most:,} values")
    try:
        value = json.loads(text, **hooks)  # type: ignore[arg-type]  # noqa: TID251  here alone
    except RecursionError:
        raise ValueError(f"nested more than {deepest} deep") from None
    if opened > deepest:
        _check(value, deepest)
    return value


def _count(text: str | bytes, sign: str) -> int:
    return text.count(sign.encode()) if isinstance(text, bytes) else text.count(sign)


def repeated(keys: Sequence[str]) -> str:
    """Return the first key that is there twice; a search for each would take hours of a million."""
    counts = Counter(keys)
    return next(key for key in keys if counts[key] > 1)


def load_yaml(text: str, *, typed: bool = False) -> Any:
    """Return the value of a YAML document, all scalars as texts unless `typed`.

    Raises:
        YamlError: It is no YAML, nested more than 100 deep, or large by its aliases.

    Example:
        >>> load_yaml("{a: [no, 1]}"), load_yaml("{a: [no, 1]}", typed=True)
        ({'a': ['no', '1']}, {'a': [False, 1]})
    """
    value = _loaded(text, typed=False)
    try:
        _check(value, DEEPEST, MOST_NODES)
    except ValueError as error:
        raise YamlError(str(error)) from None
    # only now: `<<` copies what it merges, and merges of merges grow as aliases do
    return _loaded(text, typed=True) if typed else value


def _loaded(text: str, *, typed: bool) -> object:
    import yaml

    try:
        loader = yaml.SafeLoader if typed else yaml.BaseLoader
        found: object = yaml.load(text, Loader=loader)  # noqa: TID251  here alone
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or error)
        raise YamlError(problem, None if mark is None else mark.line + 1) from None
    except RecursionError:
        raise YamlError(f"nested more than {DEEPEST} deep") from None
    # what its constructors of numbers, dates and truth values let through
    except (ValueError, LookupError, ArithmeticError, AttributeError, TypeError) as error:
        raise YamlError(f"a value that is none of its type: {error}") from None
    return found


def _check(value: object, deepest: int, most: float = math.inf) -> None:
    """Walk a value level by level: recursion would end where the interpreter likes."""
    level, nodes = _inside([[value]]), 0
    for _ in range(deepest):
        if not level:
            return
        nodes += sum(map(len, level))
        if nodes > most:
            raise ValueError(f"more than {most:,} values")
        level = _inside(level)
    if level:
        raise ValueError(f"nested more than {deepest} deep")


def _inside(level: list[_Node]) -> list[_Node]:
    return [
        part
        for each in level
        for part in (each.values() if isinstance(each, dict) else each)
        if isinstance(part, (dict, list))
    ]
