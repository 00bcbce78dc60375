"""Entries of `dataset`, `retrievers`, `generators`, `apps`: the type first, then its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from ragbench.config.options import (
    Context,
    keyword_parameters,
    load_named,
    references_of,
    report_refusal,
)
from ragbench.config.problems import Report
from ragbench.config.schema import DEFAULT_DEPTH, DEFAULT_PASSAGES, PYTHON_TIMEOUT, Component
from ragbench.config.tree import KeyEntry, Node
from ragbench.errors import DataError, OptionError, Place
from ragbench.registry import PYTHON, REQUIRED, DeclaredOption, Family, Option, declared_options
from ragbench.text.chunk import Chunking, splitter_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """Keys that every component takes."""

    timeout: Annotated[float | None, Option("Time limit of one call, in seconds.", gt=0)] = None
    concurrency: Annotated[int, Option("Number of concurrent calls.", ge=1)] = 1
    version: Annotated[str | None, Option("A word that you change when its answers change.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerCommon:
    """Keys that every reranker takes besides."""

    retriever: Annotated[str, Option("Retriever whose hits are reordered.", refers_to="retriever")]
    depth: Annotated[
        int, Option("Number of hits that are reordered; the rest is left out.", ge=1)
    ] = DEFAULT_DEPTH


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorCommon:
    """Keys that every generator takes besides."""

    retrievers: Annotated[
        list[str] | None,
        Option("Retrievers that it is combined with; default: all.", refers_to="retriever"),
    ] = None
    passages: Annotated[int, Option("Number of passages that it gets.", ge=1)] = DEFAULT_PASSAGES
    samples: Annotated[
        int, Option("How often each query is answered; its score is the mean.", ge=1)
    ] = 1


# Common keys that count for the caller also where a component declares them itself.
_SHARED = frozenset({"concurrency", "version"})


def load_type(entry: KeyEntry, family: Family, context: Context) -> tuple[str, Any] | None:
    """Return the name and class of `type:`; None, with a problem in the report, if there is none.

    Problems are an entry that is no mapping, a missing or unknown type, and code that cannot be
    imported or must not be.
    """
    node, report = entry.node, context.report
    if not isinstance(node.value, dict):
        example = next(iter(family.names()), "...")
        report.wrong(node, f"{node.shown()} is not a mapping", f"{{type: {example}, ...}}")
        return None
    kind = node.get("type")
    if kind is None:
        allowed = f"type: {', '.join(family.names())}"
        report.add(entry.place, node.path, "missing key 'type'", allowed)
        return None
    if not isinstance(kind.value, str):
        report.wrong(kind, f"{kind.shown()} is not text", ", ".join(family.names()))
        return None
    if kind.value.startswith(PYTHON) and context.refuses(kind):
        return None
    try:
        return kind.value, family.load(kind.value, context.code or ())
    except OptionError as error:
        report.wrong(kind, f"unknown type {kind.shown()}", error.allowed, error.nearest)
    except DataError as error:
        report.refused(kind, error)
    except Exception as error:  # noqa: BLE001 - an installed package may raise anything
        found = f"cannot be loaded: {type(error).__name__}: {error}"
        report.wrong(kind, found, "a package that can be imported")
    return None


def options_of(component: Any) -> dict[str, DeclaredOption]:
    """Return the options that a component declares.

    A class of the user's own may have annotations that only a type checker can resolve; it then
    declares nothing, and its signature alone is checked.
    """
    try:
        return declared_options(component)
    except (NameError, TypeError, ValueError):
        return {}


def check_component(
    name: str, entry: KeyEntry, family: Family, context: Context
) -> Component | None:
    """Return the component of an entry; None, with problems in the report, where it is wrong."""
    node, report = entry.node, context.report
    before = len(report)
    if (loaded := load_type(entry, family, context)) is None:
        return None
    type_name, cls = loaded
    own, common = options_of(cls), common_keys(family)
    is_chunked = family.noun == "retriever" and CHUNK in node.entries and CHUNK not in own
    chunking = check_chunk(node, type_name, cls, context) if is_chunked else None
    node = node.without(CHUNK) if is_chunked else node
    rest = {key: option for key, option in common.items() if key not in own}
    declared = {**own, **rest}
    is_built_in = type_name in family.table
    extra = [] if is_built_in else _undeclared(node, cls, declared, entry.place, report)
    others = ["type", *extra, *([CHUNK] if family.noun == "retriever" and indexes(cls) else [])]
    order = ("type", *own, *extra, *rest, CHUNK)
    values = context.check(node, declared, at=entry.place, others=others, order=order)
    values |= {key: node.entries[key].node.plain() for key in extra}
    context.references[name] = references_of(node, declared, values, context)
    if len(report) > before or not values.keys() >= declared.keys():
        return None
    context.try_component(entry, cls, values, own)
    component = _build(name, loaded, values, [*own, *extra], entry.place)
    return replace(component, chunk=chunking)


def retriever_family(node: Node) -> Family:
    """Return the family of an entry of `retrievers`: rerankers stand among them.

    A type that both families have, and code of the user's own, is a reranker if and only if the
    entry names the `retriever` whose hits it orders.
    """
    from ragbench.rerank import RERANKERS
    from ragbench.retrieve import RETRIEVERS

    name = node.text("type") or ""
    if name.startswith(PYTHON) or name in RETRIEVERS.names():
        reranks = node.get("retriever") is not None
        theirs = name.startswith(PYTHON) or name in RERANKERS.names()
        return RERANKERS if reranks and theirs else RETRIEVERS
    if name in RERANKERS.names():
        return RERANKERS
    # for the message: all that `type` may say
    return Family(RETRIEVERS.noun, RETRIEVERS.group, {**RETRIEVERS.table, **RERANKERS.table})


def common_keys(family: Family) -> dict[str, DeclaredOption]:
    """Return the keys that every member of a family takes; a loader is called only once."""
    if family.noun == "generator":
        return declared_options(Common) | declared_options(GeneratorCommon)
    if family.noun == "reranker":
        return declared_options(RerankerCommon) | declared_options(Common)
    return declared_options(Common) if family.noun in ("retriever", "app") else {}


def _build(
    name: str, loaded: tuple[str, Any], values: Mapping[str, Any], own: Sequence[str], place: Place
) -> Component:
    type_name, cls = loaded
    # a component that has a time limit of its own keeps it itself; the rest is done for it
    is_theirs = type_name.startswith(PYTHON)
    shared = frozenset[str]() if is_theirs else _SHARED
    common = {key: value for key, value in values.items() if key not in own or key in shared}
    waits = is_theirs or is_opaque(cls)
    if common.get("timeout") is None and waits and "timeout" in common:
        common["timeout"] = PYTHON_TIMEOUT
    if common.get("retrievers") is not None:
        common["retrievers"] = tuple(common["retrievers"])
    return Component(
        name=name,
        type=type_name,
        cls=cls,
        options={key: values[key] for key in own if key in values},
        place=place,
        **common,
    )


def _undeclared(
    node: Node, cls: Any, declared: Mapping[str, DeclaredOption], at: Place, report: Report
) -> list[str]:
    """Keys that a component of the user's own takes without declaring them."""
    named, takes_any = keyword_parameters(cls) or ({}, True)
    for key, default in named.items() if inspect.isclass(cls) else ():
        if default is REQUIRED and key not in node.entries.keys() | declared:
            allowed = f"{key}: what {cls.__name__} takes"
            report.add(at, node.path, f"missing key '{key}'", allowed)
    undeclared = [key for key in node.entries if key not in declared and key != "type"]
    return [key for key in undeclared if takes_any or key in named]


CHUNK = "chunk"
CHUNK_HELP = "How documents are cut into chunks, which are ranked instead."


def is_opaque(component: object) -> bool:
    """Return True if no cache key can cover code and data of a component: new runs call it."""
    # one of a third party need not inherit what declares it
    return bool(getattr(component, "is_opaque", False))


def indexes(component: object) -> bool:
    """Return True if a retriever indexes documents, so that they can be cut into chunks."""
    declared = getattr(component, "indexes", None)
    # one of the user's own need not inherit what declares it
    return callable(getattr(component, "index", None)) if declared is None else bool(declared)


def check_chunk(node: Node, type_name: str, component: Any, context: Context) -> Chunking | None:
    """Return the chunking of an entry; None, with a problem in the report, where it is wrong."""
    entry, report = node.entries[CHUNK], context.report
    block = entry.node
    if not indexes(component):
        found = f"'{CHUNK}' means nothing to '{type_name}', which does not index documents"
        report.wrong(entry, found, "a retriever that indexes, such as bm25")
        return None
    before = len(report)
    declared = declared_options(Chunking)
    values = context.check(block, declared)
    by, code = block.get("by"), block.get("factory")
    if by is not None and str(by.value).startswith(PYTHON):
        code = by
    splitter = None if code is None else load_named(code, context)
    # a key that each member of a sweep lacks is one problem, which the first has reported
    lacking = any(each.required and name not in values for name, each in declared.items())
    if len(report) > before or lacking:
        return None
    try:
        chunking = Chunking(**values)
        if splitter is not None:
            splitter_options(splitter, chunking)
        return chunking
    except OptionError as error:
        report_refusal(entry, error, report)
        return None


def check_dataset_options(dataset: KeyEntry, report: Report) -> None:
    """Check the mappings as the loaders will, so that their mistakes get places too."""
    from ragbench.data.files.columns import check_mapping
    from ragbench.data.loaders.base import parse_split

    checks: Mapping[str, Callable[[Mapping[str, Any], str], Any]] = {
        "columns": check_mapping,
        "split": parse_split,
    }
    for key, check in checks.items():
        node = dataset.node.get(key)
        if node is None or not isinstance(node.value, dict) or report.under(node.path):
            continue
        try:
            check(node.plain(), "dataset")
        except OptionError as error:
            report_refusal(dataset, error, report)
