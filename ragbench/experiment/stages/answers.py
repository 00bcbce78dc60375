"""Answers: a generator over the passages of a retriever, or a whole app, all queries."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from ragbench.config.schema import DEFAULT_PASSAGES, Component
from ragbench.executors.base import Executor, Facts, Task
from ragbench.experiment.calls import (
    Calls,
    Outcome,
    as_told,
    call_on,
    call_once,
    calling,
    naming,
    without_value,
)
from ragbench.experiment.plan.records import System
from ragbench.experiment.records import Answers, Results
from ragbench.experiment.stages.base import (
    PENDING,
    Keep,
    Node,
    Slot,
    StoredStage,
    Workspace,
    keep_all,
)
from ragbench.experiment.stages.item_json import read_predicted, write_predicted
from ragbench.experiment.stages.keys import passages_key, query_key
from ragbench.experiment.stages.matching import passages_of
from ragbench.experiment.stages.retrieval import Retrieve, key_after
from ragbench.generate import GENERATORS
from ragbench.generate.base import Generator, MissingPrediction
from ragbench.generate.chat import ChatGenerator
from ragbench.generate.python import read_answer
from ragbench.llm import Estimate
from ragbench.score.base import Advance
from ragbench.types import Answered, Cause, Document, Prediction, Query, Retrieved, ScoredDocument
from ragbench.types.rows import Mapped


@dataclass(frozen=True, slots=True)
class Ask:
    """What a generator is asked once.

    Attributes:
        sample: Which of its answers; the first is 0.
    """

    query: Query
    contexts: list[Document]
    sample: int


def generate(
    generator: Generator,
    asked: Sequence[Ask],
    calls: Calls,
    on: tuple[Executor, Component] | None = None,
) -> Iterator[tuple[int, Outcome[Prediction]]]:
    """Let a generator answer; yield number and outcome of each answer as soon as it is there.

    What is asked is looked at in its turn. `on` are workers that answer in its place.
    """
    if on is None:
        numbers = range(len(asked))
        for number, outcome in calling(lambda n: _ask(generator, asked[n]), numbers, calls):
            yield number, _known(outcome)
        return
    executor, component = on
    task = Task(
        calls.owner,
        _make_generator,
        {"type_name": component.type, "options": component.options},
        partial(_answer_block, calls.owner, calls.timeout),
        _facts_of,
        _facts_of(generator),
    )
    yield from call_on(executor, task, asked, 1, calls, lambda outcome: outcome)


def _make_generator(type_name: str, options: Mapping[str, Any]) -> Generator:
    generator: Generator = GENERATORS.load(type_name)(**options)
    generator.check()
    return generator


def _answer_block(
    owner: str, timeout: float | None, generator: Generator, block: list[Ask]
) -> list[Outcome[Prediction]]:
    calls = Calls(owner, timeout)
    return [_known(call_once(lambda ask: _ask(generator, ask), ask, calls)) for ask in block]


def _facts_of(generator: Generator) -> Facts:
    """Return what answers depend on besides the options, the same on every worker."""
    parts = generator.signature_parts()
    return {name: str(value) for name, value in parts.items()}


def _ask(generator: Generator, ask: Ask) -> Prediction | None:
    """One answer, with the passages that it was made from; None where a file has none."""
    try:
        if ask.sample:
            answer: Any = generator.generate_sample(ask.query, ask.contexts, ask.sample)
        else:
            answer = generator.generate_for(ask.query, ask.contexts)
    except MissingPrediction:
        return None
    found = read_answer(answer)
    return replace(found, contexts=ask.contexts) if found.contexts is None else found


def _known(outcome: Outcome[Prediction | None]) -> Outcome[Prediction]:
    """An outcome in which 'there is no answer' is a cause, not a value."""
    missing = outcome.value is None and outcome.cause is Cause.SCORED
    return as_told(replace(outcome, cause=Cause.MISSING_ANSWER) if missing else outcome)


def given_rows(queries: Sequence[Query], rows: Sequence[Answered]) -> list[Answered | None]:
    """Return the record of each query, in the order of the queries; None for a query without."""
    by_query = {row.query_id: row for row in rows}
    return [by_query.get(query.id) for query in queries]


def given_answers(name: str, queries: Sequence[Query], rows: Sequence[Answered]) -> Answers:
    """Return the answers that the records came with, in the order of the queries."""
    if all(row.answer is None for row in rows):  # a retriever, which has nothing else to fail at
        return Answers(name, [Outcome(None, Cause.MISSING_ANSWER)] * len(queries))
    return Answers(name, [_given(row) for row in given_rows(queries, rows)])


def _given(row: Answered | None) -> Outcome[Prediction]:
    if row is not None and row.error is not None:
        return Outcome(None, Cause.ERROR, row.error, row.latency_ms)
    if row is None or row.answer is None:
        return Outcome(None, Cause.MISSING_ANSWER)
    parts = (row.answer, row.contexts, row.usage, row.queries, row.latency_ms)
    return as_told(Outcome(Prediction(*parts, tool_calls=row.tool_calls)))


def _retrieved(row: Answered | None) -> Outcome[Retrieved]:
    """What a record says was retrieved; a call that failed later may have retrieved well."""
    if row is not None and row.contexts is None and row.error is not None:
        return Outcome(None, Cause.ERROR, row.error)
    if row is None or row.contexts is None:
        return Outcome(None, Cause.NO_CONTEXTS)
    return Outcome(Retrieved([_hit(each) for each in row.contexts], row.queries))


def _ranking(outcome: Outcome[Prediction]) -> Outcome[Retrieved]:
    prediction = outcome.value
    if prediction is None:
        return Outcome(None, outcome.cause, outcome.detail, outcome.latency_ms)
    if prediction.contexts is None:
        return Outcome(None, Cause.NO_CONTEXTS)
    hits = [_hit(document) for document in prediction.contexts]
    return Outcome(Retrieved(hits, prediction.queries), latency_ms=outcome.latency_ms)


def _hit(document: Document) -> ScoredDocument:
    return ScoredDocument(document.id, None, document.text, document.title, document.metadata)


class AnswerQueries(StoredStage):
    """What a system answers to every query, as often as it is asked.

    Attributes:
        passages: How many passages an answer is made from, as far as a plan can tell.
        is_recorded: Whether the records came with them.
        only_retrieves: Whether the records have its passages, and neither an answer nor a call of a
            tool.
        partial: What is answered so far, where a budget has the queries answered bit by bit.
    """

    kind, version = "generate", 1
    samples = 1
    passages = DEFAULT_PASSAGES
    is_recorded = False
    only_retrieves = False
    partial: Answers

    def __init__(self, workspace: Workspace, system: System, verb: str, **known: Any) -> None:
        super().__init__(workspace, f"{verb} {system.name}", **known)
        self.system = system

    @cached_property
    def answers(self) -> Answers:
        """All answers."""
        return self.asked()

    @abstractmethod
    def asked(self, rows: Sequence[int] | None = None) -> Answers:
        """Return the answers; only some queries are asked, the others are pending."""

    def retrieved(self) -> Sequence[Outcome[Retrieved]] | None:
        """Return what it retrieved, in its order; None where it never says.

        An answer without passages beside others with some is one whose ranking is not known.
        """
        outcomes = self.answers.outcomes
        if all(o.value is None or o.value.contexts is None for o in outcomes):
            return None
        return Mapped(_ranking, outcomes)

    @property
    def is_known(self) -> bool:
        """Whether every answer is there, or has failed."""
        return PENDING not in self.answers.outcomes

    read = staticmethod(read_predicted)

    def write(self, value: Outcome[Prediction]) -> dict[str, Any]:
        """Write an outcome."""
        return write_predicted(value)

    def collect(self, results: Results) -> None:
        """Add the answers, and the system, which scores are added to."""
        results.answers[self.system.name] = self.answers
        results.add_scores(self.system)
        if self.samples == 1:
            return
        results.samples[self.system.name] = {}
        # no query need lack a score where some of its answers failed
        outcomes = self.answers.outcomes
        causes = Counter(o.cause.word for _, o in without_value(outcomes) if o.cause.failed)
        if causes:
            counts = ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items()))
            results.warnings.append(
                f"{self.system.name}: {causes.total()} of {len(outcomes)} answers failed "
                f"({counts}); a query's score is the mean over its others"
            )

    def pay_for(self, rows: Sequence[int]) -> None:
        """Ask some of the queries."""
        self.partial = self.asked(rows)


class Generate(AnswerQueries):
    """What a generator answers from the passages of a retriever, or of a control."""

    def __init__(self, workspace: Workspace, system: System, source: Retrieve) -> None:
        under = source if system.control is None else None
        super().__init__(workspace, system, "generate", under=under)
        self.generator = system.generator or ""
        self.samples = self.plan.samples(self.generator)
        self.passages = self.plan.passages(self.generator)
        self.unit = "queries" if self.samples == 1 else "answers"
        self._source = source

    @cached_property
    def _contexts(self) -> tuple[Sequence[list[Document] | None], Sequence[Outcome[Retrieved]]]:
        """Its passages: a retriever's first hits, or what no retriever found; None if it failed.

        They are read when somebody looks at them, from what the retriever found and the corpus.
        """
        plan, control, outcomes = self.plan, self.system.control, self._source.outcomes
        first = Mapped(partial(passages_of, corpus=plan.corpus, passages=self.passages), outcomes)
        found: Sequence[list[Document] | None] = first
        if control is None:
            return found, outcomes
        missing = Cause.NO_CONTEXTS
        if control == "no_context":
            found = [[] for _ in plan.queries]
        elif control == "gold_context":
            found, missing = Mapped(self._relevant, plan.queries), Cause.NO_RELEVANT
        elif len(plan.queries) > 1:
            # each query gets the passages of the one that follows it in a random order
            order = self.workspace.in_random_order(range(len(plan.queries)))
            following = dict(zip(order, [*order[1:], *order[:1]], strict=True))
            found = Mapped(first.__getitem__, [following[row] for row in range(len(order))])
        else:
            found = [None] * len(plan.queries)

        def told(documents: list[Document] | None) -> Outcome[Retrieved]:
            return Outcome(None, missing) if documents is None else Outcome(Retrieved([]))

        return found, Mapped(told, found)

    def _relevant(self, query: Query) -> list[Document] | None:
        """The relevant documents, the most relevant first; None where there is none."""
        plan = self.plan
        grades = {} if plan.qrels is None else plan.qrels.by_query.get(query.id, {})
        relevant = sorted((-grade, name) for name, grade in grades.items() if grade > 0)
        found = [plan.corpus[name] for _, name in relevant if name in plan.corpus]
        return found[: self.passages] or None

    def slots(self) -> list[Slot | None]:
        """All first answers, then all second ones; a query whose retrieval failed is not asked."""
        return self._slots

    @cached_property
    def _slots(self) -> list[Slot | None]:
        contexts, retrieved = self._contexts
        key = self.workspace.component_key("generator", self.generator, stage=self.version)
        file = self.items_of_key(self.generator, key)
        keys = [
            key_after(outcome) if documents is None else passages_key(query, documents)
            for query, documents, outcome in zip(
                self.plan.queries, contexts, retrieved, strict=True
            )
        ]
        n = len(keys)
        return [
            # the first answer has the key of an only one
            Slot(file, f"{key}-{sample}" if sample else key, row + sample * n) if key else None
            for sample in range(self.samples)
            for row, key in enumerate(keys)
        ]

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Ask in random order."""
        contexts, _ = self._contexts
        order, n = self.workspace.in_random_order(todo), len(self.plan.queries)
        generator, executor = self.plan.generators[self.generator], self.workspace.executor
        component = self.plan.component("generator", self.generator)
        calls = self.workspace.calls("generator", self.generator)
        on = (executor, component) if executor and component and generator.computes else None

        def ask_of(row: int) -> Ask:
            return Ask(self.plan.queries[row % n], contexts[row % n] or [], row // n)

        keep_all(generate(generator, Mapped(ask_of, order), calls, on), order, keep, advance)

    @property
    def computes(self) -> bool:
        """Whether the generator asks nobody; a live object cannot be made on a worker."""
        known = self.plan.component("generator", self.generator) is not None
        return known and self.plan.generators[self.generator].computes

    def asked(self, rows: Sequence[int] | None = None) -> Answers:
        """Return the answers; where retrieval failed, its cause."""
        n = len(self.plan.queries)
        chosen = None if rows is None else {r + s * n for r in rows for s in range(self.samples)}
        found = self.items(chosen, default=PENDING)
        for row, slot in enumerate(self._slots):
            if slot is None:
                of = self._contexts[1][row % n]
                found[row] = Outcome(None, of.cause, of.detail)
        return Answers(self.system.name, found, self.samples)

    def forecast(self) -> Node:
        """Look up the answers; what a control gets is known when the retriever has found it."""
        n = len(self.plan.queries)
        known = self.system.control is None
        contexts = self._contexts[0] if known else [None] * n
        outcomes = self.answers.outcomes if known else [PENDING] * n * self.samples
        node = self.node(n * self.samples)
        node.cost, node.at_most = self._cost(contexts, outcomes), not known
        return node

    def _cost(
        self, contexts: Sequence[list[Document] | None], outcomes: Sequence[Outcome[Prediction]]
    ) -> Estimate | None:
        """What the answers that are not stored will cost; None where no model of ours is asked."""
        made, n = self.plan.generators[self.generator], len(self.plan.queries)
        if not isinstance(made, ChatGenerator):
            return None
        some = self.workspace.some_passages
        asked = []
        lacking = [number for number, each in enumerate(outcomes) if each == PENDING]
        for row in (number % n for number in lacking):
            known = contexts[row]
            found = some(row, self.passages) if known is None else known
            asked.append((self.plan.queries[row], found))
        return made.estimate(asked)


class AskApp(AnswerQueries):
    """What a whole app answers."""

    def __init__(self, workspace: Workspace, system: System) -> None:
        super().__init__(workspace, system, "answer")

    def slots(self) -> list[Slot | None]:
        """One for each query."""
        name = self.system.name
        key = self.workspace.component_key("app", name, stage=self.version)
        file = self.items_of_key(name, key)
        return [Slot(file, query_key(query), row) for row, query in enumerate(self.plan.queries)]

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Ask in random order."""
        order, name = self.workspace.in_random_order(todo), self.system.name
        queries, calls = (
            [self.plan.queries[row] for row in order],
            self.workspace.calls("app", name),
        )
        app, corpus = self.plan.apps[name], self.plan.corpus

        def ask(query: Query) -> Prediction:
            prediction = read_answer(app.answer(query.text))
            if prediction.contexts is None:
                return prediction
            # of passages of which it tells the id alone, the corpus has the texts
            contexts = [d if d.full_text else corpus.get(d.id, d) for d in prediction.contexts]
            return replace(prediction, contexts=contexts)

        answers = ((row, as_told(outcome)) for row, outcome in calling(ask, queries, calls))
        keep_all(naming(queries, answers), order, keep, advance)

    def asked(self, rows: Sequence[int] | None = None) -> Answers:
        """Return the answers."""
        return Answers(self.system.name, self.items(rows, default=PENDING))

    def forecast(self) -> Node:
        """Look up the answers."""
        _ = self.answers
        return self.node(len(self.plan.queries))


class Recorded(AnswerQueries):
    """Answers that the records came with."""

    is_recorded = True

    def __init__(self, workspace: Workspace, system: System) -> None:
        super().__init__(workspace, system, "recorded")
        self._rows = workspace.plan.collection.given[system.name]
        retrieves = any(row.contexts is not None for row in self._rows)
        self.only_retrieves = retrieves and all(
            row.answer is None and row.tool_calls is None for row in self._rows
        )

    def asked(self, rows: Sequence[int] | None = None) -> Answers:
        """Return the answers."""
        return given_answers(self.system.name, self.plan.queries, self._rows)

    def retrieved(self) -> Sequence[Outcome[Retrieved]]:
        """Return the contexts of the records, also where they have no answer."""
        return Mapped(_retrieved, given_rows(self.plan.queries, self._rows))

    def slots(self) -> list[Slot | None]:
        """Nothing is stored."""
        return []

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Nothing is made."""

    def forecast(self) -> None:
        """A plan shows what reads them alone."""
