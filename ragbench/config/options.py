"""Values and blocks of a config against the options that are declared for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ragbench.config.problems import Place, Report
from ragbench.config.tree import Item
from ragbench.config.yaml_reader import UNREADABLE
from ragbench.registry import DeclaredOption, Mismatch, declared_options, nearest

INVALID: Any = object()
"""What `check_value` returns for a wrong value; None is a value."""


def check_options(
    item: Item,
    declared: Mapping[str, DeclaredOption],
    report: Report,
    *,
    at: Place | None = None,
    others: Collection[str] = (),
) -> dict[str, Any]:
    """Return the valid values of a mapping, with the defaults of absent ones.

    Args:
        item: The mapping; anything else is a problem.
        declared: The keys with their types, ranges and defaults.
        report: Gets a problem for each wrong value, and unknown or missing key.
        at: Where a missing key is reported; default: where the mapping begins.
        others: Further keys that are allowed; the caller checks them.

    Returns:
        Values by key; a key with a problem is absent.
    """
    if not isinstance(item.value, dict):
        if item.value is not UNREADABLE:
            report.add(item.place, item.path, f"{item.shown()} is not a mapping", "a mapping")
        return {}
    for key, entry in item.entries.items():
        if key not in declared and key not in others:
            report.unknown_key(entry.key_place, item.path, key, [*others, *declared])
    values = {}
    for key, option in declared.items():
        value = item.get(key)
        if value is None:
            if option.required:
                found = f"missing key '{key}'"
                report.add(at or item.place, item.path, found, f"{key}: {option.allowed}")
            else:
                values[key] = option.default
        elif (checked := check_value(value, option, report)) is not INVALID:
            values[key] = checked
    return values


def check_value(item: Item, option: DeclaredOption, report: Report) -> Any:
    """Return the value in its declared type, or `INVALID` with a problem for each wrong part."""
    value = item.plain()
    mismatches = option.mismatches(value)
    for mismatch in mismatches:
        part = item
        for step in mismatch.steps:
            part = part.items[step] if isinstance(step, int) else part.entries[step].item
        if part.value is not UNREADABLE:
            _explain(part, mismatch, report)
    return INVALID if mismatches else option.converted(value)


def _explain(item: Item, mismatch: Mismatch, report: Report) -> None:
    words, close = mismatch.words, None
    if mismatch.out_of_range:
        found = f"{item.shown()} is out of range"
    elif words:
        found = f"unknown value {item.shown()}"
        close = nearest(str(item.value), words)
    else:
        found = f"{item.shown()} is not {mismatch.wanted}"
    report.add(item.place, item.path, found, mismatch.allowed, close)


def check_block(
    item: Item, record: Any, report: Report, others: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check a block against the record that declares it.

    Returns:
        The valid values, and the block as plain data with its defaults written out.
    """
    declared = declared_options(record)
    values = check_options(item, declared, report, others=others)
    written = {}
    for key in declared:
        value = item.get(key)
        if value is not None:
            written[key] = value.as_written()
        elif values.get(key) is not None:
            written[key] = values[key]
    return values, written
