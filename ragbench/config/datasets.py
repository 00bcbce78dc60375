"""Options of data sets that are mappings themselves: `split: {...}` and `columns: {...}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ragbench.config.problems import Report
from ragbench.config.tree import Item
from ragbench.errors import OptionError


def check_dataset_options(dataset: Item, report: Report) -> None:
    """Check the mappings as the loaders will, so that their mistakes get places too."""
    from ragbench.data.files.columns import check_mapping
    from ragbench.data.loaders.base import parse_split

    checks: Mapping[str, Callable[[Mapping[str, Any], str], Any]] = {
        "columns": check_mapping,
        "split": parse_split,
    }
    for key, check in checks.items():
        item = dataset.get(key)
        if item is None or not isinstance(item.value, dict) or report.under(item.path):
            continue
        try:
            check(item.plain(), "dataset")
        except OptionError as error:
            _report(error, item, report)


def _report(error: OptionError, item: Item, report: Report) -> None:
    """The error at the value or the key that it means."""
    _, _, inner = error.option.partition(".")
    if inner and (value := item.get(inner)) is not None:
        found = f"found {value.shown()}"
        report.add(value.place, value.path, found, error.allowed, error.nearest)
    elif isinstance(error.found, str) and (entry := item.entries.get(error.found)) is not None:
        found = f"unknown key '{error.found}'"
        report.add(entry.key_place, item.path, found, error.allowed, error.nearest)
    else:
        report.add(item.place, item.path, "not complete", error.allowed, error.nearest)
