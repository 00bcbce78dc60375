"""Keys of all kinds of gates: a key has one meaning, and keys choose one kind."""

import pytest

from ragbench.config.gates import gate_kinds, gate_options, kind_of_gate
from ragbench.gates import GATES
from ragbench.gates.base import COSTS
from ragbench.registry import declared_options


def a_value(key, declared):
    """A value that an option may have: its own name, a number, or the last of its words."""
    words = declared.allowed.removesuffix(", or null").split(", ")
    tried = (key, 0.5, 1, words[-1])
    return next(value for value in tried if not declared.mismatches(value))


VALUES = {key: a_value(key, declared) for key, declared in gate_options().items()}


def test_every_key_of_every_kind_can_be_written():
    assert gate_options().keys() == {k for kind in gate_kinds() for k in declared_options(kind)}
    assert len(gate_kinds()) == len(GATES.table)


def test_a_key_that_several_kinds_have_means_the_same_in_all():
    shared = gate_options()
    for kind in gate_kinds():
        for key, option in declared_options(kind).items():
            assert option.option == shared[key].option, (kind, key)


@pytest.mark.parametrize("name", GATES.table)
def test_its_keys_make_the_kind_and_stand_in_its_text(name):
    kind = GATES.load(name)
    conditions = set(kind.conditions[1:])
    values = {k: VALUES[k] for k in declared_options(kind) if k not in conditions}
    if kind.quantity_kind == "cost":
        values["measure"] = COSTS[0]

    assert kind_of_gate(values) == (kind, [])
    gate = kind(**values)
    assert str(values[kind.quantity_key]) in gate.text
    for condition in kind.conditions[:1]:
        assert f"{values[condition]:g}" in gate.text


@pytest.mark.parametrize("name", GATES.table)
def test_a_foreign_key_means_nothing(name):
    kind = GATES.load(name)
    values = {key: VALUES[key] for key in (kind.quantity_key, *kind.conditions[:1])}
    if kind.quantity_kind == "cost":
        values["measure"] = COSTS[0]
    theirs = {*declared_options(kind), *(k.quantity_key for k in gate_kinds())}
    theirs |= {key for gate_kind in gate_kinds() for key in gate_kind.conditions}
    foreign = next(key for key in VALUES if key not in theirs)

    _, (problem, *_) = kind_of_gate({**values, foreign: VALUES[foreign]})

    assert (problem.key, problem.found.partition(" with ")[0]) == (foreign, "no effect")
    allowed = problem.allowed.split(", ")
    assert allowed == sorted(allowed)
    assert {*values, "system", "undecided"} <= set(allowed)
