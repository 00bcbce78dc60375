"""Rows of a table: JSON lines, read strictly, a JSON array, CSV or Parquet.

Which column plays which part is said in `columns.py`.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

from ragbench.data.files.lines import Source, plain_suffix, source_name, text_lines
from ragbench.errors import DataError, MissingExtra
from ragbench.json_yaml import load_json, repeated
from ragbench.records.codec import Record, from_json, kind
from ragbench.registry import nearest

R = TypeVar("R", bound=Record)

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
ID_ALLOWED = "an id without white space: run files are split at it"
# The csv module's limit of 131,072 characters is below a long passage. It is global, so it is
# only ever raised; 2**31 - 1 is the most that a C long holds everywhere.
_LONGEST_CELL = 2**31 - 1
_SEPARATED = (".csv", ".tsv")
_BATCH = 64  # rows of Parquet that are in memory at once, whatever is in them
SUFFIXES = ".jsonl, .json, .csv, .tsv (also with .gz), .parquet"


def parse_json(text: str) -> Any:
    """Read JSON as the standard has it; a ValueError says what is wrong.

    Repeated keys, NaN, and half of a surrogate pair, which no UTF-8 file can hold, are refused too.
    """
    try:
        value = load_json(text, object_pairs_hook=unique_keys, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"bad JSON at column {error.colno}: {error.msg}") from error
    except ValueError as error:
        raise ValueError(f"bad JSON: {error}") from error
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            raise ValueError(f"bad JSON: {half} is half of a surrogate pair") from error
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make the object of its pairs; a ValueError where a key is repeated."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"key '{repeated([key for key, _ in pairs])}' is repeated")
    return found


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which JSON does not have."""
    raise ValueError(f"{name} is no JSON number, write null")


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a file, with its place for messages.

    Attributes:
        line: The line where it starts; None where the format has no lines.
        record: Which record it is, where the format has no lines: `row 3`.
    """

    file: str
    line: int | None
    values: dict[str, Any]
    record: str = ""

    def error(
        self, found: str, *, allowed: str | None = None, near: str | None = None
    ) -> DataError:
        """Return the error that names this entry as its place."""
        return DataError(
            found, file=self.file, line=self.line, record=self.record, allowed=allowed, nearest=near
        )

    @property
    def place(self) -> str:
        """The entry's place within its file: `line 3`, `row 3`."""
        return f"line {self.line}" if self.line is not None else self.record

    def as_record(self, made: type[R]) -> R:
        """Read the fields as a record of a class.

        Raises:
            DataError: They are none; names the place.
        """
        return from_json(made, self.values, file=self.file, line=self.line, path=self.record)

    def field(self, key: str) -> Any:
        """Return a field that must be there; `error` names the nearest key where it is not."""
        if key not in self.values:
            has = ", ".join(self.values) or "none"
            raise self.error(f"no '{key}' (keys: {has})", near=nearest(key, self.values))
        return self.values[key]

    def text(self, key: str) -> str:
        """Return a field that must be text, possibly empty."""
        value = self.field(key)
        if not isinstance(value, str):
            raise self.error(f"'{key}' is {kind(value)}", allowed="text")
        return value

    def id(self, key: str) -> str:
        """Return a field that must be an id: text, or an integer, which is read as its digits."""
        value = self.field(key)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise self.error(f"'{key}' is {kind(value)}", allowed="text or an integer")
        if why := id_problem(value):
            raise self.error(f"'{key}' {why}: {value!r}", allowed=ID_ALLOWED)
        return value


def id_problem(value: str) -> str | None:
    """Say why a text cannot be an id that run files and qrels hold, or None if it can.

    Example:
        >>> id_problem("doc 1"), id_problem(""), id_problem("doc#1")
        ('holds white space', 'is empty', None)
    """
    try:
        data = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "holds half of a character"
    if not data:
        return "is empty"
    if b"\0" in data:
        return "holds a NUL character"
    # bytes, not str: readers of run files split at ASCII white space only
    return None if data.split() == [data] else "holds white space"


def check_written(names: Sequence[str], noun: str) -> None:
    """Check that run files can hold some texts: at once where they are plain, as nearly all are."""
    joined = "\n".join(names)
    if not joined.isascii() or "\0" in joined or len(joined.split()) != len(names):
        for name in names:
            if why := id_problem(name):
                found = f"{noun} {why}: {name!r}"
                raise DataError(found, record="run file", allowed=ID_ALLOWED)


def encode_spaces(name: str) -> str:
    """Write white space as in a URL, so that a name can be an id.

    Example:
        >>> encode_spaces("guides/Getting started.md")
        'guides/Getting%20started.md'
    """
    return re.sub(r"[ \t\n\r\v\f]", lambda match: quote(match[0]), name)


def read_jsonl(source: Source) -> Iterator[Entry]:
    """Yield the objects of a JSON lines file; blank lines are skipped."""
    name = source_name(source)
    empty = True
    for number, text in text_lines(source):
        if not text.strip():
            continue
        empty = False
        try:
            values = parse_json(text.rstrip("\r\n"))
        except ValueError as error:
            raise DataError(str(error), file=name, line=number) from error
        if not isinstance(values, dict):
            found = f"{kind(values)}, expected an object"
            raise DataError(found, file=name, line=number, allowed='{"key": ...}')
        yield Entry(name, number, values)
    if empty:
        raise DataError("the file has no records, only blank lines", file=name)


def is_csv(path: Path) -> bool:
    """Whether a file holds separated values, which are all text, by its suffix."""
    return plain_suffix(path) in _SEPARATED


def read_rows(path: Path, subject: str) -> Iterator[Entry]:
    """Yield the rows of a file by its suffix; messages say that `subject` needs it."""
    readers = {".jsonl": read_jsonl, ".json": read_json_array, ".csv": read_csv, ".tsv": read_csv}
    suffix = plain_suffix(path)
    if suffix == ".parquet":
        return read_parquet(path, subject)
    if suffix in readers:
        return readers[suffix](path)
    raise DataError(f"cannot tell the format from '{path.name}'", file=path, allowed=SUFFIXES)


def read_csv(path: Path) -> Iterator[Entry]:
    """Yield the rows of a CSV file; all cells are text, a row that ends early has None.

    Columns stand between commas; between semicolons or tabs where the header has more of these, as
    spreadsheets write them. Blanks around a name in the header do not count, nor do columns at the
    end without a name and cells. A row's line is the one where it starts, also after cells of
    several lines.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    mark, lines = _delimiter(path, (text for _, text in text_lines(path)))
    reader = csv.reader(lines, strict=True, delimiter=mark)
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
        while len(cells) > len(header) and not cells[-1].strip():
            cells.pop()
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


def _delimiter(path: Path, lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """What stands between the columns, by the first line that is not blank; and all lines."""
    seen = []
    for line in lines:
        seen.append(line)
        if line.strip():
            break
    header = seen[-1] if seen else ""
    usual = "\t" if plain_suffix(path) == ".tsv" else ","
    bare = re.sub(r'"[^"]*"', "", header)
    found = max((usual, ",", ";", "\t"), key=bare.count)
    return found, chain(seen, lines)


def _checked_header(cells: list[str], path: Path, line: int) -> list[str]:
    cells = [cell.strip() for cell in cells]
    while cells and not cells[-1]:
        cells.pop()
    repeated = sorted({cell for cell in cells if cells.count(cell) > 1})
    if repeated:
        raise DataError(f"column '{repeated[0]}' is repeated", file=path, line=line)
    return cells


def read_json(path: Path) -> Any:
    """Return the value of a JSON file, such as an array of rows.

    Raises:
        DataError: The file is empty, no JSON, or JSON Lines under the name `.json`.
    """
    try:
        return parse_json("".join(text for _, text in text_lines(path)))
    except ValueError as error:
        allowed = "one JSON array; if each line is an object, name the file .jsonl"
        raise DataError(str(error), file=path, allowed=allowed) from error


def read_json_array(path: Path) -> Iterator[Entry]:
    """Yield the objects of the array in a JSON file; see `array_entries`."""
    return array_entries(read_json(path), path)


def array_entries(rows: Any, path: Path) -> Iterator[Entry]:
    """Yield the objects of a JSON array of the file `path`, with their numbers from 1.

    Raises:
        DataError: `rows` is no array, is empty, or has an item that is no object.
    """
    if not isinstance(rows, list):
        keys = rows.items() if isinstance(rows, dict) else ()
        lists = [key for key, value in keys if isinstance(value, list)]
        raise DataError(
            f"{kind(rows)}, expected an array of objects",
            file=path,
            allowed=f"the list that stands under its key '{lists[0]}', as a file of its own"
            if len(lists) == 1
            else "[{...}, {...}], a row each; pandas writes it with orient='records'",
        )
    for number, values in enumerate(rows, start=1):
        if not isinstance(values, dict):
            found = f"{kind(values)}, expected an object"
            raise DataError(found, file=path, record=f"item {number}", allowed='{"key": ...}')
        yield Entry(str(path), None, values, record=f"item {number}")
    if not rows:
        raise DataError("the array is empty", file=path)


def read_parquet(path: Path, subject: str) -> Iterator[Entry]:
    """Yield the rows of a Parquet file, numbered from 1."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra(f"{subject}: {path.name}", "pyarrow", "parquet") from error
    if not os.path.isfile(path):
        raise DataError("no such file", file=path)
    if path.stat().st_size == 0:
        raise DataError("the file is empty", file=path)
    try:
        batches: Any = pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=_BATCH)
        n_rows = 0
        for batch in batches:
            for row in batch.to_pylist():
                n_rows += 1
                yield Entry(str(path), None, row, record=f"row {n_rows}")
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).split("\n", 1)[0]
        raise DataError(f"cannot be read as Parquet: {reason}", file=path) from error
    if not n_rows:
        raise DataError("the file has no rows", file=path)
