"""Run folders `<output>/<name>/<run id>/`: written whole or not at all, and read back."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from ragbench.data.files.formulas import inert, original
from ragbench.data.files.rows import no_constant, unique_keys
from ragbench.errors import DataError, storage_error
from ragbench.files import check_writable, folder_written_atomically, names_in, odd_file, point_at
from ragbench.json_yaml import load_json
from ragbench.records.codec import from_file, from_lines
from ragbench.records.comparison import Comparisons, no_comparisons
from ragbench.records.manifest import Manifest, MetadataRow
from ragbench.records.summary import Summary
from ragbench.registry import nearest, quote
from ragbench.types import FloatArray
from ragbench.types.byte_ids import distinct
from ragbench.types.display import counted
from ragbench.types.json_fields import Record
from ragbench.types.lookups import index_positions, take_items

QUERIES_FILE = "queries.jsonl"
R = TypeVar("R", bound=Record)


def read_query_metadata(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return query id -> metadata of a file `queries.jsonl`, in its order; {} if it is empty.

    Of several rows of a query the last one counts.

    Raises:
        DataError: The file is missing, or a line is no such row.
    """
    rows = from_lines(path, MetadataRow, "query_id and metadata")
    return {row.query_id: row.metadata for _, row in rows}


LATEST = "latest"
# File in the folder of an experiment that holds the token of a run that has not finished.
TOKEN_FILE = ".unfinished.tmp"
COMPARISONS = "comparisons.json"
# Summary of an experiment over several collections
COLLECTIONS = "collections.json"
_PAGES = ("report.html", "report.md", "junit.xml")
# Bytes of a system's name in a file name: file systems take 255, with suffixes.
LONGEST_NAME = 200
COST_COLUMNS = ("latency_ms", "tokens.input", "tokens.output", "usd")
_POINTER = "the name of a run folder beside it"
_LONGEST_CELL = 1 << 30  # characters; the csv module stops at 128 kB
# names of devices of Windows, with any ending; and names that end in a point, which it drops
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|.*[^.]\.+")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def file_name(system: str) -> str:
    """Return a system's name for file names: `bm25/gpt` becomes `bm25--gpt`."""
    return system.replace("/", "--")


def unfit_names(systems: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, reason, allowed) for each system name that cannot have a file of its own.

    The file must be possible on every operating system: Windows and macOS treat `A` and `a` as one
    name, and run folders are copied between machines. Names are in the given order; a name may come
    twice, for two reasons. Nothing if all names fit. The limit is 200 bytes. Names of Windows'
    devices, such as `con`, and names that end in a point do not fit either.

    Example:
        >>> [(name, why) for name, why, _ in unfit_names(["a/b", "dense", "Dense", "a--b"])]
        [('Dense', "'dense' and 'Dense' would write the same file 'Dense'"),
         ('a--b', "'a/b' and 'a--b' would write the same file 'a--b'")]
    """
    first_names: dict[str, str] = {}
    for name in systems:
        file = file_name(name)
        size = len(file.encode("utf-8", "surrogatepass"))
        if size > LONGEST_NAME:
            reason = f"{quote(name)} is too long for a file: {size} bytes"
            yield name, reason, f"at most {LONGEST_NAME}"
        if _RESERVED.fullmatch(file):
            yield name, f"'{name}' is no name of a file on Windows", "another name"
        folded = unicodedata.normalize("NFC", file).casefold()
        # an equal name too: a retriever and an app may have one
        if folded in first_names:
            reason = f"'{first_names[folded]}' and '{name}' would write the same file '{file}'"
            yield name, reason, "names that differ in more than case or how accents are encoded"
        first_names.setdefault(folded, name)


def to_json(value: Any) -> str:
    """Return a value as indented JSON with a line end; raise ValueError for NaN or infinity."""
    # json.dumps indents in Python, which takes five times as long
    return f"{msgspec.json.format(to_json_line(value), indent=1)}\n"


def json_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line of JSON for each object, with its line end.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    return (f"{to_json_line(row)}\n" for row in rows)


def to_json_line(value: Any) -> str:
    """Return a value as JSON without a line end; raise ValueError for NaN or infinity.

    Non-ASCII text is escaped only if it holds half of a surrogate pair, which UTF-8 cannot encode.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if text.isascii() or not _HALF_CHARACTER.search(text):
        return text
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


_CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>)", re.MULTILINE)
_QUOTED = re.compile(r'[,"\r\n]')


def to_csv(header: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    """Return CSV that `csv_rows` reads back exactly; None, NaN and infinities are empty cells.

    Texts that a spreadsheet would run as formulas get an apostrophe (`inert`). Texts with a comma,
    a quote or a line end are quoted, and so is a lone carriage return, which the csv module of
    older Pythons does not quote. Numbers are written with all their digits, an integer 1 as `1.0`.
    No rows give the header alone; a row of one empty cell is `""`.

    Example:
        >>> print(to_csv(["id", "map"], [["=1+1", 0.5], ["a,b", None]]), end="")
        id,map
        '=1+1,0.5
        "a,b",
    """
    return "".join(csv_lines(header, rows))


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> Iterator[str]:
    """Yield the lines of `to_csv`, the header first.

    Each line ends in a line feed.
    """
    for row in chain([header], rows):
        # most cells are numbers, and a call for each would take as long as writing them
        cells = [repr(c) if type(c) is float and math.isfinite(c) else _cell(c) for c in row]
        yield (",".join(cells) if cells != [""] else '""') + "\n"


_ROWS = 4096
# Rows with so few numbers that to format each of them is faster than to find the distinct ones.
_FEW = 128
_BLOCK_BYTES = 1 << 20
# One cell for all rows, a text per row, a number per row (NaN: empty), or None: all empty.
Column = str | Sequence[str] | FloatArray | None


def csv_tables(header: Sequence[str], n: int, tables: Iterable[Sequence[Column]]) -> Iterator[str]:
    r"""Yield the text of `to_csv` for tables of n rows, some thousand rows at a time.

    The header comes once, also without tables. Infinities are empty cells as NaN is.

    Args:
        header: Names of the columns.
        n: Rows of each table.
        tables: Columns of each table: a text or number per row, or a text or None for all rows. The
            second column often is the same object in all of them.

    Raises:
        ValueError: Columns shorter than n differ in length. Entries beyond n are left out.

    Example:
        >>> table = ["bm25", ["=1+1", "q2"], np.array([0.5, np.nan])]
        >>> "".join(csv_tables(["system", "id", "map"], 2, [table]))
        "system,id,map\nbm25,'=1+1,0.5\nbm25,q2,\n"
    """
    yield from csv_lines(header, ())
    same: Column = None
    for table in tables:
        # the query ids, the same object for all systems, are formatted once
        ids = table[1] if len(table) > 1 else None
        if ids is not same and isinstance(ids, Sequence) and not isinstance(ids, str):
            same, texts = ids, [*map(_text, ids)]
        for first in range(0, n, _ROWS):
            rows = slice(first, min(first + _ROWS, n))
            cells = [texts[rows] if c is same is not None else _cells(c, rows) for c in table]
            lines = [f"{line}\n" for line in map(",".join, zip(*cells, strict=True))]
            # line by line: `_encode` writes half a character in another way than the bytes of an id
            yield from [text] if (text := "".join(lines)).isascii() else lines


def _cells(column: Column, rows: slice) -> Sequence[str]:
    """Return the cells of some rows of a column, one text per row."""
    if column is None or isinstance(column, str):
        return [_cell(column)] * (rows.stop - rows.start)
    if not isinstance(column, np.ndarray):
        return [*map(_text, column[rows])]
    if rows.stop - rows.start < _FEW:
        return _number_texts(column[rows])
    # formatting a float takes as long as all else: equal scores are formatted once
    numbers, which = distinct(column[rows])
    texts: list[str] = np.array(_number_texts(numbers), np.object_)[which].tolist()
    return texts


def _number_texts(values: FloatArray) -> list[str]:
    """Return the text of each number; empty for NaN and infinities."""
    return [repr(x) if math.isfinite(x) else "" for x in values.astype(np.float64).tolist()]


def _cell(cell: str | float | None) -> str:
    """Return the text of a cell; empty for None, NaN and infinities. An integer 1 becomes `1.0`."""
    if isinstance(cell, str):
        return _text(cell)
    return "" if cell is None or not math.isfinite(cell) else repr(float(cell))


def _text(cell: str) -> str:
    """Return a text as a cell, inert and quoted where needed."""
    text = inert(cell)
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def csv_rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file that ragbench wrote, the header first, with the original texts.

    An empty file yields no row, an empty line an empty list.

    Raises:
        DataError: The file is missing, cannot be read, or is no CSV.
    """
    try:
        # ids of TREC files may be any bytes
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
            csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
            for row in csv.reader(stream, strict=True):
                has_quote = "'" in "".join(row)
                yield [original(cell) for cell in row] if has_quote else row
    except FileNotFoundError as error:
        raise DataError("no such file", file=path, allowed="a whole run folder") from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", file=path) from error


def check_output(experiment: Path) -> None:
    """Check, before a run starts, that its results can be written.

    Created folders are removed again.

    Raises:
        DataError: The folder of the experiment cannot be written.
    """
    try:
        check_writable(experiment)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = f"cannot write results here: {reason}"
        allowed = "a folder that can be written, as `output`"
        raise storage_error(problem, error, file=experiment, allowed=allowed) from error


def write_run_folder(
    experiment: Path,
    run_id: str,
    contents: Mapping[str, str | Iterable[str]],
    *,
    finish: Callable[[Path], None] = lambda folder: None,
    is_latest: bool = True,
) -> Path:
    """Write the files of a run to a new folder, whole or not at all, and return the folder.

    Args:
        experiment: Folder of the experiment.
        run_id: Name of the new folder.
        contents: Relative name -> text, or pieces of it.
        finish: Writes further files into the unfinished folder, such as those too large for memory.
        is_latest: True lets `latest` point at the run; False for a copy of an older result.

    Raises:
        DataError: The folder cannot be written, and nothing remains of it; or `latest` cannot be
            written, and the folder stays.
    """
    folder = experiment / run_id
    try:
        with folder_written_atomically(folder) as temporary:
            for relative, text in contents.items():
                path = temporary / relative
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as stream:
                    stream.writelines(map(_encode, [text] if isinstance(text, str) else text))
            finish(temporary)
        if is_latest:
            point_at(experiment / LATEST, run_id)
    except OSError as error:
        problem = f"cannot write the run folder: {error.strerror}"
        raise storage_error(problem, error, file=folder) from error
    return folder


def _encode(text: str) -> bytes:
    """Return UTF-8; bytes of TREC ids stay, and half characters in reports become escapes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def resolve_run_folder(path: Path) -> Path:
    """Return the run folder of a path: the path itself, or the folder that its `latest` names.

    `latest` may be a link or a file with the name of a folder beside it.

    Raises:
        DataError: There is no run or only a summary over several collections, or a file cannot be
            read.
    """
    folder = _follow_latest(path)
    if os.path.isfile(folder / "summary.json"):
        check_links(folder)
        return folder
    if os.path.isfile(folder / COLLECTIONS):
        allowed = f"the run on one of them: {', '.join(_experiments_in(folder.parent))}"
        raise DataError("a summary over several data sets", file=folder, allowed=allowed)
    inside = _experiments_in(folder)
    siblings = set()
    for name in names_in(folder.parent):
        # a hidden folder is no run, such as the cache `.ragbench`
        if not name.startswith(".") and os.path.isdir(folder.parent / name):
            siblings.add(name)
    near = inside[0] if inside else nearest(folder.name, siblings - {folder.name})
    allowed = "a run folder with summary.json, or the folder of an experiment"
    raise DataError("no run here", file=folder, allowed=allowed, nearest=near)


def _experiments_in(folder: Path) -> list[str]:
    """Return the subfolders with a `latest`, sorted."""
    return sorted(str(latest.parent) for latest in folder.glob(f"*/{LATEST}"))


def collections_folder(path: Path) -> Path | None:
    """Return the folder with the summary over several collections of a path; None for other runs.

    The path is the folder itself, or that of the experiment, whose `latest` names it. Raises
    DataError if `latest` cannot be read.
    """
    folder = _follow_latest(path)
    return folder if os.path.isfile(folder / COLLECTIONS) else None


def _follow_latest(path: Path) -> Path:
    """Return the folder that a path names, by its `latest` if it is the folder of an experiment."""
    # a link to the run, or on systems without links a file with its name; a later run moves it, as
    # that of `ragbench gate` does, and its base must not become the run itself
    if path.name == LATEST and (path.is_symlink() or os.path.isfile(path)):
        return _follow_latest(_read_pointer(path))
    has_results = any(os.path.isfile(path / name) for name in ("summary.json", COLLECTIONS))
    if has_results or not os.path.exists(path / LATEST):
        return path
    return _follow_latest(path / LATEST)


def check_links(folder: Path) -> None:
    """Raise a `DataError` for a link, a pipe or a device in a run folder.

    Links in place of the pages are allowed: nothing reads them, and writing replaces them.
    """
    if (odd := odd_file(folder, _PAGES)) is not None:
        raise DataError("is no regular file", file=odd, allowed="a run folder of ragbench run")


def _read_pointer(path: Path) -> Path:
    """Return the folder that `latest`, a link or a file, names."""
    try:
        name = os.readlink(path) if path.is_symlink() else path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", file=path, allowed=_POINTER) from error
    if name == LATEST or not re.fullmatch(r"\.*[A-Za-z0-9_-][A-Za-z0-9_.-]*", name):
        raise DataError(f"found {quote(name)}", file=path, line=1, allowed=_POINTER)
    return path.parent / name


def read_record(path: Path, record_type: type[R]) -> R:
    """Return the record in a versioned JSON file, such as a baseline or a certificate.

    Raises:
        DataError: The file cannot be read, is of another version, or has a wrong field.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        value = load_json(text, object_pairs_hook=unique_keys, parse_constant=no_constant)
    except FileNotFoundError as error:
        allowed = "the path of a finished run, or of a file that ragbench wrote"
        raise DataError("no such file", file=path, allowed=allowed) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    except json.JSONDecodeError as error:
        if mark := _CONFLICT.search(text):
            line, allowed = text.count("\n", 0, mark.start()) + 1, "the file written again"
            raise DataError("merge conflict", file=path, line=line, allowed=allowed) from error
        raise DataError(f"not JSON: {error.msg}", file=path, line=error.lineno) from error
    except ValueError as error:
        raise DataError(f"not JSON: {error}", file=path) from error
    return from_file(record_type, value, file=path)


def read_summary(folder: Path) -> Summary:
    """Return the summary of a run folder; raise a `DataError` if it is missing or damaged."""
    return read_record(folder / "summary.json", Summary)


def read_comparisons(folder: Path) -> Comparisons:
    """Return the comparisons of a run folder; empty for a run of one system without the file.

    Raises:
        DataError: The file is damaged, or it is missing and the run has several systems or none, or
            no readable summary.
    """
    path = folder / COMPARISONS
    if not path.is_file() and (n := len(read_summary(folder).systems)) != 1:
        allowed = "a whole run folder: it has the differences between the systems of the run"
        raise DataError(f"no such file, and the run has {n} systems", file=path, allowed=allowed)
    if not path.is_file():
        return no_comparisons()
    return read_record(path, Comparisons)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a run folder; raise a `DataError` if it is missing or damaged."""
    return read_record(folder / "manifest.json", Manifest)


class SystemTable(NamedTuple):
    """Rows of one system in `per_query.csv` or `costs.csv`; `read_tables` returns it.

    Attributes:
        query_ids: Queries, in the order of the file.
        columns: Column -> value of each query, NaN for an empty cell.
    """

    query_ids: list[str]
    columns: dict[str, FloatArray]


def read_tables(path: Path) -> dict[str, SystemTable]:
    """Return system -> its rows in `per_query.csv` or `costs.csv`.

    All are in the order of the file; of a repeated row the last counts. Empty lines are skipped. A
    file with a header alone gives {}.

    Raises:
        DataError: The file is missing, the header or a row is wrong, or a value is no finite
            number; names the line.
    """
    try:
        return _tables(_plain_blocks(path))
    except (ValueError, OSError):
        # quoted cells, and mistakes: the reader of CSV names their line
        return _tables(_quoted_blocks(path))


_ROW_ALLOWED = "system, query_id, and numbers or empty cells"
# Columns of the cells of some rows
_Block = Sequence[Sequence[str]]


def _tables(blocks: Iterator[_Block]) -> dict[str, SystemTable]:
    """Return system -> its rows in some blocks; the first one is the header alone."""
    names = [cells[0] for cells in next(blocks)][2:]
    queries: dict[str, list[str]] = {}
    parts: dict[str, list[list[FloatArray]]] = {}
    for systems, ids, *texts in blocks:
        numbers = [_numbers(column) for column in texts]
        start = 0
        for system, same in groupby(systems):
            end = start + sum(1 for _ in same)
            queries.setdefault(system, []).extend(ids[start:end])
            parts.setdefault(system, []).append([column[start:end] for column in numbers])
            start = end
    first_ids: list[str] = next(iter(queries.values()), [])
    tables = {}
    for system, ids in queries.items():
        columns = dict(
            zip(names, map(np.concatenate, zip(*parts[system], strict=True)), strict=True)
        )
        row_of = index_positions(ids)
        if len(row_of) < len(ids):
            last_rows = np.array([*row_of.values()])
            columns = {name: column[last_rows] for name, column in columns.items()}
            ids = list(row_of)
        # systems have the same queries: one list serves all of them
        tables[system] = SystemTable(first_ids if ids == first_ids else ids, columns)
    return tables


def _numbers(cells: Sequence[str]) -> FloatArray:
    """Return the numbers in cells, NaN for an empty one; raise ValueError unless all are finite."""
    # most values of a measure repeat: each text is read once
    numbers = {cell: float(cell or "nan") for cell in set(cells)}
    for cell, number in numbers.items():
        # NaN is no score, and an infinite one would spoil every mean
        if cell and not math.isfinite(number):
            raise ValueError(f"found {cell!r}")
    return np.array(take_items(numbers, cells), np.float64)


def _plain_blocks(path: Path) -> Iterator[_Block]:
    """Yield the blocks of a file without quotes; any other raises ValueError."""
    # cells are split all at once, which takes a third of the time of a reader of CSV
    # ids of TREC files may be any bytes
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
        head = stream.readline()
        width = head.count(",") + 1
        lines = [head]
        while lines:
            text = "".join(lines)
            is_plain = text.count("\n") == len(lines) and not any(c in text for c in "\"'\r")
            if not is_plain or {line.count(",") for line in lines} != {width - 1}:
                raise ValueError("quotes, or rows of other widths")
            cells = text[:-1].replace("\n", ",").split(",")
            columns = [cells[number::width] for number in range(width)]
            if lines == [head] and [cells[0] for cells in columns[:2]] != ["system", "query_id"]:
                raise ValueError("another header")
            yield columns
            lines = stream.readlines(_BLOCK_BYTES)


def _quoted_blocks(path: Path) -> Iterator[_Block]:
    """Yield the blocks of any file; raise DataError for the first wrong row."""
    rows = csv_rows(path)
    head = next(rows, [])
    if head[:2] != ["system", "query_id"]:
        allowed = _ROW_ALLOWED
        raise DataError(f"columns: {', '.join(head)}", file=path, line=1, allowed=allowed)
    yield [[name] for name in head]
    for line, row in enumerate(rows, start=2):
        if row:  # no empty line
            try:
                for cell in row[2:]:
                    _numbers([cell])
            except ValueError as error:
                problem = f"row: {error}"
                if len(row) != len(head):
                    problem = f"row: {counted(len(row), 'cells')}"
                raise DataError(problem, file=path, line=line, allowed=_ROW_ALLOWED) from error
            if len(row) != len(head):
                problem = f"row: {counted(len(row), 'cells')}"
                raise DataError(problem, file=path, line=line, allowed=_ROW_ALLOWED)
            yield [[cell] for cell in row]
