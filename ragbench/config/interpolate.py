"""`${VAR}` and `${VAR:-default}`: values from the environment, never saved or shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ragbench.config.problems import Report
from ragbench.config.tree import Entry, Item, Scalar, ScalarError, has_lone_surrogate, resolve
from ragbench.config.yaml_reader import UNREADABLE
from ragbench.registry import nearest

_REFERENCE = re.compile(
    r"\$(?P<escape>\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}|(?P<bad>\$\{)"
)


def interpolate(item: Item, environment: Mapping[str, str], report: Report) -> Item:
    """Return the tree with every `${VAR}` replaced; what is written stays beside the value.

    A variable that is empty counts as absent where there is a default, as in a shell. What an
    unquoted `${N:-3}` gives is read as if it stood there: 3 is a number. `$${` stands for `${`.
    """
    if isinstance(item.value, dict):
        entries = {
            key: Entry(
                entry.key_place,
                interpolate(entry.item, environment, report),
                tuple(
                    Entry(again.key_place, interpolate(again.item, environment, report))
                    for again in entry.repeats
                ),
            )
            for key, entry in item.value.items()
        }
        return replace(item, value=entries)
    if isinstance(item.value, tuple):
        return replace(
            item, value=tuple(interpolate(part, environment, report) for part in item.value)
        )
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
            report.add(item.place, item.path, found, "${NAME}, ${NAME:-default}, $${ for '${'")
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
            report.add(item.place, item.path, found, allowed, nearest(match["name"], environment))
            failed = True
        return value

    value = _REFERENCE.sub(value_of, text)
    if not failed and has_lone_surrogate(value):
        report.add(item.place, item.path, "the environment variable's value is not UTF-8")
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
        report.add(item.place, item.path, f"{item.shown()} gives an unclear number", allowed)
        return UNREADABLE
