"""What holds of every kind of gate: one meaning for a key, and keys that make one kind."""

import pytest

from ragbench.config.gates import gate_kinds, gate_options, make_gate
from ragbench.gates import GATES
from ragbench.gates.base import COSTS
from ragbench.registry import declared_options

VALUES = {
    "measure": "map", "failed": "map", "certificate": "judge.json", "system": "bm25",
    "against": "main.json", "min": 0.5, "max": 0.5, "max_drop": 0.1, "max_queries_worse": 1,
    "by": 0.1, "max_increase": 0.2, "rubric": "tone", "min_kappa": 0.6, "decide": "interval",
    "undecided": "fail", "identical": "undecided",
}  # fmt: skip


class Written:
    """An entry that keeps what is wrong with it."""

    def __init__(self):
        self.problems = []

    def shown(self, key, part=None):
        return repr(VALUES[key])

    def wrong(self, key, found, allowed=None, nearest=None, *, part=None, at_key=False):
        self.problems.append((key, found, allowed))


def test_every_key_of_every_kind_can_be_written():
    assert gate_options().keys() == VALUES.keys()
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
    if kind.of == "cost":
        values["measure"] = COSTS[0]
    entry = Written()

    made = make_gate(values, entry)

    assert entry.problems == []
    gate, complete = made
    assert type(gate) is kind
    assert complete
    assert str(values[kind.subject]) in gate.text
    assert f"{values[kind.conditions[0]]:g}" in gate.text


@pytest.mark.parametrize("name", GATES.table)
def test_a_foreign_key_means_nothing(name):
    kind, entry = GATES.load(name), Written()
    values = {key: VALUES[key] for key in (kind.subject, kind.conditions[0])}
    if kind.of == "cost":
        values["measure"] = COSTS[0]
    foreign = "by" if name != "queries_worse" else "decide"

    make_gate({**values, foreign: VALUES[foreign]}, entry)

    key, found, allowed = entry.problems[0]
    assert (key, found.partition(" with ")[0]) == (foreign, "it means nothing")
    assert allowed == ", ".join(sorted(allowed.split(", ")))
    assert {*values, "system", "undecided"} <= set(allowed.split(", "))
