"""Variables of a config: `${VAR}` and `${VAR:-default}` in its texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ragbench.config.tree import (
    SURROGATE,
    UNREADABLE,
    KeyEntry,
    Node,
    Reference,
    Report,
    ScalarError,
    resolve,
    text_of,
)
from ragbench.registry import nearest

# `$${` comes first, as it contains `${`
_REFERENCE = re.compile(
    r"\$(?P<escape>\$\{)|(?P<bad>\$\{)"
    r"(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>(?:(?!\$\{)[^}])*))?\})?"
)


class _NotAReference(ValueError):
    """A `${` that begins no reference; the argument is its position in the text."""


def _parts(text: str, environment: Mapping[str, str]) -> tuple[str | Reference, ...]:
    """Return the texts and references of a scalar, in order; () for ''."""
    parts: list[str | Reference] = []
    position = 0
    for match in _REFERENCE.finditer(text):
        parts.append(text[position : match.start()])
        position, name = match.end(), match["name"]
        if match["escape"]:
            parts.append("${")
        elif name:
            value, is_set = environment.get(name, ""), name in environment
            parts.append(Reference(name, value, match["default"], is_set))
        else:
            raise _NotAReference(match.start())
    return tuple(filter(None, (*parts, text[position:])))


def interpolate(node: Node, environment: Mapping[str, str], report: Report) -> Node:
    """Return the tree with every `${VAR}` replaced; `source` keeps the text of the config.

    A variable that is empty counts as absent if there is a default, as in a shell. A variable that
    is not set, without a default, is a problem. The value of an unquoted `${N:-3}` is read as YAML:
    3 is a number. `$${` stands for `${`. Keys stay as they are, and the tree is not changed.

    Args:
        node: The tree.
        environment: Variable -> value.
        report: Receives the problems; their values become `UNREADABLE`.
    """
    if isinstance(node.value, dict):
        entries = {}
        for key, entry in node.value.items():
            entries[key] = KeyEntry(entry.place, interpolate(entry.node, environment, report))
        return replace(node, value=entries)
    if isinstance(node.value, tuple):
        parts = tuple(interpolate(part, environment, report) for part in node.value)
        return replace(node, value=parts)
    if isinstance(node.value, str) and "${" in node.value:
        return _interpolated(node, node.value, environment, report)
    return node


def _interpolated(node: Node, text: str, environment: Mapping[str, str], report: Report) -> Node:
    """Return a scalar with the references in its text replaced."""
    try:
        parts = _parts(text, environment)
    except _NotAReference as error:
        start = error.args[0]
        problem = f"'{text[start : start + 20]}' is not a variable"
        report.wrong(node, problem, "${NAME}, ${NAME:-default}, $${ for '${'")
        return replace(node, value=UNREADABLE, parts=(text,))
    references = []
    for part in parts:
        if isinstance(part, Reference):
            references.append(part)
    if not references:
        return replace(node, value=_resolved(node, text_of(parts), report))
    value, failed = text_of(parts), False
    # all missing variables at once, so that a user sets them in one go
    for reference in references:
        if reference.default is None and not reference.is_set:
            name, failed = reference.name, True
            problem = f"the environment variable {name} is not set"
            allowed = f"a value for it, or ${{{name}:-default}}"
            report.wrong(node, problem, allowed, nearest(name, environment))
    if not failed and SURROGATE.search(value):
        report.wrong(node, "the environment variable's value is not UTF-8")
        failed = True
    node = replace(node, parts=parts)
    return replace(node, value=UNREADABLE if failed else _resolved(node, value, report))


def _resolved(node: Node, value: str, report: Report) -> Any:
    """Return the replaced text as YAML reads it; as text if the scalar stands in quotes."""
    if node.quoted or not value:
        return value
    try:
        return resolve(value)
    except ScalarError:
        allowed = "a number without a leading zero, or ${...} in quotes for text"
        report.wrong(node, f"{node.quote()} gives an unclear number", allowed)
        return UNREADABLE


def escaped(text: str) -> str:
    """Return a text as a config writes it: `$${` for `${`."""
    return text.replace("${", "$${")


def reads_environment(text: str) -> bool:
    """Return True if a text of a config has a `${`, also a malformed one; `$${` does not count."""
    return any(match["escape"] is None for match in _REFERENCE.finditer(text))


def names_in(text: str) -> list[str]:
    """Return the variables that a text of a config names, in order, repeated ones too.

    Example:
        >>> names_in("Bearer ${TOKEN:-none} $${NOT}")
        ['TOKEN']
    """
    names = []
    for match in _REFERENCE.finditer(text):
        if match["name"]:
            names.append(match["name"])
    return names
