"""Columns inside others, as exported traces have them: `columns: {answer: output.text}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragbench.data.jsonl import Entry


def with_paths(entries: Sequence[Entry], columns: Mapping[str, str | None]) -> Sequence[Entry]:
    """Return the rows with a column of its own for each path that `columns` names.

    A path is keys and numbers of list items, joined by dots. A column that has the whole name
    comes first; where some row has the path, rows without it have null there.

    Example:
        >>> row = Entry("x", 1, {"outputs": {"documents": [{"text": "Io"}], "answer": "yes"}})
        >>> columns = {"answer": "outputs.answer", "contexts": "outputs.documents.0"}
        >>> [found] = with_paths([row], columns)
        >>> found.values["outputs.answer"], found.values["outputs.documents.0"]
        ('yes', {'text': 'Io'})
    """
    paths = [
        column
        for column in columns.values()
        if column is not None
        and "." in column
        and not any(column in entry.values for entry in entries)
        and any(_found(entry.values, column) is not None for entry in entries)
    ]
    if not paths:
        return entries
    return [
        replace(entry, values=entry.values | {path: _found(entry.values, path) for path in paths})
        for entry in entries
    ]


def _found(value: Any, path: str) -> Any:
    """What a path leads to; None where it leads nowhere."""
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
