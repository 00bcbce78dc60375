"""JSON Schema of a config, for editors: assembled from the declarations that validate it."""

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
    AuditRules,
    BudgetLimits,
    Fill,
    Match,
    RetrievalMetrics,
    Selection,
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
    """Return the JSON Schema (draft 2020-12) of everything that this version understands.

    It is made of the built-in types and those of installed packages that can be imported.
    """
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
        **_block(Top, summary_line(Top)),
        "oneOf": [{"required": ["dataset"]}, {"required": ["datasets"]}],
        "$defs": {
            "variable": {
                "type": "string",
                "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}",
                "description": "A value from the environment: ${VAR} or ${VAR:-default}.",
            },
            "dataset": {"oneOf": _types(LOADERS)},
            # not oneOf: some types, such as http, are a retriever and a reranker
            "retriever": {"anyOf": [*_types(RETRIEVERS), *_types(RERANKERS)]},
            "generator": {"oneOf": _types(GENERATORS)},
            "app": {"oneOf": _types(APPS)},
            "judge": {"oneOf": _types(JUDGES)},
            "executor": {"oneOf": _types(EXECUTORS)},
        },
    }
    schema["properties"] |= {
        "dataset": {"$ref": "#/$defs/dataset"},
        "datasets": {**_mapping("dataset"), "minProperties": 1},
        "retrievers": _mapping("retriever"),
        "generators": _mapping("generator"),
        "apps": _mapping("app"),
        "metrics": _metrics(),
        "statistics": _block(Statistics),
        "causes": _block(CauseRules, right=RightAnswer, supported=SupportedAnswer),
        "audit": _block(AuditRules),
        "gates": {"type": "array", "items": _object(gate_options().values())},
        "budget": _block(BudgetLimits),
        "executor": {"$ref": "#/$defs/executor"},
    }
    for block, description in BLOCKS.items():
        schema["properties"][block]["description"] = description
    return schema


def _block(record: Any, description: str = "", **blocks: Any) -> Schema:
    """Return the schema of a block, and of its inner blocks."""
    schema = _object(declared_options(record).values(), description)
    for name, inner in blocks.items():
        schema["properties"][name] = _block(inner, record.blocks[name])
    return schema


def _metrics() -> Schema:
    """Return the schema of the block `metrics`."""
    from ragbench.score.retrieval import MEASURES
    from ragbench.score.text import GROUPS, METRICS

    retrieval = _block(RetrievalMetrics, summary_line(RetrievalMetrics), match=Match, fill=Fill)
    examples = []
    for name in MEASURES.names():
        examples.append(_example(name, MEASURES.load(name)))
    retrieval["properties"]["measures"]["items"] = _suggested(examples)
    properties = {
        "retrieval": retrieval,
        "generation": {
            "type": "array",
            "items": _suggested([*GROUPS, *METRICS.names(), "pass^3", "pass@3"]),
            "description": "Names of metrics.",
        },
        "judge": {
            "description": "One judge, or judges by name.",
            "anyOf": [{"$ref": "#/$defs/judge"}, _mapping("judge")],
        },
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _mapping(definition: str) -> Schema:
    """Return the JSON Schema of an object with component names as keys."""
    return {
        "type": "object",
        "propertyNames": {"pattern": _NAMES},
        "additionalProperties": {"$ref": f"#/$defs/{definition}"},
    }


# Families whose entries may have the key `sweep`
_SWEPT = ("retriever", "reranker", "generator", "app")


def _types(family: Family) -> list[Schema]:
    """Return a schema for each type of a family, and one for components of the user."""
    common = common_keys(family)
    if family.noun == "judge":
        common = declared_options(JudgeCommon)
    schemas = []
    for name in family.names():
        try:
            component = family.load(name)
        except DataError:  # a broken package, which `ragbench list` reports
            continue
        declared = declared_options(component)
        shared = []
        for key, option in common.items():
            if key not in declared:
                shared.append(option)
        options = [*declared.values(), *shared]
        schema = _object(options, summary_line(component))
        schema["properties"] = {"type": {"const": name}, **schema["properties"]}
        if family.noun == "retriever" and indexes(component):
            # no key is required in it, as a sweep may have the key instead
            schema["properties"][CHUNK] = _block(Chunking, CHUNK_HELP)
        schemas.append(_with_required(schema, options, family.noun in _SWEPT))
        if family.noun in ("retriever", "reranker"):
            select = _block(Selection, summary_line(Selection))
            schema["properties"]["select"] = {**select, "required": ["measure"]}
    code_common = {**common, **common_keys(family, is_code=True)}
    help_text = "Your own component; its options are its arguments."
    python_schema = _object(code_common.values(), help_text)
    python_schema["properties"]["type"] = _CODE
    python_schema["additionalProperties"] = True
    return [*schemas, {**python_schema, "required": ["type"]}]


def _with_required(schema: Schema, options: Iterable[DeclaredOption], sweeps: bool) -> Schema:
    """Return the schema with its required keys; with a sweep, which may have them, only `type`."""
    required = []
    for option in options:
        if option.required:
            required.append(option.name)
    if not sweeps:
        return {**schema, "required": ["type", *required]}
    properties = schema["properties"]
    axes = {}
    for key, value in properties.items():
        if key != "type":
            axes[key] = _axis(value)
    for key, value in properties.get(CHUNK, {}).get("properties", {}).items():
        axes[f"{CHUNK}.{key}"] = _axis(value)
    properties["sweep"] = {
        "type": "object",
        "description": "Lists of values; one component per combination.",
        "minProperties": 1,
        "properties": axes,
        "additionalProperties": False,
    }
    # a sweep may have a required key; `validate` looks whether it has
    without_sweep = {"if": {"required": ["sweep"]}, "else": {"required": required}}
    return {**schema, "required": ["type"], **without_sweep}


def _axis(option: Schema) -> Schema:
    """Return the schema of the values of an option in a sweep, which has its description once."""
    value = dict(option)
    description = value.pop("description")
    value.pop("default", None)
    return {"type": "array", "description": description, "minItems": 1, "items": value}


def _object(options: Iterable[DeclaredOption], description: str = "") -> Schema:
    """Return the schema of a mapping with these options and no other keys."""
    schema: Schema = {"type": "object"}
    if description:
        schema["description"] = description
    schema["properties"] = {option.name: _value(option) for option in options}
    return {**schema, "additionalProperties": False}


def _value(declared: DeclaredOption) -> Schema:
    """Return the schema of one option; a number or a choice may also be a text with `${VAR}`."""
    schema: Schema = _type(declared.annotation, declared.option)
    if schema.get("type") not in ("string", "array", "object"):
        # one list of alternatives reads better in an editor than nested ones
        choices = schema.pop("anyOf", None) or [schema]
        schema = {"anyOf": [*choices, _VARIABLE]}
    elif "enum" in schema or "const" in schema:
        schema = {"anyOf": [schema, _VARIABLE]}
    schema["description"] = declared.option.help
    if isinstance(declared.default, (str, bool, int, float)):
        schema["default"] = declared.default
    return schema


def _type(annotation: Any, option: Option | None = None) -> Schema:
    """Return the schema of a type, with the bounds of its option; only numbers have bounds."""
    kind, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if kind in (typing.Union, UnionType):
        return {"anyOf": [_type(part, option) for part in arguments]}
    if kind is Literal:
        json_type = _JSON_TYPES[type(arguments[0])]
        choice = {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
        return {**choice, "type": json_type}
    if kind in (int, float) and option is not None:
        bounds = {
            "exclusiveMaximum": option.lt, "exclusiveMinimum": option.gt,
            "maximum": option.le, "minimum": option.ge,
        }  # fmt: skip
        set_bounds = {}
        for key, bound in bounds.items():
            if bound is not None:
                set_bounds[key] = bound
        return {**set_bounds, "type": _JSON_TYPES[kind]}
    if kind in (list, tuple, Sequence):
        return {**({"items": _type(arguments[0])} if arguments else {}), "type": "array"}
    if kind in (dict, Mapping):
        of_values = _type(arguments[1]) if arguments else {}
        return {"additionalProperties": of_values or True, "type": "object"}
    if kind is str and option is not None and option.refers_to == "code":
        return _CODE
    return {"type": _JSON_TYPES[kind]} if kind in _JSON_TYPES else {}


def _example(name: str, measure: Callable[..., object]) -> str:
    """Return a measure as a config may name it: with @10, or @0.5, if it needs a cut-off."""
    from ragbench.score.retrieval.base import spec_of

    spec = spec_of(measure)
    if spec is None or spec.cutoff != "required":
        return name
    return f"{name}@10" if spec.at == "k" else f"{name}@0.5"  # @ gives a recall level


def _suggested(names: Iterable[str]) -> Schema:
    """Return the schema of a text for which an editor offers names."""
    return {"anyOf": [{"enum": list(names)}, {"type": "string"}]}
