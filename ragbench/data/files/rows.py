"""Rows of a table: JSON lines, CSV or Parquet, chosen by the suffix."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragbench.data.files.jsonl import Entry, read_jsonl
from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.errors import DataError, MissingExtra
from ragbench.registry import shown

# The csv module's limit of 131,072 characters is below a long passage. It is global, so it is
# only ever raised; 2**31 - 1 is the most that a C long holds everywhere.
_LONGEST_CELL = 2**31 - 1

SUFFIXES = ".jsonl, .csv (also with .gz), .parquet"


def is_csv(path: Path) -> bool:
    """Whether a file holds comma-separated values, by its suffix."""
    return plain_suffix(path) == ".csv"


def read_rows(path: Path, subject: str) -> Iterator[Entry]:
    """Yield the rows of a file.

    Args:
        path: The file; its suffix says the format.
        subject: Who needs it, for the message where Parquet cannot be read: `records`.

    Raises:
        DataError: An unknown suffix, or whatever is wrong in the file.
        MissingExtra: A Parquet file without pyarrow.
    """
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

    Raises:
        DataError: A repeated column, a row with more cells than columns, a broken quote.
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
    """Yield the rows of a Parquet file, numbered from 1.

    Raises:
        MissingExtra: pyarrow is not installed.
        DataError: The file is absent, empty or not Parquet.
    """
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
