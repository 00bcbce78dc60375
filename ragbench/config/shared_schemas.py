"""A JSON Schema without repetition: what several keys allow stands once, under `$defs`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

Schema = dict[str, Any]

_LISTED = ("anyOf", "oneOf", "allOf")
_SINGLE = ("items", "additionalProperties", "propertyNames")
_WORTH_A_NAME = 60  # characters; a reference has about 35


def share(schema: Schema) -> Schema:
    """Return an equal schema in which every key that repeats is a reference to `$defs`.

    A definition has the name of the first key that it stands for: `timeout`, `chunk.size` inside
    a block, `timeout-2` where another component means something else by the word.

    Example:
        >>> seconds = {"type": "number", "exclusiveMinimum": 0, "description": "Seconds to wait."}
        >>> one = {"type": "object", "properties": {"timeout": seconds}}
        >>> shared = share({"$defs": {"a": one, "b": one | {"required": ["timeout"]}}})
        >>> shared["$defs"]["b"]["properties"], shared["$defs"]["timeout"] == seconds
        ({'timeout': {'$ref': '#/$defs/timeout'}}, True)
    """
    uses = _count(schema)
    names: dict[str, str] = {}
    definitions: dict[str, Schema] = {name: {} for name in schema.get("$defs", {})}

    def refer(part: Schema, path: tuple[str, ...]) -> Schema:
        text = _text(part)
        if not path or uses[text] < 2 or len(text) < _WORTH_A_NAME:
            return _rebuilt(part, path, refer)
        if text not in names:
            names[text] = name = _free(".".join(path), definitions)
            definitions[name] = {}  # keeps the name while its parts get theirs
            definitions[name] = _rebuilt(part, path, refer)
        return {"$ref": f"#/$defs/{names[text]}"}

    shared = _rebuilt(schema, (), refer)
    return {**shared, "$defs": {**definitions, **shared.get("$defs", {})}}


def _count(schema: Schema) -> Counter[str]:
    """How often each schema stands in another, the inside of a repeated one counted once."""
    uses: Counter[str] = Counter()

    def count(part: Schema, path: tuple[str, ...]) -> Schema:
        text = _text(part)
        uses[text] += 1
        return part if path and uses[text] > 1 else _rebuilt(part, path, count)

    count(schema, ())
    return uses


def _rebuilt(
    schema: Schema, path: tuple[str, ...], change: Callable[[Schema, tuple[str, ...]], Schema]
) -> Schema:
    """The schema with each schema in it changed; `path` leads to it by the keys of a config."""
    made = dict(schema)
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: change(part, (*path, name)) for name, part in value.items()}
        elif key == "$defs":
            made[key] = {name: change(part, ()) for name, part in value.items()}
        elif key in _LISTED:
            made[key] = [change(part, path) for part in value]
        elif key in _SINGLE and isinstance(value, dict):
            made[key] = change(value, path)
    return made


def _text(schema: Schema) -> str:
    return json.dumps(schema, sort_keys=True)


def _free(name: str, taken: dict[str, Schema]) -> str:
    number = 2
    candidate = name
    while candidate in taken:
        candidate, number = f"{name}-{number}", number + 1
    return candidate
