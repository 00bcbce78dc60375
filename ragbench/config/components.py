"""Checks of `dataset`, `retrievers`, `generators` and `apps`: first the type, then its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from ragbench.config.options import (
    Context,
    keyword_parameters,
    load_named,
    references_of,
    report_refusal,
)
from ragbench.config.schema import (
    CROSS_VALIDATED,
    DEFAULT_DEPTH,
    DEFAULT_PASSAGES,
    PYTHON_TIMEOUT,
    Component,
    JudgeBlock,
    Tail,
)
from ragbench.config.tree import RENAMED, KeyEntry, Node, Report
from ragbench.data.loaders.base import ReasoningOption
from ragbench.errors import DataError, OptionError, Place
from ragbench.registry import (
    PYTHON,
    REQUIRED,
    DeclaredOption,
    Family,
    Option,
    OptionSet,
    declared_options,
)
from ragbench.text.chunk import Chunking, splitter_options
from ragbench.types.lookups import select_in_order


class Common(OptionSet):
    """Keys of every retriever, reranker, generator and app: limits of calls, version and repeats.

    They stand in the entry of the component.
    """

    timeout: Annotated[
        float | None, Option("Time limit of one call, in seconds; null: none.", gt=0)
    ] = None
    concurrency: Annotated[int, Option("Number of concurrent calls.", ge=1)] = 1
    version: Annotated[str | None, Option("A word that you change when its answers change.")] = None
    repeat: Annotated[
        int, Option("How often each query is asked; its score is the mean.", ge=1)
    ] = 1


class CodeCommon(OptionSet):
    """Further key of components in the user's code: the number of retries.

    These are retrievers, rerankers, generators and apps with a type `python:...`.
    """

    retries: Annotated[
        int, Option("Retries of errors that may be temporary, within `timeout`.", ge=0)
    ] = 0


class RerankerCommon(OptionSet):
    """Further keys of every reranker, an entry of `retrievers:` too: retriever, depth and tail."""

    retriever: Annotated[str, Option("Retriever whose hits are reordered.", refers_to="retriever")]
    depth: Annotated[int, Option("Number of hits that are reordered.", ge=1)] = DEFAULT_DEPTH
    tail: Annotated[
        Tail, Option("Whether the other hits follow in their order, or are left out.")
    ] = "keep"


class AnswerCommon(OptionSet):
    """Further key of every generator and app: what happens to the reasoning of its model."""

    reasoning: ReasoningOption = "cut"


class GeneratorCommon(OptionSet):
    """Further keys of every generator: retrievers and number of passages.

    They stand in an entry of `generators:`, beside the options of its type.
    """

    retrievers: Annotated[
        list[str] | None,
        Option(
            "Retrievers that the generator is combined with; default: all.", refers_to="retriever"
        ),
    ] = None
    passages: Annotated[int, Option("Number of passages that the generator gets.", ge=1)] = (
        DEFAULT_PASSAGES
    )


# Common keys that the caller applies even if a component declares them itself
_CALLER_KEYS = frozenset({"concurrency", "version"})


def load_type(entry: KeyEntry, family: Family, context: Context) -> tuple[str, Any] | None:
    """Return the name and class of `type:`; None, with a problem in the report, if there is none.

    Problems are an entry that is no mapping, a missing or unknown type, and code that cannot be
    imported or must not be. Errors of importing are problems too; only Ctrl-C and SystemExit pass
    through.
    """
    node, report = entry.node, context.report
    if not isinstance(node.value, dict):
        example = next(iter(family.names()), "...")
        report.wrong(node, f"{node.quote()} is not a mapping", f"{{type: {example}, ...}}")
        return None
    type_node = node.get("type")
    if type_node is None:
        allowed = f"type: {', '.join(family.names())}"
        report.add(entry.place, node.path, "missing key 'type'", allowed)
        return None
    if not isinstance(type_node.value, str):
        report.wrong(type_node, f"{type_node.quote()} is not text", ", ".join(family.names()))
        return None
    if type_node.value.startswith(PYTHON) and context.refuses(type_node):
        return None
    try:
        return type_node.value, family.load(type_node.value, context.code or ())
    except OptionError as error:
        report.wrong(type_node, f"unknown type {type_node.quote()}", error.allowed, error.nearest)
    except DataError as error:
        report.refused(type_node, error)
    except Exception as error:  # noqa: BLE001 - an installed package may raise anything
        problem = f"{type_node.quote()} cannot be imported: {type(error).__name__}: {error}"
        report.wrong(type_node, problem, "a package that can be imported")
    return None


def options_of(component: Any) -> dict[str, DeclaredOption]:
    """Return the options that a component declares; empty if its annotations cannot be resolved.

    A class of the user may have annotations that only a type checker resolves; then its signature
    alone is checked.
    """
    try:
        return declared_options(component)
    except (NameError, TypeError, ValueError):
        return {}


def check_component(
    name: str, entry: KeyEntry, family: Family, context: Context
) -> Component | None:
    """Return the component of an entry; None, with problems in the report, if it is wrong.

    Options that are valid alone, but not together, are reported, and the component is returned.

    Args:
        name: Its name in the config.
        entry: Its key and mapping.
        family: The family that `type` belongs to.
        context: Report, folders and retrievers; receives the references of the component, and its
            declared block.
    """
    node, report = entry.node, context.report
    n_problems = len(report)
    if (loaded := load_type(entry, family, context)) is None:
        return None
    type_name, cls = loaded
    options, common = options_of(cls), common_keys(family, is_code=type_name.startswith(PYTHON))
    is_chunked = family.noun == "retriever" and CHUNK in node.entries and CHUNK not in options
    chunking = check_chunk(node, type_name, cls, context) if is_chunked else None
    # checked above, so that the options of the type do not report it
    node = node.without(CHUNK) if is_chunked else node
    node = without_useless_repeat(node, cls, options, report)
    common_options = {}
    for key, option in common.items():
        if key not in options:
            common_options[key] = option
    declared = {**options, **common_options}
    is_built_in = type_name in family.table
    undeclared = [] if is_built_in else _undeclared(node, cls, declared, entry.place, report)
    chunk_key = [CHUNK] if family.noun == "retriever" and indexes(cls) else []
    extra = ["type", *undeclared, *chunk_key]
    order = ("type", *options, *undeclared, *common_options, CHUNK)
    values = context.check(node, declared, place=entry.place, extra=extra, order=order)
    # without a declaration they reach the code of the user unchecked
    for key in undeclared:
        values[key] = node.entries[key].node.plain()
    context.references[name] = references_of(node, declared, values, context)
    if len(report) > n_problems or not values.keys() >= declared.keys():
        return None
    context.try_component(entry, cls, values, options)
    component = _build(name, loaded, values, [*options, *undeclared], entry.place)
    return replace(component, chunk=chunking)


def varies(component: Component | JudgeBlock | None) -> bool:
    """Return True if equal calls of a component or judge may have different results."""
    reason = getattr(component and component.cls, "same_results", "")
    return not (isinstance(reason, str) and reason)


def without_useless_repeat(node: Node, cls: Any, options: Collection[str], report: Report) -> Node:
    """Return an entry without `repeat` and its earlier name where all results are the same.

    Each of them is reported with the reason, but for `repeat: 1`. `options` are those of the class.
    """
    reason = getattr(cls, "same_results", "")
    if not isinstance(reason, str) or not reason or "repeat" in options:
        return node
    repeat = node.get("repeat")
    if repeat is not None and repeat.value != 1:
        report.wrong(repeat, f"found {repeat.quote()}", f"1: {reason}")
        node = node.without("repeat")
    for key, name in RENAMED.items():
        if name == "repeat" and key in node.entries and key not in options:
            problem = f"unknown key '{key}'"
            report.add(node.entries[key].place, node.path, problem, f"no 'repeat': {reason}")
            node = node.without(key)
    return node


def retriever_family(node: Node) -> Family:
    """Return the family of an entry of `retrievers`, which may be a reranker.

    A type of both families, and code of the user, is a reranker if and only if the entry has the
    key `retriever`. A wrong type gets a family with the types of both.
    """
    from ragbench.rerank import RERANKERS
    from ragbench.retrieve import RETRIEVERS

    name = node.text("type") or ""
    if name.startswith(PYTHON) or name in RETRIEVERS.names():
        reranks = node.get("retriever") is not None
        may_rerank = name.startswith(PYTHON) or name in RERANKERS.names()
        return RERANKERS if reranks and may_rerank else RETRIEVERS
    if name in RERANKERS.names():
        return RERANKERS
    # a wrong type: its message lists the types of both families
    return Family(RETRIEVERS.noun, RETRIEVERS.group, {**RETRIEVERS.table, **RERANKERS.table})


def common_keys(family: Family, *, is_code: bool = False) -> dict[str, DeclaredOption]:
    """Return the keys that every member of a family takes; with `is_code`, every `python:` one.

    Data sets, executors, judges and gates have no common keys.
    """
    common = declared_options(Common) | (declared_options(CodeCommon) if is_code else {})
    if family.noun == "generator":
        return common | declared_options(GeneratorCommon) | declared_options(AnswerCommon)
    if family.noun == "reranker":
        return declared_options(RerankerCommon) | common
    if family.noun == "app":
        return common | declared_options(AnswerCommon)
    return common if family.noun == "retriever" else {}


def _build(
    name: str, loaded: tuple[str, Any], values: Mapping[str, Any], keys: Sequence[str], place: Place
) -> Component:
    """Return the component from its valid values."""
    type_name, cls = loaded
    # keys that a component declares go to its constructor; the caller applies the common keys, and
    # `concurrency` and `version` in any case
    is_python = type_name.startswith(PYTHON)
    shared = frozenset[str]() if is_python else _CALLER_KEYS
    options, common = {}, {}
    for key, value in values.items():
        if key in keys:
            options[key] = value
        if key not in keys or key in shared:
            common[key] = value
    waits = is_python or is_opaque(cls)
    if common.get("timeout") is None and waits and "timeout" in common:
        common["timeout"] = PYTHON_TIMEOUT
    if common.get("retrievers") is not None:
        common["retrievers"] = tuple(common["retrievers"])
    return Component(
        name=name,
        type=type_name,
        cls=cls,
        options=select_in_order(options, keys),
        place=place,
        **common,
    )


def _undeclared(
    node: Node, cls: Any, declared: Mapping[str, DeclaredOption], place: Place, report: Report
) -> list[str]:
    """Return the keys of an entry that the user's component accepts without declaring them."""
    defaults, takes_any = keyword_parameters(cls) or ({}, True)
    for key, default in defaults.items() if inspect.isclass(cls) else ():
        if default is REQUIRED and key not in node.entries.keys() | declared:
            allowed = f"{key}: an argument of {cls.__name__}"
            report.add(place, node.path, f"missing key '{key}'", allowed)
    undeclared = []
    for key in node.entries:
        if key not in declared and key != "type" and (takes_any or key in defaults):
            undeclared.append(key)
    return undeclared


def unscored_combinations(retrievers: Mapping[str, Component]) -> frozenset[str]:
    """Return the combinations of sweeps with folds: not these, but their sweep is the system."""
    combinations = set[str]()
    for name, component in retrievers.items():
        if component.type == CROSS_VALIDATED:
            sources = component.options["retrievers"]
            # other retrievers that it may choose from are systems of their own
            for source in sources:
                if source.startswith(f"{name}-"):
                    combinations.add(source)
    return frozenset(combinations)


CHUNK = "chunk"
CHUNK_HELP = "How documents are cut into chunks, which are ranked instead."


def is_opaque(component: object) -> bool:
    """Return True if no cache key covers code and data of a component: each new run calls it."""
    # a third-party class need not inherit from the protocol that has the attribute
    return bool(getattr(component, "is_opaque", False))


def indexes(component: object) -> bool:
    """Return True if a retriever indexes documents, which can then be cut into chunks.

    Its attribute `indexes` decides, or else its method `index`.
    """
    declared = getattr(component, "indexes", None)
    # a class of the user need not inherit from the protocol that has the attribute
    return callable(getattr(component, "index", None)) if declared is None else bool(declared)


def check_chunk(node: Node, type_name: str, component: Any, context: Context) -> Chunking | None:
    """Return the chunking of an entry; None, with a problem in the report, if it is wrong.

    A retriever that does not index documents has no chunking: that is a problem too. `node` is the
    entry of the retriever, `component` its class, and `type_name` its type for messages.

    Raises:
        KeyError: The entry has no key `chunk`.
    """
    entry, report = node.entries[CHUNK], context.report
    block = entry.node
    if not indexes(component):
        problem = f"'{CHUNK}' has no effect on '{type_name}', which does not index documents"
        report.wrong(entry, problem, "a retriever that indexes, such as bm25")
        return None
    n_problems = len(report)
    declared = declared_options(Chunking)
    values = context.check(block, declared)
    by_node, splitter_node = block.get("by"), block.get("factory")
    if by_node is not None and str(by_node.value).startswith(PYTHON):
        splitter_node = by_node
    splitter = None if splitter_node is None else load_named(splitter_node, context)
    # a key that is missing in all combinations of a sweep is reported once, by the first of them
    is_incomplete = any(option.required and name not in values for name, option in declared.items())
    if len(report) > n_problems or is_incomplete:
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
    """Check `columns`, `pool` and `split` as the loaders do, so that mistakes get places too.

    A value that is no mapping, or has a problem already, is not checked.
    """
    from ragbench.data.files.columns import check_mapping
    from ragbench.data.loaders.base import parse_pool, parse_split

    checks: Mapping[str, Callable[[Mapping[str, Any], str], Any]] = {
        "columns": check_mapping,
        "pool": parse_pool,
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
