"""Records as JSON and back: one writer and one reader, both made from a record's annotations.

A record is a frozen dataclass whose fields have the names and the order of the keys of the file.
A field without a default has to be there. One with a default may be missing in a file; `optional`
says that we leave it out where it has its default.
The keys of a record that is a `flat` field stand among those of the record around it.
Keys that no field has are kept in `unknown`, and written back behind the others.
"""

from __future__ import annotations

import itertools
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from ragbench.errors import DataError
from ragbench.registry import nearest

T = TypeVar("T", bound="Record")
Read = Callable[[Any], Any]
Write = Callable[[Any], Any]
Clean = Callable[[Any, Callable[[str], str]], Any]


class _MayHoldSecrets:
    """Marks texts that somebody else wrote: errors, names made of paths."""


Prose = Annotated[str, _MayHoldSecrets]
"""Text that may hold the value of a variable, as the text of an error may: see `cleaned`."""

ProseTree = Annotated[object, _MayHoldSecrets]
"""Any JSON value, whose texts and keys may all hold it: what somebody's tool was given."""

_SCHEMA = "schema"  # says of which kind a file is, and in which version
_OMITTED, _FLAT = "omitted", "flat"  # keys of a field's metadata
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "a truth value", int: "an integer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What has a place in a file."""

    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Keys that this version does not know, as they stood in the file."""

    def check(self) -> None:
        """Look at what types cannot say, when a record was read; raise `Unfit`."""


class Unfit(Exception):
    """A value that is no such record; the reader adds the place."""

    def __init__(
        self, found: str, *, allowed: str | None = None, near: str | None = None, key: bool = False
    ) -> None:
        """Keep what is wrong; with `key` the name of the value replaces `{}` in `found`."""
        super().__init__(found)
        self.found, self.allowed, self.near, self.key = found, allowed, near, key
        self.path: list[str] = []

    def inside(self, key: str) -> Unfit:
        """Return the same problem as the object around the value sees it."""
        if self.key:
            self.found, self.key = self.found.format(key), False
        else:
            self.path.insert(0, key)
        return self


ABSENT: Any = ()
"""The default of an optional field of which null says something else than its absence."""


def optional(default: Any = None) -> Any:
    """Declare a field that is left out of the file where it has its default."""
    made: Any = type(default) if isinstance(default, (dict, list)) else MISSING
    if made is MISSING:
        return field(default=default, metadata={_OMITTED: True})
    return field(default_factory=made, metadata={_OMITTED: True})


def flat(default: Record | None = None) -> Any:
    """Declare a record whose keys stand in the object itself; the default, where none of them does.

    Example:
        >>> from ragbench.records.gate import Facts, GateVerdict
        >>> found = GateVerdict(gate="g", system="s", verdict="pass", why="?", facts=Facts(n=3))
        >>> to_json(found)
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


def to_json(record: Record) -> dict[str, Any]:
    """Return a record as JSON has it: objects, lists, texts, numbers."""
    found: dict[str, Any] = {}
    made: Any = type(record)
    for name, key, write, omitted in _writers(made):
        value = getattr(record, name)
        if omitted is _FLAT:
            found.update(write(value) or {})
        elif omitted is MISSING or value != omitted:
            found[key] = write(value)
    return {**found, **record.unknown}


def from_json(
    made: type[T], value: Any, *, file: object = None, line: int | None = None, path: str = ""
) -> T:
    """Read a record strictly; the error names the file and the dotted place, `path` first.

    Example:
        >>> from ragbench.records.gate import GateVerdict
        >>> entry = {"gate": "map >= 0.2", "system": 3, "verdict": "pass", "why": "0.3", "line": 1}
        >>> from_json(GateVerdict, entry, file="summary.json", path="gates.0")
        Traceback (most recent call last):
        ragbench.errors.DataError: summary.json: gates.0: 'system' is an integer; allowed: text
    """
    hint: Any = made
    try:
        return cast("T", _reader(hint)(value))
    except Unfit as wrong:
        place = ".".join(filter(None, [path, *wrong.path]))
        found = wrong.found.format("value") if wrong.key else wrong.found
        raise DataError(
            found, file=file, line=line, record=place, allowed=wrong.allowed, nearest=wrong.near
        ) from None


def from_file(made: type[T], value: object, *, file: object, line: int | None = None) -> T:
    """Read what a whole file, or a line of it, holds: its `schema` has to be that of the record."""
    [schema] = (str(each.default) for each in fields(made) if each.name == _SCHEMA)
    found = f"schema {value.get(_SCHEMA)!r}" if isinstance(value, dict) else kind(value)
    if found != f"schema {schema!r}":
        raise DataError(f"found {found}", file=file, line=line, allowed=schema)
    return from_json(made, value, file=file, line=line)


def cleaned(record: T, clean: Callable[[str], str]) -> T:
    """Return the record with every text that may hold a secret, its `Prose`, written anew."""
    made: Any = type(record)
    changed = {name: change(getattr(record, name), clean) for name, change in _cleaners(made)}
    return replace(record, **changed) if changed else record


@cache
def _cleaners(made: Any) -> tuple[tuple[str, Clean], ...]:
    found = ((name, _cleaner(hint)) for name, hint in _hints(made).items() if name != "unknown")
    return tuple((name, change) for name, change in found if change is not None)


@cache
def _cleaner(hint: Any) -> Clean | None:
    """How prose within a value of a type is written anew; None where the type has none."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint == Prose:
        return lambda value, clean: clean(value)
    if hint == ProseTree:
        return clean_tree
    if isinstance(hint, type) and issubclass(hint, Record):
        made: Any = hint
        return cleaned if _cleaners(made) else None
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


@cache
def _hints(made: Any) -> dict[str, Any]:
    return typing.get_type_hints(made, include_extras=True)


@cache
def _writers(made: Any) -> tuple[tuple[str, str, Write, Any], ...]:
    """Field, its key, how it is written, and the default with which it is left out, or `_FLAT`."""
    hints = _hints(made)
    return tuple(
        (each.name, _key(each.name), _writer(hints[each.name]), _omitted(each))
        for each in fields(made)
        if each.name != "unknown"
    )


def _key(name: str) -> str:
    """The key of a field; one that is a word of Python has a `_` behind it."""
    return name.rstrip("_")


@cache
def _keys(hint: Any) -> tuple[str, ...]:
    """The keys of a record, or of a record or None, in the object that it is written to."""
    if get_origin(hint) in (Union, types.UnionType):
        return _keys(_some(hint))
    own = [each for each in fields(hint) if each.name != "unknown"]
    keys = (_keys(_hints(hint)[e.name]) if _FLAT in e.metadata else (_key(e.name),) for e in own)
    return tuple(itertools.chain.from_iterable(keys))


def _some(hint: Any) -> Any:
    """The type that a value has where it is not None."""
    (some,) = (each for each in get_args(hint) if each is not type(None))
    return some


def _omitted(declared: Any) -> Any:
    if _FLAT in declared.metadata:
        return _FLAT
    if not declared.metadata:
        return MISSING
    made = declared.default_factory
    return declared.default if made is MISSING else made()


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
    if isinstance(hint, type) and issubclass(hint, Record):
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


@cache
def _reader(hint: Any) -> Read:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        read = _reader(inner[0])
        return _worded(read, inner[1]) if isinstance(inner[1], str) else read
    if origin in (Union, types.UnionType):
        read = _reader(_some(hint))
        return lambda value: None if value is None else read(value)
    if origin is Literal:
        return _word(inner)
    if origin is tuple:
        return _items(inner[0]) if inner[-1] is ... else _pair(inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_reader(inner[1]))
    if isinstance(hint, type) and issubclass(hint, Record):
        return _record(hint)
    return _as_it_is if hint in (Any, object) else _leaf(hint)


_MOST = {int: 2**63 - 1, float: sys.float_info.max}
"""What calculates with larger ones ends with an OverflowError."""
_LEAVES: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "an integer"),
    float: ((float, int), "a number"),  # finite: NaN compares with nothing
    type(None): ((type(None),), "null"),
}


def _leaf(hint: Any) -> Read:
    known, allowed = _LEAVES[hint]
    most = _MOST.get(hint)

    def read(value: Any) -> Any:
        # the exact type: a truth value is an int to Python
        if type(value) not in known:
            raise Unfit(f"'{{}}' is {kind(value)}", allowed=allowed, key=True)
        if most is not None and not -most <= value <= most:
            raise Unfit("'{}' is out of range", allowed=allowed, key=True)
        return value

    return read


def _word(words: tuple[str, ...]) -> Read:
    text = _leaf(str)

    def read(value: Any) -> Any:
        if text(value) not in words:
            shown = value.replace("{", "{{").replace("}", "}}")
            near = nearest(value, words)
            raise Unfit(f"{{}} is '{shown}'", allowed=", ".join(words), near=near, key=True)
        return value

    return read


def _worded(read: Read, allowed: str) -> Read:
    def worded(value: Any) -> Any:
        try:
            return read(value)
        except Unfit as wrong:
            wrong.allowed = allowed
            raise

    return worded


def _items(hint: Any) -> Read:
    inner = _reader(hint)
    # of objects the place is named, of numbers the list
    of_objects = isinstance(hint, type) and issubclass(hint, Record)
    allowed = "a list of objects" if of_objects else "a list"

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise Unfit(f"'{{}}' is {kind(value)}", allowed=allowed, key=True)
        found = []
        for place, each in enumerate(value):
            try:
                found.append(inner(each))
            except Unfit as wrong:
                raise wrong.inside(str(place)) from None
        return tuple(found)

    return read


def _pair(hints: tuple[Any, ...]) -> Read:
    readers = [_reader(hint) for hint in hints]

    def read(value: Any) -> Any:
        try:
            if type(value) is list and len(value) == len(readers):
                return tuple(inner(each) for inner, each in zip(readers, value, strict=True))
        except Unfit:
            pass  # the pair as a whole is named below
        shown = repr(value).replace("{", "{{").replace("}", "}}")
        raise Unfit(f"{{}} is {shown}", allowed="[low, high]", key=True)

    return read


def _mapping(inner: Read) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Unfit(f"found {kind(value)}", allowed="an object")
        found = {}
        for key, each in value.items():
            try:
                found[key] = inner(each)
            except Unfit as wrong:
                raise wrong.inside(key) from None
        return found

    return read


def _record(made: Any) -> Read:
    # the readers of the fields are made on first use: a record may hold records of its own class
    hints: list[tuple[str, str, Read, bool]] = []
    flats: list[tuple[str, tuple[str, ...], Read]] = []

    def prepare() -> None:
        of_type = _hints(made)
        flats.extend(
            (each.name, _keys(of_type[each.name]), _reader(of_type[each.name]))
            for each in fields(made)
            if _FLAT in each.metadata
        )
        hints.extend(
            (
                each.name,
                _key(each.name),
                _reader(of_type[each.name]),
                each.default is MISSING and each.default_factory is MISSING,
            )
            for each in fields(made)
            if each.name != "unknown" and _FLAT not in each.metadata
        )

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Unfit(f"found {kind(value)}", allowed="an object")
        if not hints:
            prepare()
        given: dict[str, Any] = {}
        for name, key, inner, required in hints:
            if key in value:
                try:
                    given[name] = inner(value[key])
                except Unfit as wrong:
                    raise wrong.inside(key) from None
            elif required:
                has = ", ".join(value) or "none"
                raise Unfit(f"no '{key}' (keys: {has})", near=nearest(key, value))
        for name, keys, inner in flats:
            if part := {key: value[key] for key in keys if key in value}:
                given[name] = inner(part)
        if len(given) < len(value):
            known = _keys(made)
            given["unknown"] = {key: each for key, each in value.items() if key not in known}
        found = made(**given)
        found.check()
        return found

    return read
