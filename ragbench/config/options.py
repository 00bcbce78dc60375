"""Checks of options against their declaration, and of the retrievers, files and code they name."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from ragbench.config.first_guesses import lines_for_key, lines_for_missing
from ragbench.config.tree import UNREADABLE, KeyEntry, KeyPath, Node, Report, some_of
from ragbench.errors import DataError, OptionError, Place, RagbenchError
from ragbench.files import names_in
from ragbench.registry import (
    PYTHON,
    REQUIRED,
    DeclaredOption,
    check_repeat,
    is_factory,
    load_object,
    nearest,
)

Blocks = Mapping[KeyPath, tuple[Mapping[str, DeclaredOption], tuple[str, ...]]]
# Returned by `check_value` for a wrong value, since None is an allowed value
INVALID: Any = object()


def check_options(
    node: Node,
    declared: Mapping[str, DeclaredOption],
    report: Report,
    *,
    place: Place | None = None,
    extra: Collection[str] = (),
) -> dict[str, Any]:
    """Return the valid values of a mapping, with the defaults of absent keys.

    A key with a problem is left out of the result, also a required key that is absent; all problems
    go into the report. A null is a value, not an absent key. A value that is no mapping gives no
    values.

    Args:
        node: The mapping.
        declared: Key -> its declared option.
        report: Receives the problems.
        place: Place at which missing keys are reported; default: the start of the mapping.
        extra: Other keys that are allowed, which the caller checks.
    """
    if not isinstance(node.value, dict):
        if node.value is not UNREADABLE:
            report.wrong(node, f"{node.quote()} is not a mapping", "a mapping")
        return {}
    for key, entry in node.entries.items():
        if key not in declared and key not in extra:
            if (lines := lines_for_key(entry.node)) is not None:
                report.add(entry.place, node.path, f"unknown key '{key}'", lines)
            else:
                report.unknown_key(entry.place, node.path, key, [*extra, *declared])
    values = {}
    for key, option in declared.items():
        value = node.get(key)
        if value is None:
            if option.required:
                problem = f"missing key '{key}'"
                allowed = lines_for_missing(node, key) or f"{key}: {option.allowed}"
                report.add(place or node.place, node.path, problem, allowed)
            else:
                values[key] = option.default
        elif (checked := check_value(value, option, report)) is not INVALID:
            values[key] = checked
    return values


def check_value(node: Node, option: DeclaredOption, report: Report) -> Any:
    """Return the value in its declared type, or `INVALID` with a problem for each wrong part.

    A part that could not be read has a problem already and gets no second one.
    """
    value = node.plain()
    mismatches = option.mismatches(value)
    for mismatch in mismatches:
        part = node
        for step in mismatch.steps:
            part = part.elements[step] if isinstance(step, int) else part.entries[step].node
        if part.value is UNREADABLE:
            continue
        problem, near = f"{part.quote()} is not {mismatch.type_text}", None
        if mismatch.out_of_range:
            problem = f"{part.quote()} is out of range"
        elif words := mismatch.words:
            problem, near = f"unknown value {part.quote()}", nearest(str(part.value), words)
        report.wrong(part, problem, mismatch.allowed, near)
    return INVALID if mismatches else option.converted(value)


@dataclass
class Context:
    """State that the checks of one config share; `TreeCheck` makes it.

    `check` returns the valid values of a block, and reports the others.

    Attributes:
        base: The folder that paths are relative to.
        retrievers: Names that references may use, those of live objects included.
        members: Swept retriever -> the names of its combinations.
        code: Folders where `python:` looks before installed packages; None forbids code.
        late_checks: Checks that run only if the config has a problem anyway.
        references: Component -> the retrievers that its options name, with their places.
        blocks: Place of a block -> its declared options, and its keys in the order of a resolved
            config.
        filled: Place -> the value that the checks give it.
        paths: Places of values that are paths.
        report: Receives the problems.
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
        place: Place | None = None,
        extra: Collection[str] = (),
        order: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Return the valid values of a block, with absolute paths and the defaults of absent keys.

        The block is remembered for the resolved config. A key with a problem is left out, as in
        `check_options`. Paths that do not exist, and code that cannot be imported, are problems.

        Args:
            node: The block.
            declared: Key -> its declared option.
            place: Place at which missing keys are reported; default: the start of the block.
            extra: Other keys that are allowed, which the caller checks.
            order: Keys in the order of a resolved config; default: declared ones, then further
                ones.
        """
        self.blocks[node.path] = (declared, tuple(dict.fromkeys(order or (*declared, *extra))))
        values = check_options(node, declared, self.report, place=place, extra=extra)
        _resolve_options(node, declared, values, self)
        return values

    def fill(self, node: Node, key: str, value: object) -> None:
        """Set the value that a resolved config has under a key of a block."""
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
        """Create a built-in component, to report options that are valid alone but not together.

        A component that calls the user's code is not created, and none where code is forbidden. One
        that reads a file, or one that is `late`, is created only if the config has a problem
        anyway: both take time. Other errors of ragbench than OptionError are left to the run.

        Args:
            entry: The entry of the component.
            cls: Its class; third-party classes are not created.
            values: Valid values of its keys.
            declared: The options of the class itself.
            late: True for a component that the run may leave out, such as a judge.
        """
        options, targets = {}, set()
        for key, declaration in declared.items():
            if key in values:
                options[key] = values[key]
                if values[key]:
                    targets.add(str(declaration.option.refers_to))
        is_built_in = inspect.isclass(cls) and cls.__module__.partition(".")[0] == "ragbench"
        # `object` options import code of the user
        if not is_built_in or self.code is None or "object" in targets:
            return
        repeat = 1 if "repeat" in declared else values.get("repeat", 1)
        check = partial(_try_component, entry, cls, options, repeat, self.report)
        if late or any(target.startswith(("path", "folder")) for target in targets):
            self.late_checks.append(check)
        else:
            check()

    def refuses(self, node: Node) -> bool:
        """Return True, and report the value, if code is forbidden here: `code` is None.

        The caller knows that the value names code.
        """
        if self.code is None:
            problem = f"{node.quote()} runs code that a run folder names"
            allowed = "components of ragbench; only `ragbench reproduce` runs code of a run folder"
            self.report.wrong(node, problem, allowed)
        return self.code is None


def _try_component(
    entry: KeyEntry, cls: Any, options: Mapping[str, object], repeat: object, report: Report
) -> None:
    """Create a component; report its `OptionError`, or a `repeat` that its equal results forbid."""
    try:
        component = cls(**options)
        check_repeat(component, repeat)
    except OptionError as error:
        report_refusal(entry, error, report)
    except RagbenchError:
        return  # a missing file or package: reported when the component is used


def report_refusal(entry: KeyEntry, error: OptionError, report: Report) -> None:
    """Report an error of a constructor at the option, or at the entry that lacks the option.

    An option that has a problem already gets no second one.
    """
    node, place, path = entry.node, entry.place, entry.node.path
    keys = tuple(filter(None, error.option.split(".")))
    if keys and report.under((*path, keys[0])):
        return  # the check of the value has reported it, with more detail
    for key in keys:
        if (value := node.get(key)) is not None:
            node, place, path = value, value.place, value.path
    prefix = "unknown value" if error.nearest else "found"
    if keys and path[-1] == keys[-1] and not node.entries:
        problem = f"{prefix} {node.quote()}"
    elif keys and error.found is None:
        problem = f"missing key '{keys[-1]}'"
    elif (wrong_entry := node.entries.get(str(error.found))) is not None:
        place, problem = wrong_entry.place, f"unknown key '{error.found}'"
    else:
        path, problem = (*entry.path, *keys), f"found {error.found!r}"
    report.add(place, path, problem, error.allowed, error.nearest)


def references_of(
    node: Node, declared: Mapping[str, DeclaredOption], values: dict[str, Any], context: Context
) -> list[tuple[str, Node]]:
    """Return the retrievers that options name, with the places of the names.

    In a list, a swept retriever is replaced in `values`, the valid values of `node`, by its
    combinations; elsewhere it is a problem. Unknown names are reported and left out.
    """
    references: list[tuple[str, Node]] = []
    for key, option in declared.items():
        value = node.get(key)
        if option.option.refers_to != "retriever" or value is None or key not in values:
            continue
        if isinstance(value.value, tuple):
            names: dict[str, None] = {}
            for part in value.elements:
                for name in check_reference(part, context, many=True):
                    references.append((name, part))
                    # a retriever may stand in the list by its own name and by that of its sweep
                    names[name] = None
            values[key] = list(names)
        elif isinstance(value.value, str):
            for name in check_reference(value, context):
                references.append((name, value))
    return references


def check_reference(node: Node, context: Context, *, many: bool = False) -> tuple[str, ...]:
    """Return the retrievers that a name means; (), with a problem, if it is unknown.

    Args:
        node: The name.
        context: Has the retrievers and sweeps.
        many: True if a sweep may stand for its combinations; else a sweep is a problem.
    """
    name, report = str(node.value), context.report
    # first, as the name of a sweep is no retriever itself
    if name in context.members:
        members = context.members[name]
        if many:
            return members
        # one name is needed here, and a sweep has several
        problem = f"{node.quote()} is a sweep over {len(members)} retrievers"
        report.wrong(node, problem, some_of(members))
        return ()
    if name in context.retrievers:
        return (name,)
    allowed = some_of(context.retrievers) or "a name in retrievers"
    near = nearest(name, [*context.retrievers, *context.members])
    report.wrong(node, f"no retriever {node.quote()}", allowed, near)
    return ()


def report_cycles(references: Mapping[str, Sequence[tuple[str, Node]]], report: Report) -> None:
    """Report each cycle of retrievers that refer to each other, at the closing reference.

    A retriever that refers to itself is a cycle.
    """
    unsorted = {}
    for name, targets in references.items():
        unsorted[name] = dict(targets)
    while unsorted:
        try:
            TopologicalSorter(unsorted).prepare()
            return
        except CycleError as error:
            circle = error.args[1][:0:-1]  # each refers to the next, the last to the first
        first = circle.index(min(circle, key=list(unsorted).index))
        circle = [*circle[first:], *circle[:first]]
        chain = " -> ".join([*circle, circle[0]])
        closing = unsorted[circle[-1]][circle[0]]
        report.wrong(closing, f"the retrievers refer to each other: {chain}", "a chain that ends")
        for name in circle:
            del unsorted[name]


def resolve_path(node: Node, context: Context) -> Path | None:
    """Return the absolute path of a value; None, with a problem, if nothing exists there.

    It is relative to `context.base`; `~` is the home folder. The place is added to `context.paths`.
    """
    text, base = str(node.value), context.base
    context.paths.add(node.path)
    # `os.path` raises ValueError for a NUL character
    path = Path(os.path.abspath(base / os.path.expanduser(text))) if "\0" not in text else None
    if path is not None and os.path.exists(path):
        return path
    near = nearest(path.name, names_in(path.parent)) if path is not None else None
    # the source, as the value of a variable may be a secret
    directory = os.path.dirname(node.source)
    context.report.wrong(
        node,
        f"no such file: {node.source}",
        "a path" if base == Path() else f"a path relative to {base}",
        os.path.join(directory, near) if near else None,
    )
    return None


# A folder with one of these files holds a model
_MODEL_FILES = ("config.json", "modules.json")
# No built-in name and no model of a hub ends like this, so that such a text is a path
_FILE_SUFFIXES = (".j2", ".txt", ".yaml", ".yml")


def _resolve_options(
    node: Node, declared: Mapping[str, DeclaredOption], values: dict[str, Any], context: Context
) -> None:
    """Make the paths in `values` absolute; report files and Python code that do not exist."""
    for key, option in declared.items():
        value, refers_to = node.get(key), option.option.refers_to
        if value is None or key not in values:
            continue
        if refers_to in ("path_or_name", "folder_or_name"):
            path = _named_file(value, context, may_be_folder=refers_to == "folder_or_name")
            values[key] = values[key] if path is None else path
        elif refers_to == "object":
            component = load_named(value, context)
            if component is not None and "args" in declared:
                _check_arguments(component, value, node.get("args"), context.report)
        elif refers_to == "path":
            values[key] = _absolute(value, values[key], context)


def _named_file(value: Node, context: Context, *, may_be_folder: bool) -> str | None:
    """Return the absolute path of a text that may be a name; None for a name, or if it is wrong."""
    # `os.path` returns False for a name that is too long for a file, where `Path` raises
    file = context.base / str(value.value)
    is_file = (may_be_folder and os.path.isdir(file)) or os.path.isfile(file)
    if is_file or any(os.path.isfile(file / name) for name in _MODEL_FILES):
        context.paths.add(value.path)
        return str(file.absolute())
    # without such a file, the text is a name, which the component checks
    if file.suffix in _FILE_SUFFIXES:
        resolve_path(value, context)
    return None


def _absolute(node: Node, value: Any, context: Context) -> Any:
    """Return a path or a list of paths, made absolute; a missing file stays, or leaves its list."""
    if isinstance(node.value, tuple):
        paths = []
        for part, old in zip(node.elements, value, strict=True):
            path = resolve_path(part, context)
            if path is not None:
                paths.append(type(old)(path))
        return paths
    path = resolve_path(node, context) if isinstance(node.value, str) else None
    return value if path is None else type(value)(path)


def load_named(node: Node, context: Context) -> object:
    """Return the object that a value names, not called; None, with a problem, if it is missing.

    The value is `module:name`, also behind `python:`. It is None too, with a problem, if code is
    forbidden.
    """
    if context.refuses(node):
        return None
    try:
        return load_object(str(node.value).removeprefix(PYTHON), context.code or ())
    except DataError as error:
        context.report.refused(node, error)
        return None


def _check_arguments(factory: Any, node: Node, args: Node | None, report: Report) -> None:
    """Report arguments that a factory does not take, and required ones that are missing."""
    args = args or Node({}, node.place, node.path)
    if args.value is not None and not isinstance(args.value, dict):
        return  # the declared type of `args` has reported it
    if not is_factory(factory):
        if args.entries:
            problem = f"{node.quote()} is an object and takes no arguments"
            report.wrong(args, problem, "no args, or a function or class")
        return
    if (parameters := keyword_parameters(factory)) is None:
        return
    names, takes_any = parameters
    for key, entry in args.entries.items():
        if key not in names and not takes_any:
            report.unknown_key(entry.place, args.path, key, list(names))
    for name, default in names.items():
        if default is REQUIRED and name not in args.entries:
            allowed = f"{name}: a value for {node.source}"
            report.wrong(args, f"missing argument '{name}'", allowed)


def keyword_parameters(function: Any) -> tuple[dict[str, object], bool] | None:
    """Return (name -> default of a function's keyword parameters, whether it has `**kwargs`).

    A parameter without a default has `REQUIRED`. A function without a readable signature gives
    None.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C, or not callable
        return None
    defaults, takes_any = {}, False
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            defaults[parameter.name] = parameter.default
        takes_any = takes_any or parameter.kind is parameter.VAR_KEYWORD
    return defaults, takes_any
