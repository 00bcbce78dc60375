"""JSON Schema of the files of a run, made of the annotations that read and write them."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ragbench.records import codec
from ragbench.records.summary import SUMMARY_SCHEMA, Summary
from ragbench.registry import summary_line
from ragbench.types.json_fields import Meaning

Schema = dict[str, Any]

_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def summary_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of `summary.json` as this version writes it.

    A key that this version does not write is an error. Keys that may be missing in a file of an
    earlier version are not required.
    """
    definitions: dict[str, Schema] = {}
    whole = _object(Summary, definitions)
    whole["properties"]["schema"] = {"const": SUMMARY_SCHEMA, "description": "Kind and version."}
    whole["required"].insert(0, "schema")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SUMMARY_SCHEMA}
    return {**head, **whole, "$defs": definitions}


def _object(record: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a class of records; records inside it are added to `definitions`."""
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for declared in codec.record_fields(record):
        if declared.is_flat:
            inner = _object(codec.plain_type(declared.hint), definitions)
            properties |= inner["properties"]
            continue
        properties[declared.key] = _value(declared.hint, definitions)
        if declared.is_required:
            required.append(declared.key)
    return {
        "type": "object",
        "description": f"{summary_line(record)}.",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _value(hint: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of the values of a type; `{}` for any value."""
    # a record is a reference into `definitions`, which gets its schema
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        value = _value(inner[0], definitions)
        for meaning in inner[1:]:
            if isinstance(meaning, Meaning):
                value |= {"description": meaning.text}
        return value
    if origin in (Union, types.UnionType):
        some = _value(codec.plain_type(hint), definitions)
        return {"anyOf": [some, {"type": "null"}]} if type(None) in inner else some
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is tuple and inner[-1] is ...:
        return {"type": "array", "items": _value(inner[0], definitions)}
    if origin is tuple:
        items = [_value(part, definitions) for part in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        keys, values = (_value(part, definitions) for part in inner)
        names = {} if keys == {"type": "string"} else {"propertyNames": keys}
        return {"type": "object", **names, "additionalProperties": values}
    if codec.is_record(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}  # a record may contain itself
            definitions[hint.__name__] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    return {"type": _TYPES[hint]} if hint in _TYPES else {}
