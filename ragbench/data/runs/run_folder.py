"""Run folders: `<output>/<name>/<run id>/`, written whole or not at all, and read back."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ragbench.data.files.rows import no_constant, unique_keys
from ragbench.errors import DataError
from ragbench.files import check_writable, folder_written_atomically, names_in, odd_file, point_at
from ragbench.json_yaml import load_json
from ragbench.records.codec import Record, from_file, from_json
from ragbench.records.comparison import Comparisons, no_comparisons
from ragbench.records.manifest import Manifest, MetadataRow
from ragbench.records.summary import Summary
from ragbench.registry import nearest, shown
from ragbench.types import FloatArray, Query
from ragbench.types.byte_ids import distinct

QUERIES_FILE = "queries.jsonl"
R = TypeVar("R", bound=Record)


def metadata_rows(queries: Sequence[Query]) -> Iterator[MetadataRow]:
    """Yield a row for each query; none where no query has metadata.

    Text, numbers and truth values stay, also in mappings; nothing can be grouped by what else there
    is, such as lists.

    Example:
        >>> query = Query("q1", "?", {"topic": "law", "tags": ["a"]})
        >>> [row.metadata for row in metadata_rows([query])]
        [{'topic': 'law'}]
    """
    if any(plain_metadata(query.metadata) for query in queries):
        for query in queries:
            yield MetadataRow(query_id=query.id, metadata=plain_metadata(query.metadata))


def read_query_metadata(path: Path) -> dict[str, Mapping[str, Any]]:
    """Read query id -> metadata."""
    rows = read_records(path, MetadataRow, "query_id and metadata")
    return {row.query_id: row.metadata for _, row in rows}


def read_records(path: Path, made: type[R], allowed: str) -> Iterator[tuple[int, R]]:
    """Yield the number and the record of each line of a JSON Lines file of a run folder.

    Raises:
        DataError: The file is missing, or a line is no such record.
    """
    try:
        # a text may hold other line ends than \n, which JSON does not escape
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    yield number, from_json(made, load_json(line))
                except (ValueError, DataError) as error:
                    what = f"not a line that a run writes: {shown(line.rstrip())}"
                    raise DataError(what, file=path, line=number, allowed=allowed) from error
    except FileNotFoundError as error:
        raise DataError("no such file", file=path, allowed="a whole run folder") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", file=path) from error


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a query's metadata may name a group: text, numbers, truth values."""
    found: dict[str, Any] = {}
    for key, value in metadata.items():
        if isinstance(value, Mapping):
            found[str(key)] = plain_metadata(value)
        elif isinstance(value, (str, bool, int)) or (
            isinstance(value, float) and math.isfinite(value)
        ):
            found[str(key)] = value
    return found


LATEST = "latest"
COMPARISONS = "comparisons.json"
# Bytes of a name that becomes a file's: file systems take 255, suffixes included.
LONGEST_NAME = 200
COST_COLUMNS = ("latency_ms", "tokens.input", "tokens.output", "usd")
_NAMED = "the name of a run folder beside it"
_LONGEST_CELL = 1 << 30  # characters; the csv module stops at 128 kB
_MOST_KNOWN = 100_000  # cells whose number is remembered
# Devices of Windows, with any ending; and a point at the end, which it drops.
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|.*[^.]\.+")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def file_name(system: str) -> str:
    """Return a system's name as file names write it: `bm25/gpt` is `bm25--gpt`."""
    return system.replace("/", "--")


def unfit_names(systems: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each name that cannot have a file of its own: the name, why not, and what is allowed.

    It must be one on every system: Windows and macOS do not tell `A` from `a`, and a run folder is
    carried between them.

    Example:
        >>> [(name, why) for name, why, _ in unfit_names(["a/b", "dense", "Dense", "a--b"])]
        [('Dense', "'dense' and 'Dense' differ only in case, and would write the same file"),
         ('a--b', "'a/b' and 'a--b' would write the same file 'a--b'")]
    """
    taken: dict[str, tuple[int, str]] = {}
    for place, name in enumerate(systems):
        file = file_name(name)
        size = len(file.encode("utf-8", "surrogatepass"))
        if size > LONGEST_NAME:
            found = f"{shown(name)} is too long for a file: {size} bytes"
            yield name, found, f"at most {LONGEST_NAME}"
        if _RESERVED.fullmatch(file):
            yield name, f"'{name}' is no name of a file on Windows", "another name"
        folded = unicodedata.normalize("NFC", file).casefold()
        before, first = taken.setdefault(folded, (place, name))
        if before == place:
            continue
        found = f"'{first}' and '{name}' would write the same file '{file}'"
        if file_name(first) != file:
            alike = unicodedata.normalize("NFC", first) == unicodedata.normalize("NFC", name)
            how = "how accents are encoded" if alike else "case"
            found = f"'{first}' and '{name}' differ only in {how}, and would write the same file"
        yield name, found, "another name for one of them"


def to_json(value: Any) -> str:
    """Write a value as indented JSON; NaN is a mistake here and raises."""
    return f"{to_json_line(value, indent=1)}\n"


def json_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each object as a line of JSON; NaN is a mistake here and raises."""
    return (f"{to_json_line(row)}\n" for row in rows)


def to_json_line(value: Any, *, indent: int | None = None) -> str:
    """Write a value as JSON without a line end; NaN is a mistake here and raises.

    There are escapes only where a text holds half of a character, which UTF-8 cannot.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    if text.isascii() or not _HALF_CHARACTER.search(text):
        return text
    return json.dumps(value, ensure_ascii=True, indent=indent, allow_nan=False)


# the last four are of full width; where people write decimals with a comma, `;` ends a cell
_FORMULA = re.compile(r"""(?:^|(?<=[;\t]))(?=[\s'"\ufeff]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])""")
_INERT = re.compile(f"{_FORMULA.pattern}'")
_CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>)", re.MULTILINE)
_QUOTED = re.compile(r'[,"\r\n]')


def to_csv(header: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    r"""Write CSV that `csv_rows` reads back exactly; None is an empty cell.

    Every text is `inert`; a text with a comma, a quote or a line end is quoted, a lone carriage
    return too, which the csv module of older Pythons leaves bare.

    Example:
        >>> print(to_csv(["id", "map"], [["=1+1", 0.5], ["a,b", None]]), end="")
        id,map
        '=1+1,0.5
        "a,b",
    """
    return "".join(csv_lines(header, rows))


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> Iterator[str]:
    """Yield the lines of `to_csv`."""
    for row in chain([header], rows):
        # most are numbers, and a call for each would take as long as writing it
        cells = [repr(cell) if type(cell) is float else _cell(cell) for cell in row]
        yield (",".join(cells) if cells != [""] else '""') + "\n"


_ROWS = 4096
# The cell of every row; a text for each; a number for each, where NaN has none; or nothing.
Column = str | Sequence[str] | FloatArray | None


def csv_tables(header: Sequence[str], n: int, tables: Iterable[Sequence[Column]]) -> Iterator[str]:
    r"""Yield the text of `to_csv` for tables of n rows by columns, some rows at a time.

    Example:
        >>> table = ["bm25", ["=1+1", "q2"], np.array([0.5, np.nan])]
        >>> "".join(csv_tables(["system", "id", "map"], 2, [table]))
        "system,id,map\nbm25,'=1+1,0.5\nbm25,q2,\n"
    """
    yield from csv_lines(header, ())
    shown: Column = None
    for table in tables:
        ids = table[1] if len(table) > 1 else None  # every system comes with every query
        if ids is not shown and isinstance(ids, Sequence) and not isinstance(ids, str):
            shown, written = ids, [*map(_text, ids)]
        for first in range(0, n, _ROWS):
            rows = slice(first, min(first + _ROWS, n))
            cells = [written[rows] if c is shown is not None else _cells(c, rows) for c in table]
            lines = [f"{line}\n" for line in map(",".join, zip(*cells, strict=True))]
            # a line with half a character is written in another way than one with bytes of an id
            yield from [text] if (text := "".join(lines)).isascii() else lines


def _cells(column: Column, rows: slice) -> Sequence[str]:
    if column is None or isinstance(column, str):
        return [_cell(column)] * (rows.stop - rows.start)
    if not isinstance(column, np.ndarray):
        return [*map(_text, column[rows])]
    # most scores are few numbers, and to write one takes as long as all else
    numbers, which = distinct(column[rows])
    cells = [repr(x) if math.isfinite(x) else "" for x in numbers.tolist()]
    found: list[str] = np.array(cells, np.object_)[which].tolist()
    return found


def _cell(cell: str | float | None) -> str:
    if cell is None:
        return ""
    return _text(cell) if isinstance(cell, str) else repr(float(cell))


def _text(cell: str) -> str:
    text = inert(cell)
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def inert(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula.

    Before one that begins with apostrophes and then such a text too, so that `original` can tell;
    also behind a sign that ends a cell for some, and before quotes and blanks, which some drop.

    Example:
        >>> inert("=1+1"), inert("1 + 1"), inert("'=1+1"), inert("'quoted'")
        ("'=1+1", '1 + 1', "''=1+1", "'quoted'")
    """
    if text[:1].isalnum() and ";" not in text and "\t" not in text:
        return text  # most are, and the pattern looks at each character
    return _FORMULA.sub("'", text)


def original(cell: str) -> str:
    """Return the text of which `inert` made a cell.

    Example:
        >>> original("'=1+1"), original("'quoted'")
        ('=1+1', "'quoted'")
    """
    return _INERT.sub("", cell)


def csv_rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file of ours, the header first, with the texts as they were.

    Raises:
        DataError: The file is missing, cannot be read, or is no CSV.
    """
    try:
        # ids of TREC files may be any bytes
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
            csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
            for row in csv.reader(stream, strict=True):
                yield [original(cell) if "'" in cell else cell for cell in row]
    except FileNotFoundError as error:
        raise DataError("no such file", file=path, allowed="a whole run folder") from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", file=path) from error


def check_output(experiment: Path) -> None:
    """Make sure, before anything is run, that the results can be written."""
    try:
        check_writable(experiment)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"cannot write results here: {reason}", file=experiment) from error


def write_run_folder(
    experiment: Path,
    run_id: str,
    contents: Mapping[str, str | Iterable[str]],
    *,
    finish: Callable[[Path], None] = lambda folder: None,
    is_latest: bool = True,
) -> Path:
    """Write a run's files (relative name -> text, or pieces of it) under a new folder.

    `finish` writes into it what is too large to be held as one text. `latest` of the experiment's
    folder then points at it, unless it is no new result.
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
        raise DataError(f"cannot write the run folder: {error.strerror}", file=folder) from error
    return folder


def _encode(text: str) -> bytes:
    """UTF-8; bytes of TREC ids as they were, half characters in reports as escapes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def resolve_run_folder(path: Path) -> Path:
    """Return the run folder that a path means: itself, or what its `latest` points at."""
    if os.path.isfile(path / "summary.json"):
        if (odd := odd_file(path)) is not None:
            raise DataError("is no file", file=odd, allowed="what ragbench run wrote")
        return path
    if path.name == LATEST and os.path.isfile(path):  # where links cannot be made
        return resolve_run_folder(_pointed_at(path))
    if os.path.exists(path / LATEST):
        return resolve_run_folder(path / LATEST)
    inside = sorted(found.parent.name for found in path.glob(f"*/{LATEST}"))
    siblings = [name for name in names_in(path.parent) if os.path.isdir(path.parent / name)]
    near = nearest(path.name, (name for name in siblings if name != path.name))
    raise DataError(
        "no run here",
        file=path,
        allowed="a run folder with summary.json, or the folder of an experiment",
        nearest=str(path / inside[0]) if inside else near,
    )


def _pointed_at(path: Path) -> Path:
    """The folder that a file `latest` names, which lies beside it."""
    try:
        name = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", file=path, allowed=_NAMED) from error
    if name == LATEST or not re.fullmatch(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*", name):
        raise DataError(f"found {shown(name)}", file=path, line=1, allowed=_NAMED)
    return path.parent / name


def read_record(path: Path, made: type[R]) -> R:
    """Read a versioned JSON file: a file of a run folder, a baseline, a certificate."""
    try:
        text = path.read_bytes().decode("utf-8")
        value = load_json(text, object_pairs_hook=unique_keys, parse_constant=no_constant)
    except FileNotFoundError as error:
        raise DataError("no such file", file=path) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    except json.JSONDecodeError as error:
        if mark := _CONFLICT.search(text):
            line, allowed = text.count("\n", 0, mark.start()) + 1, "the file written again"
            raise DataError("conflict of a merge", file=path, line=line, allowed=allowed) from error
        raise DataError(f"not JSON: {error.msg}", file=path, line=error.lineno) from error
    except ValueError as error:
        raise DataError(f"not JSON: {error}", file=path) from error
    return from_file(made, value, file=path)


def read_summary(folder: Path) -> Summary:
    """Read the summary of a run folder."""
    return read_record(folder / "summary.json", Summary)


def read_comparisons(folder: Path) -> Comparisons:
    """Read the comparisons of a run folder; where the file was lost, one system has none.

    Raises:
        DataError: The file is damaged, or lacks where there are systems to compare.
    """
    path = folder / COMPARISONS
    if not path.is_file() and (n := len(read_summary(folder).systems)) != 1:
        allowed = "a whole run folder: it has the differences between the systems of the run"
        raise DataError(f"no such file, and the run has {n} systems", file=path, allowed=allowed)
    if not path.is_file():
        return no_comparisons()
    return read_record(path, Comparisons)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a run folder."""
    return read_record(folder / "manifest.json", Manifest)


def read_per_query(path: Path) -> dict[str, dict[str, dict[str, float | None]]]:
    """Read `per_query.csv` as system -> query id -> column -> value; None for an empty cell."""
    table: dict[str, dict[str, dict[str, float | None]]] = {}
    for system, query, values in per_query_rows(path):
        table.setdefault(system, {})[query] = values
    return table


def per_query_rows(path: Path) -> Iterator[tuple[str, str, dict[str, float | None]]]:
    """Yield system, query id, and column -> value of each row of `per_query.csv`."""
    # most values of a measure come again and again: equal cells share one number
    numbers: dict[str, float | None] = {"": None}
    allowed = "system, query_id, and numbers or empty cells"
    rows = csv_rows(path)
    head = next(rows, [])
    if head[:2] != ["system", "query_id"]:
        raise DataError(f"columns: {', '.join(head)}", file=path, line=1, allowed=allowed)
    for number, row in enumerate(rows, start=2):
        if not row:  # an empty line
            continue
        if len(numbers) > _MOST_KNOWN:
            numbers = {"": None}
        try:
            for cell in row[2:]:
                if cell not in numbers:
                    numbers[cell] = value = float(cell)
                    # NaN is no score, and an infinite one would spoil every mean
                    if not math.isfinite(value):
                        raise ValueError(f"found {cell!r}")
            system, query, *cells = row
            values = dict(zip(head[2:], map(numbers.__getitem__, cells), strict=True))
        except ValueError as error:
            what = f"row: {error}" if len(row) == len(head) else f"row: {len(row)} cells"
            raise DataError(what, file=path, line=number, allowed=allowed) from error
        yield system, query, values
