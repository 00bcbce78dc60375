"""`sweep: {k1: [0.9, 1.2], b: [0.4, 0.75]}`: one entry that stands for a grid of components.

A dot leads into a mapping: `sweep: {chunk.size: [64, 128]}`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ragbench.config.problems import Report
from ragbench.config.tree import Entry, Item
from ragbench.config.variables import shown_value
from ragbench.errors import Place

SWEEP = "sweep"
MAX_MEMBERS = 1000
"""Components that one sweep may stand for."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.+-]+")


@dataclass(frozen=True)
class Expanded:
    """A block of components with its sweeps written out."""

    components: Mapping[str, Entry]
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The name of a swept entry -> the names that it stands for."""


def expand_sweeps(block: Item, report: Report) -> Expanded:
    """Write out each entry with `sweep` as one component per combination.

    They are named `swept-k1=0.9-b=0.4`; the last key varies fastest. An entry whose sweep is
    malformed is left out, with a problem.
    """
    components: dict[str, Entry] = {}
    members: dict[str, tuple[str, ...]] = {}
    for name, entry in block.entries.items():
        sweep = entry.item.get(SWEEP)
        if sweep is None:
            made = {name: entry}
        else:
            made = _grid(name, entry, sweep, report)
            members[name] = tuple(made)
        for clash in components.keys() & made.keys():
            report.wrong(entry, f"'{clash}' is there already", "new names")
        components |= made
    return Expanded(components, members)


def _grid(name: str, entry: Entry, sweep: Item, report: Report) -> dict[str, Entry]:
    if not _is_well_formed(entry.item, sweep, report):
        return {}
    base = entry.item.without(SWEEP)
    axes = {key: axis.item.items for key, axis in sweep.entries.items()}
    made: dict[str, Entry] = {}
    for values in itertools.product(*axes.values()):
        item, full_name = base, name
        for key, value in zip(axes, values, strict=True):
            item = _with(item, key, value, sweep.entries[key].key_place)
            full_name += f"-{key}={_as_name(value)}"
        # two values may read the same
        numbered = itertools.chain([full_name], (f"{full_name}_{n}" for n in itertools.count(2)))
        taken = {each.casefold() for each in made}  # files may not tell capitals apart
        made[next(each for each in numbered if each.casefold() not in taken)] = Entry(
            entry.key_place, item
        )
    return made


def _with(item: Item, key: str, value: Item, place: Place) -> Item:
    """The mapping with a value put in, also where a dot leads into a mapping of its own."""
    head, dot, rest = key.partition(".")
    if not dot:
        return item.with_entry(key, value, place)
    inner = item.get(head) or Item({}, place, (*item.path, head))
    return item.with_entry(head, _with(inner, rest, value, place))


def _is_set(item: Item, key: str) -> bool:
    """Whether a key has a value; where a dot leads into what is no mapping, it has that."""
    head, dot, rest = key.partition(".")
    inner = item.get(head)
    if inner is None or not dot:
        return inner is not None
    return not isinstance(inner.value, dict) or _is_set(inner, rest)


def _is_well_formed(component: Item, sweep: Item, report: Report) -> bool:
    if not sweep.entries:
        found = f"{sweep.shown()} is not a mapping" if sweep.value != {} else "an empty sweep"
        report.wrong(sweep, found, "a mapping from options to lists of values")
        return False
    well_formed = True
    for key, entry in sweep.entries.items():
        item = entry.item
        if not item.items:
            found = "an empty list" if item.value == () else f"{item.shown()} is not a list"
            report.wrong(item, found, "a list of values")
            well_formed = False
        if key in ("type", SWEEP):
            report.wrong(entry, f"'{key}' cannot be swept", "options of the type")
            well_formed = False
        elif _is_set(component, key):
            report.wrong(entry, f"'{key}' is set and swept", "one of the two")
            well_formed = False
    count = math.prod(len(entry.item.items) for entry in sweep.entries.values())
    if count > MAX_MEMBERS:
        report.wrong(sweep, f"{count:,} combinations", f"at most {MAX_MEMBERS:,}")
        well_formed = False
    return well_formed


def _as_name(value: Item) -> str:
    """A value as part of a name; what names cannot hold becomes `_`."""
    if isinstance(value.value, tuple):
        return "_".join(_as_name(part) for part in value.items)
    text = "mapping" if value.entries else shown_value(value)
    return _NOT_IN_NAMES.sub("_", text) or "_"
