"""Columns and index of the table that `evaluate` scored, for the data frames of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ragbench.types import Collection
from ragbench.types.tables import is_table, rows_of

# Parts that a result shows under names of its own
_SHOWN_PARTS = ("question", "contexts", "answer", "reference")


@dataclass(frozen=True, slots=True)
class InputTable:
    """Further columns of a scored table, and the index of a pandas frame.

    Attributes:
        columns: Column -> its value for each item, without the columns of the question, the
            passages, the answer and the gold answer.
        index: Index of each item in the pandas frame; None for other tables.
    """

    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    index: Any = None


def input_table(data: object, collection: Collection) -> InputTable:
    """Return the further columns and the index of the data that a collection was read from.

    Frames and lists of rows give all their columns; a file or a collection gives the metadata of
    its questions, None for a question without a key.
    """
    rows = []
    for query in collection.queries:
        number = collection.table_rows.get(query.id)
        if number is not None:
            rows.append(number - 1)
    if not is_table(data) or len(rows) < len(collection.queries):
        return InputTable(_metadata_columns(collection))
    used = set(map(collection.table_columns.get, _SHOWN_PARTS))
    # only pandas has positions; its columns keep their types
    if (positions := getattr(data, "iloc", None)) is not None:
        frame, arrays = positions[rows], {}
        for name in frame.columns:
            if str(name) not in used and str(name):
                arrays[str(name)] = frame[name].array
        return InputTable(arrays, frame.index)
    cells = rows_of(data, "evaluate")
    present = dict.fromkeys(chain.from_iterable(cells))
    columns = {}
    for name in present:
        if name not in used:
            columns[name] = [cells[row].get(name) for row in rows]
    return InputTable(columns)


def _metadata_columns(collection: Collection) -> dict[str, list[Any]]:
    """Return key of the metadata -> its value for each question, None without one."""
    entries = [query.metadata for query in collection.queries]
    keys = dict.fromkeys(chain.from_iterable(entries))
    columns = {}
    for key in keys:
        columns[key] = [entry.get(key) for entry in entries]
    return columns
