"""Records as JSON and back: one writer and one reader, both made from a record's annotations.

A record is a frozen dataclass whose fields have the names and the order of the keys of the file: a
`Record`, or a class of `ragbench.types` inside one.

A field without a default must be in the file. A field with a default may be missing in a file;
`optional` fields are left out of a written file if they have their default. The keys of a record in
a `flat` field stand among those of the record around it. Unknown keys are ignored.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from ragbench.errors import DataError
from ragbench.registry import dataclass_transform, nearest
from ragbench.types.json_fields import OMITTED, MayHoldSecrets

T = TypeVar("T", bound="Record")
Value = TypeVar("Value")
Read = Callable[[Any], Any]
Write = Callable[[Any], Any]
Clean = Callable[[Any, Callable[[str], str]], Any]


_SCHEMA = "schema"  # key with the kind and version of a file
_FLAT = "flat"  # key of a field's metadata
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "a truth value", int: "an integer"}


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class _RecordType(type):
    """Metaclass that makes every record a frozen dataclass with slots and keyword-only fields.

    A subclass of `Record` needs no decorator, and must not have `@dataclass`.
    """

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        """Return the class; `dataclass` creates it anew, then with `__slots__`."""
        cls = super().__new__(mcs, name, bases, namespace)
        if "__slots__" in namespace:
            return cls
        return dataclass(frozen=True, slots=True, kw_only=True)(cls)


class Record(metaclass=_RecordType):
    """Base of the objects of JSON files; `to_json` writes and `from_json` reads them.

    A subclass only lists its fields: it is a frozen dataclass with keyword-only fields. Its
    constructor checks no types; `from_json` does. TypeError for a missing or unknown field.
    """


class Unfit(Exception):
    """Value that does not fit its record; readers raise it, and `from_json` makes a DataError.

    Attributes:
        problem: The mistake: what was found.
        allowed: What is allowed instead.
        near: The allowed name nearest to a wrong one.
        path: Keys that lead to the value, the outermost first; `inside` adds one in front.
    """

    def __init__(self, problem: str, allowed: str | None = None, near: str | None = None) -> None:
        """Keep the problem; for the parameters see the attributes."""
        super().__init__(problem)
        self.problem, self.allowed, self.near = problem, allowed, near
        self.path: list[str] = []

    def inside(self, key: str) -> Unfit:
        """Return this same error with the key of the value added before `path`."""
        self.path.insert(0, key)
        return self


# Default of an optional field for which null and an absent key differ: null means "not known", an
# absent key "does not apply"
ABSENT: Any = ()


def flat(default: Record | None = None) -> Any:
    """Declare a field with a record whose keys stand in the object itself.

    It stands as the default of an annotation in a class of records.

    Args:
        default: Value if the object has none of its keys; None is written without keys.

    Example:
        >>> from ragbench.records.gate import Facts, Decision
        >>> gate = Decision(gate="g", system="s", verdict="pass", why="?", facts=Facts(n=3))
        >>> to_json(gate)
        {'gate': 'g', 'system': 's', 'verdict': 'pass', 'why': '?', 'line': None, 'n': 3}
    """
    return field(default=default, metadata={_FLAT: True})


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


class _Field(NamedTuple):
    """A field of a record with its key in files; `record_fields` returns those of a class.

    Attributes:
        name: Its name.
        key: Its key; a name that is a word of Python ends with a `_`, which the key lacks.
        hint: Its annotation.
        is_required: Whether a file must have the key.
        omitted: The value with which it is left out; MISSING if it never is.
        is_flat: Whether the keys of its record stand in the object itself.
        write: Returns its value as JSON.
    """

    name: str
    key: str
    hint: Any
    is_required: bool
    omitted: Any
    is_flat: bool
    write: Write

    @property
    def read(self) -> Read:
        """Return the reader of the field.

        Made on use, as records that are only written may lack one. Raises KeyError for an
        annotation that cannot be read.
        """
        return _reader(self.hint)


@cache
def record_fields(record: Any) -> tuple[_Field, ...]:
    """Return the fields of a class of records, or of another dataclass, in the order of its keys.

    TypeError for any other class, ValueError for a field whose type is a union of several types
    beside None.
    """
    # cached with the fields, as evaluating annotations takes longer than reading a record
    hints = typing.get_type_hints(record, include_extras=True)
    record_fields = []
    for declared in fields(record):
        # an optional mapping has a factory, whose empty value is the omitted one
        factory = declared.default_factory
        default = declared.default if factory is MISSING else factory()
        record_fields.append(
            _Field(
                declared.name,
                declared.name.rstrip("_"),
                hints[declared.name],
                default is MISSING,
                default if OMITTED in declared.metadata else MISSING,
                _FLAT in declared.metadata,
                _writer(hints[declared.name]),
            )
        )
    return tuple(record_fields)


def to_json(record: object) -> dict[str, Any]:
    """Return a record as a JSON object, without optional fields that have their default.

    Keys are in the order of the fields; tuples become lists, and None and NaN stay. A flat record
    of None adds no keys. Values are not checked. `record` may be any dataclass.
    """
    cls: Any = type(record)
    json_object: dict[str, Any] = {}
    for declared in record_fields(cls):
        value = getattr(record, declared.name)
        if declared.is_flat:
            json_object.update(declared.write(value) or {})
        elif declared.omitted is MISSING or value != declared.omitted:
            json_object[declared.key] = declared.write(value)
    return json_object


def from_json(
    record: type[Value], value: Any, *, file: object = None, line: int | None = None, path: str = ""
) -> Value:
    """Return the record in a JSON value, whose types and words are checked.

    Unknown keys are ignored; a missing key of a field with a default gets the default. An integer
    fits a number and stays an integer; 1.0 is no integer, and NaN and infinities do not fit.

    Args:
        record: Class of the record; any dataclass.
        value: The JSON value.
        file: Name of the file, for the error.
        line: Line in the file, for the error.
        path: Dotted path of the value in the file, for the error.

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
        return cast("Value", _read_record(record, value))
    except Unfit as error:
        # the outer path first, then the keys inside the record
        place = ".".join(filter(None, [path, *error.path]))
        raise DataError(
            error.problem,
            file=file,
            line=line,
            record=place,
            allowed=error.allowed,
            nearest=error.near,
        ) from None


def from_file(record: type[T], value: object, *, file: object) -> T:
    """Return the record in a whole file; `file` is its name for the error.

    Raises:
        DataError: The `schema` is missing or not that of the record, or `from_json` raises it.
        ValueError: The class has no field `schema`.
    """
    [schema] = (str(declared.default) for declared in fields(record) if declared.name == _SCHEMA)
    problem = f"schema {value.get(_SCHEMA)!r}" if isinstance(value, dict) else kind(value)
    # before the fields, which a file of another version may lack
    if problem != f"schema {schema!r}":
        raise DataError(f"found {problem}", file=file, allowed=f"{schema} as its schema")
    return from_json(record, value, file=file)


def cleaned(record: T, clean: Callable[[str], str]) -> T:
    """Return the record with `clean` applied to every text that may hold a secret (`Prose`).

    Numbers and names that are no `Prose` stay. A record whose class declares no such text is
    returned itself.
    """
    cls: Any = type(record)
    changed = {name: change(getattr(record, name), clean) for name, change in _cleaners(cls)}
    return replace(record, **changed) if changed else record


@cache
def _cleaners(record: Any) -> tuple[tuple[str, Clean], ...]:
    """Return (name, cleaner) of each field of a record that may hold a secret; () without any."""
    changes = ((declared.name, _cleaner(declared.hint)) for declared in record_fields(record))
    return tuple((name, change) for name, change in changes if change is not None)


@cache
def _cleaner(hint: Any) -> Clean | None:
    """Return the function that cleans prose in values of a type; None if the type has no prose.

    It takes a value and the function that cleans a text, and returns the cleaned value.
    """
    origin, part_types = get_origin(hint), get_args(hint)
    if origin is Annotated and MayHoldSecrets in hint.__metadata__:
        return clean_tree
    if is_record(hint):
        return cleaned if _cleaners(hint) else None
    changes = [change for part in part_types if (change := _cleaner(part)) is not None]
    if not changes:
        return None
    # a mapping has prose in its values alone, a union in its member that is not None
    change = changes[0]
    if origin is tuple:
        return lambda value, clean: tuple(change(part, clean) for part in value)
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
    """Return True if a type is a dataclass; False for an instance of one."""
    return isinstance(hint, type) and is_dataclass(hint)


def not_none(hint: Any) -> Any:
    """Return the member of a union with None that is not None; any other type as it is.

    Raises ValueError for a union of several other types.
    """
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    (some,) = (member for member in get_args(hint) if member is not type(None))
    return some


def _unchanged(value: Any) -> Any:
    """Return the value."""
    return value


@cache
def _writer(hint: Any) -> Write:
    """Return the function that writes values of a type as JSON.

    Values of a type that it does not know, such as numbers and texts, are returned as they are.
    """
    origin, part_types = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _writer(part_types[0])
    if origin in (Union, types.UnionType):
        write = _writer(not_none(hint))
        if write is _unchanged:
            return write
        return lambda value: None if value is None else write(value)
    if is_record(hint):
        return to_json
    if origin is tuple:
        write = _writer(part_types[0])
        # a copy in C, without a call for each element
        return list if write is _unchanged else lambda value: [write(part) for part in value]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        write = _writer(part_types[1])
        if write is _unchanged:
            # a copy in C, without a call for each value
            return dict
        return lambda value: {key: write(part) for key, part in value.items()}
    return _unchanged


# Larger numbers raise an OverflowError in NumPy and floats
_LARGEST = {int: 2**63 - 1, float: sys.float_info.max}
_LEAVES: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "an integer"),
    float: ((float, int), "a number"),  # finite: NaN compares with nothing
    type(None): ((type(None),), "null"),
}


@cache
def _reader(hint: Any) -> Read:
    """Return the function that reads values of a type from JSON; it raises `Unfit`.

    Lists become tuples, and objects of a dataclass its instances. Raises KeyError for a type that
    no file has.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        read = _reader(inner[0])
        return partial(_read_worded, read, inner[1]) if isinstance(inner[1], str) else read
    if origin in (Union, types.UnionType):
        read = _reader(not_none(hint))
        return lambda value: None if value is None else read(value)
    if origin is Literal:
        return partial(_read_word, inner)
    if origin is tuple and inner[-1] is ...:
        # a wrong object is named by its own key; for numbers the message names the list
        allowed = "a list of objects" if is_record(inner[0]) else "a list"
        return partial(_read_items, _reader(inner[0]), allowed)
    if origin is tuple:
        return partial(_read_pair, [_reader(part) for part in inner])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_read_mapping, _reader(inner[1]))
    if is_record(hint):
        return partial(_read_record, hint)
    if hint in (Any, object):
        return _unchanged
    return partial(_read_leaf, *_LEAVES[hint], _LARGEST.get(hint))


def _read_leaf(kinds: tuple[type, ...], allowed: str, limit: float | None, value: Any) -> Any:
    """Return a text, number or truth value.

    Args:
        kinds: Allowed types, exactly.
        allowed: These types in words.
        limit: Largest allowed absolute value; None without a limit.
        value: The JSON value.

    Raises:
        Unfit: The value has another type, or is out of range.
    """
    # the exact type, as True is an int in Python
    if type(value) not in kinds:
        raise Unfit(f"found {kind(value)}", allowed)
    if limit is not None and not -limit <= value <= limit:
        raise Unfit("out of range", allowed)
    return value


def _read_word(words: tuple[str, ...], value: Any) -> Any:
    """Return a text that is one of some words; raise `Unfit` for anything else."""
    if type(value) is not str:
        raise Unfit(f"found {kind(value)}", ", ".join(words))
    # exact types above: words are texts in every file
    if value not in words:
        raise Unfit(f"found '{value}'", ", ".join(words), nearest(value, words))
    return value


def _read_worded(read: Read, allowed: str, value: Any) -> Any:
    """Return the value of a reader; its `Unfit` passes with the description of the type."""
    try:
        return read(value)
    except Unfit as error:
        error.allowed = allowed
        raise


def _read_items(read: Read, allowed: str, value: Any) -> Any:
    """Return a list as a tuple; raise `Unfit` for anything else, or for a wrong element."""
    if type(value) is not list:
        raise Unfit(f"found {kind(value)}", allowed)
    # a tuple, as records are frozen
    return tuple(_read_inside(read, str(place), part) for place, part in enumerate(value))


def _read_pair(readers: list[Read], value: Any) -> Any:
    """Return a list of fixed length as a tuple; raise `Unfit` for anything else.

    Also for a wrong element: the error names the list as a whole.
    """
    try:
        if type(value) is list and len(value) == len(readers):
            return tuple(read(part) for read, part in zip(readers, value, strict=True))
    except Unfit:
        pass  # the message names the pair as a whole
    raise Unfit(f"found {value!r}", "[low, high]")


def _read_mapping(read: Read, value: Any) -> Any:
    """Return an object with its values read.

    Raise `Unfit` for anything else, or for a wrong value.
    """
    if type(value) is not dict:
        raise Unfit(f"found {kind(value)}", "an object")
    return {key: _read_inside(read, key, part) for key, part in value.items()}


def _read_inside(read: Read, key: str, value: Any) -> Any:
    """Return the value of a reader; its `Unfit` passes with the key in front of its path."""
    try:
        return read(value)
    except Unfit as error:
        raise error.inside(key) from None


@cache
def _keys(record: Any) -> tuple[str, ...]:
    """Return the keys of a record, those of its flat records included."""
    keys: list[str] = []
    for declared in record_fields(record):
        keys += _keys(not_none(declared.hint)) if declared.is_flat else [declared.key]
    return tuple(keys)


def _read_record(record: Any, value: Any) -> Any:
    """Return the record in an object; `record` is its class.

    Unknown keys are ignored, and missing ones get the default. Raise `Unfit` for anything but an
    object, a missing required key, or a wrong value.
    """
    if type(value) is not dict:
        raise Unfit(f"found {kind(value)}", "an object")
    arguments: dict[str, Any] = {}
    for declared in record_fields(record):
        if declared.is_flat:
            flat_part = {key: value[key] for key in _keys(not_none(declared.hint)) if key in value}
            if flat_part:
                arguments[declared.name] = declared.read(flat_part)
        elif declared.key in value:
            # not `_read_inside`, which costs a call for each key of each line of a large file
            try:
                arguments[declared.name] = declared.read(value[declared.key])
            except Unfit as error:
                raise error.inside(declared.key) from None
        # unknown keys are no problem: a later version may have written them
        elif declared.is_required:
            keys = ", ".join(value) or "none"
            raise Unfit(f"no '{declared.key}' (keys: {keys})", near=nearest(declared.key, value))
    return record(**arguments)
