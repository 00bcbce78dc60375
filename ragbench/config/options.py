"""Options of an entry against what is declared, and the retrievers, files and code they name."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from ragbench.config.problems import KeyPath, Report, some_of
from ragbench.config.tree import UNREADABLE, KeyEntry, Node
from ragbench.errors import DataError, OptionError, Place, RagbenchError
from ragbench.files import names_in
from ragbench.registry import PYTHON, REQUIRED, DeclaredOption, is_factory, load_object, nearest

Blocks = Mapping[KeyPath, tuple[Mapping[str, DeclaredOption], tuple[str, ...]]]
# What `check_value` returns for a wrong value; None is a value.
INVALID: Any = object()


def check_options(
    node: Node,
    declared: Mapping[str, DeclaredOption],
    report: Report,
    *,
    at: Place | None = None,
    others: Collection[str] = (),
) -> dict[str, Any]:
    """Return the valid values of a mapping, with the defaults of absent ones.

    A key with a problem is absent. A missing key is reported at `at`, or where the mapping begins;
    `others` are further keys that are allowed, which the caller checks.
    """
    if not isinstance(node.value, dict):
        if node.value is not UNREADABLE:
            report.wrong(node, f"{node.shown()} is not a mapping", "a mapping")
        return {}
    for key, entry in node.entries.items():
        if key not in declared and key not in others:
            report.unknown_key(entry.place, node.path, key, [*others, *declared])
    values = {}
    for key, option in declared.items():
        value = node.get(key)
        if value is None:
            if option.required:
                found = f"missing key '{key}'"
                report.add(at or node.place, node.path, found, f"{key}: {option.allowed}")
            else:
                values[key] = option.default
        elif (checked := check_value(value, option, report)) is not INVALID:
            values[key] = checked
    return values


def check_value(node: Node, option: DeclaredOption, report: Report) -> Any:
    """Return the value in its declared type, or `INVALID` with a problem for each wrong part."""
    value = node.plain()
    mismatches = option.mismatches(value)
    for mismatch in mismatches:
        part = node
        for step in mismatch.steps:
            part = part.elements[step] if isinstance(step, int) else part.entries[step].node
        if part.value is UNREADABLE:
            continue
        found, close = f"{part.shown()} is not {mismatch.wanted}", None
        if mismatch.out_of_range:
            found = f"{part.shown()} is out of range"
        elif words := mismatch.words:
            found, close = f"unknown value {part.shown()}", nearest(str(part.value), words)
        report.wrong(part, found, mismatch.allowed, close)
    return INVALID if mismatches else option.converted(value)


@dataclass
class Context:
    """State that the checks of one config share.

    Attributes:
        base: The folder that paths are relative to.
        retrievers: Names that references may use, those of live objects included.
        members: Swept retrievers -> the names that they stand for.
        code: Where `python:` looks before what is installed; where this is None, no code may be
            named.
        late_checks: Checks that are run only where the config is refused anyway.
        references: Component -> the retrievers that its options name, with the places where they
            do.
        blocks: Place of a block -> its declared options, and its keys in the order of a resolved
            config.
        filled: Place -> the value that the checks give it.
    """

    report: Report
    base: Path
    retrievers: Sequence[str] = ()
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    code: tuple[Path, ...] | None = ()
    late_checks: list[Callable[[], None]] = field(default_factory=list)
    references: dict[str, list[tuple[str, Node]]] = field(default_factory=dict)
    blocks: dict[KeyPath, tuple[Mapping[str, DeclaredOption], tuple[str, ...]]] = field(
        default_factory=dict
    )
    filled: dict[KeyPath, Any] = field(default_factory=dict)
    paths: set[KeyPath] = field(default_factory=set)

    def check(
        self,
        node: Node,
        declared: Mapping[str, DeclaredOption],
        *,
        at: Place | None = None,
        others: Collection[str] = (),
        order: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Return the valid values of a block, with absolute paths and the defaults of absent keys.

        The block is noted for the resolved config; for `at` and `others` see `check_options`.
        """
        self.blocks[node.path] = (declared, tuple(dict.fromkeys(order or (*declared, *others))))
        values = check_options(node, declared, self.report, at=at, others=others)
        _resolve_options(node, declared, values, self)
        return values

    def fill(self, node: Node, key: str, value: object) -> None:
        """Note the value that a resolved config has under a key of a block."""
        place = (*node.path, key)
        self.filled[place] = value

    def try_component(
        self,
        entry: KeyEntry,
        cls: object,
        values: Mapping[str, object],
        declared: Mapping[str, DeclaredOption],
        *,
        late: bool = False,
    ) -> None:
        """Create a built-in component, to report options that are right alone but not together.

        A component that calls the user's code is not created. One that reads a file, or that a run
        may do without (`late`), is created only where the config is refused anyway.
        """
        options = {key: values[key] for key in declared if key in values}
        targets = {str(declared[key].option.refers_to) for key, value in options.items() if value}
        is_built_in = inspect.isclass(cls) and cls.__module__.partition(".")[0] == "ragbench"
        if not is_built_in or self.code is None or "object" in targets:
            return
        samples = None if "samples" in declared else values.get("samples")  # a generator's
        check = partial(_try_component, entry, cls, options, samples, self.report)
        if late or any(target.startswith(("path", "folder")) for target in targets):
            self.late_checks.append(check)
        else:
            check()

    def refuses(self, node: Node) -> bool:
        """Report code that must not be imported, since a run folder names it; return True then."""
        if self.code is None:
            found = f"{node.shown()} is code, and nothing that a run folder names is imported"
            allowed = "components of ragbench; only `ragbench reproduce` runs code of a run folder"
            self.report.wrong(node, found, allowed)
        return self.code is None


def _try_component(
    entry: KeyEntry, cls: Any, options: Mapping[str, object], samples: object, report: Report
) -> None:
    """Create a component, and report its refusal."""
    try:
        component = cls(**options)
        if samples is not None:
            component.check_samples(samples)
    except OptionError as error:
        report_refusal(entry, error, report)
    except RagbenchError:
        return  # a file or a package: whoever uses the component says so


def report_refusal(entry: KeyEntry, error: OptionError, report: Report) -> None:
    """Report an error of a constructor at the option, or at the entry that lacks the option."""
    node, place, path = entry.node, entry.place, entry.node.path
    keys = tuple(filter(None, error.option.split(".")))
    if keys and report.under((*path, keys[0])):
        return  # the checks of the values have said more of it
    for key in keys:
        if (value := node.get(key)) is not None:
            node, place, path = value, value.place, value.path
    verb = "unknown value" if error.nearest else "found"
    if keys and path[-1] == keys[-1] and not node.entries:
        found = f"{verb} {node.shown()}"
    elif keys and error.found is None:
        found = f"missing key '{keys[-1]}'"
    elif (wrong := node.entries.get(str(error.found))) is not None:
        place, found = wrong.place, f"unknown key '{error.found}'"
    else:
        path, found = (*entry.path, *keys), f"found {error.found!r}"
    report.add(place, path, found, error.allowed, error.nearest)


def references_of(
    node: Node, declared: Mapping[str, DeclaredOption], values: dict[str, Any], context: Context
) -> list[tuple[str, Node]]:
    """Return the retrievers that options name, with the places where they do.

    In a list, a swept retriever is replaced in `values` by the ones that it stands for.
    """
    found: list[tuple[str, Node]] = []
    for key, option in declared.items():
        value = node.get(key)
        if option.option.refers_to != "retriever" or value is None or key not in values:
            continue
        if isinstance(value.value, tuple):
            named = [
                (name, part)
                for part in value.elements
                for name in check_reference(part, context, many=True)
            ]
            found += named
            values[key] = list(dict.fromkeys(name for name, _ in named))
        elif isinstance(value.value, str):
            found += [(name, value) for name in check_reference(value, context)]
    return found


def check_reference(node: Node, context: Context, *, many: bool = False) -> tuple[str, ...]:
    """Return the retrievers that a name means; none, with a problem, where it means none."""
    name, report = str(node.value), context.report
    if name in context.members:
        members = context.members[name]
        if many:
            return members
        found = f"{node.shown()} is swept: it stands for {len(members)} retrievers"
        report.wrong(node, found, some_of(members))
        return ()
    if name in context.retrievers:
        return (name,)
    allowed = some_of(context.retrievers) or "a name in retrievers"
    close = nearest(name, [*context.retrievers, *context.members])
    report.wrong(node, f"no retriever {node.shown()}", allowed, close)
    return ()


def report_cycles(references: Mapping[str, Sequence[tuple[str, Node]]], report: Report) -> None:
    """Report each circle of retrievers that refer to each other, where it closes."""
    waiting = {name: dict(targets) for name, targets in references.items()}
    while waiting:
        try:
            TopologicalSorter(waiting).prepare()
            return
        except CycleError as error:
            circle = error.args[1][:0:-1]  # each refers to the next, the last to the first
        first = circle.index(min(circle, key=list(waiting).index))
        circle = [*circle[first:], *circle[:first]]
        shown = " -> ".join([*circle, circle[0]])
        closing = waiting[circle[-1]][circle[0]]
        report.wrong(closing, f"the retrievers refer to each other: {shown}", "a chain that ends")
        for name in circle:
            del waiting[name]


def resolve_path(node: Node, context: Context) -> Path | None:
    """Return the absolute path that a value names; None, with a problem, where nothing is."""
    text, base = str(node.value), context.base
    context.paths.add(node.path)
    path = Path(os.path.abspath(base / os.path.expanduser(text))) if "\0" not in text else None
    if path is not None and os.path.exists(path):
        return path
    close = nearest(path.name, names_in(path.parent)) if path is not None else None
    directory = os.path.dirname(node.written)
    context.report.wrong(
        node,
        f"no such file: {node.written}",
        "a path" if base == Path() else f"a path relative to {base}",
        os.path.join(directory, close) if close else None,
    )
    return None


# What a folder with a model holds.
_OF_MODELS = ("config.json", "modules.json")
# How no built-in name and no model of a hub ends.
_OF_FILES = (".j2", ".txt", ".yaml", ".yml")


def _resolve_options(
    node: Node, declared: Mapping[str, DeclaredOption], values: dict[str, Any], context: Context
) -> None:
    """Make the paths among the values absolute; report files and Python code that do not exist."""
    for key, option in declared.items():
        value = node.get(key)
        if value is None or key not in values:
            continue
        if option.option.refers_to in ("path_or_name", "folder_or_name"):
            # what is not there is left to the component, which knows its names; `os.path` says so
            # of a name that is too long for a file, too, where `Path` raises
            path = context.base / str(value.value)
            is_folder = option.option.refers_to == "folder_or_name" and os.path.isdir(path)
            if is_folder or any(os.path.isfile(path / name) for name in ("", *_OF_MODELS)):
                values[key] = str(path.absolute())
                context.paths.add(value.path)
            elif path.suffix in _OF_FILES:
                resolve_path(value, context)
        elif option.option.refers_to == "object":
            if (found := load_named(value, context)) is not None and "args" in declared:
                _check_arguments(found, value, node.get("args"), context.report)
        elif option.option.refers_to != "path":
            continue
        elif isinstance(value.value, tuple):
            paths = [resolve_path(part, context) for part in value.elements]
            kept = zip(values[key], paths, strict=True)
            values[key] = [type(old)(path) for old, path in kept if path is not None]
        elif isinstance(value.value, str):
            found = resolve_path(value, context)
            if found is not None:
                values[key] = str(found) if isinstance(values[key], str) else found


def load_named(node: Node, context: Context) -> object:
    """Return code that is named, not called; None, with a problem, where it cannot be imported."""
    if context.refuses(node):
        return None
    try:
        return load_object(str(node.value).removeprefix(PYTHON), context.code or ())
    except DataError as error:
        context.report.refused(node, error)
        return None


def _check_arguments(found: Any, node: Node, args: Node | None, report: Report) -> None:
    """Report arguments that a factory does not take, and those that it lacks."""
    args = args or Node({}, node.place, node.path)
    if args.value is not None and not isinstance(args.value, dict):
        return  # it is reported already
    if not is_factory(found):
        if args.entries:
            report.wrong(args, f"arguments for {node.shown()}, which is made already", "none")
        return
    if (parameters := keyword_parameters(found)) is None:
        return
    named, takes_any = parameters
    for key, entry in args.entries.items():
        if key not in named and not takes_any:
            report.unknown_key(entry.place, args.path, key, list(named))
    for name, default in named.items():
        if default is REQUIRED and name not in args.entries:
            allowed = f"{name}: what {node.written} takes"
            report.wrong(args, f"missing argument '{name}'", allowed)


def keyword_parameters(function: Any) -> tuple[dict[str, object], bool] | None:
    """Return keywords with their defaults, and whether others are taken; None if nothing tells."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C, or not callable
        return None
    named = {
        p.name: p.default for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    return named, any(p.kind is p.VAR_KEYWORD for p in parameters)
