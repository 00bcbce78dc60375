"""Values from outside the file: `${VAR}`, `--set`, `overrides=`; and grids of them: `sweep:`."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ragbench import secrets
from ragbench.config.problems import KeyPath, Report, dotted
from ragbench.config.tree import (
    SURROGATE,
    UNREADABLE,
    KeyEntry,
    Node,
    PythonReader,
    Reference,
    ScalarError,
    resolve,
    text_of,
)
from ragbench.config.yaml_reader import read_value
from ragbench.errors import Place
from ragbench.registry import nearest

_START = re.compile(
    r"\$(?P<escape>\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<end>\}|:-)|(?P<bad>\$\{)"
)
_START_OR_END = re.compile(rf"{_START.pattern}|(?P<close>\}})")
# Defaults within defaults.
_DEEPEST = 20

SWEEP = "sweep"
# Components that one sweep may stand for.
MAX_MEMBERS = 1000

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.+-]+")


class _NoVariable(ValueError):
    """A `${` that begins no reference, at a position of the text."""


class _Reader:
    """Reads a text with references: a default may hold references itself."""

    def __init__(self, text: str, environment: Mapping[str, str]) -> None:
        self.text, self.environment, self.position = text, environment, 0

    def parts(self, depth: int = 0) -> tuple[str | Reference, ...]:
        """Return texts and references up to the end: that of the text, or `}` of a default."""
        found: list[str | Reference] = []
        pattern, start = _START_OR_END if depth else _START, self.position
        while match := pattern.search(self.text, self.position):
            if match.start() > self.position:
                found.append(self.text[self.position : match.start()])
            self.position = match.end()
            if depth and match["close"]:
                return tuple(found)
            if match["escape"]:
                found.append("${")
            elif match["name"] and depth < _DEEPEST:
                name, variables = match["name"], self.environment
                default = self.parts(depth + 1) if match["end"] == ":-" else None
                found.append(Reference(name, variables.get(name, ""), default, name in variables))
            else:
                raise _NoVariable(match.start())
        if depth:
            raise _NoVariable(self.text.rindex("${", 0, start))
        if self.position < len(self.text):
            found.append(self.text[self.position :])
        return tuple(found)


def interpolate(node: Node, environment: Mapping[str, str], report: Report) -> Node:
    """Return the tree with every `${VAR}` replaced; what is written stays beside the value.

    A variable that is empty counts as absent where there is a default, as in a shell; a default may
    name variables itself. What an unquoted `${N:-3}` gives is read as if it stood there: 3 is a
    number. `$${` stands for `${`.
    """

    def replaced(entry: KeyEntry) -> KeyEntry:
        value = interpolate(entry.node, environment, report)
        return KeyEntry(entry.place, value, tuple(map(replaced, entry.repeats)))

    if isinstance(node.value, dict):
        return replace(node, value={key: replaced(entry) for key, entry in node.value.items()})
    if isinstance(node.value, tuple):
        parts = tuple(interpolate(part, environment, report) for part in node.value)
        return replace(node, value=parts)
    if isinstance(node.value, str) and "${" in node.value:
        return _interpolated(node, node.value, environment, report)
    return node


def _interpolated(node: Node, text: str, environment: Mapping[str, str], report: Report) -> Node:
    try:
        parts = _Reader(text, environment).parts()
    except _NoVariable as wrong:
        start = wrong.args[0]
        found = f"'{text[start : start + 20]}' is not a variable"
        report.wrong(node, found, "${NAME}, ${NAME:-default}, $${ for '${'")
        return replace(node, value=UNREADABLE, parts=(text,))
    if not any(isinstance(part, Reference) for part in parts):
        return replace(node, value=_resolved(node, text_of(parts), report))
    missing = [name for part in parts for name in _missing(part)]
    for name in missing:
        found = f"the environment variable {name} is not set"
        allowed = f"a value for it, or ${{{name}:-default}}"
        report.wrong(node, found, allowed, nearest(name, environment))
    value, failed = text_of(parts), bool(missing)
    if not failed and SURROGATE.search(value):
        report.wrong(node, "the environment variable's value is not UTF-8")
        failed = True
    node = replace(node, parts=parts)
    return replace(node, value=UNREADABLE if failed else _resolved(node, value, report))


def _missing(part: str | Reference) -> Iterator[str]:
    """The variables that would be needed: not those of a default that does not count."""
    if isinstance(part, str) or part.value:
        return
    if part.default is None:
        if not part.is_set:
            yield part.name
        return
    for inner in part.default:
        yield from _missing(inner)


def _resolved(node: Node, value: str, report: Report) -> Any:
    if node.quoted or not value:
        return value
    try:
        return resolve(value)
    except ScalarError:
        allowed = "a number without a leading zero, or ${...} in quotes for text"
        report.wrong(node, f"{node.shown()} gives an unclear number", allowed)
        return UNREADABLE


# Letters from which a secret within another value is no chance.
LONG = 8


def is_told_by(value: str, secret: str) -> bool:
    """Return True if a value is the secret, or contains it."""
    if secrets.is_placeholder(secret):
        return False
    return value == secret or (len(secret) >= LONG and secret in value)


# Letters from which a value within a secret is no chance.
_PIECE = 4
# Blocks whose keys are names of the user's own, which say nothing of secrets.
_BLOCKS = {("retrievers",), ("generators",), ("apps",)}


def is_hidden(node: Node, reference: Reference) -> bool:
    """Return True if the value of a variable in a scalar is a secret, by its names or its form."""
    if secrets.is_secret_variable(reference.name) or in_secret_option(node.path):
        return True
    value = reference.value
    if not value or secrets.looks_secret(value):
        return bool(value)
    # a piece of an address: the password alone, say
    return any(
        value == part or (len(value) >= _PIECE and value in part) or is_told_by(value, part)
        for part in secrets.secret_parts(text_of(node.parts))
    )


def in_secret_option(path: KeyPath) -> bool:
    """Return True if a key on the way to a value says that it is a secret.

    Example:
        >>> in_secret_option(("retrievers", "token", "k1"))
        False
        >>> in_secret_option(("retrievers", "a", "headers", "X"))
        True
    """
    keys = (*path[:1], *path[2:]) if path[:1] in _BLOCKS else path
    return secrets.is_secret_place(keys)


def is_secret_value(path: KeyPath, value: str) -> bool:
    """Return True if the keys of a value say that it is a secret, and the value can be one."""
    name = next((key for key in reversed(path) if not key.isdigit()), "")
    return in_secret_option(path) or secrets.is_key_like(name, value)


def escaped(text: str) -> str:
    """Return a text as it is written in a config: `$${` for `${`."""
    return text.replace("${", "$${")


def reads_environment(text: str) -> bool:
    """Return True if a text, as written in a config, names a variable; `$${` does not."""
    return any(match["escape"] is None for match in _START.finditer(text))


def names_in(text: str) -> list[str]:
    """Return the variables that a text as it is written names.

    Example:
        >>> names_in("Bearer ${TOKEN:-none} $${NOT}")
        ['TOKEN']
    """
    return [match["name"] for match in _START.finditer(text) if match["name"]]


Overrides = Mapping[str, Any] | Iterable[str]

_PART = re.compile(
    r"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^."'=]+))(?P<end>\.|=|$)"""
)


def apply_overrides(
    tree: Node, overrides: Overrides, blocks: Iterable[KeyPath], report: Report
) -> Node:
    """Return the tree with values put in or replaced.

    Overrides are `key=value` texts, whose values are read as YAML, or a mapping from dotted keys to
    Python values. A part with a dot in it stands in quotes: `retrievers."a.b".k1`; a number is an
    index of a list. Absent `blocks` are made; any other key on the way must exist.
    """
    known = frozenset(blocks)
    for override in _read(overrides, report):
        tree = _put(tree, override, 0, known, report)
    return tree


def _read(overrides: Overrides, report: Report) -> Iterable[Node]:
    """Yield the value of each override, whose path says where it goes."""
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            place = Place("overrides")
            path = _split(str(key), place, report)[0]
            if path:
                yield PythonReader(report, place).read(value, path)
        return
    for text in [overrides] if isinstance(overrides, str) else overrides:
        place = Place(f"--set {secrets.mask_secrets(text)}")
        path, rest = _split(text, place, report)
        if rest and (in_secret_option(path) or ": " in rest):
            shown = secrets.MASK if in_secret_option(path) else "..."
            place = Place(f"--set {dotted(path)}={shown}")
        if path and rest is None:
            report.add(place, (), "no '=' in it", "dotted.key=value")
        elif path and (node := read_value(rest or "", place, path, report)) is not None:
            yield node


def _split(text: str, place: Place, report: Report) -> tuple[KeyPath, str | None]:
    """The keys, and what follows the `=`; no keys, with a problem, where it is malformed."""
    parts: list[str] = []
    position = 0
    while match := _PART.match(text, position):
        ways = match.group("double", "single", "bare")
        parts.append(next(part for part in ways if part is not None))
        position = match.end()
        if match["end"] == "=":
            return tuple(parts), text[position:]
        if not match["end"]:
            return tuple(parts), None
    report.add(place, (), "not a dotted key", 'dotted.key=value, such as retrievers."a.b".k1=0.9')
    return (), None


def _put(
    node: Node, override: Node, depth: int, blocks: frozenset[KeyPath], report: Report
) -> Node:
    """Return a node with the override put in below it, at the key of this depth."""
    here, rest = override.path[:depth], override.path[depth:]
    if not rest:
        return override
    part = rest[0]
    if isinstance(node.value, tuple):
        if not (part.isascii() and part.isdigit() and int(part) < len(node.elements)):
            last = len(node.elements) - 1
            allowed = (
                f"a number from 0 to {last}" if node.elements else "nothing: the list is empty"
            )
            report.wrong(override, f"no element '{part}' in {dotted(here)}", allowed)
            return node
        items = list(node.elements)
        items[int(part)] = _put(items[int(part)], override, depth + 1, blocks, report)
        return replace(node, value=tuple(items))
    if not isinstance(node.value, dict):
        found = f"{dotted(here)} is {node.shown()}, which has no '{part}'"
        report.wrong(override, found, "a key of a mapping")
        return node
    if len(rest) == 1:
        return node.with_entry(part, override, override.place)
    entry, path = node.entries.get(part), override.path[: depth + 1]
    if entry is None and path in blocks:
        entry = KeyEntry(override.place, Node({}, override.place, path))
    if entry is not None:
        child = _put(entry.node, override, depth + 1, blocks, report)
        return node.with_entry(part, child, entry.place)
    absent = sorted(block[-1] for block in blocks if block[:-1] == here)  # blocks are a set
    names = list(dict.fromkeys([*node.entries, *absent]))
    found = f"no '{part}' in {dotted(here) or 'the config'}"
    report.wrong(override, found, ", ".join(names) or None, nearest(part, names))
    return node


@dataclass(frozen=True)
class Expanded:
    """A block of components with its sweeps written out.

    Attributes:
        members: The name of a swept entry -> the names that it stands for.
    """

    components: Mapping[str, KeyEntry]
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def expand_sweeps(block: Node, report: Report) -> Expanded:
    """Write out each entry with `sweep` as one component per combination.

    They are named `swept-k1=0.9-b=0.4`; the last key varies fastest. An entry whose sweep is
    malformed is left out, with a problem.
    """
    components: dict[str, KeyEntry] = {}
    members: dict[str, tuple[str, ...]] = {}
    for name, entry in block.entries.items():
        sweep = entry.node.get(SWEEP)
        made = {name: entry} if sweep is None else _grid(name, entry, sweep, report)
        if sweep is not None:
            members[name] = tuple(made)
        for clash in components.keys() & made.keys():
            report.wrong(entry, f"'{clash}' is there already", "new names")
        components |= made
    return Expanded(components, members)


def _grid(name: str, entry: KeyEntry, sweep: Node, report: Report) -> dict[str, KeyEntry]:
    if not _is_well_formed(entry.node, sweep, report):
        return {}
    base = entry.node.without(SWEEP)
    axes = {key: axis.node.elements for key, axis in sweep.entries.items()}
    made: dict[str, KeyEntry] = {}
    for values in itertools.product(*axes.values()):
        node, full_name = base, name
        for key, value in zip(axes, values, strict=True):
            node = _with(node, key, value, sweep.entries[key].place)
            full_name += f"-{key}={_as_name(value)}"
        # two values may read the same
        numbered = itertools.chain([full_name], (f"{full_name}_{n}" for n in itertools.count(2)))
        taken = {each.casefold() for each in made}  # files may not tell capitals apart
        new = next(each for each in numbered if each.casefold() not in taken)
        made[new] = KeyEntry(entry.place, node)
    return made


def _with(node: Node, key: str, value: Node, place: Place) -> Node:
    """The mapping with a value put in, also where a dot leads into a mapping of its own."""
    head, dot, rest = key.partition(".")
    if not dot:
        return node.with_entry(key, value, place)
    inner = node.get(head) or Node({}, place, (*node.path, head))
    return node.with_entry(head, _with(inner, rest, value, place))


def _is_set(node: Node, key: str) -> bool:
    """Return True if a dotted key has a value, or a key on its way has one that is no mapping."""
    head, dot, rest = key.partition(".")
    inner = node.get(head)
    if inner is None or not dot:
        return inner is not None
    return not isinstance(inner.value, dict) or _is_set(inner, rest)


def _is_well_formed(component: Node, sweep: Node, report: Report) -> bool:
    if not sweep.entries:
        found = f"{sweep.shown()} is not a mapping" if sweep.value != {} else "an empty sweep"
        report.wrong(sweep, found, "a mapping from options to lists of values")
        return False
    problems: list[tuple[Node | KeyEntry, str, str]] = []
    for key, entry in sweep.entries.items():
        node = entry.node
        if not node.elements:
            found = "an empty list" if node.value == () else f"{node.shown()} is not a list"
            problems.append((node, found, "a list of values"))
        if key in ("type", SWEEP):
            problems.append((entry, f"'{key}' cannot be swept", "options of the type"))
        elif _is_set(component, key):
            problems.append((entry, f"'{key}' is set and swept", "one of the two"))
    count = math.prod(len(entry.node.elements) for entry in sweep.entries.values())
    if count > MAX_MEMBERS:
        problems.append((sweep, f"{count:,} combinations", f"at most {MAX_MEMBERS:,}"))
    for at, found, allowed in problems:
        report.wrong(at, found, allowed)
    return not problems


def _as_name(value: Node) -> str:
    """A value as part of a name; what names cannot hold becomes `_`."""
    if isinstance(value.value, tuple):
        return "_".join(_as_name(part) for part in value.elements)
    # names are shown everywhere: they have the values of variables, but no secret
    is_shown = value.parts and not any(is_hidden(value, each) for each in value.references())
    text = text_of(value.parts) if is_shown else "mapping" if value.entries else value.written
    if not value.parts and (is_secret_value(value.path, text) or secrets.looks_secret(text)):
        text = value.path[-1]  # its number in the list
    return _NOT_IN_NAMES.sub("_", text) or "_"
