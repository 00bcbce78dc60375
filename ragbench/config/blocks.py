"""Blocks of fixed keys, such as `statistics`, against the records that declare them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ragbench.config.check import check_options
from ragbench.config.problems import Report
from ragbench.config.tree import Item
from ragbench.registry import declared_options


def check_block(
    item: Item, record: Any, report: Report, others: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check a block against the record that declares it.

    Returns:
        The valid values, and the block as plain data with its defaults written out.
    """
    declared = declared_options(record)
    values = check_options(
        item,
        declared,
        report,
        others=others,
        planned=getattr(record, "planned", ()),
        planned_words=getattr(record, "planned_words", None),
    )
    written = {}
    for key in declared:
        value = item.get(key)
        if value is not None:
            written[key] = value.as_written()
        elif values.get(key) is not None:
            written[key] = values[key]
    return values, written
