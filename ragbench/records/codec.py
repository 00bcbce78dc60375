"""Records as JSON and back: one writer and one reader, both made from a record's annotations.

A record is a frozen dataclass whose fields have the names and the order of the keys of the file: a
`Record`, or a class of `ragbench.types` within one.
A field without a default has to be there. One with a default may be missing in a file; `optional`
says that we leave it out where it has its default. The keys of a record that is a `flat` field
stand among those of the record around it. Keys that no field has are ignored.
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
from ragbench.registry import nearest
from ragbench.types.json_fields import OMITTED, MayHoldSecrets

T = TypeVar("T", bound="Record")
Read = Callable[[Any], Any]
Write = Callable[[Any], Any]
Clean = Callable[[Any, Callable[[str], str]], Any]


_SCHEMA = "schema"  # says of which kind a file is, and in which version
_FLAT = "flat"  # key of a field's metadata
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "a truth value", int: "an integer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An object of a file."""


class Unfit(Exception):
    """A value that is no such record; the reader adds the place."""

    def __init__(
        self, problem: str, *, name: str = "", allowed: str | None = None, near: str | None = None
    ) -> None:
        """Keep the problem; `name` is how the key of the value stands before it: `'{}'` or `{}`."""
        super().__init__(problem)
        self.problem, self.name, self.allowed, self.near = problem, name, allowed, near
        self.path: list[str] = []

    def inside(self, key: str) -> Unfit:
        """Return the same problem as the object around the value sees it."""
        if self.name:
            self.problem, self.name = self.name.format(key) + self.problem, ""
        else:
            self.path.insert(0, key)
        return self


# The default of an optional field of which null says something else than its absence.
ABSENT: Any = ()


def flat(default: Record | None = None) -> Any:
    """Declare a record whose keys stand in the object itself; the default, where none of them does.

    Example:
        >>> from ragbench.records.gate import Facts, Decision
        >>> gate = Decision(gate="g", system="s", verdict="pass", why="?", facts=Facts(n=3))
        >>> to_json(gate)
        {'gate': 'g', 'system': 's', 'verdict': 'pass', 'why': '?', 'line': None, 'n': 3}
    """
    return field(default=default, metadata={_FLAT: True})


def kind(value: Any) -> str:
    """Name the type of a JSON value for people.

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
    """A field of a record, as files have it.

    Attributes:
        key: Its name; one that is a word of Python has a `_` behind it, which its key lacks.
        omitted: The value with which it is left out; MISSING where it never is.
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
        """Return the reader of the field: records that are only written may lack one."""
        return _reader(self.hint)


@cache
def _fields(record: Any) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(record, include_extras=True)
    found = []
    for declared in fields(record):
        factory = declared.default_factory
        default = declared.default if factory is MISSING else factory()
        found.append(
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
    return tuple(found)


def to_json(record: object) -> dict[str, Any]:
    """Return a record as JSON has it: objects, lists, texts, numbers."""
    cls: Any = type(record)
    written: dict[str, Any] = {}
    for declared in _fields(cls):
        value = getattr(record, declared.name)
        if declared.is_flat:
            written.update(declared.write(value) or {})
        elif declared.omitted is MISSING or value != declared.omitted:
            written[declared.key] = declared.write(value)
    return written


def from_json(
    record: type[T], value: Any, *, file: object = None, line: int | None = None, path: str = ""
) -> T:
    """Read a record strictly; the error names the file and the dotted place, `path` first.

    Example:
        >>> from ragbench.records.gate import Decision
        >>> entry = {"gate": "map >= 0.2", "system": 3, "verdict": "pass", "why": "0.3", "line": 1}
        >>> from_json(Decision, entry, file="summary.json", path="gates.0")
        Traceback (most recent call last):
        ragbench.errors.DataError: summary.json: gates.0: 'system' is an integer; allowed: text
    """
    try:
        return cast("T", _read_record(record, value))
    except Unfit as wrong:
        place = ".".join(filter(None, [path, *wrong.path]))
        raise DataError(
            wrong.problem,
            file=file,
            line=line,
            record=place,
            allowed=wrong.allowed,
            nearest=wrong.near,
        ) from None


def from_file(record: type[T], value: object, *, file: object, line: int | None = None) -> T:
    """Read what a whole file, or a line of it, holds: its `schema` has to be that of the record."""
    [schema] = (str(each.default) for each in fields(record) if each.name == _SCHEMA)
    found = f"schema {value.get(_SCHEMA)!r}" if isinstance(value, dict) else kind(value)
    if found != f"schema {schema!r}":
        raise DataError(f"found {found}", file=file, line=line, allowed=schema)
    return from_json(record, value, file=file, line=line)


def cleaned(record: T, clean: Callable[[str], str]) -> T:
    """Return the record with every text that may hold a secret, its `Prose`, written anew."""
    cls: Any = type(record)
    changed = {name: change(getattr(record, name), clean) for name, change in _cleaners(cls)}
    return replace(record, **changed) if changed else record


@cache
def _cleaners(record: Any) -> tuple[tuple[str, Clean], ...]:
    changes = ((declared.name, _cleaner(declared.hint)) for declared in _fields(record))
    return tuple((name, change) for name, change in changes if change is not None)


@cache
def _cleaner(hint: Any) -> Clean | None:
    """Return the function that cleans prose in values of a type; None if the type has no prose."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated and MayHoldSecrets in hint.__metadata__:
        return clean_tree
    if _is_record(hint):
        return cleaned if _cleaners(hint) else None
    changes = [change for each in inner if (change := _cleaner(each)) is not None]
    if not changes:
        return None
    change = changes[0]
    if origin is tuple:
        return lambda value, clean: tuple(change(each, clean) for each in value)
    if origin in (Union, types.UnionType):
        return lambda value, clean: None if value is None else change(value, clean)
    return lambda value, clean: {key: change(each, clean) for key, each in value.items()}


def clean_tree(value: Any, clean: Callable[[str], str]) -> Any:
    """Write every text of a JSON value anew, those of keys too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(key): clean_tree(each, clean) for key, each in value.items()}
    return [clean_tree(each, clean) for each in value] if isinstance(value, list) else value


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _some(hint: Any) -> Any:
    """The type that a value has where it is not None."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    (some,) = (each for each in get_args(hint) if each is not type(None))
    return some


def _as_it_is(value: Any) -> Any:
    return value


@cache
def _writer(hint: Any) -> Write:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _writer(inner[0])
    if origin in (Union, types.UnionType):
        write = _writer(_some(hint))
        if write is _as_it_is:
            return write
        return lambda value: None if value is None else write(value)
    if _is_record(hint):
        return to_json
    if origin is tuple:
        write = _writer(inner[0])
        return list if write is _as_it_is else lambda value: [write(each) for each in value]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        write = _writer(inner[1])
        if write is _as_it_is:
            return dict
        return lambda value: {key: write(each) for key, each in value.items()}
    return _as_it_is


# What calculates with larger ones ends with an OverflowError.
_MOST = {int: 2**63 - 1, float: sys.float_info.max}
_LEAVES: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "an integer"),
    float: ((float, int), "a number"),  # finite: NaN compares with nothing
    type(None): ((type(None),), "null"),
}


@cache
def _reader(hint: Any) -> Read:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        read = _reader(inner[0])
        return partial(_read_worded, read, inner[1]) if isinstance(inner[1], str) else read
    if origin in (Union, types.UnionType):
        read = _reader(_some(hint))
        return lambda value: None if value is None else read(value)
    if origin is Literal:
        return partial(_read_word, inner)
    if origin is tuple and inner[-1] is ...:
        # of objects the place is named, of numbers the list
        allowed = "a list of objects" if _is_record(inner[0]) else "a list"
        return partial(_read_items, _reader(inner[0]), allowed)
    if origin is tuple:
        return partial(_read_pair, [_reader(each) for each in inner])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_read_mapping, _reader(inner[1]))
    if _is_record(hint):
        return partial(_read_record, hint)
    if hint in (Any, object):
        return _as_it_is
    return partial(_read_leaf, *_LEAVES[hint], _MOST.get(hint))


def _read_leaf(known: tuple[type, ...], allowed: str, most: float | None, value: Any) -> Any:
    # the exact type: a truth value is an int to Python
    if type(value) not in known:
        raise Unfit(f" is {kind(value)}", name="'{}'", allowed=allowed)
    if most is not None and not -most <= value <= most:
        raise Unfit(" is out of range", name="'{}'", allowed=allowed)
    return value


def _read_word(words: tuple[str, ...], value: Any) -> Any:
    if type(value) is not str:
        raise Unfit(f" is {kind(value)}", name="'{}'", allowed="text")
    if value not in words:
        near = nearest(value, words)
        raise Unfit(f" is '{value}'", name="{}", allowed=", ".join(words), near=near)
    return value


def _read_worded(read: Read, allowed: str, value: Any) -> Any:
    try:
        return read(value)
    except Unfit as wrong:
        wrong.allowed = allowed
        raise


def _read_items(read: Read, allowed: str, value: Any) -> Any:
    if type(value) is not list:
        raise Unfit(f" is {kind(value)}", name="'{}'", allowed=allowed)
    return tuple(_read_inside(read, str(place), part) for place, part in enumerate(value))


def _read_pair(readers: list[Read], value: Any) -> Any:
    try:
        if type(value) is list and len(value) == len(readers):
            return tuple(read(each) for read, each in zip(readers, value, strict=True))
    except Unfit:
        pass  # the pair as a whole is named below
    raise Unfit(f" is {value!r}", name="{}", allowed="[low, high]")


def _read_mapping(read: Read, value: Any) -> Any:
    if type(value) is not dict:
        raise Unfit(f"found {kind(value)}", allowed="an object")
    return {key: _read_inside(read, key, part) for key, part in value.items()}


def _read_inside(read: Read, key: str, value: Any) -> Any:
    try:
        return read(value)
    except Unfit as wrong:
        raise wrong.inside(key) from None


@cache
def _keys(record: Any) -> tuple[str, ...]:
    """The keys of a record, those of its flat records among them."""
    keys: list[str] = []
    for declared in _fields(record):
        keys += _keys(_some(declared.hint)) if declared.is_flat else [declared.key]
    return tuple(keys)


def _read_record(record: Any, value: Any) -> Any:
    if type(value) is not dict:
        raise Unfit(f"found {kind(value)}", allowed="an object")
    arguments: dict[str, Any] = {}
    for declared in _fields(record):
        if declared.is_flat:
            part = {key: value[key] for key in _keys(_some(declared.hint)) if key in value}
            if part:
                arguments[declared.name] = declared.read(part)
        elif declared.key in value:
            # not by `_read_inside`: a call more for each key of each line of a large file
            try:
                arguments[declared.name] = declared.read(value[declared.key])
            except Unfit as wrong:
                raise wrong.inside(declared.key) from None
        elif declared.is_required:
            has = ", ".join(value) or "none"
            raise Unfit(f"no '{declared.key}' (keys: {has})", near=nearest(declared.key, value))
    return record(**arguments)
