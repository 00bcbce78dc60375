"""Columns of a table of ratings: those that the user names, or recognised ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.label_words import label_words
from ragbench.data.files.rows import Entry
from ragbench.errors import OptionError
from ragbench.registry import check_allowed

# Part of a row -> recognised names of its column. Columns of judge and label have the name of the
# part, alone or with an ending: `label`, `label_1`.
PARTS: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "question_id", "item", "id"),
    "system": ("system", "model"),
    "answer": ("answer", "response", "summary"),
    "document": ("document_id", "doc_id", "docid", "passage_id"),
    "judge": (),
    "label": (),
}


_OPTIONAL, _SEVERAL = ("system", "answer", "document"), ("judge", "label")


def read_name(entry: Entry, column: str) -> str:
    """Return the name or integer in a cell as text, since names only group rows."""
    value = entry.field(column)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise entry.error(f"{column}: {value!r}", allowed="a name or a number")
    return str(value)


def _check_columns(first: Entry, chosen: Mapping[str, Sequence[str]]) -> None:
    """Raise an `OptionError` for parts or columns of the user that do not fit the table."""
    check_allowed("--column", "part", chosen, PARTS)
    for part, names in chosen.items():
        if len(names) > 1 and part not in _SEVERAL:
            allowed = f"one column; {' and '.join(_SEVERAL)} may have several"
            raise OptionError("--column", part, ", ".join(names), allowed)
        for name in names:
            first.field(name)  # raises if the table has no such column
    n_uses = Counter(chain.from_iterable(chosen.values()))
    if repeated := next((name for name, n in n_uses.items() if n > 1), None):
        raise OptionError("--column", "", repeated, "each column for one part")


def find_columns(first: Entry, chosen: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return part -> names of its columns in a table, `chosen` by the user or recognised."""
    _check_columns(first, chosen)
    used = set(chain.from_iterable(chosen.values()))
    free = []
    for name in first.values:
        if name not in used:
            free.append(name)
    columns = {}
    for part, usual in PARTS.items():
        if part in chosen:
            columns[part] = [*chosen[part]]
        elif part in _SEVERAL:
            columns[part] = [n for n in free if n == part or n.startswith(f"{part}_")]
        else:
            columns[part] = [name for name in usual if name in free][:1]
        # a table without systems has one, and texts of answers are only for reading
        if not columns[part] and part not in _OPTIONAL:
            expected = ", ".join(usual) or f"{part}, or {part}_1, {part}_2 ..."
            labels = [] if part != "label" else _possible_labels(first, free, columns)
            options = [f"--column {part}={name}" for name in labels[:2] or ["COLUMN"]]
            raise first.error(
                f"no column with the {part} (columns: {', '.join(first.values)})",
                allowed=f"{expected}, or {' '.join(options)}",
            )
    return columns


def _possible_labels(
    first: Entry, free: Sequence[str], columns: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the free columns, beside `columns`, with a label or a number in the first row."""
    words = label_words(LabelScale(0, 1), None)
    used = set(chain.from_iterable(columns.values()))
    names = []
    for name in free:
        text = str(first.values[name]).strip().casefold()
        if name not in used and (text in words or text.removesuffix(".0").isdecimal()):
            names.append(name)
    return names
