"""Find the one JSON value in a model's reply: strictly first, then around fences and prose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragbench.llm.lenient_json import number, read_lenient, unique_keys
from ragbench.llm.schema import conform
from ragbench.llm.unreadable import Broken, Unreadable

_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_OPENING = re.compile(r"[{\[]")


def read_json(text: str, schema: Mapping[str, Any]) -> Any:
    r"""Return the value in a reply that fits a schema.

    The whole text is tried as strict JSON. Else every object or list in it counts as a candidate;
    those that fit must agree. A number or a text on its own is never searched for in prose.

    An object that breaks off in the middle, or holds NaN or a word for a number, spoils the reply:
    what stands inside or after it is not taken instead.

    Raises:
        Unreadable: There is none, or two that differ; the message says what was wrong.

    Example:
        >>> schema = {"type": "object", "required": ["level"]}
        >>> read_json('Sure!\n```json\n{"level": 4}\n```', schema)
        {'level': 4}
        >>> read_json('{"level": 4}, or rather {"level": 2}', schema)
        Traceback (most recent call last):
        ragbench.llm.unreadable.Unreadable: the reply holds two different answers
    """
    try:
        value = conform(_strict(text), schema)
    except json.JSONDecodeError:
        value = _embedded(_THOUGHT.sub("", text), schema)
    return _writable(value) if _SURROGATE.search(text) else value


def _strict(text: str) -> Any:
    """The value of a whole text.

    Raises:
        JSONDecodeError: It is no JSON.
        Unreadable: It is, but holds what no reply may hold.
    """
    constants: list[str] = []  # only a whole text of JSON is refused for them: prose may begin so
    decoder = json.JSONDecoder(
        object_pairs_hook=unique_keys,
        parse_constant=constants.append,
        parse_int=number,
        parse_float=number,
    )
    try:
        value = decoder.decode(text.strip())
    except RecursionError:
        raise Unreadable("values are nested too deep") from None
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
    """Objects and lists in a text, outermost ones.

    Raises:
        Broken: What began as an object is none.
    """
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
