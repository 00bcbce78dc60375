"""Paths of the YAML: relative to its folder, and they must be there."""

from __future__ import annotations

import os
from pathlib import Path

from ragbench.config.problems import Report
from ragbench.config.tree import Item
from ragbench.registry import nearest


def resolve_path(item: Item, base: Path, report: Report) -> Path | None:
    """Return the absolute path that a value names; None, with a problem, where nothing is."""
    text = str(item.value)
    path = Path(os.path.abspath(base / os.path.expanduser(text))) if "\0" not in text else None
    if path is not None and os.path.exists(path):
        return path
    close = nearest(path.name, _names_in(path.parent)) if path is not None else None
    directory = os.path.dirname(item.written)
    report.add(
        item.place,
        item.path,
        f"no such file: {item.written}",
        "a path" if base == Path() else f"a path relative to {base}",
        os.path.join(directory, close) if close else None,
    )
    return None


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # the folder is not there either: nothing to suggest
        return []
