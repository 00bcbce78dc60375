"""The `gates` list: its entries with their places, checked by the kinds of gates."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.config.options import Context, check_options, resolve_path
from ragbench.config.problems import Report, some_of
from ragbench.config.schema import Component, Metrics
from ragbench.config.tree import UNREADABLE, Item
from ragbench.config.yaml_reader import read_file
from ragbench.errors import DataError
from ragbench.gates import GATES
from ragbench.gates.base import Entry, Gate, KnownNames
from ragbench.gates.scores import KnownScore, KnownScores, known_rubric, known_score
from ragbench.records.score import Kind
from ragbench.registry import REQUIRED, DeclaredOption, declared_options, nearest
from ragbench.score.base import add_option


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
    subjects = dict.fromkeys(kind.subject for kind in kinds)
    subject = _only_key(subjects, values, entry, "it names no subject", "are both given")
    if subject is None:
        return None
    kinds = [k for k in kinds if k.subject == subject and k.is_about(values[subject])]
    if len(kinds) == 1:
        return _make(kinds[0], values, subject, entry)
    conditions = dict.fromkeys(key for kind in kinds for key in kind.conditions)
    condition = _only_key(conditions, values, entry, "no condition", "in one gate")
    if condition is None:
        return None
    kind = next(kind for kind in kinds if condition in kind.conditions)
    means = f"{condition} of {values[subject]}" if kind.of == "cost" else condition
    return _make(kind, values, means, entry)


def _only_key(
    keys: Iterable[str], values: Mapping[str, Any], entry: Entry, none: str, several: str
) -> str | None:
    """Return the one of some keys that a gate has; None, with a problem, if it has none or more."""
    present = [key for key in keys if key in values]
    if len(present) == 1:
        return present[0]
    found = f"{' and '.join(present)} {several}" if present else none
    entry.wrong(None, found, f"one of {', '.join(keys)}")
    return None


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


def pairs_of(retrievers: Sequence[str], generators: Mapping[str, Component | None]) -> list[str]:
    """Return the names of all pairs; a generator that is not known better goes with everyone."""
    return [
        f"{retriever}/{name}"
        for retriever in retrievers
        for name, generator in generators.items()
        if generator is None or generator.retrievers is None or retriever in generator.retrievers
    ]


def known_scores(metrics: Metrics) -> KnownScores:
    """Return what is known of the scores of a checked `metrics` block."""
    measures, generation = metrics.retrieval.measures, metrics.generation
    found = [known_score(name, "retrieval") for name in measures or ()]
    found += [known_score(named.metric.name, "generation") for named in generation or ()]
    judges = metrics.judges or {}
    for judge, block in judges.items():
        for rubric in filter(None, map(known_rubric, block.rubrics)):
            several = len(judges) > 1
            name = add_option(rubric.name, "judge", judge) if several else rubric.name
            found.append(replace(rubric, name=name))
    named: dict[str, KnownScore] = {score.name: score for score in found if score is not None}
    blocks: list[tuple[Kind, object]] = [("retrieval", measures), ("generation", generation)]
    return KnownScores(named, frozenset(kind for kind, block in blocks if block is None))


def check_gates(item: Item, known: KnownNames, context: Context) -> tuple[Gate, ...]:
    """Return the gates without a problem."""
    report = context.report
    if not isinstance(item.value, tuple):
        if item.value is not UNREADABLE:
            found = f"{item.shown()} is not a list"
            report.wrong(item, found, "a list: - {measure: ndcg@10, min: 0.4}")
        return ()
    declared = gate_options()
    gates = []
    for entry in item.items:
        before = len(report)
        values = check_options(entry, declared, report)
        # whatever is wrong with a single value is said; what depends on it is not guessed at
        if len(report) > before:
            continue
        gate = _check_gate(_WrittenGate(entry, report), values, known, context)
        if gate is not None and len(report) == before:
            gates.append(gate)
    return tuple(gates)


class _WrittenGate:
    """An `Entry` of gates that stands in a YAML file, or comes from Python."""

    def __init__(self, item: Item, report: Report) -> None:
        self.item, self.report = item, report

    def value(self, key: str | None, part: int | None = None) -> Item:
        """Return where a value stands; the whole gate for what it does not have."""
        item = self.item if key is None else self.item.get(key) or self.item
        return item if part is None else item.items[part]

    def shown(self, key: str, part: int | None = None) -> str:
        return self.value(key, part).shown()

    def wrong(
        self,
        key: str | None,
        found: str,
        allowed: str | Sequence[str] | None = None,
        nearest: str | None = None,
        *,
        part: int | None = None,
        at_key: bool = False,
    ) -> None:
        item = self.value(key, part)
        place = self.item.entries[str(key)].place if at_key else item.place
        names = allowed if allowed is None or isinstance(allowed, str) else some_of(allowed)
        self.report.add(place, item.path, found, names, nearest)


def _check_gate(
    entry: _WrittenGate, values: Mapping[str, Any], known: KnownNames, context: Context
) -> Gate | None:
    """The gate of an entry whose values are right, each taken alone; None where it is no kind."""
    given = {key: values[key] for key in entry.item.entries if values[key] is not None}
    made = make_gate(given, entry)
    if made is None:
        return None
    gate, complete = made
    gate.check(entry, known, complete=complete)
    systems = [each for name in gate.systems for each in known.sweeps.get(name, (name,))]
    file = _file_of(gate, entry, known, context)
    if systems:
        context.fill(entry.item, "system", systems)
    return replace(gate, system=systems or None, file=file, place=entry.item.place)


def _file_of(gate: Gate, entry: _WrittenGate, known: KnownNames, context: Context) -> Path | None:
    """The file that a gate names; None where it names none, or a system instead."""
    item = None if gate.file_key is None else entry.item.get(gate.file_key)
    if item is None or item.value is None:
        return None
    if declared_options(type(gate))[str(gate.file_key)].option.refers_to != "path":
        if item.value in known.systems:
            return None
        path = context.base / str(item.value)
        is_name = not os.path.exists(path) and not path.suffix
        if known.may_have_others and is_name:
            return None  # a system of the records, known when they are read
        close = nearest(str(item.value), known.systems)
        if close is not None and is_name:
            entry.wrong(gate.file_key, f"no system or file {item.shown()}", known.systems, close)
            return None
    return resolve_path(item, context)


def written_gates(path: Path) -> tuple[Item, ...]:
    """Return the gates of a file as they are written; none where it cannot be read.

    Loading the file as a config says why, with the place.
    """
    tree = read_file(path, Report())
    gates = None if tree is None else tree.get("gates")
    return () if gates is None else gates.items
