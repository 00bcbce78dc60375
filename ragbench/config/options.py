"""Values and blocks of a config against the options that are declared for them."""

from __future__ import annotations

import functools
import json
import operator
import typing
from collections.abc import Collection, Iterable, Mapping
from types import UnionType
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ragbench.config.problems import Place, Report
from ragbench.config.tree import Item
from ragbench.config.yaml_reader import UNREADABLE
from ragbench.registry import DeclaredOption, Option, declared_options, describe_allowed, nearest

_RANGE = {
    "finite_number",
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
}


def check_options(
    item: Item,
    declared: Mapping[str, DeclaredOption],
    report: Report,
    *,
    at: Place | None = None,
    others: Collection[str] = (),
) -> dict[str, Any]:
    """Return the valid values of a mapping, with the defaults of absent ones.

    Args:
        item: The mapping; anything else is a problem.
        declared: The keys with their types, ranges and defaults.
        report: Gets a problem for each wrong value, and unknown or missing key.
        at: Where a missing key is reported; default: where the mapping begins.
        others: Further keys that are allowed; the caller checks them.

    Returns:
        Values by key; a key with a problem is absent.
    """
    if not isinstance(item.value, dict):
        if item.value is not UNREADABLE:
            report.add(item.place, item.path, f"{item.shown()} is not a mapping", "a mapping")
        return {}
    for key, entry in item.entries.items():
        if key not in declared and key not in others:
            report.unknown_key(entry.key_place, item.path, key, [*others, *declared])
    values = {}
    for key, option in declared.items():
        value = item.get(key)
        if value is None:
            if option.required:
                found = f"missing key '{key}'"
                report.add(at or item.place, item.path, found, f"{key}: {option.allowed}")
            else:
                values[key] = option.default
        elif (checked := check_value(value, option, report)) is not INVALID:
            values[key] = checked
    return values


INVALID: Any = object()
"""What `check_value` returns for a wrong value; None is a value."""


def check_value(item: Item, option: DeclaredOption, report: Report) -> Any:
    """Return the value in its declared type, or `INVALID` with a problem in the report."""
    try:
        # JSON mode: strict about types, and a list may become a tuple, a text a path
        return adapter(option.annotation, option.option).validate_json(json.dumps(item.plain()))
    except ValidationError as error:
        _explain(error, item, option, report)
        return INVALID


@functools.lru_cache(maxsize=512)
def adapter(annotation: Any, option: Option) -> TypeAdapter[Any]:
    """Return what validates values of a declared option, bounds included."""
    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    return TypeAdapter(_bounded(annotation, option), config=config)


def _bounded(annotation: Any, option: Option) -> Any:
    if _is_union(annotation):
        return _union(_bounded(part, option) for part in typing.get_args(annotation))
    if annotation is int:
        return Annotated[int, Field(ge=option.ge, gt=option.gt, le=option.le, lt=option.lt)]
    if annotation is float:
        bounds = Field(ge=option.ge, gt=option.gt, le=option.le, lt=option.lt, allow_inf_nan=False)
        return Annotated[float, bounds]
    return annotation


def _explain(error: ValidationError, item: Item, option: DeclaredOption, report: Report) -> None:
    """One problem per wrong value; the deepest ones where a list or mapping has wrong parts."""
    wrong: dict[int, tuple[Item, list[str], set[str]]] = {}
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        found, steps = _locate(item, detail["loc"])
        wrong.setdefault(id(found), (found, steps, set()))[2].add(detail["type"])
    if len(wrong) > 1:
        wrong.pop(id(item), None)
    for found, steps, kinds in wrong.values():
        if found.value is UNREADABLE:
            continue
        if steps:
            annotation, bounds = _annotation_at(option.annotation, steps), None
        else:
            annotation, bounds = option.annotation, option.option
        report.add(
            found.place,
            found.path,
            _phrase(found, annotation, bool(kinds & _RANGE)),
            describe_allowed(annotation, bounds),
            nearest(str(found.value), _words(annotation)) if _words(annotation) else None,
        )


def _locate(item: Item, location: tuple[int | str, ...]) -> tuple[Item, list[str]]:
    """The value that pydantic means, and the kinds of steps to it."""
    steps = []
    for part in location:
        # parts that lead nowhere are names of union members, which pydantic puts in between
        if isinstance(part, int) and part < len(item.items):
            item = item.items[part]
            steps.append("list")
        elif isinstance(part, str) and part in item.entries:
            item = item.entries[part].item
            steps.append("mapping")
    return item, steps


def _annotation_at(annotation: Any, steps: list[str]) -> Any:
    """The type of an element of a list, or of a value of a mapping."""
    for step in steps:
        members = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
        wanted = 2 if step == "mapping" else 1
        arguments = [typing.get_args(m) for m in members if typing.get_origin(m) is not Literal]
        fitting = [a for a in arguments if a and (len(a) == wanted or a[-1] is Ellipsis)]
        annotation = fitting[0][wanted - 1] if fitting else Any
    return annotation


def _phrase(item: Item, annotation: Any, out_of_range: bool) -> str:
    if out_of_range:
        return f"{item.shown()} is out of range"
    if _words(annotation):
        return f"unknown value {item.shown()}"
    kind = _without_none(annotation)
    return f"{item.shown()} is not {describe_allowed(kind)}"


def _without_none(annotation: Any) -> Any:
    if not _is_union(annotation):
        return annotation
    return _union(part for part in typing.get_args(annotation) if part is not type(None))


def _union(parts: Iterable[Any]) -> Any:
    return functools.reduce(operator.or_, parts)


def _words(annotation: Any) -> list[str]:
    """The words of a choice; empty where anything else is allowed too."""
    kind = _without_none(annotation)
    return (
        [str(word) for word in typing.get_args(kind)] if typing.get_origin(kind) is Literal else []
    )


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, UnionType)


def check_block(
    item: Item, record: Any, report: Report, others: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check a block against the record that declares it.

    Returns:
        The valid values, and the block as plain data with its defaults written out.
    """
    declared = declared_options(record)
    values = check_options(
        item,
        declared,
        report,
        others=others,
    )
    written = {}
    for key in declared:
        value = item.get(key)
        if value is not None:
            written[key] = value.as_written()
        elif values.get(key) is not None:
            written[key] = values[key]
    return values, written
