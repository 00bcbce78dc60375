"""Values from outside the file, `${VAR}` and `--set`, and grids of values, `sweep:`."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ragbench import secrets
from ragbench.config.tree import (
    SURROGATE,
    UNREADABLE,
    KeyEntry,
    KeyPath,
    Node,
    PythonReader,
    Reference,
    Report,
    ScalarError,
    dotted,
    resolve,
    text_of,
)
from ragbench.config.yaml_reader import read_value
from ragbench.errors import Place
from ragbench.registry import nearest

# `$${` comes first, as it contains `${`
_REFERENCE = re.compile(
    r"\$(?P<escape>\$\{)|(?P<bad>\$\{)"
    r"(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>(?:(?!\$\{)[^}])*))?\})?"
)

SWEEP = "sweep"
SELECT = "select"
# Combinations of one sweep
MAX_MEMBERS = 1000

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.+-]+")


class _NotAReference(ValueError):
    """A `${` that begins no reference; the argument is its position in the text."""


def _parts(text: str, environment: Mapping[str, str]) -> tuple[str | Reference, ...]:
    """Return the texts and references of a scalar, in order; () for ''.

    `$${` becomes a text `${`. A variable that `environment` lacks is no error.

    Raises:
        _NotAReference: A `${` has no name or no end, or its default has a `${`.
    """
    parts: list[str | Reference] = []
    position = 0
    for match in _REFERENCE.finditer(text):
        parts.append(text[position : match.start()])
        position, name = match.end(), match["name"]
        if match["escape"]:
            parts.append("${")
        elif name:
            value, is_set = environment.get(name, ""), name in environment
            parts.append(Reference(name, value, match["default"], is_set))
        else:
            raise _NotAReference(match.start())
    return tuple(part for part in (*parts, text[position:]) if part)


def interpolate(node: Node, environment: Mapping[str, str], report: Report) -> Node:
    """Return the tree with every `${VAR}` replaced; `source` keeps the text of the config.

    A variable that is empty counts as absent if there is a default, as in a shell. A variable that
    is not set, without a default, is a problem. The value of an unquoted `${N:-3}` is read as YAML:
    3 is a number. `$${` stands for `${`. Keys stay as they are, and the tree is not changed.

    Args:
        node: The tree.
        environment: Variable -> value.
        report: Receives the problems; their values become `UNREADABLE`.
    """
    if isinstance(node.value, dict):
        entries = {
            key: KeyEntry(entry.place, interpolate(entry.node, environment, report))
            for key, entry in node.value.items()
        }
        return replace(node, value=entries)
    if isinstance(node.value, tuple):
        parts = tuple(interpolate(part, environment, report) for part in node.value)
        return replace(node, value=parts)
    if isinstance(node.value, str) and "${" in node.value:
        return _interpolated(node, node.value, environment, report)
    return node


def _interpolated(node: Node, text: str, environment: Mapping[str, str], report: Report) -> Node:
    """Return a scalar with the references in its text replaced.

    Its value is `UNREADABLE`, with a problem, if one cannot be.
    """
    try:
        parts = _parts(text, environment)
    except _NotAReference as error:
        start = error.args[0]
        problem = f"'{text[start : start + 20]}' is not a variable"
        report.wrong(node, problem, "${NAME}, ${NAME:-default}, $${ for '${'")
        return replace(node, value=UNREADABLE, parts=(text,))
    if not any(isinstance(part, Reference) for part in parts):
        return replace(node, value=_resolved(node, text_of(parts), report))
    # all at once, so that a user sets them in one go
    references = (part for part in parts if isinstance(part, Reference))
    missing = [part.name for part in references if part.default is None and not part.is_set]
    for name in missing:
        problem = f"the environment variable {name} is not set"
        allowed = f"a value for it, or ${{{name}:-default}}"
        report.wrong(node, problem, allowed, nearest(name, environment))
    value, failed = text_of(parts), bool(missing)
    if not failed and SURROGATE.search(value):
        report.wrong(node, "the environment variable's value is not UTF-8")
        failed = True
    node = replace(node, parts=parts)
    return replace(node, value=UNREADABLE if failed else _resolved(node, value, report))


def _resolved(node: Node, value: str, report: Report) -> Any:
    """Return the replaced text as YAML reads it; as text if the scalar stands in quotes.

    '' stays '', and is no null. `UNREADABLE`, with a problem, for an unclear number.
    """
    if node.quoted or not value:
        return value
    try:
        return resolve(value)
    except ScalarError:
        allowed = "a number without a leading zero, or ${...} in quotes for text"
        report.wrong(node, f"{node.quote()} gives an unclear number", allowed)
        return UNREADABLE


# From this length on, a secret inside another value is no coincidence
LONG_SECRET = 8


def contains_secret(value: str, secret: str) -> bool:
    """Return True if a value is the secret, or contains one of 8 or more characters.

    Placeholders such as `***` are no secrets.
    """
    if secrets.is_placeholder(secret):
        return False
    return value == secret or (len(secret) >= LONG_SECRET and secret in value)


# From this length on, a value inside a secret is no coincidence
_PIECE = 4
# Blocks whose keys are names that the user chose: `token` there is no sign of a secret
_BLOCKS = {("retrievers",), ("generators",), ("apps",)}


def is_hidden(node: Node, reference: Reference) -> bool:
    """Return True if the value of a variable in a scalar is a secret.

    It is one by the name of the variable, by the keys of the scalar, or by its form. An empty value
    is no secret by its form.
    """
    if secrets.is_secret_variable(reference.name) or in_secret_option(node.path):
        return True
    value = reference.value
    if not value or secrets.looks_secret(value):
        return bool(value)
    # the value may be a part of an address, such as its password
    return any(
        value == part or (len(value) >= _PIECE and value in part) or contains_secret(value, part)
        for part in secrets.secret_parts(text_of(node.parts))
    )


def in_secret_option(path: KeyPath) -> bool:
    """Return True if a key on the way to a value names a secret, such as `token` or `headers`.

    Example:
        >>> in_secret_option(("retrievers", "token", "k1"))
        False
        >>> in_secret_option(("retrievers", "a", "headers", "X"))
        True
    """
    # without the name of the component
    keys = (*path[:1], *path[2:]) if path[:1] in _BLOCKS else path
    return secrets.is_secret_place(keys)


def is_secret_value(path: KeyPath, value: str) -> bool:
    """Return True if a key names a secret, or the last key ends in `key` and the value is random.

    Numbers of list elements are no keys here; for the last case see `is_key_like`.
    """
    name = next((key for key in reversed(path) if not key.isdigit()), "")
    return in_secret_option(path) or secrets.is_key_like(name, value)


def escaped(text: str) -> str:
    """Return a text as a config writes it: `$${` for `${`."""
    return text.replace("${", "$${")


def reads_environment(text: str) -> bool:
    """Return True if a text of a config has a `${`, also a malformed one; `$${` does not count."""
    return any(match["escape"] is None for match in _REFERENCE.finditer(text))


def names_in(text: str) -> list[str]:
    """Return the variables that a text of a config names, in order, repeated ones too.

    Example:
        >>> names_in("Bearer ${TOKEN:-none} $${NOT}")
        ['TOKEN']
    """
    return [match["name"] for match in _REFERENCE.finditer(text) if match["name"]]


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
    """Return (keys of an override, text behind its `=` or None without one).

    No keys, with a problem at `place`, if the dotted key is malformed.
    """
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
    """Return a node with the override added below it.

    Unchanged, with a problem, if it does not fit.

    Args:
        node: The node that the first `depth` keys of the override lead to.
        override: The value, with its whole path.
        depth: Number of keys on the way to the node.
        blocks: Blocks that are created if they are absent.
        report: Receives the problem.
    """
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
    creatable = sorted(block[-1] for block in blocks if block[:-1] == parents)  # blocks are a set
    names = list(dict.fromkeys([*node.entries, *creatable]))
    problem = f"no '{key}' in {dotted(parents) or 'the config'}"
    report.wrong(override, problem, ", ".join(names) or None, nearest(key, names))
    return node


@dataclass(frozen=True)
class Expanded:
    """A block of components with its sweeps written out, as `expand_sweeps` returns it.

    Attributes:
        components: Name -> entry: one for each combination of a sweep, and the others as they are.
        members: Swept entry -> the names of its combinations; empty if the sweep is malformed.
        selects: Swept retriever -> its `select`; absent without one.
    """

    components: Mapping[str, KeyEntry]
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    selects: Mapping[str, KeyEntry] = field(default_factory=dict)


def expand_sweeps(block: Node, report: Report, chosen: Mapping[str, str]) -> Expanded:
    """Return the components of a block, an entry with `sweep` as one component per combination.

    These are named `swept-k1=0.9-b=0.4`; the last key varies fastest. A malformed sweep, and a name
    that exists already, are reported; a malformed sweep is left out, and the later of two equal
    names replaces the earlier one. In the order of the file, combinations in the place of their
    entry. Without sweeps `members` is empty. Of a sweep in `chosen` only that combination is left;
    KeyError if it has no such combination.
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
            members[name] = tuple(combinations)
        for clash in components.keys() & combinations.keys():
            report.wrong(entry, f"the name '{clash}' is used already", "another name")
        components |= combinations
    return Expanded(components, members, selects)


def _grid(name: str, entry: KeyEntry, sweep: Node, report: Report) -> dict[str, KeyEntry]:
    """Return an entry for every combination of a sweep, by name.

    Empty if the sweep is malformed. Names that are equal, but for case, get `_2`, `_3`, ...
    """
    if not _is_well_formed(entry.node, sweep, report):
        return {}
    # combinations have no sweep of their own
    base = entry.node.without(SWEEP)
    axes = {key: axis.node.elements for key, axis in sweep.entries.items()}
    combinations: dict[str, KeyEntry] = {}
    for values in itertools.product(*axes.values()):
        node, full_name = base, name
        for key, value in zip(axes, values, strict=True):
            node = _with_value(node, key, value, sweep.entries[key].place)
            full_name += f"-{key}={_name_part(value)}"
        # two values may give the same name, such as 1 and "1"
        numbered = itertools.chain([full_name], (f"{full_name}_{n}" for n in itertools.count(2)))
        # on Windows and macOS, names of files must differ in more than case
        used = {name.casefold() for name in combinations}
        unique_name = next(name for name in numbered if name.casefold() not in used)
        combinations[unique_name] = KeyEntry(entry.place, node)
    return combinations


def _with_value(node: Node, key: str, value: Node, place: Place) -> Node:
    """Return a mapping with a value added; a dot in the key leads into an inner mapping.

    An inner mapping that is missing is created; `place` is that of the key.
    """
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
    """Return True if a sweep has only lists of values for options that are not set.

    Else report it. At most 1,000 combinations.
    """
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
    """Return a value as a part of a name: other characters become `_`, a secret its number.

    Parts of a list are joined by `_`; a mapping is the word `mapping`, and nothing is `_`.
    """
    if isinstance(value.value, tuple):
        return "_".join(_name_part(part) for part in value.elements)
    # names are printed everywhere: values of variables may stand in them, secrets may not
    hidden = [reference for reference in value.references() if is_hidden(value, reference)]
    may_show = value.parts and not hidden
    # a mapping has no text that fits into a name
    text = text_of(value.parts) if may_show else "mapping" if value.entries else value.source
    if not value.parts and (is_secret_value(value.path, text) or secrets.looks_secret(text)):
        text = value.path[-1]  # its number in the list
    return _NOT_IN_NAMES.sub("_", text) or "_"
