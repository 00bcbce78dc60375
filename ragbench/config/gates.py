"""Checks of the list `gates`: the kind of each gate, its values, systems and baseline files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.comparison.cause_rules import CauseRules
from ragbench.config.options import Context, check_options, resolve_path
from ragbench.config.schema import Component, Metrics
from ragbench.config.tree import UNREADABLE, Node, Report, some_of
from ragbench.config.yaml_reader import read_file
from ragbench.errors import DataError
from ragbench.gates import GATES
from ragbench.gates.base import Gate, GateNames, GateProblem, score_facts
from ragbench.records.score import Kind
from ragbench.registry import REQUIRED, DeclaredOption, declared_options, nearest
from ragbench.score.base import add_option
from ragbench.types.lookups import select_keys


def gate_kinds() -> list[type[Gate]]:
    """Return the class of every kind of gate, built-in ones first; broken packages are left out."""
    kinds = []
    for name in GATES.names():
        try:
            kinds.append(GATES.load(name))
        except DataError:  # of an installed package that is broken: `ragbench list` says so
            continue
    return kinds


def gate_options() -> dict[str, DeclaredOption]:
    """Return every key that a gate may have: quantities, conditions, then the others.

    No key is required here, as each belongs to some kinds only. A key of several kinds has the
    declaration of the first.
    """
    kinds = gate_kinds()
    names = [kind.quantity_key for kind in kinds]
    declared: dict[str, DeclaredOption] = {}
    for kind in kinds:
        names += kind.conditions
        declared |= {**declared_options(kind), **declared}
    options = {}
    for name in dict.fromkeys([*names, *declared]):
        option = declared[name]
        if option.default is REQUIRED:
            option = replace(option, annotation=option.annotation | None, default=None)
        options[name] = option
    return options


def kind_of_gate(values: Mapping[str, Any]) -> tuple[type[Gate] | None, list[GateProblem]]:
    """Return (kind of gate that some keys mean, mistakes in the keys).

    The kind is None if the keys fit no kind or several, or if a required key is missing.

    Args:
        values: Key -> value, without keys that are null.
    """
    subject, problems = _find_subject(values)
    if subject is None:
        return None, problems
    kind, setting, problems = _find_condition(subject, values)
    if kind is None:
        return None, problems
    declared = declared_options(kind)
    allowed = []
    for key in sorted(declared):
        if key in values or key not in kind.conditions:
            allowed.append(key)
    for key in values:
        if key not in declared:
            problem = f"no effect with {setting}"
            problems.append(GateProblem(key, problem, ", ".join(allowed), at_key=True))
    is_complete = True
    for key, option in declared.items():
        if option.required and key not in values:
            is_complete = False
            problems.append(GateProblem(None, f"missing key '{key}'", f"{key}: {option.allowed}"))
    return kind if is_complete else None, problems


def _find_subject(values: Mapping[str, Any]) -> tuple[str | None, list[GateProblem]]:
    """Return the one key that names the subject of a gate; None, with a problem, without one."""
    # `measure` is a subject of some kinds, and an option of `cheapest_within`
    options: set[str] = set()
    for kind in gate_kinds():
        if kind.quantity_key in values:
            options |= declared_options(kind).keys() - {kind.quantity_key}
    subjects = []
    for kind in gate_kinds():
        if kind.quantity_key not in options:
            subjects.append(kind.quantity_key)
    return _only_key(subjects, values, "the gate has no subject", "exclude each other")


def _find_condition(
    subject: str, values: Mapping[str, Any]
) -> tuple[type[Gate] | None, str, list[GateProblem]]:
    """Return (kind of gate by its condition or None, its name in messages, problems)."""
    kinds = []
    for kind in gate_kinds():
        if kind.quantity_key == subject and kind.accepts_quantity(values[subject]):
            kinds.append(kind)
    if len(kinds) == 1:
        return kinds[0], str(values[subject]) if kinds[0].quantity_kind == "cost" else subject, []
    by_condition: dict[str, type[Gate]] = {}
    for kind in reversed(kinds):  # of two kinds with one condition the first counts
        by_condition |= dict.fromkeys(kind.conditions, kind)
    without = next((kind for kind in kinds if not kind.conditions), None)
    if without is not None and by_condition.keys().isdisjoint(values):
        return without, f"{subject} alone", []
    conditions = itertools.chain.from_iterable(kind.conditions for kind in kinds)
    condition, problems = _only_key(conditions, values, "no condition", "in one gate")
    if condition is None:
        return None, "", problems
    return by_condition[condition], condition, []


def _only_key(
    keys: Iterable[str], values: Mapping[str, Any], if_none: str, if_several: str
) -> tuple[str | None, list[GateProblem]]:
    """Return the one of some keys that a gate has; None, with a problem, for none or several."""
    allowed = list(dict.fromkeys(keys))
    present = []
    for key in allowed:
        if key in values:
            present.append(key)
    if len(present) == 1:
        return present[0], []
    problem = f"{' and '.join(present)} {if_several}" if present else if_none
    return None, [GateProblem(None, problem, f"one of {', '.join(allowed)}")]


def pairs_of(retrievers: Sequence[str], generators: Mapping[str, Component | None]) -> list[str]:
    """Return the names of all pairs, `retriever/generator`.

    A generator that is None has a problem, or is a live object, and is paired with all retrievers.
    """
    pairs = []
    for retriever, (name, generator) in itertools.product(retrievers, generators.items()):
        chosen = None if generator is None else generator.retrievers
        if chosen is None or retriever in chosen:
            pairs.append(f"{retriever}/{name}")
    return pairs


def gate_scores(metrics: Metrics, causes: CauseRules | None = None) -> GateNames:
    """Return the scores of a checked `metrics` block, for gates that name them.

    `right`, and `found` as the rules of the causes count it, are scored whatever the block names.
    Blocks that are left out are open kinds: the data decide their scores. With several judges the
    names of rubrics have the judge in parentheses. A name that is no score is left out. The result
    has no systems.
    """
    measures, generation = metrics.retrieval.measures, metrics.generation
    scores = []
    for name in measures or ():
        scores.append(score_facts(name, "retrieval"))
    measure = (causes or CauseRules()).found_measure(metrics.retrieval.top_k)
    scores += [score_facts(measure, "retrieval"), score_facts("right", "generation")]
    for entry in generation or ():
        scores.append(score_facts(entry.metric.name, "generation"))
    judges = metrics.judges or {}
    for judge, block in judges.items():
        for source in block.rubrics:
            rubric = score_facts(source, "judge")
            if rubric is not None and len(judges) > 1:
                rubric = replace(rubric, name=add_option(rubric.name, "judge", judge))
            scores.append(rubric)
    open_kinds: set[Kind] = set()
    if measures is None:
        open_kinds.add("retrieval")
    if generation is None:
        open_kinds.add("generation")
    by_name = {}
    for score in scores:
        if score is not None:
            by_name[score.name] = score
    return GateNames(by_name, frozenset(open_kinds))


def check_gates(node: Node, names: GateNames, context: Context) -> tuple[Gate, ...]:
    """Return the gates without a problem; problems go into the report.

    Args:
        node: The list.
        names: Scores and systems that gates may name.
        context: Report and folders of the config.
    """
    report = context.report
    if not isinstance(node.value, tuple):
        if node.value is not UNREADABLE:
            problem = f"{node.quote()} is not a list"
            report.wrong(node, problem, "a list: - {measure: ndcg@10, min: 0.4}")
        return ()
    # keys of all kinds, as the kind of a gate follows from its keys
    declared = gate_options()
    gates = []
    for entry in node.elements:
        n_problems = len(report)
        values = check_options(entry, declared, report)
        # the kind of gate follows from its values, so that wrong values end its checks
        if len(report) == n_problems:
            gate = _check_gate(entry, values, names, context)
            if gate is not None and len(report) == n_problems:
                gates.append(gate)
    return tuple(gates)


def _check_gate(
    node: Node, values: Mapping[str, Any], names: GateNames, context: Context
) -> Gate | None:
    """Return the gate of an entry with valid values; None, with a problem, if it fits no kind."""
    present = {}
    for key in node.entries:
        if values[key] is not None:
            present[key] = values[key]
    kind, problems = kind_of_gate(present)
    _report(node, problems, context.report)
    if kind is None:
        return None
    declared = declared_options(kind)
    gate = kind(**select_keys(present, declared))
    _report(node, gate.check(names), context.report)
    systems: list[str] = []
    for name in gate.systems:
        systems += names.sweeps.get(name, (name,))
    if systems:
        # the resolved config writes sweeps out, so that gates name their combinations
        context.fill(node, "system", systems)
    file = _file_of(gate, node, names, context)
    return replace(gate, system=systems or None, file=file, place=node.place)


def _report(gate: Node, problems: Iterable[GateProblem], report: Report) -> None:
    """Report the problems of a gate at the places of their values."""
    for problem in problems:
        node = gate if problem.key is None else gate.get(problem.key) or gate
        if problem.part is not None:
            node = node.elements[problem.part]
        place = gate.entries[str(problem.key)].place if problem.at_key else node.place
        text = problem.found.replace("{}", node.quote(), 1)
        allowed = problem.allowed
        names = allowed if allowed is None or isinstance(allowed, str) else some_of(allowed)
        report.add(place, node.path, text, names, problem.nearest)


def _file_of(gate: Gate, entry: Node, names: GateNames, context: Context) -> Path | None:
    """Return the file that a gate names; None if it names none, or a system instead."""
    node = None if gate.file_key is None else entry.get(gate.file_key)
    if node is None or node.value is None:
        return None
    if declared_options(type(gate))[str(gate.file_key)].option.refers_to != "path":
        if node.value in names.systems:
            return None
        path = context.base / str(node.value)
        is_name = not os.path.exists(path) and not path.suffix
        if names.may_have_others and is_name:
            return None  # a system of the records, whose names are read later
        near = nearest(str(node.value), names.systems)
        if near is not None and is_name:
            text = f"no system or file {node.quote()}"
            context.report.wrong(node, text, some_of(names.systems), near)
            return None
    return resolve_path(node, context)


def written_gates(path: Path) -> tuple[Node, ...]:
    """Return the gates of a config file as written; empty if the file cannot be read."""
    tree = read_file(path, Report())
    gates = None if tree is None else tree.get("gates")
    return () if gates is None else gates.elements
