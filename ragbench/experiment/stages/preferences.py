"""Stage that judges pairs of systems: which of two answers to a query is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import TypeAlias

import numpy as np
from msgspec import structs

from ragbench.comparison.method import Method
from ragbench.comparison.preferences import ComparedPair, compare_preferences
from ragbench.experiment import records
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.stages.answers import AnswerQueries
from ragbench.experiment.stages.base import (
    ItemGroup,
    Keep,
    Outputs,
    Slot,
    Stage,
    Step,
    example_item,
)
from ragbench.experiment.stages.comparison import judge_warnings
from ragbench.experiment.stages.judging import passage_texts
from ragbench.experiment.stages.resources import Resources
from ragbench.llm import Totals
from ragbench.records.comparison import Preference
from ragbench.records.manifest import VerdictRow
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.score.judge.verdicts import (
    JudgeResults,
    collect_pairs,
    compare_answers,
    same_answers,
)
from ragbench.types import ScoreColumn, Verdict
from ragbench.types.lookups import item_names, select_in_order
from ragbench.types.rows import Mapped

# Number of systems up to which all pairs are judged by default; more are judged with the baseline,
# as the number of pairs grows with the square.
MOST_IN_ALL_PAIRS = 4


# Verdicts on one pair of answers, by rubric.
PairVerdicts: TypeAlias = Mapping[str, Verdict]


class JudgePairs(Stage[JudgeResults | None]):
    """Stage that compares the answering systems by the pairwise rubrics of a judge.

    Up to four systems are judged in all pairs, more of them each with the baseline, unless `pairs:`
    of the judge says otherwise; controls are left out. Verdicts are made again in each run, from
    stored replies where the judge asks a model. Its output is None below two systems.

    Attributes:
        name: Name of the judge.
        judge: Judge with its rubrics.
    """

    place = 2
    unit = "pairs"
    has_texts = False  # nothing is stored

    def __init__(
        self, resources: Resources, name: str, answers: Mapping[str, AnswerQueries]
    ) -> None:
        """`answers` has the stages that answer, by system."""
        plan = resources.plan
        self._rivals = plan.answering_without_controls
        self._answers = select_in_order(answers, item_names(self._rivals))
        super().__init__(plan, f"judge pairs ({name})", [*self._answers.values()])
        self._resources, self.name, self.judge = resources, name, plan.judges[name]

    def items(self, inputs: Outputs) -> list[Slot | None]:
        """Return a slot for each pair of answers, pair by pair of systems; nothing is stored."""
        pairs = self._pair_answers(inputs)
        n = sum(len(_sample_pairs(one, other)) for one, other in pairs) * len(self.plan.queries)
        return [Slot(ItemGroup(self.name, ""), str(row), row) for row in range(n)]

    def _pair_answers(self, inputs: Outputs) -> list[tuple[records.Answers, records.Answers]]:
        """Return the answers of both systems of each pair."""
        answers = self._answers
        return [(inputs[answers[one]], inputs[answers[other]]) for one, other in self._pairs()]

    def _all_items(self, inputs: Outputs) -> list[JudgedItem]:
        """Return the items of all pairs of systems, one after the other."""
        pairs = self._pair_answers(inputs)
        items = list[JudgedItem]()
        for one, other in pairs:
            items += _items(self.plan, one, other)
        return items

    def payer(self, results: records.Results) -> str:
        """Return the judge, if it calls models."""
        return f"judge {self.name}" if self.judge.judge.asks else ""

    def totals(self) -> Totals:
        """Return calls, tokens and cost of the judge so far."""
        return records.judge_totals(self.judge)

    def make(self, inputs: Outputs, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Judge all pairs of answers."""
        items = Mapped(self._all_items(inputs).__getitem__, todo)
        verdicts = compare_answers(self.judge.judge, items, self.judge.pairwise, advance)
        for position, by_rubric in zip(todo, verdicts, strict=True):
            keep(position, by_rubric)

    def output(self, inputs: Outputs, values: Sequence[PairVerdicts | None]) -> JudgeResults | None:
        """Return the verdicts as columns, rows and usage; None without any, or in a plan."""
        verdicts = []
        for value in values:
            if value is not None:
                verdicts.append(value)
        if not verdicts:
            return None
        judge, items = self.judge, self._all_items(inputs)
        return collect_pairs(judge.judge, items, judge.pairwise, verdicts, type_name=judge.type)

    def add(self, outputs: Outputs, results: records.Results) -> None:
        """Add preferences and warnings; only a warning below two systems."""
        plan, judge, name, judged = self.plan, self.judge, self.name, outputs[self]
        if judged is None:
            rubrics = ", ".join(item_names(judge.pairwise))
            systems = "1 system" if self._rivals else "no system"
            results.warnings.append(
                f"judge {name}: {rubrics} compares two systems; there is {systems} that answers"
            )
            return
        pairs = self._pair_answers(outputs)
        items, names = [], []
        for first, other in pairs:
            part = _items(plan, first, other)
            items.append(part)
            names += [(first.name, other.name)] * len(part)
        self._resources.prompts.update(judged.words)
        rows = _rows(name, names * len(judge.pairwise), judged)
        use = records.judge_use(judged, outputs.paid(self))
        entries = self._entries(pairs, items, judged)
        results.preferences.append(records.Preferences(name, entries, rows, use))
        results.warnings += judge_warnings("pairs", name, judge, judged)

    def _entries(
        self,
        pairs: Sequence[tuple[records.Answers, records.Answers]],
        items: Sequence[Sequence[JudgedItem]],
        judged: JudgeResults,
    ) -> list[Preference]:
        """Return the preferences by each rubric; `items` has those of each pair of systems."""
        ends = np.cumsum([*map(len, items)])
        places = np.split(np.arange(ends[-1]), ends[:-1])
        plan, statistics = self.plan, self.plan.config.statistics
        confidence, resamples = statistics.confidence, statistics.resamples
        method = Method(confidence=confidence, resamples=resamples, seed=plan.config.seed)
        baseline = self._baseline() if self._is_against_baseline() else None
        entries = []
        for rubric, column in judged.columns.items():
            compared = []
            for (first, other), part, rows in zip(pairs, items, places, strict=True):
                compared.append(_compared_pair(first, other, part, column.take(rows)))
            entry = structs.replace(
                compare_preferences(compared, method),
                name=plan.judge_score(rubric, self.name),
                rubric=rubric,
                judge=self.name,
                model="+".join(judged.models),
                pairs="all" if baseline is None else "baseline",
                baseline=baseline,
            )
            entries.append(entry)
        return entries

    def _is_against_baseline(self) -> bool:
        """Return True if each system is compared with the baseline alone."""
        pairs = self.judge.block.pairs
        return len(self._rivals) > MOST_IN_ALL_PAIRS if pairs is None else pairs == "baseline"

    def _baseline(self) -> str:
        """Return the name of the first system of the baseline; else of the first that answers."""
        # It is one for all generators, so that every two systems are linked by comparisons.
        baseline = self.plan.baseline
        names = []
        for rival in self._rivals:
            if baseline in (rival.retriever, rival.name):
                names.append(rival.name)
        return [*names, self._rivals[0].name][0]

    def _pairs(self) -> list[tuple[str, str]]:
        """Return the names of all pairs of systems, or of each system with the baseline."""
        names = item_names(self._rivals)
        if len(names) > 1 and self._is_against_baseline():
            pairs = []
            for name in names:
                if name != self._baseline():
                    pairs.append((name, self._baseline()))
            return pairs
        return list(combinations(names, 2))

    def step(self, outputs: Outputs, work: records.Work | None) -> Step | None:
        """Return a step with an upper limit of verdicts and cost; None below two systems."""
        plan, judge = self.plan, self.judge
        if len(self._rivals) < 2:
            return None
        samples = max(stage.samples for stage in self._answers.values())
        count = len(self._pairs()) * len(plan.queries) * samples
        node = Step(self.title, count * len(judge.pairwise), 0, "verdicts", at_most=True)
        if isinstance(judge.judge, ModelJudge):
            items = []
            for row in range(len(plan.queries)):
                item = example_item(plan, row, 0)
                items.append(replace(item, other=f"{item.answer} or not"))
            cost = rehearse(judge.judge, items, judge.pairwise, self._resources.counted)
            node.cost = cost.times(count / max(len(items), 1))
        return node


def _rows(judge: str, systems: Sequence[tuple[str, str]], judged: JudgeResults) -> list[VerdictRow]:
    """Return the verdicts with the names of judge, systems and winner, if one wins."""
    wins = np.concatenate([column.values for column in judged.columns.values()]).tolist()
    rows = []
    for row, (one, other), won in zip(judged.rows, systems, wins, strict=True):
        winner = {1.0: one, 0.0: other}.get(won)
        rows.append(structs.replace(row, judge=judge, system=one, other=other, winner=winner))
    return rows


def _sample_pairs(
    one: records.Answers, other: records.Answers
) -> list[tuple[records.Answers, records.Answers]]:
    """Pair the samples of two systems; the system with fewer samples repeats them in order."""
    mine, theirs = one.by_sample(), other.by_sample()
    numbers = range(max(one.samples, other.samples))
    pairs = []
    for n in numbers:
        pairs.append((mine[n % len(mine)], theirs[n % len(theirs)]))
    return pairs


def _compared_pair(
    one: records.Answers, other: records.Answers, items: Sequence[JudgedItem], column: ScoreColumn
) -> ComparedPair:
    """Return the outcomes of two systems per query: 1 if the first wins, 0.5 if tied, else 0."""
    meetings = _sample_pairs(one, other)
    n = len(items) // len(meetings)
    columns, same = [], np.ones(n, bool)
    for number, part in enumerate(records.split_samples(column, len(meetings))):
        mine, theirs = meetings[number]
        part = records.with_failures_of(mine, records.with_failures_of(theirs, part))
        pairs = items[number * n : (number + 1) * n]
        same &= np.isfinite(part.values) & [same_answers(item) for item in pairs]
        columns.append(part)
    # failed pairs of samples are left out of the mean
    mean = records.mean_over_samples(columns)
    # the sign alone counts, so that a failed pair of samples is no share of the score
    decided = replace(mean, values=0.5 + 0.5 * np.sign(mean.values - 0.5), answer_causes=None)
    return ComparedPair(one.name, other.name, decided, int(same.sum()))


def _items(plan: Plan, one: records.Answers, other: records.Answers) -> list[JudgedItem]:
    """Return an item for both answers to each query, sample by sample, with all passages."""
    items = []
    for sample, (first, second) in enumerate(_sample_pairs(one, other)):
        for query, mine, theirs in zip(plan.queries, first.outcomes, second.outcomes, strict=True):
            passages = []
            for texts in map(passage_texts, (mine, theirs)):
                if texts is not None:
                    passages.append(texts)
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
