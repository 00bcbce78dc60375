"""Read the JSON value of a model's reply: found, mended where that leaves no doubt, checked.

It is looked for strictly first, then around fences and prose, and there also as models write it:
single quotes, Python's words, trailing commas, cut off at the end. What is mended never changes a
value. An unfinished number, word or text is dropped with its key, and an unfinished list is
refused: what is missing from it cannot be known. NaN, infinities, repeated keys and numbers as
words are refused. A value is then checked by its schema, in the subset that every server knows.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragbench.errors import ModelError, OptionError
from ragbench.json_yaml import DEEPEST, MOST_NODES, load_json, repeated

_THINKS, _THOUGHT = (re.compile(rf"<{x}think(?:ing)?>", re.IGNORECASE) for x in ("", "/"))
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_OPENING = re.compile(r"[{\[]")
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_WORD = re.compile(r"[-+]?[A-Za-z_][A-Za-z_0-9]*", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_NO_NUMBERS = frozenset({"nan", "infinity", "inf"})
_TEXTS = {
    quote: re.compile(rf"{quote}([^{quote}\\]*(?:\\.[^{quote}\\]*)*){quote}", re.DOTALL)
    for quote in "\"'"
}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# Type of a JSON schema -> what it is called, and what it is in Python.
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "object": ("an object", (dict,)),
    "array": ("an array", (list,)),
    "string": ("a string", (str,)),
    "integer": ("an integer", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("a boolean", (bool,)),
    "null": ("null", (type(None),)),
}
_KEYWORDS = (
    *("type", "enum", "properties", "required", "additionalProperties", "items"),
    *("minItems", "maxItems", "minimum", "maximum", "title", "description"),
)
_WHOLE = re.compile(r"-?\d{1,15}", re.ASCII)


class Unreadable(ModelError, ValueError):
    """A reply that does not hold what was asked for; the message says why, to the model too."""


class Broken(Unreadable):
    """An object that began as JSON and did not go on as such: nothing inside it may be believed."""


def read_json(text: str, schema: Mapping[str, Any]) -> Any:
    r"""Return the value in a reply that fits a schema; where none does, or two differ, say why.

    The whole text is tried as strict JSON. Else every object or list in it counts as a candidate;
    those that fit must agree. A number or a text on its own is never searched for in prose.

    An object that breaks off in the middle, or holds NaN or a word for a number, spoils the reply:
    what stands inside or after it is not taken instead.

    Example:
        >>> schema = {"type": "object", "required": ["level"]}
        >>> read_json('Sure!\n```json\n{"level": 4}\n```', schema)
        {'level': 4}
        >>> read_json('{"level": 4}, or rather {"level": 2}', schema)
        Traceback (most recent call last):
        ragbench.llm.json_reply.Unreadable: the reply holds two different answers
    """
    try:
        value = conform(_strict(text), schema)
    except json.JSONDecodeError:
        value = _embedded(_without_thoughts(text), schema)
    return _writable(value) if _SURROGATE.search(text) else value


def _without_thoughts(text: str) -> str:
    """Leave out what a model thinks; one pattern for all of it looks to the end at each start."""
    pieces, at = [], 0
    while (start := _THINKS.search(text, at)) and (end := _THOUGHT.search(text, start.end())):
        pieces.append(text[at : start.start()])
        at = end.end()
    return "".join([*pieces, text[at:]])


def _strict(text: str) -> Any:
    """The value of a whole text; a JSONDecodeError where it is no JSON."""
    constants: list[str] = []  # only a whole text of JSON is refused for them: prose may begin so
    try:
        value = load_json(
            text.strip(),
            most=MOST_NODES,
            object_pairs_hook=unique_keys,
            parse_constant=constants.append,
            parse_int=number,
            parse_float=number,
        )
    except (json.JSONDecodeError, Unreadable):
        raise
    except ValueError as error:
        raise Unreadable(str(error)) from None
    if constants:
        raise Unreadable(f"{constants[0]} is no number")
    return value


def _embedded(text: str, schema: Mapping[str, Any]) -> Any:
    if not text.strip():
        raise Unreadable("the reply is empty")
    fitting, problem = [], None
    for candidate in _candidates(text):
        try:
            fitting.append(conform(candidate, schema))
        except Unreadable as error:
            problem = problem or error
    if not fitting:
        raise problem or Unreadable("the reply holds no JSON")
    if any(_written(value) != _written(fitting[0]) for value in fitting):
        raise Unreadable("the reply holds two different answers")
    return fitting[0]


def _candidates(text: str) -> Iterator[Any]:
    """Objects and lists in a text, outermost ones; `Broken` for an object that breaks off."""
    at = 0
    while (match := _OPENING.search(text, at)) is not None:
        try:
            value, at = read_lenient(text, match.start())
        except Broken:
            raise
        except Unreadable:  # a bracket in prose
            at = match.end()
        else:
            yield value


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _writable(value: Any) -> Any:
    """The value with halves of characters, which no file can hold, replaced."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_writable(key): _writable(part) for key, part in value.items()}
    return [_writable(part) for part in value] if isinstance(value, list) else value


class _CutOff(Exception):
    """The text ended inside a value."""


def read_lenient(text: str, start: int) -> tuple[Any, int]:
    """Return the object or list that starts at a position, and where it ends.

    Raises:
        Broken: There is an object, and what stands in it cannot be told for certain.
        Unreadable: There is none: brackets stand in prose as well.

    Example:
        >>> read_lenient("{'supported': True, 'level': 4,}", 0)
        ({'supported': True, 'level': 4}, 32)
        >>> read_lenient('{"level": 4, "why": "it was cu', 0)
        ({'level': 4}, 30)
        >>> read_lenient('{"level": 1', 0)  # 1, or the beginning of 10?
        ({}, 11)
    """
    reader = _Reader(text, start)
    try:
        return reader.value(0), reader.at
    except _CutOff:
        problem = "the reply is cut off inside a list"
    except Unreadable as error:
        problem = str(error)
    raise (Broken if reader.has_key else Unreadable)(problem)


def number(written: str) -> int | float:
    """Return the number that a JSON number stands for, unless it is too large or absurdly long."""
    if len(written) > 300:
        raise Unreadable(f"a number of {len(written)} digits")
    if not set(".eE") & set(written):
        return int(written)
    value = float(written)
    if not math.isfinite(value):
        raise Unreadable(f"{written} is too large for a number")
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the mapping of some pairs; refuse a key that is there twice: which value counts?"""
    found = dict(pairs)
    if len(found) < len(pairs):
        key = json.dumps(repeated([key for key, _ in pairs]))
        raise Unreadable(f"the key {key} is there twice")
    return found


def _unescape(escape: re.Match[str]) -> str:
    code = escape[1]
    if code == "u":
        raise Unreadable("expected four hexadecimal digits after \\u")
    return chr(int(code[1:], 16)) if code[0] == "u" else _ESCAPES.get(code, code)


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at
        self.has_key = False  # whether a key was read: prose has brackets, but no keys

    def value(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise Unreadable(f"nested more than {DEEPEST} deep")
        sign = self._peek()
        if sign == "{":
            return self._object(depth)
        if sign == "[":
            return self._list(depth)
        if sign in "\"'":
            return self._text()
        return self._scalar()

    def _object(self, depth: int) -> dict[str, Any]:
        pairs: list[tuple[str, Any]] = []
        self.at += 1
        try:
            while self._peek() != "}":
                if self._peek() not in "\"'":
                    raise self._unexpected("a key in quotes")
                key = self._text()
                self._take(":")
                self.has_key = True
                pairs.append((key, self.value(depth + 1)))
                if self._peek() != "}":
                    self._take(",")
            self.at += 1
        except _CutOff:
            if depth:  # an inner value that lacks a part is not the value
                raise
            self.at = len(self.text)
        return unique_keys(pairs)

    def _list(self, depth: int) -> list[Any]:
        values = []
        self.at += 1
        while self._peek() != "]":
            values.append(self.value(depth + 1))
            if self._peek() != "]":
                self._take(",")
        self.at += 1
        return values

    def _text(self) -> str:
        match = _TEXTS[self.text[self.at]].match(self.text, self.at)
        if match is None:
            raise _CutOff
        self.at = match.end()
        return _ESCAPE.sub(_unescape, match[1])

    def _scalar(self) -> Any:
        match = _NUMBER.match(self.text, self.at) or _WORD.match(self.text, self.at)
        if match is None:
            raise self._unexpected("a value")
        self.at = match.end()
        if self.at == len(self.text):
            raise _CutOff  # who knows how it goes on
        written = match.group()
        if self.text[self.at] not in ",}] \t\r\n":
            raise self._unexpected(f"the end of the value after {written}")
        if written in _WORDS:
            return _WORDS[written]
        if written.lstrip("+-").lower() in _NO_NUMBERS:
            raise Unreadable(f"{written} is no number")
        if match.re is _WORD:
            raise Unreadable(f"{written} is no JSON value; texts stand in quotes")
        return number(written)

    def _peek(self) -> str:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        if self.at >= len(self.text):
            raise _CutOff
        return self.text[self.at]

    def _take(self, sign: str) -> None:
        if self._peek() != sign:
            raise self._unexpected(f"'{sign}'")
        self.at += 1

    def _unexpected(self, wanted: str) -> Unreadable:
        found = self.text[self.at : self.at + 20]
        return Unreadable(f"expected {wanted} at character {self.at + 1}, found {found!r}")


def check_schema(schema: Any, path: str = "schema") -> None:
    """Raise an `OptionError` for a schema that asks for what is not checked here.

    A keyword that were silently ignored would let through what it forbids, and a required key
    without a property could never be there.
    """
    if not isinstance(schema, Mapping):
        raise OptionError(path, "", schema, "a mapping")
    for keyword in schema:
        if keyword not in _KEYWORDS:
            raise OptionError(path, "keyword", keyword, ", ".join(_KEYWORDS))
    if "type" in schema and schema["type"] not in _TYPES:
        raise OptionError(path, "type", schema["type"], ", ".join(_TYPES))
    others = schema.get("additionalProperties", True)
    if not isinstance(others, bool):
        raise OptionError(path, "additionalProperties", others, "true or false")
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in properties:
            raise OptionError(path, "required", name, ", ".join(properties) or "no key")
    for name, part in properties.items():
        check_schema(part, f"{path}.{name}")
    if "items" in schema:
        check_schema(schema["items"], f"{path}.items")


def conform(value: Any, schema: Mapping[str, Any], path: str = "") -> Any:
    """Return a value as its schema wants it.

    Three things are mended, since they leave no doubt: 4.0 and "4" where an integer is wanted, and
    keys that a schema without `additionalProperties` does not know, which are left out.
    """
    wanted = schema.get("type")
    if wanted == "integer":
        value = _whole(value)
    is_truth = isinstance(value, bool)  # to Python, true is 1
    if wanted is not None:
        called, kinds = _TYPES[wanted]
        if not isinstance(value, kinds) or (is_truth and wanted != "boolean"):
            raise _unfit(value, path, called)
    same = [each for each in schema.get("enum", ()) if isinstance(each, bool) is is_truth]
    if "enum" in schema and value not in same:
        raise _unfit(value, path, "one of " + ", ".join(map(json.dumps, schema["enum"])))
    if isinstance(value, dict):
        return _conform_object(value, schema, path)
    if isinstance(value, list):
        return _conform_list(value, schema, path)
    if isinstance(value, (int, float)) and not is_truth:
        low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        if not low <= value <= high:
            raise _unfit(value, path, f"a number from {low:g} to {high:g}")
    return value


def _conform_object(value: dict[str, Any], schema: Mapping[str, Any], path: str) -> dict[str, Any]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            place = f"{path}: " if path else ""
            raise Unreadable(f"{place}the key {json.dumps(name)} is missing")
    closed = schema.get("additionalProperties") is False
    return {
        name: conform(part, properties.get(name, {}), f"{path}.{name}".lstrip("."))
        for name, part in value.items()
        if name in properties or not closed
    }


def _conform_list(value: list[Any], schema: Mapping[str, Any], path: str) -> list[Any]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
    if not least <= len(value) <= most:
        place = path or "the reply"
        raise Unreadable(f"{place} has {len(value)} entries, expected {least} to {most:g}")
    items = schema.get("items", {})
    return [conform(part, items, f"{path}[{i}]") for i, part in enumerate(value)]


def _whole(value: Any) -> Any:
    """The integer that a value stands for beyond doubt; else the value as it is."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
    return value


def _unfit(value: Any, path: str, wanted: str) -> Unreadable:
    written = json.dumps(value, ensure_ascii=True)
    shown = written if len(written) <= 60 else f"{written[:60]} ..."
    return Unreadable(f"{path or 'the reply'} is {shown}, expected {wanted}")
