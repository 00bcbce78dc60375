"""Who answers the queries of a plan: pairs, controls, whole apps, and answers that were given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.config.schema import Control
from ragbench.experiment.calls import Outcome
from ragbench.experiment.records import Answers
from ragbench.experiment.stages.answering_stages import Stages
from ragbench.experiment.stages.answers import given_answers, passages_of
from ragbench.experiment.stages.controls import control_contexts
from ragbench.records.summary import Role
from ragbench.types import Document, Retrieved


@dataclass(frozen=True, slots=True)
class Answerer:
    """A system that answers."""

    name: str
    """The system's name."""
    retriever: str | None = None
    """Whose passages it answers from, or the control's name; None where it sees to that itself."""
    generator: str | None = None
    """Who answers; None of a whole app, and of answers that were given."""
    role: Role = "system"
    """What it stands for in comparisons."""
    control: Control | None = None
    """Which passages it gets instead of a retriever's."""


class Answering:
    """Has queries answered by every system of a plan, each query of each system once in a run."""

    def __init__(self, stages: Stages) -> None:
        self._stages, self._plan = stages, stages.plan
        self._top_k = stages.plan.config.metrics.retrieval.top_k
        self._done: dict[str, Answers] = {}

    def pairs_of(self, retriever: str) -> list[Answerer]:
        """Return the generators that answer from a retriever's passages."""
        return [
            Answerer(f"{name}/{generator}", name, generator)
            for name, generator in self._plan.pairs
            if name == retriever
        ]

    def apps(self) -> list[Answerer]:
        """Return the whole apps."""
        return [Answerer(name, role="app") for name in self._plan.apps]

    def others(self) -> list[Answerer]:
        """Return all that answer without a retriever: controls, apps, answers that were given."""
        controls = [
            Answerer(f"{control}/{generator}", control, generator, "control", control)
            for control, generator in self._plan.controls
        ]
        return [*controls, *self.apps(), *(Answerer(name) for name in self._plan.given)]

    def everyone(self) -> list[Answerer]:
        """Return all systems that answer, in the order of the summary."""
        pairs = [pair for name in self._plan.systems for pair in self.pairs_of(name)]
        return [*pairs, *self.others()]

    def answers_of(self, answerer: Answerer, rows: Sequence[int] | None = None) -> Answers:
        """Return what a system answers.

        Args:
            answerer: Who is asked.
            rows: Only these queries are asked; the others are pending where nothing is stored.
        """
        if rows is not None:
            return self._ask(answerer, rows)
        if answerer.name not in self._done:
            self._done[answerer.name] = self._ask(answerer, None)
        return self._done[answerer.name]

    def _ask(self, answerer: Answerer, rows: Sequence[int] | None) -> Answers:
        plan, name, generator = self._plan, answerer.name, answerer.generator
        if answerer.role == "app":
            return Answers(name, self._stages.answered(name, rows))
        if generator is None:
            return given_answers(name, plan.queries, plan.collection.given[name])
        contexts, outcomes = self._passages(answerer, plan.passages(generator))
        return self._stages.generated(name, generator, contexts, outcomes, rows)

    def _passages(
        self, answerer: Answerer, size: int
    ) -> tuple[Sequence[list[Document] | None], Sequence[Outcome[Retrieved]]]:
        """What a generator gets: a retriever's first hits, or what no retriever found."""
        plan, control = self._plan, answerer.control
        baseline = plan.baseline if plan.baseline in plan.systems else plan.systems[0]
        source = baseline if control is not None else answerer.retriever
        outcomes = self._stages.retrieved(source or baseline, self._top_k)
        found = passages_of(outcomes, plan.corpus, size)
        if control is None:
            return found, outcomes
        order = self._stages.in_random_order(range(len(plan.queries)))
        return control_contexts(control, plan.queries, found, order, plan.qrels, plan.corpus, size)
