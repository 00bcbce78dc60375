"""What a run would do: its stages, what is stored of them, and what the rest will cost.

Walks the same stages as a run, with the same keys, and makes nothing. What depends on something
that is not made yet cannot be looked up: it counts as to do, and its cost is that of the queries
whose texts are known, or of passages from the corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragbench.config.schema import DEFAULT_PASSAGES
from ragbench.experiment.progress import Silent
from ragbench.experiment.records import Answers, Plan, PlannedJudge, Work
from ragbench.experiment.session import token_in
from ragbench.experiment.stages.answering_stages import PENDING, Stages
from ragbench.experiment.stages.answers import given_answers, passages_of
from ragbench.experiment.stages.preferences import number_of_pairs
from ragbench.experiment.stages.retrieval import match_hits, ranked
from ragbench.experiment.stages.score_stages import Scores
from ragbench.experiment.stages.scores import Gold, judged_items
from ragbench.files import cache_folder
from ragbench.generate.chat import ChatGenerator
from ragbench.llm import Estimate
from ragbench.score.judge.base import Item
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.store.items import StageStore
from ragbench.types import Document


@dataclass(slots=True)
class Node:
    """One stage of the graph."""

    name: str
    """`retrieve bm25`, `judge bm25/gpt (openai)`."""
    items: int
    """Items that it has."""
    stored: int
    """Items that are stored."""
    unit: str = "queries"
    """What the items are."""
    cost: Estimate | None = None
    """What the calls for the others will take; None for a stage that asks no model of ours."""
    after: list[Node] = field(default_factory=list)
    """The stages that read it."""
    at_most: bool = False
    """Whether what is stored of it could not be looked up: it may be less, and cost less."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {
            "stage": self.name,
            "items": self.items,
            "stored": self.stored,
            "unit": self.unit,
            **({"at_most": True} if self.at_most else {}),
            **({} if self.cost is None else {"cost": self.cost.to_dict()}),
            "after": [node.to_dict() for node in self.after],
        }


@dataclass(slots=True)
class Forecast:
    """What a run would do."""

    plan: Plan
    nodes: list[Node]
    """The stages that read the data set, each with those that read it."""

    @property
    def cost(self) -> Estimate:
        """What all calls together will take."""
        total = Estimate()
        for node in self._every(self.nodes):
            total = total + (node.cost or Estimate())
        return total

    @property
    def asks_models(self) -> bool:
        """Whether any stage asks models."""
        return any(node.cost is not None for node in self._every(self.nodes))

    def _every(self, nodes: Sequence[Node]) -> list[Node]:
        return [found for node in nodes for found in (node, *self._every(node.after))]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {
            "schema": "ragbench.plan/1",
            "name": self.plan.config.name,
            "queries": len(self.plan.queries),
            "stages": [node.to_dict() for node in self.nodes],
            "cost": self.cost.to_dict(),
            "warnings": list(self.plan.warnings),
        }


def forecast(plan: Plan, *, retry_failed: bool = False) -> Forecast:
    """Look up what is stored and estimate the rest; nothing is made, sent or written."""
    config = plan.config
    token = token_in(Path(config.output) / config.name) or "none"
    cache = cache_folder(config.cache)
    with closing(StageStore(cache, config.cache_also)) as store:
        stages = Stages(
            plan=plan,
            store=store,
            run_token=token,
            progress=Silent(),
            retry_failed=retry_failed,
            dry=True,
        )
        return Forecast(plan, _Walk(stages).nodes())


class _Walk:
    """Goes through the stages as the runner does."""

    def __init__(self, stages: Stages) -> None:
        self.stages, self.plan = stages, stages.plan
        self.scores = Scores(stages)

    def nodes(self) -> list[Node]:
        plan = self.plan
        found = [self._retriever(name) for name in plan.systems]
        readers = {source for name in plan.systems for source in self._sources(name)}
        found = [
            *(self._node(f"retrieve {name}") for name in sorted(readers - {*plan.systems})),
            *found,
        ]
        found += [*self._passages(), *self._pairs()]
        for control, generator in plan.controls:
            samples = plan.samples(generator)
            count = len(plan.queries) * samples
            pair = self._node(f"generate {control}/{generator}", count, _unit(samples))
            pending = Answers(f"{control}/{generator}", [PENDING] * count, samples)
            unknown: list[list[Document] | None] = [None] * len(plan.queries)
            pair.cost = self._generating(generator, unknown, pending, plan.passages(generator))
            pair.at_most = True
            found.append(pair)
        for name in plan.apps:
            answers = Answers(name, self.stages.answered(name))
            node = self._node(f"answer {name}")
            node.after = self._scored(answers, DEFAULT_PASSAGES)
            found.append(node)
        for name in plan.given:
            answers = given_answers(name, plan.queries, plan.collection.given[name])
            found += self._scored(answers, DEFAULT_PASSAGES)
        return found

    def _sources(self, name: str) -> list[str]:
        return list(self.plan.retrievers[name].sources)

    def _retriever(self, name: str) -> Node:
        plan, rules = self.plan, self.plan.config.metrics.retrieval
        outcomes = self.stages.retrieved(name, rules.top_k)
        node = self._node(f"retrieve {name}")
        if PENDING not in outcomes:
            known = None if rules.match.level == "text" else plan.collection.documents
            run = ranked(
                name, plan.retrievers[name], plan.queries, outcomes, known, rules.top_k, ()
            )
            gold = Gold(plan.queries, plan.qrels, plan.collection.answers, plan.corpus)
            ranking = match_hits(run, rules, plan.measures, plan.qrels, plan.corpus)
            if plan.fill is None:  # else the judgements are not known yet
                self.scores.of_ranking(ranking, gold)
        if plan.measures:
            node.after.append(self._node(f"score {name}", len(plan.measures), "measures"))
        for retriever, generator in plan.pairs:
            if retriever == name:
                passages, system = plan.passages(generator), f"{name}/{generator}"
                contexts = passages_of(outcomes, plan.corpus, passages)
                answers = self.stages.generated(system, generator, contexts, outcomes)
                pair = self._node(f"generate {system}", unit=_unit(answers.samples))
                pair.cost = self._generating(generator, contexts, answers, passages)
                pair.after = self._scored(answers, passages)
                node.after.append(pair)
        return node

    def _scored(self, answers: Answers, passages: int) -> list[Node]:
        plan, found = self.plan, []
        if plan.metrics:
            if PENDING not in answers.outcomes:
                self.scores.of_answers(answers)
            of = f"{answers.name} (answers)" if answers.name in plan.apps else answers.name
            found.append(self._node(f"score {of}", len(plan.metrics) * answers.samples, "metrics"))
        items = judged_items(answers, plan.queries, plan.collection.answers)
        for row, outcome in enumerate(answers.outcomes):
            if outcome == PENDING:
                imagined = self._imagined(row % len(plan.queries), passages)
                # another answer is another question to a judge
                again = f" {items[row].sample}" if items[row].sample else ""
                items[row] = replace(imagined, answer=f"{imagined.answer}{again}")
        for name, judge in plan.judges.items():
            if not judge.rubrics:
                continue
            node = self._judge(answers, items, name, judge)
            found.append(node)
        return found

    def _judge(
        self, answers: Answers, items: Sequence[Item], name: str, judge: PlannedJudge
    ) -> Node:
        title = f"judge {answers.name} ({name})"
        verdicts = self.scores.verdicts(title, items, name, judge, range(len(items)))
        node = self._node(title, len(items) * len(judge.rubrics), "verdicts")
        if isinstance(judge.judge, ModelJudge):
            todo = [item for item, had in zip(items, verdicts, strict=True) if not had]
            partly = [item for item, had in zip(items, verdicts, strict=True) if had]
            node.cost = rehearse(judge.judge, todo, judge.rubrics)
            lacking = [
                rubric
                for rubric in judge.rubrics
                if any(had and rubric.name not in had for had in verdicts)
            ]
            node.cost = node.cost + rehearse(judge.judge, partly, lacking)
        return node

    def _generating(
        self,
        generator: str,
        contexts: Sequence[list[Document] | None],
        answers: Answers,
        passages: int,
    ) -> Estimate | None:
        """What the answers that are not stored will cost; None where no model of ours is asked."""
        made = self.plan.generators[generator]
        if not isinstance(made, ChatGenerator):
            return None
        corpus = self.plan.collection.documents or []
        asked = []
        for number, outcome in enumerate(answers.outcomes):
            if outcome == PENDING:
                row = number % len(self.plan.queries)
                start = (row * passages) % max(len(corpus), 1)
                known = contexts[row]
                found = corpus[start : start + passages] if known is None else known
                asked.append((self.plan.queries[row].text, found))
        return made.estimate(asked)

    def _passages(self) -> list[Node]:
        """Grading passages: at most the best hits of every retriever, each for itself."""
        fill = self.plan.fill
        if fill is None:
            return []
        items = [self._imagined(row, 1) for row in range(len(self.plan.queries))]
        count = len(items) * fill.rules.depth * max(len(self.plan.systems), 1)
        node = Node(f"judge passages ({fill.name})", count, 0, "passages", at_most=True)
        if isinstance(fill.judge.judge, ModelJudge):
            cost = rehearse(fill.judge.judge, items, [fill.rubric])
            node.cost = cost.times(count / max(len(items), 1))
        return [node]

    def _pairs(self) -> list[Node]:
        """Comparing the systems that answer: every two, or each with the baseline."""
        plan, found = self.plan, []
        answering = len(plan.pairs) + len(plan.apps) + len(plan.given)
        samples = max([plan.samples(generator) for _, generator in plan.pairs], default=1)
        for name, judge in plan.judges.items():
            if not judge.pairwise or answering < 2:
                continue
            count = number_of_pairs(judge, answering) * len(plan.queries) * samples
            size = count * len(judge.pairwise)
            node = Node(f"judge pairs ({name})", size, 0, "verdicts", at_most=True)
            if isinstance(judge.judge, ModelJudge):
                items = [self._imagined(row, 0) for row in range(len(plan.queries))]
                items = [replace(item, other=f"{item.answer} or not") for item in items]
                cost = rehearse(judge.judge, items, judge.pairwise)
                node.cost = cost.times(count / max(len(items), 1))
            found.append(node)
        return found

    def _imagined(self, row: int, passages: int) -> Item:
        """An item that is like those to come: the gold answer, and passages of the corpus."""
        query = self.plan.queries[row]
        gold = list(self.plan.collection.answers.get(query.id, ()))
        corpus = self.plan.collection.documents or []
        start = (row * passages) % max(len(corpus), 1)
        texts = [document.full_text for document in corpus[start : start + passages]]
        answer = gold[0] if gold else query.text
        return Item(query.text, answer, texts, gold, query.id)

    def _node(self, title: str, items: int | None = None, unit: str = "queries") -> Node:
        work = self.stages.work.get(title) or Work(items or 0, 0)
        return Node(title, work.items, work.stored, unit)


def _unit(samples: int) -> str:
    """What a generator makes: an answer to each query, or several."""
    return "queries" if samples == 1 else "answers"
