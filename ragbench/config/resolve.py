"""Paths and Python code that options name: found, and absolute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragbench.config.files import resolve_path
from ragbench.config.references import Context
from ragbench.config.tree import Item
from ragbench.errors import DataError
from ragbench.registry import DeclaredOption, load_object

_OF_MODELS = ("config.json", "modules.json")
"""What a folder with a model holds."""
_OF_FILES = (".j2", ".txt", ".yaml", ".yml")
"""How no built-in name and no model of a hub ends."""


def resolve_options(
    item: Item, declared: Mapping[str, DeclaredOption], values: dict[str, Any], context: Context
) -> None:
    """Make the paths among the values absolute, and see that the Python code that they name is."""
    for key, option in declared.items():
        value = item.get(key)
        if value is None or key not in values:
            continue
        if option.option.refers_to in ("path_or_name", "folder_or_name"):
            # what is not there is left to the component, which knows its names
            path = context.base / str(value.value)
            is_folder = option.option.refers_to == "folder_or_name" and path.is_dir()
            if is_folder or any((path / name).is_file() for name in ("", *_OF_MODELS)):
                values[key] = str(path.absolute())
            elif path.suffix in _OF_FILES:
                resolve_path(value, context.base, context.report)
        elif option.option.refers_to == "object":
            _check_object(value, context)
        elif option.option.refers_to != "path":
            continue
        elif isinstance(value.value, tuple):
            paths = [resolve_path(part, context.base, context.report) for part in value.items]
            kept = zip(values[key], paths, strict=True)
            values[key] = [type(old)(path) for old, path in kept if path is not None]
        elif isinstance(value.value, str):
            found = resolve_path(value, context.base, context.report)
            if found is not None:
                values[key] = str(found) if isinstance(values[key], str) else found


def _check_object(item: Item, context: Context) -> None:
    """Report code that cannot be imported; what can stays importable for its component."""
    try:
        load_object(str(item.value), context.search)
    except DataError as error:
        problem = error.problem
        context.report.add(item.place, item.path, problem.found, problem.allowed, problem.nearest)
