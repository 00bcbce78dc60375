"""Values from the command line, `--set`, and grids of values, `sweep:`."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragbench import secrets
from ragbench.config.schema import CROSS_VALIDATED
from ragbench.config.secret_values import in_secret_option, is_hidden, is_secret_value
from ragbench.config.tree import KeyEntry, KeyPath, Node, PythonReader, Report, dotted, text_of
from ragbench.config.yaml_reader import read_value
from ragbench.errors import Place
from ragbench.registry import nearest

SWEEP = "sweep"
SELECT = "select"
FOLDS = "folds"
# Combinations of one sweep
MAX_MEMBERS = 1000

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.+-]+")

Overrides = Mapping[str, Any] | Iterable[str]

_DOTTED_KEY = re.compile(
    r"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^."'=]+))(?P<end>\.|=|$)"""
)


def apply_overrides(
    tree: Node, overrides: Overrides, blocks: Iterable[KeyPath], report: Report
) -> Node:
    """Return the tree with values added or replaced; wrong overrides are reported and left out.

    A key with a dot in it stands in quotes: `retrievers."a.b".k1`; a number is the index of a list.
    The last key of a mapping may be new. They apply in order, so that a later one wins; the tree
    itself is not changed.

    Args:
        tree: The config.
        overrides: `key=value` texts, whose values are read as YAML, or one such text, or a mapping
            from dotted keys to Python values.
        blocks: Blocks that are created if they are absent; any other key on the way must exist.
        report: Receives the problems.
    """
    creatable = frozenset(blocks)
    for override in _read(overrides, report):
        tree = _put(tree, override, 0, creatable, report)
    return tree


def _read(overrides: Overrides, report: Report) -> Iterable[Node]:
    """Yield the value of each override, with the path where it goes; report malformed ones."""
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            place = Place("overrides")
            path = _split(str(key), place, report)[0]
            if path:
                yield PythonReader(report, place).read(value, path)
        return
    for text in [overrides] if isinstance(overrides, str) else overrides:
        place = Place(f"--set {secrets.mask_secrets(text)}")
        path, value_text = _split(text, place, report)
        if value_text and (in_secret_option(path) or ": " in value_text):
            # errors print the place; a value with ": " may be a mapping with a secret in it
            masked = secrets.MASK if in_secret_option(path) else "..."
            place = Place(f"--set {dotted(path)}={masked}")
        if path and value_text is None:
            report.add(place, (), "no '=' in it", "dotted.key=value")
        elif path and (node := read_value(value_text or "", place, path, report)) is not None:
            yield node


def _split(text: str, place: Place, report: Report) -> tuple[KeyPath, str | None]:
    """Return (keys of an override, text behind its `=` or None without one)."""
    keys: list[str] = []
    position = 0
    while match := _DOTTED_KEY.match(text, position):
        forms = match.group("double", "single", "bare")
        keys.append(next(part for part in forms if part is not None))
        position = match.end()
        if match["end"] == "=":
            return tuple(keys), text[position:]
        if not match["end"]:
            return tuple(keys), None
    report.add(place, (), "not a dotted key", 'dotted.key=value, such as retrievers."a.b".k1=0.9')
    return (), None


def _put(
    node: Node, override: Node, depth: int, blocks: frozenset[KeyPath], report: Report
) -> Node:
    """Return a node with the override added below it."""
    parents, remaining = override.path[:depth], override.path[depth:]
    if not remaining:
        return override
    key = remaining[0]
    if isinstance(node.value, tuple):
        if not (key.isascii() and key.isdigit() and int(key) < len(node.elements)):
            last = len(node.elements) - 1
            allowed = f"a number from 0 to {last}" if node.elements else "nothing: it is empty"
            report.wrong(override, f"no element '{key}' in {dotted(parents)}", allowed)
            return node
        items = list(node.elements)
        items[int(key)] = _put(items[int(key)], override, depth + 1, blocks, report)
        return replace(node, value=tuple(items))
    if not isinstance(node.value, dict):
        problem = f"{dotted(parents)} is {node.quote()}, which has no '{key}'"
        report.wrong(override, problem, "a key of a mapping")
        return node
    if len(remaining) == 1:
        return node.with_entry(key, override, override.place)
    entry, path = node.entries.get(key), override.path[: depth + 1]
    if entry is None and path in blocks:
        entry = KeyEntry(override.place, Node({}, override.place, path))
    if entry is not None:
        child = _put(entry.node, override, depth + 1, blocks, report)
        return node.with_entry(key, child, entry.place)
    last_keys = []
    for block in blocks:
        if block[:-1] == parents:
            last_keys.append(block[-1])
    names = list(dict.fromkeys([*node.entries, *sorted(last_keys)]))  # blocks are a set
    problem = f"no '{key}' in {dotted(parents) or 'the config'}"
    report.wrong(override, problem, ", ".join(names) or None, nearest(key, names))
    return node


@dataclass(frozen=True)
class Expanded:
    """A block of components with its sweeps written out, as `expand_sweeps` returns it.

    Attributes:
        components: Name -> entry: one for each combination of a sweep, and the others as they are.
        members: Swept entry -> the names of its combinations; empty if the sweep is malformed. A
            retriever with `select: {folds: 5}` is no such entry, but a component over them.
        selects: Swept retriever -> its `select`; absent without one.
    """

    components: Mapping[str, KeyEntry]
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    selects: Mapping[str, KeyEntry] = field(default_factory=dict)


def expand_sweeps(block: Node, report: Report, chosen: Mapping[str, str]) -> Expanded:
    """Return the components of a block, an entry with `sweep` as one component per combination.

    These are named `swept-k1=0.9-b=0.4`; the last key varies fastest. With `select: {folds: 5}`, a
    `cross_validated` retriever with the name of the sweep follows them. A malformed sweep, and a
    name that exists already, are reported; a malformed sweep is left out, and the later of two
    equal names replaces the earlier one. Of a sweep in `chosen` only that combination is left;
    a KeyError is raised if it has no such combination.
    """
    components: dict[str, KeyEntry] = {}
    members: dict[str, tuple[str, ...]] = {}
    selects: dict[str, KeyEntry] = {}
    for name, entry in block.entries.items():
        sweep, select = entry.node.get(SWEEP), entry.node.entries.get(SELECT)
        # other components keep the key, which is unknown there
        if sweep is not None and select is not None and block.path == ("retrievers",):
            selects[name] = select
            entry = replace(entry, node=entry.node.without(SELECT))
        combinations = {name: entry} if sweep is None else _grid(name, entry, sweep, report)
        if sweep is not None:
            if name in chosen:
                combinations = {chosen[name]: combinations[chosen[name]]}
            if combinations and name in selects and FOLDS in selects[name].node.entries:
                combinations[name] = _cross_validated(selects[name], tuple(combinations))
            else:
                members[name] = tuple(combinations)
        for clash in components.keys() & combinations.keys():
            report.wrong(entry, f"the name '{clash}' is used already", "another name")
        components |= combinations
    return Expanded(components, members, selects)


def _cross_validated(select: KeyEntry, names: Sequence[str]) -> KeyEntry:
    """Return the entry of the retriever that chooses one of the combinations for each fold."""
    place, path = select.place, select.node.path
    retrievers = tuple(Node(name, place, path, source=name) for name in names)
    entries = {
        "type": KeyEntry(place, Node(CROSS_VALIDATED, place, path, source=CROSS_VALIDATED)),
        "retrievers": KeyEntry(place, Node(retrievers, place, path)),
    }
    return KeyEntry(place, replace(select.node, value={**entries, **select.node.entries}))


def _grid(name: str, entry: KeyEntry, sweep: Node, report: Report) -> dict[str, KeyEntry]:
    """Return an entry for every combination of a sweep, by name."""
    if not _is_well_formed(entry.node, sweep, report):
        return {}
    # combinations have no sweep of their own
    base = entry.node.without(SWEEP)
    axes = {key: axis.node.elements for key, axis in sweep.entries.items()}
    combinations: dict[str, KeyEntry] = {}
    used: set[str] = set()
    for values in itertools.product(*axes.values()):
        node, full_name = base, name
        for key, value in zip(axes, values, strict=True):
            node = _with_value(node, key, value, sweep.entries[key].place)
            full_name += f"-{key}={_name_part(value)}"
        # two values may give the same name, such as 1 and "1"; on Windows and macOS, names of files
        # must differ in more than case
        unique_name, number = full_name, 1
        while unique_name.casefold() in used:
            number += 1
            unique_name = f"{full_name}_{number}"
        used.add(unique_name.casefold())
        combinations[unique_name] = KeyEntry(entry.place, node)
    return combinations


def _with_value(node: Node, key: str, value: Node, place: Place) -> Node:
    """Return a mapping with a value added; a dot in the key leads into an inner mapping."""
    head, dot, inner_key = key.partition(".")
    if not dot:
        return node.with_entry(key, value, place)
    inner = node.get(head) or Node({}, place, (*node.path, head))
    return node.with_entry(head, _with_value(inner, inner_key, value, place))


def _is_set(node: Node, key: str) -> bool:
    """Return True if a dotted key has a value, or a key on its way has one that is no mapping."""
    head, dot, inner_key = key.partition(".")
    inner = node.get(head)
    if inner is None or not dot:
        return inner is not None
    return not isinstance(inner.value, dict) or _is_set(inner, inner_key)


def _is_well_formed(component: Node, sweep: Node, report: Report) -> bool:
    """Return True if a sweep has only lists of values for options that are not set."""
    if not sweep.entries:
        problem = f"{sweep.quote()} is not a mapping" if sweep.value != {} else "the sweep is empty"
        report.wrong(sweep, problem, "a mapping from options to lists of values")
        return False
    problems: list[tuple[Node | KeyEntry, str, str]] = []
    for key, entry in sweep.entries.items():
        node = entry.node
        if not node.elements:
            problem = "the list is empty" if node.value == () else f"{node.quote()} is not a list"
            problems.append((node, problem, "a list of values"))
        if key in ("type", SWEEP):
            problems.append((entry, f"'{key}' cannot be swept", "options of the type"))
        elif _is_set(component, key):
            problems.append((entry, f"'{key}' is set and swept", "one of the two"))
    count = math.prod(len(entry.node.elements) for entry in sweep.entries.values())
    if count > MAX_MEMBERS:
        problems.append((sweep, f"{count:,} combinations", f"at most {MAX_MEMBERS:,}"))
    for placed, problem, allowed in problems:
        report.wrong(placed, problem, allowed)
    return not problems


def _name_part(value: Node) -> str:
    """Return a value as a part of a name: other characters become `_`, a secret its number."""
    if isinstance(value.value, tuple):
        return "_".join(map(_name_part, value.elements))
    if value.entries:
        return "_".join(_name_part(entry.node) for entry in value.entries.values())
    text = value.source
    # names are printed everywhere: values of variables may stand in them, secrets may not
    if value.parts:
        if not any(is_hidden(value, reference) for reference in value.references()):
            text = text_of(value.parts)
    elif is_secret_value(value.path, text) or secrets.looks_secret(text):
        text = value.path[-1]  # its number in the list
    return _NOT_IN_NAMES.sub("_", text) or "_"
