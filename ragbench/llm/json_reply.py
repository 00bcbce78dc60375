"""Read the JSON value of a model's reply, repair unambiguous errors, and check it by a schema.

The whole reply is parsed as strict JSON first. Else values are searched between fences and prose,
also with single quotes, words of Python, trailing commas, or cut off at the end. A repair never
changes a value: in an object that is cut off, the unfinished value is dropped with its key, and a
list that is cut off is an error, since its missing entries are unknown. NaN, infinities, repeated
keys and numbers as words are errors. The schema is of the subset of JSON Schema that every server
supports.

A model may quote the judged texts. A verdict that stands word for word in the prompt is therefore
no verdict, and none counts that stands before an object which the end of the reply cuts off.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.errors import ModelError
from ragbench.json_yaml import DEEPEST, MOST_NODES, first_repeated, load_json

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_OPENING = re.compile(r"[{\[]")
_TEXT = r"""("[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*')"""
_TOKEN = re.compile(rf"[ \t\r\n]*(?:{_TEXT}|([{{}}\[\],:])|([^\s{{}}\[\],:\"']+))", re.DOTALL)
# Brackets with a key behind them: prose has brackets, but no keys.
_BEGINS_AS_JSON = re.compile(rf"(?:\[\s*){{,{DEEPEST}}}\{{\s*{_TEXT}\s*:", re.DOTALL)
# An object that the end of the text cuts off before its first colon.
_ENDS_AS_OBJECT = re.compile(r"""\{\s*(?:"[^"{}]*(?:"\s*)?|'[^'{}]*(?:'\s*)?)?\Z""")
_OF_PYTHON = {"True": "true", "False": "false", "None": "null"}
_CLOSING = {"{": "}", "[": "]"}
_SEPARATORS = (",", ":", "}", "]")  # signs that begin no value
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# Type of a JSON schema -> its name in messages, and its types in Python.
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "object": ("an object", (dict,)),
    "array": ("an array", (list,)),
    "string": ("a string", (str,)),
    "integer": ("an integer", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("a boolean", (bool,)),
    "null": ("null", (type(None),)),
}
_WHOLE = re.compile(r"(-?\d{1,15})(?:\.0{1,15})?", re.ASCII)
_QUOTED = "the reply only repeats a verdict of the prompt"


class Unreadable(ModelError, ValueError):
    """Error for a reply without a valid value; its message is also sent to the model.

    `read_json` and its helpers raise it, as do checks of `ask_structured`.
    """


class Broken(Unreadable):
    """Error for an object that begins as JSON and breaks off; no value inside it may be used."""


class _Candidate(NamedTuple):
    """Object or list in a reply, with its text; `is_cut` if the reply ends inside it."""

    value: Any
    text: str
    is_cut: bool


def read_json(text: str, schema: Mapping[str, Any], *, prompt: str = "") -> Any:
    r"""Return the value of a reply that fits a schema.

    The whole text is parsed as strict JSON first. Else every object or list in it is a candidate,
    and all candidates that fit must be equal. Single numbers and texts are not searched in prose.
    The text is without reasoning (see `ChatReply.answer`). The schema has the keywords that
    `conform` applies. An empty text is unreadable. Half a surrogate pair becomes U+FFFD. An object
    that the end of the text cuts off counts with its complete keys. A verdict is a value with a
    number, a boolean or a word of an `enum`; one that stands in `prompt`, whatever its white space
    and quotation marks, is a quote and does not count.

    Raises:
        Unreadable: No value fits, two that fit differ, or an object is broken, even if another one
            fits.
        KeyError: The schema has an unknown type.

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
        value = _embedded(text, schema, prompt)
    else:
        if _is_quoted(text, value, schema, prompt):
            raise Unreadable(_QUOTED)
    return _writable(value) if _SURROGATE.search(text) else value


def _strict(text: str) -> Any:
    """Return the value of a text that is JSON as a whole; raise JSONDecodeError for any other."""
    # Collected and refused at the end: prose may begin with the word NaN and is no JSON then.
    constants: list[str] = []
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


def _holds_verdict(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return True if a value has more than texts: a number, a boolean, or a word of an `enum`."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        return any(_holds_verdict(part, properties.get(key, {})) for key, part in value.items())
    if isinstance(value, list):
        return any(_holds_verdict(part, schema.get("items", {})) for part in value)
    return "enum" in schema or not isinstance(value, str)


def _squeezed(text: str) -> str:
    """Return a text without white space, quotation marks and backslashes."""
    text = "".join(text.split())
    for mark in ("\\", '"', "'"):
        text = text.replace(mark, "")
    return text


def _is_quoted(text: str, value: Any, schema: Mapping[str, Any], prompt: str) -> bool:
    """Return True for a verdict that stands in the prompt, as written in the text or as JSON."""
    if not prompt or not _holds_verdict(value, schema):
        return False
    quotable = _squeezed(prompt)
    forms = (text, json.dumps(value, ensure_ascii=False))
    return any(_squeezed(form) in quotable for form in forms)


def _embedded(text: str, schema: Mapping[str, Any], prompt: str) -> Any:
    """Return the value in a text with prose that fits a schema; raise `Unreadable` without one."""
    if not text.strip():
        raise Unreadable("the reply is empty")
    fitting, problem = [], None
    for candidate in _candidates(text):
        try:
            value = conform(candidate.value, schema)
        except Unreadable as error:
            problem = problem or error
            # its own verdict is cut off: what stands before it may be a quote
            if candidate.is_cut:
                raise
            continue
        if _is_quoted(candidate.text, value, schema, prompt):
            problem = problem or Unreadable(_QUOTED)
        else:
            fitting.append(value)
    if not fitting:
        raise problem or Unreadable("the reply holds no JSON")
    if any(_canonical(value) != _canonical(fitting[0]) for value in fitting):
        raise Unreadable("the reply holds two different answers")
    return fitting[0]


def _candidates(text: str) -> Iterator[_Candidate]:
    """Yield the outermost objects and lists of a text; raise `Broken` for one that breaks off."""
    position = 0
    while (match := _OPENING.search(text, position)) is not None:
        start = match.start()
        try:
            value, position, is_cut = read_lenient(text, start)
        except Broken:
            raise
        except Unreadable:  # a bracket in prose
            position = match.end()
        else:
            yield _Candidate(value, text[start:position], is_cut)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _writable(value: Any) -> Any:
    """Return a value with lone surrogates, which no UTF-8 file can hold, replaced by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_writable(key): _writable(part) for key, part in value.items()}
    return [_writable(part) for part in value] if isinstance(value, list) else value


def read_lenient(text: str, start: int) -> tuple[Any, int, bool]:
    """Return the object or list at a position, the position after it, and True if it is cut off.

    An object that the end of the text cuts off is returned with its complete keys; a key whose list
    or inner object is cut off is left out; one without a complete key is empty. The caller has
    found a bracket at the position, else an IndexError or a wrong value.

    Raises:
        Broken: The value is malformed, or an outermost list is cut off, and begins with a key.
        Unreadable: The malformed value begins with another text, such as `{see above}` in prose; a
            citation such as `[1]` is a list and no error.

    Example:
        >>> read_lenient("{'supported': True, 'level': 4,}", 0)
        ({'supported': True, 'level': 4}, 32, False)
        >>> read_lenient('{"level": 4, "why": "it was cu', 0)
        ({'level': 4}, 30, True)
        >>> read_lenient('{"level": 1', 0)  # 1, or the beginning of 10?
        ({}, 11, True)
    """
    try:
        strict_text, end, is_cut = _as_json(text, start)
        return _strict(strict_text), end, is_cut
    except json.JSONDecodeError as error:
        excerpt = error.doc[error.pos : error.pos + 20]
        problem = f"{error.msg[0].lower()}{error.msg[1:]}, found {excerpt!r}"
    except Unreadable as error:
        problem = str(error)
    raise (Broken if _BEGINS_AS_JSON.match(text, start) else Unreadable)(problem)


def _as_json(text: str, start: int) -> tuple[str, int, bool]:
    """Return the value at a bracket as strict JSON, the position after it, and if it is cut off."""
    pieces: list[str] = []
    closing: list[str] = []  # brackets that are to come, the innermost last
    position = start
    while match := _TOKEN.match(text, position):
        position = match.end()
        quoted, sign, word = match.groups()
        if sign not in _SEPARATORS:
            _check_place(match, pieces)
        if quoted:
            pieces.append(json.dumps(_ESCAPE.sub(_unescape, quoted[1:-1])))
        elif word:
            pieces.append(_OF_PYTHON.get(word, word))
        elif sign in _CLOSING:
            if len(closing) == DEEPEST:
                raise Unreadable(f"nested more than {DEEPEST} deep")
            closing.append(_CLOSING[sign])
            pieces.append(sign)
        elif sign in _CLOSING.values():
            if closing.pop() != sign:
                raise Unreadable(f"expected another bracket than '{sign}'")
            if pieces[-1] == "," and pieces[-2] not in _CLOSING:  # a trailing comma
                pieces.pop()
            pieces.append(sign)
            if not closing:
                return " ".join(pieces), position, False
        else:
            pieces.append(sign)
    return _cut_off_object(text, start, position, pieces), len(text), True


def _check_place(token: re.Match[str], pieces: Sequence[str]) -> None:
    """Raise `Unreadable` for a value where none may stand, such as a word in a list of prose."""
    # checked here, so that each bracket of a long text of prose costs one step
    previous = pieces[-1] if pieces else ":"
    if previous not in ("{", "[", ",", ":") or (previous == "{" and not token[1]):
        raise Unreadable(f"found {token[0]!r} after {previous[:20]!r}")


def _cut_off_object(text: str, start: int, end: int, pieces: list[str]) -> str:
    """Return the complete pairs of an object that the text breaks off, read up to a position."""
    # a list, and an object without a key, would pass for a whole one
    is_object = text[start] == "{" and _BEGINS_AS_JSON.match(text, start)
    if not is_object and not _ENDS_AS_OBJECT.match(text, start):
        raise Unreadable("the reply is cut off")
    ends_in_word = pieces[-1][0] not in '"{}[]:,'
    if ends_in_word and end == len(text):  # it may go on: 1 may be the beginning of 10
        pieces.pop()
    return " ".join([*_complete_pairs(pieces), "}"])


def _complete_pairs(pieces: Sequence[str]) -> Sequence[str]:
    """Return the pieces of an object up to its last complete value; its first piece without any."""
    depth, end = 0, 1
    for n, piece in enumerate(pieces):
        depth += (piece in _CLOSING) - (piece in _CLOSING.values())
        ends_value = piece in _CLOSING.values() or pieces[n - 1] == ":"
        if depth == 1 and ends_value and pieces[n + 1 : n + 2] in ([], [","]):
            end = n + 1
    return pieces[:end]


def number(literal: str) -> int | float:
    """Return the value of a JSON number; raise `Unreadable` over 300 characters or beyond a double.

    An integer without point and exponent gives an int, any other a float.
    """
    if len(literal) > 300:
        raise Unreadable(f"a number of {len(literal)} digits")
    if not set(".eE") & set(literal):
        return int(literal)
    value = float(literal)
    if not math.isfinite(value):
        raise Unreadable(f"{literal} is too large for a number")
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the mapping of key-value pairs; raise `Unreadable` for a repeated key.

    The order stays; no pairs give an empty dict.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        key = json.dumps(first_repeated([key for key, _ in pairs]))
        raise Unreadable(f"the key {key} is there twice")
    return values


def _unescape(escape: re.Match[str]) -> str:
    code = escape[1]
    if code == "u":
        raise Unreadable("expected four hexadecimal digits after \\u")
    return chr(int(code[1:], 16)) if code[0] == "u" else _ESCAPES.get(code, code)


def conform(value: Any, schema: Mapping[str, Any], path: str = "") -> Any:
    """Return a value in the form of its schema.

    Unambiguous errors are repaired: 4.0, "4" and "4.0" become integers if the schema wants one, an
    object in a list of its own is taken out of it, a text that is JSON is read where the schema
    wants an object or a list, and unknown keys are left out if `additionalProperties` is false. An
    empty schema allows every value. True and False do not count as numbers. Keys and the words of
    an `enum` count in their case. An object or list is a copy; the value is not changed.

    Args:
        value: JSON value of a reply.
        schema: Schema with the keywords `type` (one), `enum`, `properties`, `required`,
            `additionalProperties` (true or false), `items`, `minItems`, `maxItems`, `minimum` and
            `maximum`; others are ignored. `words`, which no server reads, maps words in lower case
            to values: such a text, or True and False, is read as its value.
        path: Place of the value in the reply, for messages.

    Raises:
        Unreadable: The value does not fit the schema.
        KeyError: The schema has an unknown type.
    """
    schema_type = schema.get("type")
    if "words" in schema and isinstance(value, str | bool):
        value = schema["words"].get(str(value).strip().casefold(), value)
    if schema_type == "integer":
        value = _whole(value)
    elif schema_type in ("object", "array"):
        value = _unwrapped(value, schema_type)
    is_bool = isinstance(value, bool)  # in Python, True is an int
    if schema_type is not None:
        type_name, types = _TYPES[schema_type]
        if not isinstance(value, types) or (is_bool and schema_type != "boolean"):
            raise _unfit(value, path, type_name)
    choices = schema.get("enum")
    if choices is not None and not any(_is_same(value, choice) for choice in choices):
        raise _unfit(value, path, "one of " + ", ".join(map(json.dumps, choices)))
    if isinstance(value, dict):
        return _conform_object(value, schema, path)
    if isinstance(value, list):
        return _conform_list(value, schema, path)
    if isinstance(value, (int, float)) and not is_bool:
        low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        if not low <= value <= high:
            raise _unfit(value, path, f"a number from {low:g} to {high:g}")
    return value


def _is_same(first: Any, second: Any) -> bool:
    """Return True for equal values; True is not 1 here, unlike in Python."""
    return isinstance(first, bool) is isinstance(second, bool) and bool(first == second)


def _conform_object(value: dict[str, Any], schema: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return an object in the form of its schema, without unknown keys if it allows none."""
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            place = f"{path}: " if path else ""
            raise Unreadable(f"{place}the key {json.dumps(name)} is missing")
    closed = schema.get("additionalProperties") is False
    conformed = {}
    for name, part in value.items():
        if name in properties or not closed:
            place = f"{path}.{name}" if path else name
            conformed[name] = conform(part, properties.get(name, {}), place)
    return conformed


def _conform_list(value: list[Any], schema: Mapping[str, Any], path: str) -> list[Any]:
    """Return a list in the form of its schema."""
    least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
    if not least <= len(value) <= most:
        place = path or "the reply"
        raise Unreadable(f"{place} has {len(value)} entries, expected {least} to {most:g}")
    items = schema.get("items", {})
    return [conform(part, items, f"{path}[{i}]") for i, part in enumerate(value)]


def _whole(value: Any) -> Any:
    """Return 4.0, "4" and "4.0" as the integer 4; return any other value unchanged."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and (match := _WHOLE.fullmatch(value.strip())):
        return int(match[1])
    return value


def _unwrapped(value: Any, schema_type: str) -> Any:
    """Return the JSON in a text, and of a list with one object the object if one is wanted."""
    if isinstance(value, str):
        try:
            value = _strict(value)
        except json.JSONDecodeError:
            return value
    if schema_type == "object" and isinstance(value, list) and len(value) == 1:
        return value[0]
    return value


def _unfit(value: Any, path: str, expected: str) -> Unreadable:
    text = json.dumps(value, ensure_ascii=True)
    start = text if len(text) <= 60 else f"{text[:60]} ..."
    return Unreadable(f"{path or 'the reply'} is {start}, expected {expected}")
