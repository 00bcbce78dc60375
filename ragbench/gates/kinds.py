"""The kinds of gates together: the keys of an entry of `gates`, and which kind they make it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ragbench.errors import DataError
from ragbench.gates import GATES
from ragbench.gates.base import Entry, Gate
from ragbench.registry import REQUIRED, DeclaredOption, declared_options


def gate_kinds() -> list[type[Gate]]:
    """Return the class of every kind, built-in ones first."""
    found = []
    for name in GATES.names():
        try:
            found.append(GATES.load(name))
        except DataError:  # of an installed package that is broken: `ragbench list` says so
            continue
    return found


def gate_options() -> dict[str, DeclaredOption]:
    """Return every key that a gate may have: subjects, conditions, then the others.

    None of them is required, as each belongs to some kinds only. A key of several kinds has one
    declaration.
    """
    kinds = gate_kinds()
    declared: dict[str, DeclaredOption] = {}
    for kind in kinds:
        declared |= {**declared_options(kind), **declared}
    first = [kind.subject for kind in kinds] + [key for kind in kinds for key in kind.conditions]
    for key, option in declared.items():
        if option.default is REQUIRED:
            declared[key] = replace(option, annotation=option.annotation | None, default=None)
    return {key: declared[key] for key in dict.fromkeys([*first, *declared])}


def make_gate(values: Mapping[str, Any], entry: Entry) -> tuple[Gate, bool] | None:
    """Make the gate that some keys mean; what is wrong with the keys goes into `entry`.

    Returns the gate, and whether nothing is missing in it; None where it is of no kind.
    """
    kinds = gate_kinds()
    subjects = list(dict.fromkeys(kind.subject for kind in kinds))
    given = [key for key in subjects if key in values]
    if len(given) != 1:
        found = f"{' and '.join(given)} are both given" if given else "it names no subject"
        entry.wrong(None, found, f"one of {', '.join(subjects)}")
        return None
    subject = given[0]
    kinds = [k for k in kinds if k.subject == subject and k.is_about(values[subject])]
    if len(kinds) == 1:
        return _make(kinds[0], values, subject, entry)
    conditions = list(dict.fromkeys(key for kind in kinds for key in kind.conditions))
    given = [key for key in conditions if key in values]
    if len(given) != 1:
        found = f"{' and '.join(given)} in one gate" if given else "no condition"
        entry.wrong(None, found, f"one of {', '.join(conditions)}")
        return None
    kind = next(kind for kind in kinds if given[0] in kind.conditions)
    means = f"{given[0]} of {values[subject]}" if kind.of == "cost" else given[0]
    return _make(kind, values, means, entry)


def _make(
    kind: type[Gate], values: Mapping[str, Any], means: str, entry: Entry
) -> tuple[Gate, bool]:
    """A gate of a kind, with a problem for each key that means nothing, or is missing."""
    declared = declared_options(kind)
    allowed = sorted(k for k in declared if k in values or k not in kind.conditions)
    for key in values:
        if key not in declared:
            found = f"it means nothing with {means}"
            entry.wrong(key, found, ", ".join(allowed), at_key=True)
    missing = [key for key, each in declared.items() if each.required and key not in values]
    for key in missing:
        entry.wrong(None, f"missing key '{key}'")
    # None stands for what is missing, while the names are checked
    given: dict[str, Any] = dict.fromkeys(missing)
    given |= {key: value for key, value in values.items() if key in declared}
    return kind(**given), not missing
