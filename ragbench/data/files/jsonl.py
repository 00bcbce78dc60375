"""JSON lines: one object per line, read strictly, and the fields of such an object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from ragbench.data.files.lines import Source, source_name, text_lines
from ragbench.errors import DataError
from ragbench.json_yaml import load_json
from ragbench.records.codec import Record, from_json, kind
from ragbench.registry import nearest

R = TypeVar("R", bound=Record)

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


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
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key '{repeated}' is repeated")
    return found


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which JSON does not have."""
    raise ValueError(f"{name} is no JSON number, write null")


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a file, with its place for messages."""

    file: str
    line: int | None
    """The line where it starts; None where the format has no lines."""
    values: dict[str, Any]
    record: str = ""
    """Which record it is, where the format has no lines: `row 3`."""

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


ID_ALLOWED = "an id without white space: run files are split at it"


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
