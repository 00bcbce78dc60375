"""The comparison of a run's systems, and of controls with them.

Controls say how good answers are with perfect passages, with none, and with the wrong ones.
Between the relevant documents and what a retriever found lies what retrieval costs; what remains
without any passage is what the generator knows by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragbench.comparison.differences import compare_slices, compare_systems
from ragbench.comparison.method import Method
from ragbench.comparison.systems import SystemScores, baseline_of, finite, mean_of
from ragbench.experiment.doubts import with_reasons
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results
from ragbench.experiment.stages.base import Keep, Slot, StoredStage, Workspace
from ragbench.experiment.stages.columns import sample_notes
from ragbench.experiment.stages.item_json import write_column
from ragbench.experiment.stages.keys import code_in
from ragbench.experiment.variance import (
    add_variance,
    delta_notes,
    describe_deltas,
    differences_from,
)
from ragbench.json_yaml import load_json
from ragbench.records.codec import from_json, to_json
from ragbench.records.comparison import Comparisons, ControlDifference
from ragbench.score.base import Advance
from ragbench.signature import fingerprint_json


class Compare(StoredStage):
    """The comparison of all systems: stored, since intervals and tests take a while."""

    unit = "comparisons"

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace, "compare")
        self._systems: list[SystemScores] = []

    def slots(self) -> list[Slot | None]:
        """One for all, which depends on the scores alone."""
        plan = self.plan
        parts = [code_in("ragbench.comparison", "ragbench.stats"), repr(method_of(plan))]
        parts += map(repr, (plan.baseline, plan.clusters, plan.slicings))
        for system in self._systems:
            columns = system.columns.items()
            kept = [f"{name} {fingerprint_json(write_column(c))} {c.look}" for name, c in columns]
            parts += [system.name, *kept]
        return [Slot(self.workspace.file("compare", plan.config.name, parts), "comparisons", 0)]

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Compare all, and slice by slice."""
        plan, method, systems = self.plan, method_of(self.plan), self._systems
        found = compare_systems(systems, plan.baseline, method, plan.clusters)
        slices = compare_slices(systems, plan.baseline, method, plan.slicings, plan.clusters)
        keep(0, to_json(replace(found, slices=slices)))
        advance(1)

    def read(self, stored: Any) -> Comparisons:
        """Return what is stored, also where it was just made."""
        # as JSON has it: what is at hand still has tuples
        return from_json(Comparisons, load_json(json.dumps(stored)))

    def collect(self, results: Results) -> None:
        """Compare, and add what is known of controls, of sources and of the noise."""
        plan, method = self.plan, method_of(self.plan)
        results.notes += [*sample_notes(results.answers.values()), *refusal_notes(plan, results)]
        self._systems = [system for system in results.systems if system.role != "control"]
        [stored] = self.items()
        found = add_variance(stored, plan, results)
        deltas = describe_deltas(plan, self._systems, method)
        controls = describe_controls(results.systems, plan.baseline, method)
        results.notes += [*delta_notes(deltas), *control_notes(controls, method.confidence)]
        preferences = [entry for each in results.preferences for entry in each.entries]
        results.comparisons = replace(
            with_reasons(plan, results, found),
            preferences=tuple(preferences),
            over_sources=tuple(deltas),
            controls=tuple(controls),
        )


def refusal_notes(plan: Plan, results: Results) -> list[str]:
    """Say what models refuse of what was asked of them: a sentence for each judge and generator."""
    found: dict[str, tuple[set[str], Mapping[str, object]]] = {}

    def add(who: str, names: Iterable[str], options: Mapping[str, object]) -> None:
        found.setdefault(who, (set(), options))[0].update(names)

    uses = [pair for uses in results.judge_uses.values() for pair in uses.items()]
    uses += [(each.judge, each.use) for each in results.preferences]
    for name, use in uses:
        add(f"judge {name}", use.left_out, plan.judges[name].judge.options)
    if results.filled is not None and plan.fill is not None:
        judge = plan.fill.judge.judge
        add(f"judge {plan.fill.name}", results.filled.use.left_out, judge.options)
    for system in results.systems:
        asks = plan.generators[system.generator].asks if system.generator else None
        if asks is not None and (answers := results.answers.get(system.name)) is not None:
            values = [outcome.value for outcome in answers.outcomes]
            lacking = {name for value in values if value is not None for name in value.left_out}
            add(f"generator {system.generator}", lacking, asks.signature_parts())
    return [
        f"{who}: the model refuses {', '.join(_refused(name, options) for name in sorted(names))}; "
        "requests go without"
        for who, (names, options) in found.items()
        if names
    ]


def _refused(name: str, options: Mapping[str, object]) -> str:
    """An option that a model refuses; with its value where that is not the default."""
    value = options.get(name)
    return f"{name} {value} of the config" if value else name


def describe_controls(
    systems: Sequence[SystemScores], baseline: str | None, method: Method
) -> list[ControlDifference]:
    """Compare each generator's controls with its answers from the baseline retriever.

    Differences are paired over the queries that both answered.
    """
    rows = []
    for control in systems:
        if control.role != "control":
            continue
        system = baseline_of(control, {each.name: each for each in systems}, baseline)
        if system is None:
            continue
        rows += [
            ControlDifference(
                control=str(control.retriever),
                generator=str(control.generator),
                score=name,
                mean=finite(mean_of(control.columns[name])),
                system=system.name,
                system_mean=finite(mean_of(system.columns[name])),
                difference=found.difference,
                interval=found.interval or (None, None),
                n=found.n,
            )
            for name, found in differences_from(system, control, method)
        ]
    return rows


_SAYS = {
    "gold_context": "with the relevant documents for passages",
    "no_context": "without passages",
    "shuffled_context": "with the passages of another question",
}


def control_notes(rows: Sequence[ControlDifference], confidence: float) -> list[str]:
    """Say in a sentence a generator what its controls mean for its first score."""
    notes = []
    for generator in dict.fromkeys(row.generator for row in rows):
        own = [row for row in rows if row.generator == generator]
        first = own[0]
        same = [row for row in own if row.score == first.score]
        parts = [_said(row, row.mean) for row in same if row.mean is not None]
        if parts:
            notes.append(
                f"{generator}: {first.score} is {first.system_mean:.3f} with {first.system}; "
                f"{'; '.join(parts)} ({confidence:.0%} intervals)"
            )
    return notes


def _said(row: ControlDifference, mean: float) -> str:
    text = f"{_SAYS[row.control]} {mean:.3f}"
    low, high = row.interval
    if row.difference is None or low is None or high is None:
        return text
    return f"{text}, {row.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
