"""The JSON Schema of a config, for editors: assembled from the declarations that validate it."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal

from ragbench.comparison.cause_rules import CauseRules, RightAnswer, SupportedAnswer
from ragbench.config.components import CHUNK, CHUNK_HELP, common_keys, indexes
from ragbench.config.judges import JudgeCommon
from ragbench.config.schema import (
    BLOCKS,
    BudgetLimits,
    Fill,
    Match,
    RetrievalMetrics,
    Statistics,
    Top,
)
from ragbench.errors import DataError
from ragbench.registry import PYTHON, DeclaredOption, Family, Option, declared_options, summary_line
from ragbench.text.chunk import Chunking

Schema = dict[str, Any]

_JSON_TYPES = {
    str: "string", Path: "string", bool: "boolean", int: "integer", float: "number",
    NoneType: "null",
}  # fmt: skip
_VARIABLE: Schema = {"$ref": "#/$defs/variable"}
_CODE: Schema = {"type": "string", "pattern": f"^{PYTHON}[^:]+:[^:]+$"}
_NAMES = r"^[A-Za-z0-9_.=-]+$"  # with the names of swept components


def config_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of everything that this version understands."""
    from ragbench.config.gates import gate_options
    from ragbench.data import LOADERS
    from ragbench.executors import EXECUTORS
    from ragbench.generate import APPS, GENERATORS
    from ragbench.rerank import RERANKERS
    from ragbench.retrieve import RETRIEVERS
    from ragbench.score.judge import JUDGES

    schema: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ragbench experiment",
        **_object(declared_options(Top).values(), summary_line(Top)),
        "required": ["dataset"],
        "$defs": {
            "variable": {
                "type": "string",
                "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}",
                "description": "A value from the environment: ${VAR} or ${VAR:-default}.",
            },
            "dataset": {"oneOf": _types(LOADERS, common_keys(LOADERS))},
            "retriever": {
                "anyOf": [
                    *_types(RETRIEVERS, common_keys(RETRIEVERS), sweeps=True),
                    *_types(RERANKERS, common_keys(RERANKERS), sweeps=True),
                ]
            },
            "generator": {"oneOf": _types(GENERATORS, common_keys(GENERATORS), sweeps=True)},
            "app": {"oneOf": _types(APPS, common_keys(APPS), sweeps=True)},
            "judge": {"oneOf": _types(JUDGES, declared_options(JudgeCommon))},
            "executor": {"oneOf": _types(EXECUTORS, common_keys(EXECUTORS))},
        },
    }
    schema["properties"] |= {
        "dataset": {"$ref": "#/$defs/dataset"},
        "retrievers": _mapping("retriever"),
        "generators": _mapping("generator"),
        "apps": _mapping("app"),
        "metrics": _metrics(),
        "statistics": _object(declared_options(Statistics).values()),
        "causes": _with_blocks(CauseRules, "", right=RightAnswer, supported=SupportedAnswer),
        "gates": {"type": "array", "items": _object(gate_options().values())},
        "budget": _object(declared_options(BudgetLimits).values()),
        "executor": {"$ref": "#/$defs/executor"},
    }
    for block, description in BLOCKS.items():
        schema["properties"][block]["description"] = description
    return schema


def _with_blocks(record: Any, description: str, **blocks: Any) -> Schema:
    """The schema of a block with blocks in it, by their keys."""
    schema = _object(declared_options(record).values(), description)
    for name, inner in blocks.items():
        block = _object(declared_options(inner).values(), record.blocks[name])
        schema["properties"][name] = block
    return schema


def _metrics() -> Schema:
    from ragbench.score.retrieval import MEASURES
    from ragbench.score.text import METRICS

    said = summary_line(RetrievalMetrics)
    retrieval = _with_blocks(RetrievalMetrics, said, match=Match, fill=Fill)
    examples = [_example(name, MEASURES.load(name)) for name in MEASURES.names()]
    retrieval["properties"]["measures"]["items"] = _suggested(examples)
    properties = {
        "retrieval": retrieval,
        "generation": {
            "type": "array",
            "items": _suggested(METRICS.names()),
            "description": "Names of metrics.",
        },
        "judge": {
            "description": "One judge, or judges by name.",
            "anyOf": [{"$ref": "#/$defs/judge"}, _mapping("judge")],
        },
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _mapping(definition: str) -> Schema:
    return {
        "type": "object",
        "propertyNames": {"pattern": _NAMES},
        "additionalProperties": {"$ref": f"#/$defs/{definition}"},
    }


def _types(
    family: Family, common: Mapping[str, DeclaredOption], *, sweeps: bool = False
) -> list[Schema]:
    """Return a schema for each type of a family, and one for components of the user's own."""
    made = []
    for name in family.names():
        try:
            component = family.load(name)
        except DataError:  # of an installed package that is broken: `ragbench list` says so
            continue
        own = declared_options(component)
        options = [*own.values(), *(option for key, option in common.items() if key not in own)]
        schema = _object(options, summary_line(component))
        schema["properties"] = {"type": {"const": name}, **schema["properties"]}
        if family.noun == "retriever" and indexes(component):
            # nothing is required in it: a sweep may give that
            schema["properties"][CHUNK] = _object(declared_options(Chunking).values(), CHUNK_HELP)
        made.append(_with_required(schema, options, sweeps))
    own_kind = _object(common.values(), "A component of your own; its options are its arguments.")
    own_kind["properties"]["type"] = _CODE
    own_kind["additionalProperties"] = True
    return [*made, {**own_kind, "required": ["type"]}]


def _with_required(schema: Schema, options: Iterable[DeclaredOption], sweeps: bool) -> Schema:
    """The schema with its required keys, each of which a sweep may give instead."""
    required = [option.name for option in options if option.required]
    properties = schema["properties"]
    parts = properties.get(CHUNK, {}).get("properties", {})
    sweepable = {**properties, **{f"{CHUNK}.{key}": value for key, value in parts.items()}}
    if not sweeps:
        return {**schema, "required": ["type", *required]}
    axes = {
        key: {"type": "array", "description": value["description"], "minItems": 1, "items": value}
        for key, value in sweepable.items()
        if key != "type"
    }
    properties["sweep"] = {
        "type": "object",
        "description": "Lists of values; one component per combination.",
        "minProperties": 1,
        "properties": axes,
        "additionalProperties": False,
    }
    either = [
        {
            "anyOf": [
                {"required": [key]},
                {"required": ["sweep"], "properties": {"sweep": {"required": [key]}}},
            ]
        }
        for key in required
    ]
    return {**schema, "required": ["type"], **({"allOf": either} if either else {})}


def _object(options: Iterable[DeclaredOption], description: str = "") -> Schema:
    schema: Schema = {"type": "object"}
    if description:
        schema["description"] = description
    schema["properties"] = {option.name: _value(option) for option in options}
    return {**schema, "additionalProperties": False}


def _value(declared: DeclaredOption) -> Schema:
    """The schema of one option; a number or a word may come from the environment."""
    schema: Schema = _type(declared.annotation, declared.option)
    if schema.get("type") not in ("string", "array", "object"):
        choices = schema.pop("anyOf", None) or [schema]
        schema = {"anyOf": [*choices, _VARIABLE]}
    elif "enum" in schema or "const" in schema:
        schema = {"anyOf": [schema, _VARIABLE]}
    schema["description"] = declared.option.help
    if isinstance(declared.default, (str, bool, int, float)):
        schema["default"] = declared.default
    return schema


def _type(annotation: Any, option: Option | None = None) -> Schema:
    kind, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if kind in (typing.Union, UnionType):
        return {"anyOf": [_type(part, option) for part in arguments]}
    if kind is Literal:
        named = _JSON_TYPES[type(arguments[0])]
        words = {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
        return {**words, "type": named}
    if kind in (int, float) and option is not None:
        bounds = {
            "exclusiveMaximum": option.lt, "exclusiveMinimum": option.gt,
            "maximum": option.le, "minimum": option.ge,
        }  # fmt: skip
        given = {key: bound for key, bound in bounds.items() if bound is not None}
        return {**given, "type": _JSON_TYPES[kind]}
    if kind in (list, tuple, Sequence):
        return {**({"items": _type(arguments[0])} if arguments else {}), "type": "array"}
    if kind in (dict, Mapping):
        of_values = _type(arguments[1]) if arguments else {}
        return {"additionalProperties": of_values or True, "type": "object"}
    if kind is str and option is not None and option.refers_to == "code":
        return _CODE
    return {"type": _JSON_TYPES[kind]} if kind in _JSON_TYPES else {}


def _example(name: str, measure: Callable[..., object]) -> str:
    """A measure as a config may name it: with a cut-off where it needs one."""
    from ragbench.score.retrieval.base import spec_of

    spec = spec_of(measure)
    if spec is None or spec.cutoff != "required":
        return name
    return f"{name}@10" if spec.at == "k" else f"{name}@0.5"  # @ gives a recall level


def _suggested(names: Iterable[str]) -> Schema:
    """Text, for which an editor offers names."""
    return {"anyOf": [{"enum": list(names)}, {"type": "string"}]}
