"""The judge stage over pairs of systems: whose answer is better, query by query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, combinations

import numpy as np

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import ComparedPair, compare_preferences
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.records import (
    Answers,
    Preferences,
    Results,
    judge_totals,
    judge_use,
    mean_over_samples,
    split_samples,
    with_failures_of,
)
from ragbench.experiment.stages.base import Node, Stage, Workspace
from ragbench.experiment.stages.comparison import judge_warnings
from ragbench.experiment.stages.judging import passage_texts
from ragbench.records.manifest import VerdictRow
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.judged import JudgeResults
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.score.judge.pairs import judge_pairs, same_answers
from ragbench.types import ScoreColumn
from ragbench.types.records import add_usage

# Systems up to which every two are compared where the config does not say.
MOST_IN_ALL_PAIRS = 4


class JudgePairs(Stage):
    """A judge with a rubric of pairs compares the systems that answer; its replies are stored."""

    place = 2

    def __init__(self, workspace: Workspace, name: str) -> None:
        super().__init__(workspace, f"judge pairs ({name})")
        self.name, self.judge = name, self.plan.judges[name]

    def collect(self, results: Results) -> None:
        """Compare the systems of the run."""
        plan, judge, name = self.plan, self.judge, self.name
        answers = results.answers
        if len(self._rivals) < 2:
            rubrics = ", ".join(rubric.name for rubric in judge.pairwise)
            systems = "1 system" if self._rivals else "no system"
            results.warnings.append(
                f"judge {name}: {rubrics} compares two systems; there is {systems} that answers"
            )
            return
        pairs = [(answers[one], answers[other]) for one, other in self._pairs]
        size = sum(len(plan.queries) * max(one.samples, other.samples) for one, other in pairs)
        before, judgements = judge_totals(judge), list[JudgeResults]()
        compared: dict[str, list[ComparedPair]] = {rubric.name: [] for rubric in judge.pairwise}
        with self.workspace.timed(self.title, size, "pairs") as stage:
            for one, other in pairs:
                items = _items(plan, one, other)
                judged = judge_pairs(
                    judge.judge,
                    items,
                    judge.pairwise,
                    type_name=judge.type,
                    advance=stage.advance,
                )
                rows = _rows(name, one.name, other.name, judged)
                judgements.append(replace(judged, rows=rows))
                for rubric, column in judged.columns.items():
                    compared[rubric].append(_compared(one, other, items, column))
        whole = _joined(judgements)
        baseline = self._baseline if self._is_against_baseline else None
        statistics = plan.config.statistics
        confidence, resamples = statistics.confidence, statistics.resamples
        method = Method(confidence=confidence, resamples=resamples, seed=plan.config.seed)
        entries = [
            replace(
                compare_preferences(outcomes, method),
                name=plan.judge_score(rubric, name),
                rubric=rubric,
                judge=name,
                model="+".join(whole.models),
                pairs="all" if baseline is None else "baseline",
                baseline=baseline,
            )
            for rubric, outcomes in compared.items()
        ]
        self.workspace.prompts.update(whole.words)
        use = judge_use(judge, whole, before)
        results.preferences.append(Preferences(name, entries, whole.rows, use))
        results.warnings += judge_warnings("pairs", name, judge, whole)

    @property
    def computes(self) -> bool:
        """Whether the judge computes here, and asks no server."""
        return self.judge.judge.computes

    @cached_property
    def _rivals(self) -> list[System]:
        """The systems that answer, but for controls."""
        return [system for system in self.plan.answering_systems if system.type != "control"]

    @property
    def _is_against_baseline(self) -> bool:
        pairs = self.judge.block.pairs
        return len(self._rivals) > MOST_IN_ALL_PAIRS if pairs is None else pairs == "baseline"

    @property
    def _baseline(self) -> str:
        """The first system that answers for the baseline; else the first that answers at all.

        It is one for all, whatever their generators, so that comparisons connect all systems.
        """
        baseline = self.plan.baseline
        names = [s.name for s in self._rivals if baseline in (s.retriever, s.name)]
        return [*names, self._rivals[0].name][0]

    @property
    def _pairs(self) -> list[tuple[str, str]]:
        """Every two systems, or each with the baseline, which then stands second."""
        names = [system.name for system in self._rivals]
        if self._is_against_baseline:
            return [(name, self._baseline) for name in names if name != self._baseline]
        return list(combinations(names, 2))

    def forecast(self) -> Node | None:
        """Every two systems that answer, or each with the baseline."""
        plan, judge = self.plan, self.judge
        if len(self._rivals) < 2:
            return None
        samples = max(plan.samples(system.generator) for system in self._rivals)
        count = len(self._pairs) * len(plan.queries) * samples
        node = Node(self.title, count * len(judge.pairwise), 0, "verdicts", at_most=True)
        if isinstance(judge.judge, ModelJudge):
            items = [self.workspace.example_item(row, 0) for row in range(len(plan.queries))]
            items = [replace(item, other=f"{item.answer} or not") for item in items]
            cost = rehearse(judge.judge, items, judge.pairwise)
            node.cost = cost.times(count / max(len(items), 1))
        return node


def _rows(judge: str, one: str, other: str, judged: JudgeResults) -> list[VerdictRow]:
    """Return the verdicts with the names of the judge, of the systems, and of the one that won."""
    wins = [value for column in judged.columns.values() for value in column.values.tolist()]
    winner = {1.0: one, 0.0: other}
    return [
        replace(row, judge=judge, system=one, other=other, winner=winner.get(won))
        for row, won in zip(judged.rows, wins, strict=True)
    ]


def _meetings(one: Answers, other: Answers) -> list[tuple[Answers, Answers]]:
    """Pair the samples of two systems, each at least once; of fewer samples some come again."""
    mine, theirs = one.by_sample(), other.by_sample()
    numbers = range(max(one.samples, other.samples))
    return [(mine[n % len(mine)], theirs[n % len(theirs)]) for n in numbers]


def _compared(
    one: Answers, other: Answers, items: Sequence[JudgedItem], column: ScoreColumn
) -> ComparedPair:
    """Return the outcomes of a pair: the system that wins more of its meetings wins a query.

    A meeting that one of the two has no answer to failed, and a query where all of them did.
    """
    meetings = _meetings(one, other)
    n = len(items) // len(meetings)
    columns, same = [], np.ones(n, bool)
    for number, part in enumerate(split_samples(column, len(meetings))):
        mine, theirs = meetings[number]
        part = with_failures_of(mine, with_failures_of(theirs, part))
        pairs = items[number * n : (number + 1) * n]
        same &= np.isfinite(part.values) & [same_answers(item) for item in pairs]
        columns.append(part)
    mean = mean_over_samples(columns)
    # the winner of most meetings wins the query, so that a failed meeting is no share of its score
    decided = replace(mean, values=0.5 + 0.5 * np.sign(mean.values - 0.5), answer_causes=None)
    return ComparedPair(one.name, other.name, decided, int(same.sum()))


def _joined(judgements: Sequence[JudgeResults]) -> JudgeResults:
    """Return the verdicts on all pairs as one record, without the columns."""
    rows = [row for judged in judgements for row in judged.rows]
    models = {model for judged in judgements for model in judged.models}
    usage = add_usage(judged.usage for judged in judgements)
    words = {form: text for judged in judgements for form, text in judged.words.items()}
    apart, failed, asked = dict[str, list[float]](), dict[str, Counter[str]](), Counter[str]()
    for judged in judgements:
        asked.update(judged.verdict_counts)
        for rubric, spreads in judged.deviations.items():
            apart.setdefault(rubric, []).extend(spreads)
        for rubric, causes in judged.failures.items():
            failed.setdefault(rubric, Counter()).update(causes)
    return JudgeResults({}, rows, tuple(sorted(models)), usage, (), words, apart, failed, asked)


def _items(plan: Plan, one: Answers, other: Answers) -> list[JudgedItem]:
    """Return the two answers to each query as a judge sees them, with the passages of both."""
    items = []
    for sample, (first, second) in enumerate(_meetings(one, other)):
        for query, mine, theirs in zip(plan.queries, first.outcomes, second.outcomes, strict=True):
            passages = [t for t in map(passage_texts, (mine, theirs)) if t is not None]
            items.append(
                JudgedItem(
                    question=query.text,
                    answer=None if mine.value is None else mine.value.answer,
                    other=None if theirs.value is None else theirs.value.answer,
                    contexts=list(dict.fromkeys(chain(*passages))) if passages else None,
                    references=list(plan.collection.answers.get(query.id, ())),
                    query_id=query.id,
                    sample=sample,
                    turns=query.turns,
                )
            )
    return items
