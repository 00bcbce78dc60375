"""Whether what a run asks of its scores is decided, so that no more queries are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragbench.comparison.paired import compare_systems
from ragbench.comparison.systems import SystemScores
from ragbench.experiment.gates import gated
from ragbench.experiment.plan import Plan, method_of
from ragbench.gates.scores import find_score
from ragbench.types import Cause

Json = Mapping[str, Any]


def is_decided(plan: Plan, systems: Sequence[SystemScores]) -> bool:
    """Whether every gate on these scores, and every comparison without a gate, is decided.

    A system whose score has a `max_drop` is asked just that: whether it differs at all is another
    question, which equal systems would never answer. A gate over exactly these queries, such as
    `decide: mean` or `max_queries_worse`, needs all of them, unless too many are worse already.

    Args:
        plan: The run.
        systems: Every system with the scores in question, which know at which look they are.

    Returns:
        False also where nothing is asked, or where the budget ended the sample.
    """
    columns = [column for system in systems for column in system.columns.values()]
    if any((column.causes == Cause.OVER_BUDGET).any() for column in columns):
        return False
    names = list(dict.fromkeys(column.name for column in columns))
    answers, held = list[bool](), set[tuple[str, str]]()
    run = gated(plan, systems, {})
    for gate in plan.config.gates:
        score = None if gate.score is None else find_score(gate.score, names)
        if score is None:
            continue
        for system, found in gate.verdicts(run):
            settled = gate.is_settled(found)
            answers += [] if settled is None else [settled]
            if gate.asks_difference:
                held.add((str(system), score))
    answers += [
        _differs(comparison)
        for measure, comparison in _comparisons(plan, systems)
        if (comparison["system"], measure) not in held
    ]
    return bool(answers) and all(answers)


def _comparisons(plan: Plan, systems: Sequence[SystemScores]) -> Iterator[tuple[str, Json]]:
    found = compare_systems(systems, plan.baseline, method_of(plan), plan.clusters)
    for family in found["measures"]:
        for comparison in family["comparisons"]:
            yield family["measure"], comparison


def _differs(comparison: Json) -> bool:
    low, high = comparison["interval"]
    return bool(comparison.get("differs")) and low is not None and not low <= 0 <= high
