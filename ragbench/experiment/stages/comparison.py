"""The comparison of a run's systems, and of controls with them; and which scores tell nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median
from typing import Any

import numpy as np

from ragbench.comparison.differences import compare_slices, compare_systems, describe
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import pair_columns
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.plan.records import Plan, PlannedJudge
from ragbench.experiment.records import Results, RetrieverRun, sample_notes
from ragbench.experiment.stages.base import Keep, Slot, StoredStage, Workspace
from ragbench.experiment.stages.item_json import write_column
from ragbench.experiment.stages.keys import code_in
from ragbench.json_yaml import load_json
from ragbench.records.codec import from_json, to_json
from ragbench.records.comparison import (
    Comparisons,
    ControlDifference,
    Difference,
    MeasureComparison,
    OverSource,
)
from ragbench.report.headline import nothing_told
from ragbench.score.base import Advance
from ragbench.score.judge.judged import JudgeResults
from ragbench.score.retrieval.notation import parse_measure
from ragbench.signature import fingerprint
from ragbench.stats.mean import finite
from ragbench.types import ScoreColumn

# Words from which on a gold answer is rather a sentence than what stands in a passage as it is.
_SENTENCE = 6
# Share of the queries without a hit from which on the answers are in doubt, not the systems.
_HARDLY = 0.9
_WHAT_TO_DO = (
    "answer_hit is for short answers that passages hold as they are; for sentences, name gold "
    "documents (relevant) or gold passages (reference_contexts), or let a judge grade passages "
    "(metrics.retrieval.fill)"
)


def _fingerprint(column: ScoreColumn) -> str:
    """Fingerprint a column by the bytes of its numbers: to write them as JSON takes far longer."""
    values = np.where(np.isnan(column.values), np.nan, column.values).astype("<f8")
    without = replace(column, values=values[:0], causes=column.causes[:0])
    rest = json.dumps(write_column(without), sort_keys=True)
    return fingerprint([values.tobytes(), column.causes.tobytes(), rest])


def with_reasons(plan: Plan, results: Results, comparisons: Comparisons) -> Comparisons:
    """Return the comparisons with the reasons why measures tell nothing, and none of them best.

    The warnings of the results get a sentence for each reason.
    """
    systems = [system for system in results.systems if system.role != "control"]
    families, doubtful = [], dict[str, str]()
    for family in comparisons.measures:
        if family.kind == "retrieval":
            columns = [s.columns[family.measure] for s in systems if family.measure in s.columns]
            if parse_measure(family.measure).spec.reads == "passages":
                family = _by_answers(plan, results, family, columns, doubtful)
            elif _all_zero(columns) and (why := _nothing_relevant(plan, results)) is not None:
                family = replace(family, tells_nothing=why, best=None, tied_with_best=())
        families.append(family)
    results.warnings += [*nothing_told(families), *doubtful.values()]
    return replace(comparisons, measures=tuple(families))


def _all_zero(columns: Sequence[ScoreColumn]) -> bool:
    """Whether every query that is scored has 0, where more is better, by every system."""
    if not columns or columns[0].aggregate != "mean" or columns[0].direction != "higher":
        return False
    values = np.concatenate([column.values for column in columns])
    return bool(np.isfinite(values).any()) and not np.nan_to_num(values).any()


def _by_answers(
    plan: Plan,
    results: Results,
    family: MeasureComparison,
    columns: Sequence[ScoreColumn],
    doubtful: dict[str, str],
) -> MeasureComparison:
    """Say of a measure that looks for gold answers that they are not of the kind it can find."""
    why = _not_found(plan, results, columns)
    if why is None:
        return family
    if family.tells_nothing or _all_zero(columns):
        return replace(family, tells_nothing=why, best=None, tied_with_best=())
    doubtful.setdefault("answers", f"{family.measure}: {why}")
    return family


def _not_found(plan: Plan, results: Results, columns: Sequence[ScoreColumn]) -> str | None:
    """Why hardly any passage holds a gold answer: most often, they are sentences."""
    table = np.array([column.values for column in columns])
    scored = np.isfinite(table).any(axis=0)
    never = int((scored & ~(np.nan_to_num(table) > 0).any(axis=0)).sum())
    n, answers = int(scored.sum()), plan.collection.answers
    # words of the shortest gold answer of each query that has one
    shortest = [
        min(len(text.split()) for text in answers[query])
        for query in plan.ids
        if answers.get(query)
    ]
    longest = _longest_passage(plan, results.rankings.values())
    above, middle = sum(words > longest for words in shortest), median(shortest or [0])
    hardly = n and never >= _HARDLY * n and (middle >= _SENTENCE or never == n)
    if not hardly and not above:
        return None
    found = f"for {never} of {n} queries no retrieved passage holds a gold answer word for word"
    if above:
        found += f"; {above} of {len(shortest)} gold answers are longer than any passage"
    elif middle >= _SENTENCE:
        found += f", as gold answers have {middle:g} words in the median"
    return f"{found}: {_WHAT_TO_DO}"


def _longest_passage(plan: Plan, rankings: Iterable[RetrieverRun]) -> int:
    hits = (
        hit
        for ranked in rankings
        for outcome in ranked.outcomes
        if outcome.value is not None
        for hit in outcome.value.documents
    )
    texts = {hit.id: hit.text for hit in hits}
    known = plan.corpus
    whole = {
        name: known[name].full_text if text is None and name in known else text or ""
        for name, text in texts.items()
    }
    return max((len(text.split()) for text in whole.values()), default=0)


def _nothing_relevant(plan: Plan, results: Results) -> str | None:
    """Why no hit is relevant: none is judged, or those that are judged are irrelevant."""
    qrels = results.qrels(plan)
    if qrels is None:
        return None
    judged = dict.fromkeys(qrels.documents)  # in their order: every run says the same
    hits = (name for ranked in results.rankings.values() for name in ranked.run.documents)
    example, known = next(hits, None), next(iter(judged), "")
    if example is None:
        return "no system found anything"
    if any(name in judged for name in chain([example], hits)):
        return "no hit of any system is relevant to its query"
    n_hits = sum(len(ranked.run) for ranked in results.rankings.values())
    return (
        f"none of the {n_hits} hits of all systems is a judged document (hits such as "
        f"'{example}', judgements such as '{known}'): if these are ids of other things, say what "
        "the ids are (id_field of the retriever, metrics.retrieval.match)"
    )


def warnings_on(system: str, name: str, planned: PlannedJudge, judged: JudgeResults) -> list[str]:
    """Say what makes a judge's numbers doubtful; a sentence each."""
    found = mixture(system, name, planned, judged)
    for rubric, counts in judged.failures.items():
        causes = ", ".join(f"{count} {cause}" for cause, count in counts.items())
        found.append(
            f"{system}: judge {name}: {sum(counts.values())} of {judged.verdict_counts[rubric]} "
            f"verdicts on {rubric} failed ({causes}); kept in judgements/, the mean is over the "
            "others"
        )
    return found


def mixture(system: str, name: str, planned: PlannedJudge, judged: JudgeResults) -> list[str]:
    """Warn where a server answered as more models than were asked."""
    if len(judged.models) <= len(planned.judge.model.split("+")):
        return []
    return [
        f"{system}: judge {name}: the server answered as {len(judged.models)} models, "
        f"{', '.join(judged.models)}: the scores are a mixture"
    ]


class Compare(StoredStage):
    """The comparison of all systems: stored, since intervals and tests take a while."""

    kind, version = "compare", 1
    has_texts = False  # numbers, and names by which they are looked up
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
            kept = [f"{name} {_fingerprint(column)}" for name, column in columns]
            parts += [system.name, *kept]
        return [Slot(self.items_of(plan.config.name, parts), "comparisons", 0)]

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
        """Compare systems, controls with their systems, and retrievers with the one they read."""
        plan, method = self.plan, method_of(self.plan)
        results.notes += [*sample_notes(results.answers.values()), *refusal_notes(plan, results)]
        self._systems = [system for system in results.systems if system.role != "control"]
        [stored] = self.items()
        deltas = describe_deltas(plan, self._systems, method)
        controls = describe_controls(plan, results.systems, method)
        results.notes += [*delta_notes(deltas), *control_notes(controls, method.confidence)]
        preferences = [entry for each in results.preferences for entry in each.entries]
        results.comparisons = replace(
            with_reasons(plan, results, stored),
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
        generator = plan.generators.get(system.generator or "")
        answers = results.answers.get(system.name)
        if generator is not None and generator.asks and answers is not None:
            values = [outcome.value for outcome in answers.outcomes]
            lacking = {name for value in values if value is not None for name in value.left_out}
            add(f"generator {system.generator}", lacking, generator.signature_parts())
    notes = []
    for who, (names, options) in found.items():
        # an option of the config with its value, where that is not the default
        set_to = {name: options.get(name) for name in sorted(names)}
        texts = [f"{n} {value} of the config" if value else n for n, value in set_to.items()]
        if texts:
            notes.append(f"{who}: the model refuses {', '.join(texts)}; requests go without")
    return notes


def differences_from(
    other: SystemScores, system: SystemScores, method: Method
) -> Iterator[tuple[str, Difference]]:
    """Compare a system with another one by each score of both that is a mean over queries."""
    for name, column in system.columns.items():
        if name in other.columns and column.aggregate != "sum":
            pair = pair_columns(name, system, other)
            yield name, describe(pair, pair.differences, method, None)


def describe_deltas(
    plan: Plan, systems: Sequence[SystemScores], method: Method
) -> list[OverSource]:
    """Compare each retriever over exactly one other with that one, if both are scored."""
    by_name = {system.name: system for system in systems}
    sources = {name: plan.retrievers[name].sources for name in plan.scored_retrievers}
    single = [(name, each[0]) for name, each in sources.items() if len(each) == 1]
    return [
        OverSource(
            system=name,
            over=first,
            measure=measure,
            difference=found.difference,
            interval=found.interval or (None, None),
            n=found.n,
            n_changed=found.n_changed or 0,
        )
        for name, first in single
        if first in by_name
        for measure, found in differences_from(by_name[first], by_name[name], method)
    ]


def delta_notes(rows: Sequence[OverSource]) -> list[str]:
    """Say in a sentence each what it adds, by its first measure."""
    notes = []
    for name in dict.fromkeys(row.system for row in rows):
        row = next(row for row in rows if row.system == name)
        low, high = row.interval
        if row.difference is None or low is None or high is None:
            continue
        notes.append(
            f"{name} over {row.over}: {row.measure} {row.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
        )
    return notes


def describe_controls(
    plan: Plan, systems: Sequence[SystemScores], method: Method
) -> list[ControlDifference]:
    """Compare each generator's controls with its answers from the baseline retriever.

    Differences are paired over the queries that both answered.
    """
    rows = []
    by_name = {system.name: system for system in systems}
    for planned in plan.systems:
        if planned.type != "control" or planned.baseline is None:
            continue
        control, system = by_name[planned.name], by_name[planned.baseline]
        rows += [
            ControlDifference(
                control=str(control.retriever),
                generator=str(control.generator),
                score=name,
                mean=finite(control.columns[name].mean),
                system=system.name,
                system_mean=finite(system.columns[name].mean),
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
