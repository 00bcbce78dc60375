"""Stages of a sweep with folds: a combination for each fold, and the rankings that it gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragbench.errors import DataError
from ragbench.experiment.calls import Outcome, without_value
from ragbench.experiment.plan.queries import fold_labels
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results, Work, mean_over_samples, with_failures
from ragbench.experiment.stages import base
from ragbench.experiment.stages.model_judgements import TakeJudgements
from ragbench.experiment.stages.ranking_scorer import RankingScorer
from ragbench.experiment.stages.resources import Resources
from ragbench.experiment.stages.retrieval import BuildRanking, HitOutcomes, Retrieve
from ragbench.fixes.cross_fitting import parts_of
from ragbench.records.summary import FoldChoice
from ragbench.report.text import listed
from ragbench.retrieve.cross_validated import CrossValidated
from ragbench.score.retrieval.notation import parse_measure
from ragbench.types import Cause, FloatArray, IntArray, ScoreColumn
from ragbench.types.rows import BoolArray, stack_values
from ragbench.types.score_column import aggregate


@dataclass(frozen=True, slots=True)
class Folds:
    """Folds of the queries, and the combination of each.

    Attributes:
        fold_of: Fold of each query, from 0.
        winners: Number of the combination of each fold.
        choices: Record of each fold that has a choice.
        note: Sentence on the folds without a choice; empty if there are none.
    """

    fold_of: IntArray
    winners: Sequence[int]
    choices: Sequence[FoldChoice]
    note: str


class ChooseByFold(base.Stage[Folds]):
    """Stage that chooses the combination of each fold, by a measure over the other folds.

    The judgements are those of people: a choice asks no judge.
    """

    def __init__(
        self,
        plan: Plan,
        name: str,
        retriever: CrossValidated,
        candidates: Sequence[Sequence[Retrieve]],
    ) -> None:
        """Create the stage; `candidates` has the stages of each combination, one per repeat."""
        self._judgements, self._ranks = TakeJudgements(plan), list[list[BuildRanking]]()
        inputs: list[base.Stage[Any]] = [self._judgements]
        for stages in candidates:
            self._ranks.append([BuildRanking(plan, s.name, s, s.number) for s in stages])
            inputs += self._ranks[-1]
        super().__init__(plan, inputs=inputs)
        self.name, self.retriever = name, retriever

    def output(self, inputs: base.Outputs, values: Sequence[Any]) -> Folds:
        """Return the folds with their choices; of equal means the first combination wins.

        It also ranks a fold, without a choice, if no query outside has a value as calls failed.

        Raises:
            DataError: No query outside of a fold has a value by the measure, and no call failed.
        """
        columns = [self._score(ranks, inputs) for ranks in self._ranks]
        scores, seed = _comparable_values(columns), self.plan.config.seed
        labels = fold_labels(self.plan.queries, self.plan.clusters)
        fold_of = parts_of(len(labels), seed, labels, self.retriever.folds)
        sign = -1.0 if columns[0].direction == "lower" else 1.0
        winners, choices, unchosen = list[int](), list[FoldChoice](), list[str]()
        for fold in range(self.retriever.folds):
            decides = (fold_of != fold) & ~np.isnan(scores[0])
            if not decides.any() and _has_failures(columns, fold_of != fold):
                winners.append(0)
                unchosen.append(str(fold + 1))
                continue
            if not decides.any():
                problem = f"no query outside fold {fold + 1} has a value of"
                raise DataError(
                    f"{self.name}: {problem} {self.retriever.measure}", allowed="fewer folds"
                )
            means = []
            for row in scores:
                means.append(aggregate(row[decides], columns[0].aggregate))
            best = max(range(len(means)), key=lambda number: sign * means[number])
            winners.append(best)
            choices.append(
                FoldChoice(
                    sweep=self.name,
                    fold=fold + 1,
                    folds=self.retriever.folds,
                    seed=seed,
                    queries=int((fold_of == fold).sum()),
                    system=self.retriever.sources[best],
                    combinations=len(means),
                    measure=self.retriever.measure,
                    mean=means[best],
                    n=int(decides.sum()),
                )
            )
        return Folds(fold_of, winners, choices, self._note(unchosen))

    def _note(self, folds: Sequence[str]) -> str:
        """Return the sentence on folds without a choice; empty without any."""
        if not folds:
            return ""
        noun, object_of = ("fold", "it") if len(folds) == 1 else ("folds", "them")
        outside = f"calls failed on all queries outside {noun} {listed(folds)}"
        first = f"{self.retriever.sources[0]}, the first combination, ranks {object_of}"
        return f"{self.name}: {outside} of {self.retriever.folds}: {first}"

    def _score(self, ranks: Sequence[BuildRanking], inputs: base.Outputs) -> ScoreColumn:
        """Return the values of one combination, for each query the mean of its repeats."""
        measure, columns = parse_measure(self.retriever.measure), []
        for rank in ranks:
            if (ranking := inputs[rank]) is None:
                raise ValueError(f"{self.name}: {rank.name} has no ranking")
            scorer = RankingScorer(self.plan, ranking, inputs[self._judgements])
            column = scorer.score([measure])[0][measure.label]
            columns.append(with_failures(column, dict(without_value(ranking.outcomes))))
        return mean_over_samples(columns)

    def add(self, outputs: base.Outputs, results: Results) -> None:
        """Add the choice of each fold, and a note on folds without a choice."""
        results.fold_choices += outputs[self].choices
        if note := outputs[self].note:
            results.notes.append(note)


def _has_failures(columns: Sequence[ScoreColumn], is_outside: BoolArray) -> bool:
    """Return True if a combination failed for a query outside of a fold."""
    causes = np.unique([column.causes[is_outside] for column in columns])
    return any(Cause(cause).failed for cause in causes.tolist())


def _comparable_values(columns: Sequence[ScoreColumn]) -> FloatArray:
    """Return the values, shape (combinations, queries): NaN where no combination has one."""
    values = stack_values(columns)
    # no value where another combination has one: it failed there, or has no hits
    worst = columns[0].high if columns[0].direction == "lower" else columns[0].low
    if not math.isfinite(worst):
        worst = float(np.nanmax(values, initial=0.0))
    has_value = ~np.isnan(values).all(axis=0)
    return np.where(np.isnan(values) & has_value, worst, values)


class RetrieveByFold(Retrieve):
    """Stage that takes the hits of each query from the combination of its fold."""

    has_notes = False

    def __init__(
        self,
        resources: Resources,
        name: str,
        top_k: int,
        sources: Sequence[Retrieve],
        choose: ChooseByFold,
        number: int = 0,
    ) -> None:
        super().__init__(resources, name, top_k, sources, number)
        self.choose, retriever = choose, choose.retriever
        self.inputs = (*self.inputs, choose)
        seed = self.plan.config.seed
        self.signed = {"folds": f"{retriever.folds},seed={seed},by={retriever.measure}"}

    def items(self, inputs: base.Outputs) -> list[base.Slot | None]:
        """Return no slots: the hits are those of the combinations."""
        return []

    def output(self, inputs: base.Outputs, values: Sequence[Any]) -> HitOutcomes:
        """Return the outcome of each query; pending before the combinations are chosen."""
        if self.choose not in inputs:
            return [Outcome(None) for _ in self.plan.queries]
        folds = inputs[self.choose]
        outputs = []
        for row, fold in enumerate(folds.fold_of.tolist()):
            outputs.append(inputs[self.sources[folds.winners[fold]]][row])
        return outputs

    def step(self, outputs: base.Outputs, work: Work | None) -> base.Step:
        """Return a step with the number of folds; all are done if the combinations are stored."""
        n = self.choose.retriever.folds
        title = f"choose {self.name} by {self.choose.retriever.measure}"
        return base.Step(title, n, n if self.choose in outputs else 0, "folds")
