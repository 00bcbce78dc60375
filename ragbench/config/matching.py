"""The `match` block: what of it goes together."""

from __future__ import annotations

import re
from typing import Any

from ragbench.config.blocks import check_block
from ragbench.config.problems import Report
from ragbench.config.scoring_blocks import Match
from ragbench.config.tree import Item

METADATA = re.compile(r"metadata(\.[^.\s]+)+")
"""How a config names a value of the metadata."""

_LEVEL_OF = {"id": "document", "separator": "document", "overlap": "text"}


def check_match(item: Item, ties: Any, report: Report) -> tuple[Match | None, dict[str, Any]]:
    """Check the block; what is wrong goes into the report.

    Args:
        item: The block.
        ties: The order of equal scores, which a match by text needs.
        report: Gets the problems.

    Returns:
        The checked block, None where a part of it is wrong, and the block as plain data.
    """
    values, written = check_block(item, Match, report)
    level = values.get("level")
    if level is None:
        return None, written
    for key, wanted in _LEVEL_OF.items():
        if (given := item.get(key)) is not None and level != wanted:
            place = item.entries[key].key_place
            report.add(place, given.path, f"'{key}' means nothing with level: {level}",
                       f"level: {wanted}")  # fmt: skip
    if level == "document":
        _check_document(item, report)
    if level == "text" and ties == "average":
        found = "level: text credits the first match, and ties: average has no first"
        report.add(item.place, item.path, found, "ties: docid, stable")
    return Match(**values), written


def _check_document(item: Item, report: Report) -> None:
    where, separator = item.get("id"), item.get("separator")
    if where is None and separator is None:
        found = "level: document does not say which document a passage is of"
        report.add(item.place, item.path, found, 'id: metadata.<key>, or separator: "#"')
    if where is not None and separator is not None:
        report.add(separator.place, separator.path, "id and separator are both given", "one")
    if where is not None and isinstance(where.value, str) and not METADATA.fullmatch(where.value):
        allowed = "metadata.<key>, such as metadata.doc_id"
        report.add(where.place, where.path, f"{where.shown()} is no key of the metadata", allowed)
    if separator is not None and separator.value == "":
        report.add(separator.place, separator.path, "the separator is empty", "text, such as '#'")
