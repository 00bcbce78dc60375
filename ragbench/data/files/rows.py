"""Rows of a table: JSON lines, a JSON array, CSV, TSV or Parquet, each read strictly.

`columns.py` finds out which column holds which part.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

from ragbench.data.files.forms import find_form
from ragbench.data.files.formulas import is_own_table, original
from ragbench.data.files.lines import Source, plain_suffix, source_name, text_lines
from ragbench.errors import DataError, MissingExtra
from ragbench.json_yaml import first_repeated, load_json
from ragbench.records.codec import from_json, kind
from ragbench.registry import nearest
from ragbench.types.ids import id_text
from ragbench.types.json_fields import Record
from ragbench.types.lookups import is_list_of

R = TypeVar("R", bound=Record)

# ASCII white space as in URLs
_ENCODED_SPACES = {character: quote(character) for character in " \t\n\r\v\f"}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
NUMBER_ALLOWED = "text or an integer; a whole float below 2**53"
ID_ALLOWED = "an id without white space: run files are split at it"
# The csv module's limit of 131,072 characters is below a long passage. It is global, so it is
# only ever raised; 2**31 - 1 is the most that a C long holds everywhere.
_LONGEST_CELL = 2**31 - 1
_SEPARATED = (".csv", ".tsv")
# the first line of tables for Excel
_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?')
# a line end of old programs for the Macintosh
_END_OF_LINE = re.compile(r"(?<=\r)(?!\n)")
_BATCH = 64  # rows of Parquet that are in memory at once, whatever is in them
_WORKBOOKS = frozenset({".xlsx", ".xlsm", ".xls", ".ods", ".numbers"})
SUFFIXES = ".jsonl, .json, .csv, .tsv (also with .gz), .parquet"


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; NaN and infinities are no JSON.

    Raises:
        ValueError: The text is not JSON, or has a repeated key, a number that is not finite, or
            half of a surrogate pair.
    """
    try:
        value = load_json(text, object_pairs_hook=unique_keys, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"bad JSON at column {error.colno}: {error.msg}") from error
    except ValueError as error:
        raise ValueError(f"bad JSON: {error}") from error
    # searched first, as encoding all texts takes time and such escapes are rare
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            raise ValueError(f"bad JSON: {half} is half of a surrogate pair") from error
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of (key, value) pairs; raise ValueError if a key is repeated."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError(f"key '{first_repeated([key for key, _ in pairs])}' is repeated")
    return values


def no_constant(name: str) -> NoReturn:
    """Raise a ValueError, always: `name` is NaN or an infinity, which JSON does not have."""
    raise ValueError(f"{name} is no JSON number, write null")


@dataclass(frozen=True, slots=True)
class Entry:
    """Row of a file, with its place for messages; the readers of this module yield it.

    `field`, `text` and `id` return the value of a key, or raise a DataError with its place.

    Attributes:
        line: Line where it starts; None in formats without lines.
        values: Column or key -> value.
        record: Name of the row in formats without lines: `row 3`, `item 3`.
        file: File as the user named it, or the origin of a table from Python.
        number: Number of the row in a table of records, from 1; 0 in other files.
        is_text: True for a row of a file that holds text only, as CSV: a list is then JSON text.
    """

    file: str
    line: int | None
    values: dict[str, Any]
    record: str = ""
    number: int = 0
    is_text: bool = False

    def error(
        self, fault: str, *, allowed: str | None = None, near: str | None = None
    ) -> DataError:
        """Return, not raise, a `DataError` with the file and place of this row.

        `near` is a suggested spelling of a wrong name.
        """
        return DataError(
            fault, file=self.file, line=self.line, record=self.record, allowed=allowed, nearest=near
        )

    @property
    def place(self) -> str:
        """Place of the row within its file: `line 3`, `row 3`; '' if it has neither."""
        return f"line {self.line}" if self.line is not None else self.record

    @property
    def file_place(self) -> str:
        """Place of the row with its file: `qa.csv:3`, or `qa.json: item 3` without lines."""
        return f"{self.file}: {self.record}" if self.line is None else f"{self.file}:{self.line}"

    def as_record(self, record_type: type[R]) -> R:
        """Return the values as a record of a class.

        Raises:
            DataError: A field without a default is missing, or a field has the wrong kind; names
                the place. Unknown keys are ignored.
        """
        return from_json(
            record_type,
            self.values,
            file=self.file,
            line=self.line,
            path=self.record,
            by_hand=True,
        )

    def has(self, key: str) -> bool:
        """Return True if the row has a value for a key: neither null nor an empty text."""
        return self.values.get(key) not in (None, "")

    def field(self, key: str) -> Any:
        """Return the value of a key.

        The value may be None.

        Raises:
            DataError: The row has no such key; lists its keys.
        """
        if key not in self.values:
            keys = ", ".join(self.values) or "none"
            raise self.error(f"no '{key}' (keys: {keys})", near=nearest(key, self.values))
        return self.values[key]

    def text(self, key: str) -> str:
        """Return a text, possibly empty; raise a `DataError` if it is missing or no text."""
        value = self.field(key)
        if not isinstance(value, str):
            raise self.error(f"'{key}' is {kind(value)}", allowed="text")
        return value

    def id(self, key: str) -> str:
        """Return an id: a text without white space, or a whole number as its digits.

        Raises:
            DataError: The key is missing, or its value is no id: blank, of another type, or a float
                that lost digits.
        """
        value = self.field(key)
        try:
            text = id_text(value)
        except ValueError as error:
            type_name = value if isinstance(value, float) else kind(value)
            raise self.error(f"'{key}' is {type_name}", allowed=NUMBER_ALLOWED) from error
        if reason := id_problem(text):
            raise self.error(f"'{key}' {reason}: {value!r}", allowed=ID_ALLOWED)
        return text


def without_nameless(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a row without a column of the name "", which holds row numbers."""
    if "" not in values:
        return values
    columns = {}
    for column, value in values.items():
        if column:
            columns[column] = value
    return columns


def id_problem(value: str) -> str | None:
    """Return the reason why run files and qrels cannot hold a text as an id; None if they can.

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


def check_ids(names: Sequence[str], noun: str) -> None:
    """Check that run files can hold all ids; `noun` names them in messages.

    Without ids there is nothing to check.

    Raises:
        DataError: An id is empty, or has white space, NUL or half of a character.
    """
    # one pass over all ids, as nearly all sets of ids are plain ASCII
    joined = "\n".join(names)
    if not joined.isascii() or "\0" in joined or len(joined.split()) != len(names):
        for name in names:
            if reason := id_problem(name):
                problem = f"{noun} {reason}: {name!r}"
                raise DataError(problem, record="run file", allowed=ID_ALLOWED)


def encode_spaces(name: str) -> str:
    """Return a name with its ASCII white space encoded as in a URL, so that it can be an id.

    All else stays, also other white space, such as a no-break space, and an empty name.

    Example:
        >>> encode_spaces("guides/Getting started.md")
        'guides/Getting%20started.md'
    """
    for character, code in _ENCODED_SPACES.items():
        name = name.replace(character, code)
    return name


def read_jsonl(source: Source) -> Iterator[Entry]:
    """Yield the objects of a JSON lines file; blank lines are skipped.

    Entries are in the order of the lines, numbered from 1.

    Raises:
        DataError: The file cannot be read or is empty, a line is no JSON object, or all lines are
            blank; names the line.
    """
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
            problem = f"{kind(values)}, expected an object"
            raise DataError(problem, file=name, line=number, allowed='{"key": ...}')
        yield Entry(name, number, without_nameless(values))
    if empty:
        raise DataError("the file has no records, only blank lines", file=name)


def is_csv(path: Path) -> bool:
    """Return True for .csv and .tsv files, also with .gz, in which every cell is text."""
    return plain_suffix(path) in _SEPARATED


def read_rows(path: Path, subject: str) -> Iterator[Entry]:
    """Return an iterator over the rows of a file, in its order and the format of its suffix.

    The case of the suffix does not matter.

    Args:
        path: The file.
        subject: Owner of the file, for the message that Parquet needs an extra.

    Raises:
        DataError: The suffix is none of `SUFFIXES`, or the file cannot be read; a row is checked
            only when it is read.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    readers = {
        ".jsonl": read_json_rows,
        ".json": read_json_rows,
        ".csv": read_csv,
        ".tsv": read_csv,
    }
    suffix = plain_suffix(path)
    if suffix == ".parquet":
        return read_parquet(path, subject)
    if suffix in readers:
        return readers[suffix](path)
    if suffix in _WORKBOOKS:
        allowed = f"the sheet saved as .csv, or in Python pandas.read_excel('{path.name}')"
        raise DataError("a workbook of a spreadsheet", file=path, allowed=allowed)
    raise DataError(f"cannot tell the format from '{path.name}'", file=path, allowed=SUFFIXES)


def read_csv(path: Path) -> Iterator[Entry]:
    """Yield the rows of a CSV file; all cells are text, and None where a row ends early.

    Columns are separated by commas; by semicolons or tabs where the header has more of these, as
    spreadsheets write them, and by tabs in a .tsv file. Blank lines are skipped. Blanks around a
    name in the header are dropped, and so are columns without a name, as pandas writes its index.
    At the end of the header they must be empty. The line of a row is the one where it starts, also
    after cells with line ends. Cells of a table that ragbench wrote lose the apostrophes before
    formulas (`is_own_table`).

    Raises:
        DataError: The file cannot be read, a column is repeated, or a row has more cells than the
            header.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    pieces = (_END_OF_LINE.split(text) for _, text in text_lines(path))
    delimiter, lines = _delimiter(path, filter(None, chain.from_iterable(pieces)))
    # strict: an unclosed quote is an error, not a cell with the rest of the file
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    header: list[str] | None = None
    is_own = False
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
            is_own = is_own_table(header)
            continue
        while len(cells) > len(header) and not cells[-1].strip():
            cells.pop()
        if len(cells) > len(header):
            columns = ", ".join(header)
            raise DataError(
                f"{len(cells)} cells, expected {len(header)} ({columns})", file=path, line=start
            )
        empty = False
        # None tells a missing cell from an empty one
        texts = map(original, cells) if is_own else cells
        padded: list[str | None] = [*texts, *[None] * (len(header) - len(cells))]
        values = dict(zip(header, padded, strict=True))
        yield Entry(str(path), start, without_nameless(values), is_text=True)
    if empty:
        raise DataError("the file has no rows below its header", file=path)


def _delimiter(path: Path, lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Return the delimiter of a file, by its first line with text, and all lines again."""
    # A first line `sep=;`, as Excel reads it, names the delimiter. Ties go to the usual delimiter
    # of the suffix.
    head = []
    for line in lines:
        head.append(line)
        if line.strip():
            break
    header = head[-1] if head else ""
    if marked := _SEPARATOR.fullmatch(header.strip("\r\n")):
        # a blank line in its place, so that the numbers of the lines stay
        return marked[1], chain([*head[:-1], "\n"], lines)
    default = "\t" if plain_suffix(path) == ".tsv" else ","
    unquoted = re.sub(r'"[^"]*"', "", header)
    # max() takes the first of equals: the usual delimiter of the format
    delimiter = max((default, ",", ";", "\t"), key=unquoted.count)
    return delimiter, chain(head, lines)


def _checked_header(cells: list[str], path: Path, line: int) -> list[str]:
    """Return the stripped names of the columns, without empty ones at the end."""
    cells = [cell.strip() for cell in cells]
    while cells and not cells[-1]:
        cells.pop()
    repeated = set()
    for cell in cells:
        if cell and cells.count(cell) > 1:
            repeated.add(cell)
    duplicates = sorted(repeated)
    if duplicates:
        problem = f"column '{duplicates[0]}' is repeated"
        raise DataError(problem, file=path, line=line, allowed="a name of its own for each column")
    return cells


def read_json(path: Path) -> Any:
    """Return the value of a JSON file, such as an array of rows.

    Raises:
        DataError: The file cannot be read or is no JSON, such as JSON lines under the name `.json`.
    """
    try:
        return parse_json("".join(text for _, text in text_lines(path)))
    except ValueError as error:
        allowed = "one JSON array; if each line is an object, name the file .jsonl"
        raise DataError(str(error), file=path, allowed=allowed) from error


def read_json_rows(path: Path) -> Iterator[Entry]:
    """Return an iterator over the objects of a JSON file: of JSON lines, or of an array.

    The content decides, not the suffix. `array_entries` says which other values have rows.
    Raises a DataError for a file that cannot be read or is no JSON; once rows are read, for a value
    without rows, and an item that is no object.
    """
    starts = (text.strip() for _, text in text_lines(path))
    texts = filter(None, starts)
    first, second = next(texts, ""), next(texts, "")
    suffix = plain_suffix(path)
    if first.startswith("[") or (suffix == ".json" and not _are_json_lines(first, second)):
        return array_entries(read_json(path), path)
    return read_jsonl(path)


def _are_json_lines(first: str, second: str) -> bool:
    """Return True if the first two lines of a file are objects, the first one complete."""
    if not first.startswith("{") or not second.startswith("{"):
        return False
    try:
        parse_json(first)
    except ValueError:
        return False
    return True


def array_entries(rows: Any, path: Path) -> Iterator[Entry]:
    """Yield the objects of a JSON array of the file `path`, in order, as `item 1`, `item 2`, ...

    In place of the array there may be an object with one list of objects, as `{"data": [...]}`, or
    an object that is a whole data set (`forms.find_form`), which is one row.

    Raises:
        DataError: `rows` has no such form, is empty, or has an item that is no object.
    """
    if isinstance(rows, dict):
        rows = [rows] if find_form(rows) is not None else _only_list(rows)
    if not isinstance(rows, list):
        keys = f" with the keys {', '.join(rows)}" if isinstance(rows, dict) else ""
        allowed = "[{...}, {...}], a row each; pandas writes it with orient='records'"
        problem = f"{kind(rows)}{keys}, expected an array of objects"
        raise DataError(problem, file=path, allowed=allowed)
    for number, values in enumerate(rows, start=1):
        if not isinstance(values, dict):
            problem = f"{kind(values)}, expected an object"
            raise DataError(problem, file=path, record=f"item {number}", allowed='{"key": ...}')
        yield Entry(str(path), None, without_nameless(values), record=f"item {number}")
    if not rows:
        raise DataError("the array is empty", file=path, allowed="[{...}, {...}], a row each")


def _only_list(values: dict[str, Any]) -> Any:
    """Return the value of an object that is a list of objects, if only one is; else the object."""
    lists = []
    for value in values.values():
        if value and is_list_of(value, dict):
            lists.append(value)
    return lists[0] if len(lists) == 1 else values


def read_parquet(path: Path, subject: str) -> Iterator[Entry]:
    """Yield the rows of a Parquet file, in order, as `row 1`, `row 2`, ...

    `subject` names what needs the file, in the message that the extra is missing.

    Raises:
        DataError: The file is missing, empty, no Parquet, or has no rows.
        MissingExtra: The extra `parquet` is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra(f"{subject}: {path.name}", "pyarrow", "parquet") from error
    if not os.path.isfile(path):
        raise DataError("no such file", file=path)
    if path.stat().st_size == 0:
        raise DataError("the file is empty", file=path)
    batches = _batches(lambda: pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=_BATCH))
    yield from _entries_of_batches(batches, path, "Parquet")


def read_arrow(path: Path, subject: str) -> Iterator[Entry]:
    """Yield the rows of an Arrow file as the datasets package saves it; as `read_parquet` does."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise MissingExtra(f"{subject}: {path.name}", "pyarrow", "parquet") from error
    batches = _batches(lambda: pyarrow.ipc.open_stream(pyarrow.memory_map(str(path))))
    yield from _entries_of_batches(batches, path, "Arrow")


def _batches(open_table: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Yield the batches of a table, which is opened when the first one is read."""
    yield from open_table()


def _entries_of_batches(batches: Iterator[Any], path: Path, form: str) -> Iterator[Entry]:
    """Yield the rows of Arrow batches; raise a `DataError` for damage, and without rows."""
    import pyarrow

    n_rows = 0
    try:
        for batch in batches:
            for row in batch.to_pylist():
                n_rows += 1
                yield Entry(str(path), None, without_nameless(row), record=f"row {n_rows}")
    # values that Python cannot hold, such as times beyond the year 9999, are ValueErrors
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = str(error).split("\n", 1)[0]
        raise DataError(f"cannot be read as {form}: {reason}", file=path) from error
    if not n_rows:
        raise DataError("the file has no rows", file=path)
