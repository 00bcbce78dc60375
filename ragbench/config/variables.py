"""Values from outside the file: `${VAR}`, `--set key=value`, `overrides=` of the Python API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragbench.config.problems import KeyPath, Report, dotted
from ragbench.config.tree import (
    Entry,
    Item,
    PythonReader,
    Scalar,
    ScalarError,
    has_lone_surrogate,
    resolve,
)
from ragbench.config.yaml_reader import UNREADABLE, read_value
from ragbench.errors import Place
from ragbench.registry import nearest

_REFERENCE = re.compile(
    r"\$(?P<escape>\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}|(?P<bad>\$\{)"
)


def interpolate(item: Item, environment: Mapping[str, str], report: Report) -> Item:
    """Return the tree with every `${VAR}` replaced; what is written stays beside the value.

    A variable that is empty counts as absent where there is a default, as in a shell. What an
    unquoted `${N:-3}` gives is read as if it stood there: 3 is a number. `$${` stands for `${`.
    """

    def replaced(entry: Entry) -> Entry:
        value = interpolate(entry.item, environment, report)
        return Entry(entry.key_place, value, tuple(map(replaced, entry.repeats)))

    if isinstance(item.value, dict):
        return replace(item, value={key: replaced(entry) for key, entry in item.value.items()})
    if isinstance(item.value, tuple):
        parts = tuple(interpolate(part, environment, report) for part in item.value)
        return replace(item, value=parts)
    if isinstance(item.value, str) and "${" in item.value:
        return _interpolated(item, item.value, environment, report)
    return item


def _interpolated(item: Item, text: str, environment: Mapping[str, str], report: Report) -> Item:
    failed = False
    read = False

    def value_of(match: re.Match[str]) -> str:
        nonlocal failed, read
        if match["escape"]:
            return "${"
        read = True
        if match["bad"]:
            found = f"'{text[match.start() : match.start() + 20]}' is not a variable"
            report.wrong(item, found, "${NAME}, ${NAME:-default}, $${ for '${'")
            failed = True
            return ""
        value = environment.get(match["name"], "")
        if value:
            report.environment[match["name"]] = value
        if match["default"] is not None:
            value = value or match["default"][2:]
        elif match["name"] not in environment:
            found = f"the environment variable {match['name']} is not set"
            allowed = f"a value for it, or ${{{match['name']}:-default}}"
            report.wrong(item, found, allowed, nearest(match["name"], environment))
            failed = True
        return value

    value = _REFERENCE.sub(value_of, text)
    if not failed and has_lone_surrogate(value):
        report.wrong(item, "the environment variable's value is not UTF-8")
        failed = True
    resolved = UNREADABLE if failed else _resolved(item, value, report)
    return replace(item, value=resolved, from_environment=read)


def _resolved(item: Item, value: str, report: Report) -> Scalar:
    if item.quoted or not value:
        return value
    try:
        return resolve(value)
    except ScalarError:
        allowed = "a number without a leading zero, or ${...} in quotes for text"
        report.wrong(item, f"{item.shown()} gives an unclear number", allowed)
        return UNREADABLE


Overrides = Mapping[str, Any] | Iterable[str]

_PART = re.compile(
    r"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^."'=]+))(?P<end>\.|=|$)"""
)


@dataclass(frozen=True, slots=True)
class _Override:
    """One override, read: where it goes and what goes there."""

    path: KeyPath
    item: Item
    place: Place


def apply_overrides(
    tree: Item, overrides: Overrides, blocks: Iterable[KeyPath], report: Report
) -> Item:
    """Return the tree with values put in or replaced.

    Overrides are `key=value` texts, whose values are read as YAML, or a mapping from dotted keys to
    Python values. A part with a dot in it stands in quotes: `retrievers."a.b".k1`; a number is an
    index of a list. Absent `blocks` are made; any other key on the way must exist.
    """
    known = frozenset(blocks)
    for override in _read(overrides, report):
        tree = _put(tree, override, 0, known, report)
    return tree


def _read(overrides: Overrides, report: Report) -> Iterable[_Override]:
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            place = Place("overrides")
            path = _split(str(key), place, report)[0]
            if path:
                yield _Override(path, PythonReader(report, place).read(value, path), place)
        return
    for text in [overrides] if isinstance(overrides, str) else overrides:
        place = Place(f"--set {text}")
        path, rest = _split(text, place, report)
        if path and rest is None:
            report.add(place, path, "no '=' in it", "dotted.key=value")
        elif path and (item := read_value(rest or "", place, path, report)) is not None:
            yield _Override(path, item, place)


def _split(text: str, place: Place, report: Report) -> tuple[KeyPath, str | None]:
    """The keys, and what follows the `=`; no keys, with a problem, where it is malformed."""
    parts: list[str] = []
    position = 0
    while match := _PART.match(text, position):
        ways = match.group("double", "single", "bare")
        parts.append(next(part for part in ways if part is not None))
        position = match.end()
        if match["end"] == "=":
            return tuple(parts), text[position:]
        if not match["end"]:
            return tuple(parts), None
    report.add(place, (), "not a dotted key", 'dotted.key=value, such as retrievers."a.b".k1=0.9')
    return (), None


def _put(
    node: Item, override: _Override, depth: int, blocks: frozenset[KeyPath], report: Report
) -> Item:
    part, is_last = override.path[depth], depth == len(override.path) - 1
    here = override.path[:depth]
    if isinstance(node.value, tuple):
        return _put_in_list(node, override, depth, blocks, report)
    if not isinstance(node.value, dict):
        found = f"{dotted(here)} is {node.shown()}, which has no '{part}'"
        report.wrong(override, found, "a key of a mapping")
        return node
    if is_last:
        return node.with_entry(part, override.item, override.place)
    entry = node.entries.get(part)
    if entry is not None:
        child = _put(entry.item, override, depth + 1, blocks, report)
        return node.with_entry(part, child, entry.key_place)
    path = override.path[: depth + 1]
    if path in blocks:
        empty = Item({}, override.place, path)
        child = _put(empty, override, depth + 1, blocks, report)
        return node.with_entry(part, child, override.place)
    absent = sorted(block[-1] for block in blocks if block[:-1] == here)  # blocks are a set
    names = list(dict.fromkeys([*node.entries, *absent]))
    found = f"no '{part}' in {dotted(here) or 'the config'}"
    report.wrong(override, found, ", ".join(names) or None, nearest(part, names))
    return node


def _put_in_list(
    node: Item, override: _Override, depth: int, blocks: frozenset[KeyPath], report: Report
) -> Item:
    part, items = override.path[depth], node.items
    if not (part.isascii() and part.isdigit() and int(part) < len(items)):
        found = f"no element '{part}' in {dotted(override.path[:depth])}"
        allowed = f"a number from 0 to {len(items) - 1}" if items else "nothing: the list is empty"
        report.wrong(override, found, allowed)
        return node
    index = int(part)
    is_last = depth == len(override.path) - 1
    new = override.item if is_last else _put(items[index], override, depth + 1, blocks, report)
    return replace(node, value=(*items[:index], new, *items[index + 1 :]))
