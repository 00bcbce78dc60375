"""Readers of JSON and YAML with limits on depth and size; everything beyond is a ValueError.

The recursion limit differs between interpreters, and a deep value may end any later function with a
RecursionError. Aliases in YAML make a small file a large value. The limits here are the same
everywhere. The linter forbids `json.loads` and `yaml.load` in all other modules.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

_Node = dict[str, object] | list[object]

# Largest depth of nested lists and objects.
DEEPEST = 100
# Largest number of values in YAML, with all copies of aliases, and in the reply of a server.
MOST_NODES = 1_000_000


class YamlError(ValueError):
    """YAML that is not valid or too large; `load_yaml` raises it.

    Attributes:
        problem: The mistake, without the line.
        line: Line from 1; None if unknown.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        """Add the line, counted from 1, to the message."""
        super().__init__(problem if line is None else f"{problem} in line {line}")
        self.problem, self.line = problem, line


def load_json(
    text: str | bytes,
    *,
    deepest: int = DEEPEST,
    most: float = math.inf,
    **hooks: Callable[..., object],
) -> Any:
    """Parse a JSON text.

    A text that may have more than `most` values is refused before it is parsed: empty lists take 30
    times as much memory as their text. NaN and infinities are numbers unless a hook refuses them.
    Of repeated keys the last counts.

    Args:
        text: The text, or its bytes in UTF-8, UTF-16 or UTF-32.
        deepest: Largest depth of nested lists and objects.
        most: Largest number of values.
        hooks: Keyword arguments of `json.loads`, such as `object_pairs_hook`.

    Raises:
        ValueError: The text is no JSON (a `JSONDecodeError`), not in its encoding, too deep or too
            large.

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
        _check_size(value, deepest)
    return value


def _count(text: str | bytes, sign: str) -> int:
    return text.count(sign.encode()) if isinstance(text, bytes) else text.count(sign)


def first_repeated(keys: Sequence[str]) -> str:
    """Return the first of the keys that occur more than once: `a` of `a b b a`.

    Raises:
        StopIteration: No key is repeated.
    """
    # counted in one pass: a search for each of a million keys would take hours
    counts = Counter(keys)
    return next(key for key in keys if counts[key] > 1)


def load_yaml(text: str, *, typed: bool = False) -> Any:
    """Parse a YAML document; scalars are texts unless `typed`.

    An empty text gives None. Without `typed`, null is '' or the word. Of repeated keys the last
    counts.

    Raises:
        YamlError: The text is not one YAML document, nested over 100 deep, or has over a million
            values or one of a wrong type.

    Example:
        >>> load_yaml("{a: [no, 1]}"), load_yaml("{a: [no, 1]}", typed=True)
        ({'a': ['no', '1']}, {'a': [False, 1]})
    """
    value = _parse_yaml(text, typed=False)
    try:
        _check_size(value, DEEPEST, MOST_NODES)
    except ValueError as error:
        raise YamlError(str(error)) from None
    # parsed twice: the typed loader copies every `<<` merge, which may grow as aliases do
    return _parse_yaml(text, typed=True) if typed else value


def _parse_yaml(text: str, *, typed: bool) -> object:
    """Parse YAML without limits on size; every failure is a YamlError."""
    import yaml

    try:
        # of libyaml, where PyYAML was built with it: ten times as fast
        name = "SafeLoader" if typed else "BaseLoader"
        loader = getattr(yaml, f"C{name}", None) or getattr(yaml, name)
        value: object = yaml.load(text, Loader=loader)  # noqa: TID251  here alone
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or error)
        raise YamlError(problem, None if mark is None else mark.line + 1) from None
    except RecursionError:
        raise YamlError(f"nested more than {DEEPEST} deep") from None
    # PyYAML's constructors of numbers and dates raise these for values such as 2024-99-99
    except (ValueError, LookupError, ArithmeticError, AttributeError, TypeError) as error:
        raise YamlError(f"a value that is not of its type: {error}") from None
    return value


def _check_size(value: object, deepest: int, most: float = math.inf) -> None:
    """Raise a ValueError for a value that is nested too deep, or has more than `most` parts."""
    level, nodes = _children([[value]]), 0
    for _ in range(deepest):
        if not level:
            return
        nodes += sum(map(len, level))
        if nodes > most:
            raise ValueError(f"more than {most:,} values")
        level = _children(level)
    if level:
        raise ValueError(f"nested more than {deepest} deep")


def _children(level: list[_Node]) -> list[_Node]:
    """Return the lists and objects directly inside the given ones, in their order."""
    children: list[_Node] = []
    for node in level:
        parts = node.values() if isinstance(node, dict) else node
        for part in parts:
            if isinstance(part, (dict, list)):
                children.append(part)
    return children
