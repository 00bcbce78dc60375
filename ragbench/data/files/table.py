"""Rows of a table: JSON lines, CSV or Parquet, and which column plays which part.

`columns: {question: user_input, ...}` names the columns; one may lie inside another, as in exported
traces: `columns: {answer: output.text}`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.data.files.jsonl import Entry, read_jsonl
from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.errors import DataError, MissingExtra, OptionError
from ragbench.registry import nearest, shown

# The csv module's limit of 131,072 characters is below a long passage. It is global, so it is
# only ever raised; 2**31 - 1 is the most that a C long holds everywhere.
_LONGEST_CELL = 2**31 - 1

SUFFIXES = ".jsonl, .csv (also with .gz), .parquet"
USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id",),
    "question": ("question", "user_input", "input"),
    "contexts": ("contexts", "retrieved_contexts", "retrieval_context"),
    "answer": ("answer", "response", "actual_output"),
    "reference": ("reference", "expected_output"),
    "queries": ("queries",),
    "system": ("system",),
}
"""Part -> the names understood without `columns`: ours, those of ragas, those of deepeval."""
_RAGBENCH = {"documents", "documents_sentences", "response"}
"""Columns that tell the RAGBench data set, whose passages are its `documents`."""
Columns = Mapping[str, str]
"""Part -> the column that plays it; parts that no column plays are absent."""


def is_csv(path: Path) -> bool:
    """Whether a file holds comma-separated values, by its suffix."""
    return plain_suffix(path) == ".csv"


def read_rows(path: Path, subject: str) -> Iterator[Entry]:
    """Yield the rows of a file by its suffix; messages say that `subject` needs it."""
    suffix = plain_suffix(path)
    if suffix == ".jsonl":
        return read_jsonl(path)
    if suffix == ".csv":
        return read_csv(path)
    if suffix == ".parquet":
        return read_parquet(path, subject)
    raise DataError(f"cannot tell the format from '{path.name}'", file=path, allowed=SUFFIXES)


def read_csv(path: Path) -> Iterator[Entry]:
    """Yield the rows of a CSV file; all cells are text, a row that ends early has None.

    A row's line is the one where it starts, also after cells of several lines.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    reader = csv.reader((text for _, text in text_lines(path)), strict=True)
    header: list[str] | None = None
    empty = True
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(f"bad CSV: {error}", file=path, line=start) from error
        if cells is None:
            break
        if not any(cell.strip() for cell in cells) and len(cells) <= 1:
            continue  # a blank line
        if header is None:
            header = _checked_header(cells, path, start)
            continue
        if len(cells) > len(header):
            columns = ", ".join(header)
            raise DataError(
                f"{len(cells)} cells, expected {len(header)} ({columns})", file=path, line=start
            )
        empty = False
        padded: list[str | None] = [*cells, *[None] * (len(header) - len(cells))]
        yield Entry(str(path), start, dict(zip(header, padded, strict=True)))
    if empty:
        raise DataError("the file has no rows below its header", file=path)


def _checked_header(cells: list[str], path: Path, line: int) -> list[str]:
    repeated = sorted({cell for cell in cells if cells.count(cell) > 1})
    if repeated:
        raise DataError(f"column '{repeated[0]}' is repeated", file=path, line=line)
    other = next((mark for mark in ";\t" if mark in cells[0]), None)
    if len(cells) == 1 and other is not None:
        found = f"one column, named {shown(cells[0])}"
        raise DataError(found, file=path, line=line, allowed="columns between commas")
    return cells


def read_parquet(path: Path, subject: str) -> Iterator[Entry]:
    """Yield the rows of a Parquet file, numbered from 1."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra(f"{subject}: {path.name}", "pyarrow", "parquet") from error
    if not path.is_file():
        raise DataError("no such file", file=path)
    if path.stat().st_size == 0:
        raise DataError("the file is empty", file=path)
    try:
        table = pyarrow.parquet.ParquetFile(path)
        batches: Any = table.iter_batches(batch_size=1024)
        rows = (row for batch in batches for row in batch.to_pylist())
        empty = True
        for number, row in enumerate(rows, start=1):
            empty = False
            yield Entry(str(path), None, row, record=f"row {number}")
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).split("\n", 1)[0]
        raise DataError(f"cannot be read as Parquet: {reason}", file=path) from error
    if empty:
        raise DataError("the file has no rows", file=path)


def check_mapping(columns: Mapping[str, str | None], owner: str) -> None:
    """Check the option `columns` by itself, without a file."""
    players: dict[str, str] = {}
    for part, column in columns.items():
        if part not in USUAL_NAMES:
            close = nearest(str(part), USUAL_NAMES)
            raise OptionError(owner, "columns", part, ", ".join(USUAL_NAMES), close)
        if column is None:
            continue
        if not isinstance(column, str):
            raise OptionError(owner, f"columns.{part}", column, "the name of a column, or null")
        if column in players:
            allowed = f"another column than that of {players[column]}"
            raise OptionError(owner, f"columns.{part}", column, allowed)
        players[column] = part


def resolve_columns(
    present: Sequence[str], columns: Mapping[str, str | None] | None, file: object
) -> Columns:
    """Say which column plays which part.

    A part that `columns` names is played by that column, or by none where it says null; every
    other part by a column of its usual names.
    """
    named = columns or {}
    found = {part: column for part, column in named.items() if column is not None}
    for part, column in found.items():
        if column not in present:
            what = f"no column '{column}' (columns: {', '.join(present)})"
            close = nearest(column, present)
            raise DataError(what, file=file, record=f"columns.{part}", nearest=close)
    free = [column for column in present if column not in found.values()]
    for part, names in USUAL_NAMES.items():
        if part in named:
            continue
        if part == "contexts" and set(present) >= _RAGBENCH:
            names = ("documents",)
        players = [column for column in names if column in free]
        if len(players) > 1:
            both = " and ".join(f"'{column}'" for column in players)
            allowed = f"one of them: columns: {{{part}: {players[0]}}}"
            raise DataError(f"columns {both} could both be the {part}", file=file, allowed=allowed)
        if players:
            found[part] = players[0]
    _require_question(found, present, file)
    _refuse_bare_answer(found, named, file)
    return {part: found[part] for part in USUAL_NAMES if part in found}


def _require_question(found: Columns, present: Sequence[str], file: object) -> None:
    if "question" not in found:
        what = f"no column with the question (columns: {', '.join(present)})"
        names = ", ".join(USUAL_NAMES["question"])
        allowed = f"one of {names}, or columns: {{question: NAME}}"
        raise DataError(what, file=file, allowed=allowed)


def _refuse_bare_answer(found: Columns, named: Mapping[str, str | None], file: object) -> None:
    """Refuse `question` with `answer` alone: in half of all files it is gold."""
    decided = "answer" in named or "reference" in named
    alone = not found.keys() & {"reference", "contexts", "queries", "system"}
    if found.get("answer") == "answer" and alone and not decided:
        what = "cannot tell whether the column 'answer' is gold or generated"
        gold = f"columns: {{question: {found['question']}, reference: answer}} where it is gold"
        made = f"columns: {{question: {found['question']}, answer: answer}} where a system wrote it"
        raise DataError(what, file=file, allowed=f"{gold}, {made}")


def with_paths(entries: Sequence[Entry], columns: Mapping[str, str | None]) -> Sequence[Entry]:
    """Return the rows with a column of its own for each path that `columns` names.

    A path is keys and numbers of list items, joined by dots. A column that has the whole name
    comes first; where some row has the path, rows without it have null there.
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
