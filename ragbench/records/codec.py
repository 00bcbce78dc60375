"""Records as JSON and back, by msgspec: here are errors with their place, and flat records.

`to_json` and `from_json` convert a record to a JSON object and back; `to_line` and `from_line` do
so for a line of JSON, far faster, and `from_lines` reads a file of such lines.
`types/json_fields.py` declares records and their fields.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import structs

from ragbench.errors import DataError
from ragbench.json_yaml import load_json
from ragbench.registry import nearest, quote
from ragbench.types.json_fields import MayHoldSecrets, Record
from ragbench.types.lookups import select_in_order

T = TypeVar("T", bound=Record)
Clean = Callable[[Any, Callable[[str], str]], Any]

_HALF_CHARACTER = "a key with half of a surrogate pair"
_SCHEMA = "schema"  # key with the kind and version of a file
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "a truth value", int: "an integer"}
_LEAVES = {str: "text", bool: "true or false", int: "an integer", float: "a number"}


def kind(value: Any) -> str:
    """Return the type of a JSON value in words; another type by its name in Python.

    Example:
        >>> kind([1]), kind(True), kind(1.5), kind(None)
        ('a list', 'a truth value', 'a number', 'null')
    """
    if value is None:
        return "null"
    if isinstance(value, float):
        return "a number"
    return _KINDS.get(type(value), type(value).__name__)


class RecordField(NamedTuple):
    """A field of a record with its key in files; `record_fields` returns those of a class.

    Attributes:
        name: Its name.
        key: Its key.
        hint: Its annotation.
        is_required: True if a file must have the key.
        omitted: Value with which it is left out of a file; NODEFAULT if it never is.
        is_flat: True if the keys of its record stand in the object itself.
    """

    name: str
    key: str
    hint: Any
    is_required: bool
    omitted: Any
    is_flat: bool


@cache
def record_fields(record: type[Record]) -> tuple[RecordField, ...]:
    """Return the fields of a class of records, in the order of its keys."""
    fields = []
    for declared in structs.fields(record):
        default = {} if declared.default_factory is dict else declared.default
        is_flat = declared.name in record._flat_fields
        fields.append(
            RecordField(
                declared.name,
                declared.encode_name,
                declared.type,
                declared.required,
                default,
                is_flat,
            )
        )
    return tuple(fields)


def to_json(record: Record) -> dict[str, Any]:
    """Return a record as a JSON object, without optional fields that have their default.

    Keys are in the order of the fields; tuples become lists, and None and NaN stay. A flat record
    of None adds no keys. Values are not checked.
    """
    json_object: dict[str, Any] = {}
    for declared in record_fields(type(record)):
        value = getattr(record, declared.name)
        if declared.is_flat:
            json_object.update({} if value is None else to_json(value))
        elif declared.omitted is msgspec.NODEFAULT or value != declared.omitted:
            json_object[declared.key] = _to_value(value)
    return json_object


_PLAIN = frozenset((str, float, int, bool))


def _to_value(value: Any) -> Any:
    """Return the value of a field as JSON."""
    # most values: without this line, a run looks for the type of thousands of them
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, Record):
        return to_json(value)
    if isinstance(value, (tuple, list)):
        return [_to_value(part) for part in value]
    if isinstance(value, Mapping):
        return {key: _to_value(part) for key, part in value.items()}
    return value


def from_json(
    record: type[T],
    value: Any,
    *,
    file: object = None,
    line: int | None = None,
    path: str = "",
    by_hand: bool = False,
) -> T:
    """Return the record in a JSON value, whose types and words are checked.

    Unknown keys are ignored; a missing key of a field with a default gets the default. An integer
    fits a number; 1.0 is no integer.

    Args:
        record: Class of the record.
        value: The JSON value.
        file: Name of the file, for the error.
        line: Line in the file, for the error.
        path: Dotted path of the value in the file, for the error.
        by_hand: True if a person edits the file: the error then suggests the nearest word.

    Raises:
        DataError: A value does not fit, or a key of a field without a default is missing; the error
            names the file and the dotted path.

    Example:
        >>> from ragbench.records.gate import Decision
        >>> entry = {"gate": "map >= 0.2", "system": 3, "verdict": "pass", "why": "0.3", "line": 1}
        >>> from_json(Decision, entry, file="summary.json", path="gates.0")
        Traceback (most recent call last):
        ragbench.errors.DataError: summary.json: gates.0.system: found an integer; allowed: text
    """
    try:
        read: T = _convert(record, value)
        return read
    except (msgspec.ValidationError, OverflowError):
        mistake = _find_mistake(record, value)
        near = nearest(*mistake.words) if by_hand and mistake.words else None
        raise DataError(
            mistake.problem,
            file=file,
            line=line,
            record=".".join(filter(None, [path, *mistake.place])),
            allowed=mistake.allowed,
            nearest=near,
        ) from None


def from_file(record: type[T], value: object, *, file: object) -> T:
    """Return the record in a whole file; `file` is its name for the error.

    Raises:
        DataError: The `schema` is missing or not that of the record, or `from_json` raises it.
        ValueError: The class has no field `schema`.
    """
    schema = _schema_name(record)
    problem = f"schema {value.get(_SCHEMA)!r}" if isinstance(value, dict) else kind(value)
    # before the fields, which a file of another version may lack
    if problem != f"schema {schema!r}":
        raise DataError(f"found {problem}", file=file, allowed=f"{schema} as its schema")
    return from_json(record, value, file=file)


@cache
def _schema_name(record: type[Any]) -> str:
    """Return the `schema` of files with a record; raise ValueError if the class has none."""
    # `structs.fields` evaluates all annotations of the class anew each time: 3 ms
    [schema] = (f.default_factory() for f in structs.fields(record) if f.name == _SCHEMA)
    return str(schema)


def to_line(value: Any) -> str:
    """Return a record, or a JSON value, as one line of JSON without a line end; NaN becomes null.

    Raises TypeError for a value that JSON lacks.
    """
    if isinstance(value, Record) and _holds_flat_records(type(value)):
        value = to_json(value)
    try:
        return msgspec.json.encode(value, enc_hook=_encode_other).decode()
    except UnicodeEncodeError:
        # UTF-8 cannot encode half of a surrogate pair: all text is escaped
        return json.dumps(_to_value(value), allow_nan=False, separators=(",", ":"))


def join_lines(first: Record, second: Record) -> str:
    """Return the keys of two records as one line of JSON, as `to_line` writes each of them.

    Example:
        >>> from ragbench.records.manifest import AnswerKey
        >>> from ragbench.types import Usage
        >>> join_lines(AnswerKey(query_id="q1"), Usage(input_tokens=7))
        '{"query_id":"q1","input_tokens":7,"output_tokens":null,"usd":null}'
    """
    start, end = to_line(first).removesuffix("}"), to_line(second).removeprefix("{")
    return start + ("," if len(start) > 1 and len(end) > 1 else "") + end


def _encode_other(value: Any) -> Any:
    """Return a value of a type that msgspec does not know, such as a mapping of its own class."""
    if isinstance(value, Mapping):
        return dict(value)
    # texts and numbers of NumPy and of other subclasses
    for plain in (str, float, int):
        if isinstance(value, plain):
            return plain(value)
    raise TypeError(f"no JSON value: {type(value).__name__}")


def as_json(value: object) -> Any:
    """Return a value as JSON; the parts that JSON lacks, such as dates and NaN, as text.

    Keys that are no texts or numbers are left out.
    """
    try:
        return load_json(json.dumps(value, default=str, skipkeys=True), parse_constant=str)
    except (ValueError, RecursionError):  # a circle, or deeper than JSON can be read again
        if isinstance(value, dict):
            return {str(key): as_json(part) for key, part in value.items() if part is not value}
        return "(nested too deep)"


def from_line(
    record: type[T], text: str | bytes, *, file: object = None, line: int | None = None
) -> T:
    """Return the record in a line of JSON; see `from_json`.

    Raises:
        DataError: A value does not fit.
        ValueError: The line is no JSON.
    """
    try:
        if not _holds_flat_records(record):
            read: T = _decoder(record).decode(text)
            return read
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        pass  # msgspec refuses half of a surrogate pair, and does not name the place in a list
    value = load_json(text, parse_float=_finite, parse_constant=_finite)
    return from_json(record, value, file=file, line=line)


def from_lines(path: Path, record: type[T], allowed: str) -> Iterator[tuple[int, T]]:
    """Yield the line number and the record of each line of a JSON Lines file of a run folder.

    Line numbers are from 1; an empty file yields nothing.

    Args:
        path: The file.
        record: Class of the records.
        allowed: Fields of a line, for the message.

    Raises:
        DataError: The file is missing or cannot be read, or a line is no such record.
    """
    try:
        # a text may hold other line ends than \n, which JSON does not escape
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    yield number, from_line(record, line)
                except (ValueError, DataError) as error:
                    problem = f"not a line that a run writes: {quote(line.rstrip())}"
                    raise DataError(problem, file=path, line=number, allowed=allowed) from error
    except FileNotFoundError as error:
        raise DataError("no such file", file=path, allowed="a whole run folder") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", file=path) from error


def _finite(text: str) -> float:
    """Return the number in a text; raise a ValueError for NaN and infinities, which JSON lacks."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no number of JSON")
    return number


@cache
def _decoder(record: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of lines of a record."""
    return msgspec.json.Decoder(record)


def _convert(hint: Any, value: Any) -> Any:
    """Return a JSON value as an object of a type; raise a msgspec.ValidationError if it is none."""
    try:
        return msgspec.convert(_with_flat_records(hint, value), hint)
    except UnicodeEncodeError as error:
        # msgspec compares keys and words as UTF-8, which half of a surrogate pair is not
        raise msgspec.ValidationError(_HALF_CHARACTER) from error


@cache
def _holds_flat_records(hint: Any) -> bool:
    """Return True if values of a type hold records with flat fields."""
    if is_record(hint):
        fields = record_fields(hint)
        return bool(hint._flat_fields) or any(_holds_flat_records(f.hint) for f in fields)
    return any(_holds_flat_records(part) for part in get_args(hint))


def _with_flat_records(hint: Any, value: Any) -> Any:
    """Return a JSON value with the keys of each flat record in an object of their own."""
    if value is None or not _holds_flat_records(hint):
        return value
    hint = plain_type(hint)
    if not is_record(hint):
        inner = get_args(hint)[-2 if get_origin(hint) is tuple else -1]
        if isinstance(value, dict):
            return {key: _with_flat_records(inner, part) for key, part in value.items()}
        if isinstance(value, list):
            return [_with_flat_records(inner, part) for part in value]
    if not is_record(hint) or not isinstance(value, dict):
        return value
    nested = dict(value)
    for declared in record_fields(hint):
        if declared.is_flat:
            nested.pop(declared.key, None)
            if part := _flat_part(declared, value):
                nested[declared.key] = part
        elif declared.key in value:
            nested[declared.key] = _with_flat_records(declared.hint, value[declared.key])
    return nested


def _flat_part(declared: RecordField, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a flat record that stand in the object of the record around it."""
    keys = (inner.key for inner in record_fields(plain_type(declared.hint)))
    return select_in_order(value, keys)


class _Mistake(NamedTuple):
    """A part of a JSON value that does not fit, and the keys that lead to it."""

    place: list[str]
    problem: str
    allowed: str | None = None
    # a wrong word, and the words that it may stand for
    words: tuple[str, Iterable[str]] | None = None


def _find_mistake(hint: Any, value: Any) -> _Mistake:
    """Return the first part of a JSON value that does not fit a type."""
    hint, described = plain_type(hint), _described(hint)
    for place, inner, part in _parts(hint, value):
        if part is msgspec.UNSET:
            problem = f"no '{place}' (keys: {', '.join(value) or 'none'})"
            return _Mistake([], problem, words=(place, value))
        try:
            _convert(inner, part)
        except (msgspec.ValidationError, OverflowError):
            mistake = _find_mistake(inner, part)
            return mistake._replace(place=[*filter(None, [place]), *mistake.place])
    is_number = hint is float and isinstance(value, (int, float)) and type(value) is not bool
    if is_number or (hint is int and type(value) is int):
        return _Mistake([], "out of range", described)
    if get_origin(hint) is Literal and type(value) is str:
        return _Mistake([], f"found {quote(value)}", described, (value, get_args(hint)))
    if get_origin(hint) is tuple and not _is_list(hint):
        return _Mistake([], f"found {value!r}", described)
    if is_record(hint) and type(value) is dict:
        return _Mistake([], f"found {_HALF_CHARACTER}")
    return _Mistake([], f"found {kind(value)}", described)


def _parts(hint: Any, value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (key, type, value) of the parts of a value."""
    # the key of a flat record is empty, and the value of a required key that is missing is UNSET
    inner = get_args(hint)
    if is_record(hint) and type(value) is dict:
        for declared in record_fields(hint):
            if declared.is_flat:
                if flat_part := _flat_part(declared, value):
                    yield "", declared.hint, flat_part
            elif declared.is_required or declared.key in value:
                yield declared.key, declared.hint, value.get(declared.key, msgspec.UNSET)
    elif _is_list(hint) and type(value) is list:
        for position, part in enumerate(value):
            yield str(position), inner[0], part
    elif _is_mapping(hint) and type(value) is dict:
        for key, part in value.items():
            yield key, inner[0], key
            yield key, inner[1], part


def _described(hint: Any) -> str | None:
    """Return the allowed values of a type in words; None if they have none."""
    if get_origin(hint) is Annotated:
        words = [words for words in hint.__metadata__ if isinstance(words, str)]
        return words[0] if words else _described(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        parts = []
        for part in get_args(hint):
            if part is not type(None):
                parts.append(part)
        return _described(float if float in parts else parts[0])
    if get_origin(hint) is Literal:
        return ", ".join(get_args(hint))
    if _is_list(hint):
        return "a list of objects" if is_record(get_args(hint)[0]) else "a list"
    if get_origin(hint) is tuple:
        return "[low, high]"
    if hint is type(None):
        return "null"
    return "an object" if is_record(hint) or _is_mapping(hint) else _LEAVES.get(hint)


def cleaned(record: T, clean: Callable[[str], str]) -> T:
    """Return the record with `clean` applied to every text that may hold a secret (`Prose`).

    Numbers and names that are no `Prose` stay. A record whose class declares no such text is
    returned itself.
    """
    cleaners = _cleaners(type(record))
    changed = {}
    for name, change in cleaners:
        changed[name] = change(getattr(record, name), clean)
    return structs.replace(record, **changed) if changed else record


@cache
def _cleaners(record: type[Record]) -> tuple[tuple[str, Clean], ...]:
    """Return (name, cleaner) of each field of a record that may hold a secret."""
    cleaners = []
    for declared in record_fields(record):
        change = _cleaner(declared.hint)
        if change is not None:
            cleaners.append((declared.name, change))
    return tuple(cleaners)


@cache
def _cleaner(hint: Any) -> Clean | None:
    """Return the function that cleans prose in values of a type; None if the type has no prose."""
    origin, part_types = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return clean_tree if MayHoldSecrets in hint.__metadata__ else _cleaner(part_types[0])
    if is_record(hint):
        return cleaned if _cleaners(hint) else None
    changes = [change for part in part_types if (change := _cleaner(part)) is not None]
    if not changes:
        return None
    # a mapping has prose in its values alone, a union in its member that is not None
    change = changes[0]
    if origin is tuple:
        return lambda value, clean: tuple(change(part, clean) for part in value)
    if _is_list(hint):
        return lambda value, clean: [change(part, clean) for part in value]
    if origin in (Union, types.UnionType):
        return lambda value, clean: None if value is None else change(value, clean)
    return lambda value, clean: {key: change(part, clean) for key, part in value.items()}


def clean_tree(value: Any, clean: Callable[[str], str]) -> Any:
    """Return a JSON value with `clean` applied to every text, keys included.

    A tuple is returned as it is: texts in it are not cleaned.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(key): clean_tree(part, clean) for key, part in value.items()}
    return [clean_tree(part, clean) for part in value] if isinstance(value, list) else value


def is_record(hint: Any) -> bool:
    """Return True if a type is a class of records."""
    return isinstance(hint, type) and issubclass(hint, Record)


def _is_list(hint: Any) -> bool:
    """Return True if a type is a list, or a tuple of any length, with one type of its items."""
    origin = get_origin(hint)
    return origin in (list, Sequence) or (origin is tuple and get_args(hint)[-1] is ...)


def _is_mapping(hint: Any) -> bool:
    """Return True if a type is a mapping with types of its keys and values."""
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def plain_type(hint: Any) -> Any:
    """Return the member of a union with None that is not None, without annotations.

    The member of `int | float` is `float`.
    """
    if get_origin(hint) is Annotated:
        return plain_type(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        parts = []
        for part in get_args(hint):
            if part is not type(None):
                parts.append(part)
        return float if float in parts else plain_type(parts[0])
    return hint
