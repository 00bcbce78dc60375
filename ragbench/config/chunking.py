"""The `chunk` block of a retriever that indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragbench.config.blocks import check_block
from ragbench.config.problems import Report
from ragbench.config.references import Context
from ragbench.config.resolve import resolve_options
from ragbench.config.tree import Entry, Item
from ragbench.errors import OptionError
from ragbench.registry import declared_options
from ragbench.text.chunk import Chunking

CHUNK = "chunk"
"""The key of the block."""
CHUNK_HELP = "How documents are cut into chunks, which are ranked in their place."


@dataclass(frozen=True)
class CheckedChunk:
    """The block after its checks."""

    chunking: Chunking | None = None
    """None where there is none, or something is wrong with it."""
    written: Mapping[str, Any] = field(default_factory=dict)
    """The key with the block as plain data; empty where there is none."""


NOT_CHUNKED = CheckedChunk()
"""What an entry without the block has."""


def indexes(component: Any) -> bool:
    """Whether a retriever sees the documents before it answers, so that they can be cut."""
    return callable(getattr(component, "index", None))


def check_chunk(item: Item, type_name: str, component: Any, context: Context) -> CheckedChunk:
    """Check the block of an entry that has one; what is wrong goes into the report."""
    entry, report = item.entries[CHUNK], context.report
    block = entry.item
    if not indexes(component):
        found = f"'{CHUNK}' means nothing to '{type_name}', which does not index documents"
        report.add(entry.key_place, block.path, found, "a retriever that indexes, such as bm25")
        return NOT_CHUNKED
    before = len(report)
    values, written = check_block(block, Chunking, report)
    resolve_options(block, declared_options(Chunking), values, context)
    if len(report) > before:
        return CheckedChunk(None, {CHUNK: written})
    try:
        return CheckedChunk(Chunking(**values), {CHUNK: written})
    except OptionError as error:
        _report(error, entry, report)
        return CheckedChunk(None, {CHUNK: written})


def _report(error: OptionError, entry: Entry, report: Report) -> None:
    """What does not go together, at the value, or at the block that lacks it."""
    value = entry.item.get(error.option)
    if value is None:
        found = f"missing key '{error.option}'"
        report.add(entry.key_place, entry.item.path, found, f"{error.option}: {error.allowed}")
    else:
        report.add(value.place, value.path, f"found {value.shown()}", error.allowed)
