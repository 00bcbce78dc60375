"""`stop_when: decided`: a judge that looks five times, and stops once its questions are decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from ragbench.comparison.differences import compare_systems
from ragbench.comparison.systems import SystemScores
from ragbench.experiment.costs import paid_since, scale_usage, total_cost, totals_of
from ragbench.experiment.gates import gated
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.plan.records import Plan, PlannedJudge
from ragbench.experiment.records import EarlyJudge, Results
from ragbench.experiment.stages.base import Stage, Workspace
from ragbench.experiment.stages.columns import mean_over_samples, split_samples
from ragbench.experiment.stages.judging import JudgeAnswers
from ragbench.gates.scores import find_score
from ragbench.llm import Totals
from ragbench.records.comparison import Difference
from ragbench.records.score import Kind
from ragbench.records.summary import Saved
from ragbench.score.base import Look
from ragbench.score.judge.base import Item
from ragbench.score.judge.judged import Judged
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.signature import order_key
from ragbench.stats import look_sizes
from ragbench.types import Cause, Verdict


class JudgeEarly(Stage):
    """A judge that looks at all systems side by side, and stops once its questions are decided.

    It looks at growing random samples of the queries, the same for all systems. After each look its
    scores are compared, and checked by their gates, as the run will print them: with intervals
    that hold over all looks together. It ends when these decide everything; what is stored of the
    other queries does not count, so that a result does not depend on what was judged before.
    Controls are judged as far as the systems, and nothing is asked about them.

    References:
        Lan and DeMets (1983), Discrete sequential boundaries for clinical trials.
    """

    def __init__(self, workspace: Workspace, name: str) -> None:
        super().__init__(workspace)
        self.name, self.judge = name, self.plan.judges[name]
        self.judges: list[JudgeAnswers] = []  # of each system its answers

    @cached_property
    def found(self) -> EarlyJudge:
        """How far it went, and what it said."""
        samples, n = _samples(self.plan), len(self.plan.queries)
        verdicts: dict[JudgeAnswers, list[Mapping[str, Verdict]]]
        verdicts = {each: [_not_judged(self.judge)] * len(each.items) for each in self.judges}
        paid = {each.system.name: Totals() for each in self.judges}
        for number, (_, rows) in enumerate(samples, start=1):
            for each in self.judges:
                before, name = totals_of(self.judge), each.system.name
                given = each.verdicts(rows)
                paid[name] = paid_since(before, totals_of(self.judge), paid[name])
                for row in each.answers.rows(rows):
                    verdicts[each][row] = given[row]
            look = _look(self.plan, self.judge, number, samples)
            judged = {each: each.collected(verdicts[each], look) for each in self.judges}
            systems = [
                _scores_of(self.plan, each, found)
                for each, found in judged.items()
                if each.system.role != "control"
            ]
            if number == len(samples) or is_decided(self.plan, systems):
                break
        left = [row for _, rows in samples[number:] for row in rows]
        not_asked = [[each.items[row] for row in each.answers.rows(left)] for each in self.judges]
        by_name = {each.system.name: found for each, found in judged.items()}
        saved = _saved(self.judge, not_asked, by_name, len(left), n)
        return EarlyJudge(look, by_name, paid, saved, _over_budget(by_name, n))

    def asked(self) -> EarlyJudge:
        """Return how far it went."""
        return self.found

    def collect(self, results: Results) -> None:
        """Add how far it went."""
        results.early[self.name] = self.found
        results.notes.append(self.found.note(self.name))


def _samples(plan: Plan) -> list[tuple[int, list[int]]]:
    """Per look how many queries, or clusters, there are by then, and the rows that it adds."""
    seed, ids = plan.config.seed, plan.ids
    units: dict[str, list[int]] = {}
    for row, label in enumerate(ids if plan.clusters is None else plan.clusters):
        units.setdefault(label, []).append(row)
    order = sorted(units, key=lambda label: order_key(seed, label))
    sizes = look_sizes(len(order))
    return [
        (size, [row for label in order[start:size] for row in units[label]])
        for start, size in zip((0, *sizes), sizes, strict=False)
    ]


def _look(
    plan: Plan, judge: PlannedJudge, number: int, samples: Sequence[tuple[int, list[int]]]
) -> Look:
    n = len(plan.queries)
    bets = judge.block.always_valid
    places = None
    if bets:
        places = np.empty(n, np.int64)
        places[[row for _, rows in samples for row in rows]] = np.arange(n)
    n_judged = sum(len(rows) for _, rows in samples[:number])
    return Look(number, tuple(size for size, _ in samples), n_judged, n, bets, places)


def _not_judged(judge: PlannedJudge) -> dict[str, Verdict]:
    reason = "not judged: the comparison by its score was decided before"
    verdict = Verdict(
        None, reasoning=reason, status="not_applicable", cause=Cause.STOPPED_EARLY.word
    )
    return {rubric.name: verdict for rubric in judge.rubrics}


def _scores_of(plan: Plan, judge: JudgeAnswers, judged: Judged) -> SystemScores:
    columns = {}
    for rubric, column in judged.columns.items():
        name = plan.judge_score(rubric, judge.name)
        samples = split_samples(replace(column, name=name), judge.answers.samples)
        columns[name] = mean_over_samples(samples)
    system = judge.system
    kinds: dict[str, Kind] = dict.fromkeys(columns, "judge")
    return SystemScores(
        system.name, system.retriever, system.generator, columns, kinds, role=system.role
    )


def _over_budget(judged: Mapping[str, Judged], n: int) -> int:
    """How many queries lack a verdict on some answer, since the budget was reached first."""
    causes = [
        # of several answers to each query, the rows of the first come first
        column.causes.reshape(-1, n)
        for each in judged.values()
        for column in each.columns.values()
    ]
    if not causes:
        return 0
    return int((np.concatenate(causes) == Cause.OVER_BUDGET).any(axis=0).sum())


def _saved(
    judge: PlannedJudge,
    left: Sequence[Sequence[Item]],
    judged: Mapping[str, Judged],
    n_left: int,
    n: int,
) -> Saved:
    """What the others would have taken: calls as they are planned, the rest as the done ones."""
    if not n_left:
        return Saved(calls=0, usd=0.0, tokens=0)
    usages = [each.usage for each in judged.values()]
    cost = total_cost(scale_usage([usage], n_left, n - n_left) for usage in usages)
    calls: int | None = None if judge.judge.asks else 0
    if isinstance(judge.judge, ModelJudge):
        each = [rehearse(judge.judge, own, judge.rubrics).calls for own in left]
        calls = round(sum(low + high for low, high in each) / 2)
    return Saved(calls=calls, usd=cost.usd, tokens=cost.tokens)


def is_decided(plan: Plan, systems: Sequence[SystemScores]) -> bool:
    """Whether every gate on these scores, and every comparison without a gate, is decided.

    A system whose score has a `max_drop` is asked just that: whether it differs at all is another
    question, which equal systems would never answer. A gate over exactly these queries, such as
    `decide: mean` or `max_queries_worse`, needs all of them, unless too many are worse already.
    Nothing is decided where nothing is asked, or where the budget ended the sample.
    """
    columns = [column for system in systems for column in system.columns.values()]
    if any((column.causes == Cause.OVER_BUDGET).any() for column in columns):
        return False
    names = list(dict.fromkeys(column.name for column in columns))
    answers, held = list[bool](), set[tuple[str, str]]()
    run = gated(plan, systems, plan.qrels)
    for gate in plan.config.gates:
        score = None if gate.score is None else find_score(gate.score, names)
        if score is None:
            continue
        for system, found in gate.verdicts(run):
            settled = gate.is_settled(found)
            answers += [] if settled is None else [settled]
            if gate.asks_difference:
                held.add((str(system), score))
    compared = compare_systems(systems, plan.baseline, method_of(plan), plan.clusters)
    answers += [
        _differs(comparison)
        for family in compared.measures
        for comparison in family.comparisons
        if (comparison.system, family.measure) not in held
    ]
    return bool(answers) and all(answers)


def _differs(comparison: Difference) -> bool:
    low, high = comparison.interval or (None, None)
    if low is None or high is None:
        return False
    return bool(comparison.differs) and not low <= 0 <= high
