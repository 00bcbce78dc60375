"""JSON schemas of replies: the small subset that every server understands, checked here again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from ragbench.errors import OptionError
from ragbench.llm.unreadable import Unreadable

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KEYWORDS = (
    *("type", "enum", "properties", "required", "additionalProperties", "items"),
    *("minItems", "maxItems", "minimum", "maximum", "title", "description"),
)
_WHOLE = re.compile(r"-?\d{1,15}", re.ASCII)


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
    if not isinstance(schema.get("additionalProperties", True), bool):
        raise OptionError(
            path, "additionalProperties", schema["additionalProperties"], "true or false"
        )
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

    Raises:
        Unreadable: It does not fit; the message names the place, what is there and what is wanted.

    Example:
        >>> level = {"type": "integer", "minimum": 1, "maximum": 5}
        >>> conform({"level": 4.0, "mood": "?"}, {"type": "object", "properties": {"level": level},
        ...     "required": ["level"], "additionalProperties": False})
        {'level': 4}
        >>> conform("four", level)
        Traceback (most recent call last):
        ragbench.llm.unreadable.Unreadable: the reply is "four", expected an integer
    """
    wanted = schema.get("type")
    if wanted == "integer":
        value = _whole(value)
    if wanted is not None and not _has_type(value, wanted):
        raise _unfit(value, path, _phrase(wanted))
    if "enum" in schema and not any(_equal(value, allowed) for allowed in schema["enum"]):
        raise _unfit(value, path, "one of " + ", ".join(map(json.dumps, schema["enum"])))
    if isinstance(value, dict):
        return _conform_object(value, schema, path)
    if isinstance(value, list):
        return _conform_list(value, schema, path)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_range(value, schema, path)
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


def _check_range(value: float, schema: Mapping[str, Any], path: str) -> None:
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not low <= value <= high:
        raise _unfit(value, path, f"a number from {low:g} to {high:g}")


def _whole(value: Any) -> Any:
    """The integer that a value stands for beyond doubt; else the value as it is."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
    return value


def _has_type(value: Any, wanted: str) -> bool:
    is_truth = isinstance(value, bool)
    return isinstance(value, _TYPES[wanted]) and (not is_truth or wanted == "boolean")


def _equal(value: Any, allowed: Any) -> bool:
    return isinstance(value, bool) is isinstance(allowed, bool) and bool(value == allowed)


def _phrase(wanted: str) -> str:
    article = "an" if wanted[0] in "aio" else "a"
    return wanted if wanted == "null" else f"{article} {wanted}"


def _unfit(value: Any, path: str, wanted: str) -> Unreadable:
    written = json.dumps(value, ensure_ascii=True)
    shown = written if len(written) <= 60 else f"{written[:60]} ..."
    return Unreadable(f"{path or 'the reply'} is {shown}, expected {wanted}")
