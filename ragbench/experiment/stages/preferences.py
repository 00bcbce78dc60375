"""The judge stage over pairs of systems: whose answer is better, query by query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import ComparedPair, compare_preferences
from ragbench.experiment.calls import Outcome, without_value
from ragbench.experiment.plan.records import PlannedJudge, System
from ragbench.experiment.records import (
    Answers,
    Preferences,
    Results,
    mean_over_samples,
    split_samples,
    totals_of,
    use_of,
    with_failures,
)
from ragbench.experiment.stages.base import Node, Stage, Workspace
from ragbench.experiment.stages.comparison import warnings_on
from ragbench.experiment.stages.judging import passage_texts
from ragbench.records.manifest import VerdictRow
from ragbench.score.base import Advance
from ragbench.score.judge.base import Item
from ragbench.score.judge.judged import Judged
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.score.judge.pairs import judge_pairs, same_answers
from ragbench.types import Prediction, Query, ScoreColumn
from ragbench.types.records import add_usage

MOST_IN_ALL_PAIRS = 4
"""Systems up to which every two are compared where the config does not say."""


class JudgePairs(Stage):
    """A judge with a rubric of pairs compares the systems that answer; its replies are stored."""

    place = 2

    def __init__(self, workspace: Workspace, name: str) -> None:
        super().__init__(workspace, f"judge pairs ({name})")
        self.name, self.judge = name, self.plan.judges[name]

    def collect(self, results: Results) -> None:
        """Compare the systems of the run."""
        plan, judge, name = self.plan, self.judge, self.name
        answers = [results.answers[each.name] for each in self._rivals]
        if len(answers) < 2:
            rubrics = ", ".join(rubric.name for rubric in judge.pairwise)
            found = f"{len(answers)} system that answers" if answers else "no system that answers"
            warning = f"judge {name}: {rubrics} compares two systems; there is {found}"
            results.warnings.append(warning)
            return
        pairs = choose_pairs(answers, judge, _baseline(self._rivals, plan.baseline))
        size = sum(len(plan.queries) * _samples(one, other) for one, other in pairs)
        with self.workspace.timed(self.title, size, "pairs") as stage:
            preferences, whole = self._prefer(pairs, stage.advance)
        self.workspace.prompts.update(whole.words)
        results.preferences.append(preferences)
        results.warnings += warnings_on("pairs", name, judge, whole)

    def _prefer(
        self, pairs: Sequence[tuple[Answers, Answers]], advance: Advance
    ) -> tuple[Preferences, Judged]:
        plan, name, judge = self.plan, self.name, self.judge
        before = totals_of(judge)
        compared: dict[str, list[ComparedPair]] = {rubric.name: [] for rubric in judge.pairwise}
        judgements = []
        for one, other in pairs:
            items = _items(plan.queries, one, other, plan.collection.answers)
            judged = judge_pairs(
                judge.judge, items, judge.pairwise, type_name=judge.type, advance=advance
            )
            rows = _rows(one.name, other.name, judged)
            judgements.append(replace(judged, rows=rows))
            for rubric, column in judged.columns.items():
                compared[rubric].append(_compared(plan.queries, one, other, items, column))
        whole = _joined(judgements, name)
        systems = {answers.name for pair in pairs for answers in pair}
        baseline = pairs[0][1].name if _against_baseline(judge, len(systems)) else None
        statistics = plan.config.statistics
        confidence, resamples = statistics.confidence, statistics.resamples
        method = Method(confidence=confidence, resamples=resamples, seed=plan.config.seed)
        entries = [
            replace(
                compare_preferences(found, method),
                name=plan.judge_score(rubric, name),
                rubric=rubric,
                judge=name,
                model="+".join(whole.models),
                pairs="all" if baseline is None else "baseline",
                baseline=baseline,
            )
            for rubric, found in compared.items()
        ]
        return Preferences(name, entries, whole.rows, use_of(judge, whole, before)), whole

    @property
    def computes(self) -> bool:
        """Whether the judge computes here, and asks no server."""
        return self.judge.judge.computes

    @property
    def _rivals(self) -> list[System]:
        """Who answers, but for controls."""
        return [each for each in self.plan.answering if each.type != "control"]

    def forecast(self) -> Node | None:
        """Every two systems that answer, or each with the baseline."""
        plan, judge, answering = self.plan, self.judge, self._rivals
        if len(answering) < 2:
            return None
        samples = max(plan.samples(system.generator) for system in answering)
        count = number_of_pairs(judge, len(answering)) * len(plan.queries) * samples
        node = Node(self.title, count * len(judge.pairwise), 0, "verdicts", at_most=True)
        if isinstance(judge.judge, ModelJudge):
            items = [self.workspace.imagined(row, 0) for row in range(len(plan.queries))]
            items = [replace(item, other=f"{item.answer} or not") for item in items]
            cost = rehearse(judge.judge, items, judge.pairwise)
            node.cost = cost.times(count / max(len(items), 1))
        return node


def choose_pairs(
    answers: Sequence[Answers], judge: PlannedJudge, baseline: str
) -> list[tuple[Answers, Answers]]:
    """Return every two systems, or each with the baseline, which then stands second."""
    if _against_baseline(judge, len(answers)):
        by_name = {each.name: each for each in answers}
        return [(each, by_name[baseline]) for each in answers if each.name != baseline]
    return list(combinations(answers, 2))


def number_of_pairs(judge: PlannedJudge, n_systems: int) -> int:
    """Return how many pairs of systems a judge compares."""
    if _against_baseline(judge, n_systems):
        return n_systems - 1
    return n_systems * (n_systems - 1) // 2


def _against_baseline(judge: PlannedJudge, n_systems: int) -> bool:
    pairs = judge.block.pairs
    return pairs == "baseline" if pairs is not None else n_systems > MOST_IN_ALL_PAIRS


def _baseline(answering: Sequence[System], named: str | None) -> str:
    """The first system that answers for the baseline; else the first that answers at all.

    It is one for all, whatever their generators, so that comparisons connect all systems.
    """
    own = [s.name for s in answering if named in (s.retriever, s.name)]
    return [*own, *(s.name for s in answering)][0]


def _rows(one: str, other: str, judged: Judged) -> list[VerdictRow]:
    """The verdicts with the names of the systems, and of the one that won."""
    wins = [value for column in judged.columns.values() for value in column.values.tolist()]
    winner = {1.0: one, 0.0: other}
    return [
        replace(row, system=one, other=other, winner=winner.get(won))
        for row, won in zip(judged.rows, wins, strict=True)
    ]


def _samples(one: Answers, other: Answers) -> int:
    """How often a query's answers are compared: each answer at least once."""
    return max(one.samples, other.samples)


def _meetings(one: Answers, other: Answers) -> list[tuple[Answers, Answers]]:
    """Which sample of one meets which of the other; where there are fewer, they come again."""
    mine, theirs = one.each(), other.each()
    numbers = range(_samples(one, other))
    return [(mine[n % len(mine)], theirs[n % len(theirs)]) for n in numbers]


def _compared(
    queries: Sequence[Query],
    one: Answers,
    other: Answers,
    items: Sequence[Item],
    column: ScoreColumn,
) -> ComparedPair:
    """The outcomes of a pair: the system that wins more of its meetings wins a query.

    A meeting that one of the two has no answer to failed, and a query where all of them did.
    """
    meetings = _meetings(one, other)
    columns, same = [], np.ones(len(queries), bool)
    for number, part in enumerate(split_samples(column, len(meetings))):
        mine, theirs = meetings[number]
        failed = {**dict(without_value(theirs.outcomes)), **dict(without_value(mine.outcomes))}
        part = with_failures(part, failed)
        own = items[number * len(queries) : (number + 1) * len(queries)]
        same &= np.isfinite(part.values) & [same_answers(item) for item in own]
        columns.append(part)
    found = mean_over_samples(columns)
    # the winner of most meetings wins the query, so that a failed meeting is no share of its score
    decided = replace(found, values=0.5 + 0.5 * np.sign(found.values - 0.5), answer_causes=None)
    return ComparedPair(one.name, other.name, decided, int(same.sum()))


def _joined(judgements: Sequence[Judged], judge: str) -> Judged:
    """What was said of all pairs, without the columns."""
    rows = [replace(row, judge=judge) for judged in judgements for row in judged.rows]
    models = {model for judged in judgements for model in judged.models}
    usage = add_usage(judged.usage for judged in judgements)
    words = {form: each for judged in judgements for form, each in judged.words.items()}
    apart, failed, asked = dict[str, list[float]](), dict[str, Counter[str]](), Counter[str]()
    for judged in judgements:
        asked.update(judged.asked)
        for rubric, spreads in judged.apart.items():
            apart.setdefault(rubric, []).extend(spreads)
        for rubric, causes in judged.failed.items():
            failed.setdefault(rubric, Counter()).update(causes)
    return Judged({}, rows, tuple(sorted(models)), usage, (), words, apart, failed, asked)


def _items(
    queries: Sequence[Query], one: Answers, other: Answers, references: Mapping[str, Sequence[str]]
) -> list[Item]:
    """The two answers to each query; the passages are those of both systems."""
    return [
        Item(
            question=query.text,
            answer=None if mine.value is None else mine.value.answer,
            other=None if theirs.value is None else theirs.value.answer,
            contexts=_of_both(mine, theirs),
            references=list(references.get(query.id, ())),
            query_id=query.id,
            sample=sample,
            turns=query.turns,
        )
        for sample, (first, second) in enumerate(_meetings(one, other))
        for query, mine, theirs in zip(queries, first.outcomes, second.outcomes, strict=True)
    ]


def _of_both(mine: Outcome[Prediction], theirs: Outcome[Prediction]) -> list[str] | None:
    found = [texts for texts in (passage_texts(mine), passage_texts(theirs)) if texts is not None]
    return list(dict.fromkeys(text for texts in found for text in texts)) if found else None
