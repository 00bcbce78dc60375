"""Answers: a generator over the passages of a retriever, or a whole app, all queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from random import Random
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.config.schema import DEFAULT_PASSAGES, Component
from ragbench.executors.base import Executor, Facts, Task
from ragbench.experiment.calls import (
    Calls,
    Outcome,
    answer_row,
    call_on,
    call_once,
    calling,
    read_outcome,
    values_of,
    with_latency,
    without_value,
)
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.plan.systems import n_distractors
from ragbench.experiment.records import Answers, Results, Work
from ragbench.experiment.stages.base import (
    ItemGroup,
    Keep,
    Outputs,
    Slot,
    Stage,
    Step,
    example_passages,
    in_random_order,
    keep_all,
)
from ragbench.experiment.stages.controls import add_distractors, inject
from ragbench.experiment.stages.keys import (
    passages_key,
    query_key,
)
from ragbench.experiment.stages.matching import document_of
from ragbench.experiment.stages.passages import passages_of
from ragbench.experiment.stages.resources import Resources
from ragbench.experiment.stages.retrieval import HitOutcomes, Retrieve, name_queries
from ragbench.generate import GENERATORS
from ragbench.generate.base import Generator, MissingPrediction
from ragbench.generate.chat import ChatGenerator
from ragbench.generate.python import read_answer
from ragbench.llm import Totals
from ragbench.records.manifest import FailedAnswer
from ragbench.retrieve.python import separate_chunks
from ragbench.score.base import Advance
from ragbench.types import Answered, Cause, Document, Prediction, Query, Retrieved, ScoredDocument
from ragbench.types.display import list_counts
from ragbench.types.reasoning import Reasoning
from ragbench.types.records import without_reasoning
from ragbench.types.rows import Mapped


@dataclass(frozen=True, slots=True)
class GeneratorRequest:
    """Request for one answer of a generator.

    Attributes:
        query: Query to answer.
        contexts: Passages to answer from; empty for a control without passages.
        sample: Number of the answer among several to the same query; the first is 0.
    """

    query: Query
    contexts: list[Document]
    sample: int


def generate(
    generator: Generator,
    requests: Sequence[GeneratorRequest],
    calls: Calls,
    workers: tuple[Executor, Component] | None = None,
) -> Iterator[tuple[int, Outcome[Prediction]]]:
    """Generate answers; yield the position (from 0) and the outcome of each request.

    Outcomes arrive as calls end; from workers, in the order of the requests. A request that fails,
    or that the budget does not allow, has a cause in place of an answer, and the others go on.

    Args:
        generator: Generator that answers, and whose model the workers must have as well.
        requests: Requests, each read in its turn, so that not all passages are in memory.
        calls: Name in messages, timeout, concurrency and budget check of the generator.
        workers: Executor that answers instead, with the config entry that creates the generator
            there; None answers here.

    Raises:
        AdapterError: A worker cannot create the generator or has another version, or the first
            three requests end their workers.
        RuntimeError: Creating the generator fails in a worker with another error.
    """
    if workers is None:
        numbers = range(len(requests))
        for number, outcome in calling(lambda n: _answer(generator, requests[n]), numbers, calls):
            yield number, _with_cause(outcome)
        return
    executor, component = workers
    task = Task(
        calls.owner,
        _make_generator,
        {"type_name": component.type, "options": component.options},
        partial(_answer_block, calls.owner, calls.timeout),
        _facts_of,
        _facts_of(generator),
    )
    # blocks of 1: a worker that ends loses a single answer
    yield from call_on(executor, task, requests, 1, calls, lambda outcome: outcome)


def _make_generator(type_name: str, options: Mapping[str, Any]) -> Generator:
    """Create a built-in generator in a worker; raise `MissingExtra` if its package is missing."""
    generator: Generator = GENERATORS.load(type_name)(**options)
    generator.check()
    return generator


def _answer_block(
    owner: str, timeout: float | None, generator: Generator, block: list[GeneratorRequest]
) -> list[Outcome[Prediction]]:
    """Return the outcome of each request of a block, in its order; an error becomes a cause."""
    calls = Calls(owner, timeout)
    return [_with_cause(call_once(partial(_answer, generator), ask, calls)) for ask in block]


def _facts_of(generator: Generator) -> Facts:
    """Return the signature of a generator, such as its model and device, as texts."""
    parts = generator.signature_parts()
    return {name: str(value) for name, value in parts.items()}


def _answer(generator: Generator, ask: GeneratorRequest) -> Prediction | None:
    """Return an answer with the passages that it was generated from."""
    try:
        if ask.sample:
            answer: Any = generator.generate_sample(ask.query, ask.contexts, ask.sample)
        else:
            answer = generator.generate_for(ask.query, ask.contexts)
    # a file without an answer to the query: a cause, not an error of the generator
    except MissingPrediction:
        return None
    prediction = read_answer(answer)
    if prediction.contexts is None:
        return structs.replace(prediction, contexts=ask.contexts)
    return prediction


def _with_cause(outcome: Outcome[Prediction | None]) -> Outcome[Prediction]:
    """Return the outcome with its latency, and `MISSING_ANSWER` where no answer was returned."""
    is_missing = outcome.value is None and outcome.cause is Cause.SCORED
    return with_latency(replace(outcome, cause=Cause.MISSING_ANSWER) if is_missing else outcome)


def records_of(queries: Sequence[Query], rows: Sequence[Answered]) -> list[Answered | None]:
    """Return the record of each query, in the order of the queries; None for a query without one.

    Of several records of a query the last one counts.
    """
    by_query = {row.query_id: row for row in rows}
    return [by_query.get(query.id) for query in queries]


def recorded_answers(name: str, queries: Sequence[Query], rows: Sequence[Answered]) -> Answers:
    """Return the answers in the records of a system, one outcome per query in their order.

    A query has the cause `ERROR` where its record names an error, and `MISSING_ANSWER` where it has
    no record or no answer. If no record has an answer, all queries have `MISSING_ANSWER`, and
    errors are ignored.
    """
    # records of a retriever: their errors are those of its rankings, not of answers
    if all(row.answer is None for row in rows):
        return Answers(name, [Outcome(None, Cause.MISSING_ANSWER)] * len(queries))
    return Answers(name, [_read_answer_of(row) for row in records_of(queries, rows)])


def _read_answer_of(row: Answered | None) -> Outcome[Prediction]:
    """Return the answer of a record with its passages, usage and tool calls."""
    if row is not None and row.error is not None:
        return Outcome(None, Cause.ERROR, row.error, row.latency_ms)
    if row is None or row.answer is None:
        return Outcome(None, Cause.MISSING_ANSWER)
    prediction = Prediction(
        row.answer,
        row.contexts,
        row.usage,
        row.queries,
        row.latency_ms,
        tool_calls=row.tool_calls,
        reasoning=row.reasoning,
    )
    return with_latency(Outcome(prediction))


def _read_retrieved(row: Answered | None) -> Outcome[Retrieved]:
    """Return the passages of a record as hits; `NO_CONTEXTS` where it has none, or for None."""
    # A record with passages and an error has hits: generation failed after retrieval.
    if row is None:
        return Outcome(None, Cause.NO_CONTEXTS)
    if row.ranking is not None:
        return Outcome(Retrieved(hits_of_passages(row.ranking), row.queries))
    if row.error is not None:
        return Outcome(None, Cause.ERROR, row.error)
    has_output = row.queries or row.answer is not None or row.tool_calls is not None
    return Outcome(None, Cause.NO_CONTEXTS if has_output else Cause.MISSING_ANSWER)


def _retrieved_with(outcome: Outcome[Prediction]) -> Outcome[Retrieved]:
    """Return the passages of an answer as hits; the cause of the answer where it failed."""
    prediction = outcome.value
    if prediction is None:
        return Outcome(None, outcome.cause, outcome.detail, outcome.latency_ms)
    if prediction.contexts is None:
        return Outcome(None, Cause.NO_CONTEXTS)
    retrieved = Retrieved(hits_of_passages(prediction.contexts), prediction.queries)
    return Outcome(retrieved, latency_ms=outcome.latency_ms)


def hits_of_passages(passages: Sequence[Document]) -> list[ScoredDocument]:
    """Return the passages of an answer as hits, in their order; [] without passages.

    Scores are None. Chunks of one document get ids of their own, as `separate_chunks` makes them. A
    passage without title and text has the text None.
    """
    hits = []
    for passage in passages:
        # a passage that is an id alone has the text of the corpus, or none
        text = passage.text if passage.full_text else None
        hits.append(ScoredDocument(passage.id, None, text, passage.title, passage.metadata))
    return separate_chunks(hits)


class AnswerQueries(Stage[Answers]):
    """Stage that answers every query by one system, once or several times.

    Subclasses generate, ask an app, or read records; `graph.stages_of` makes them. Its output has
    all first answers, then all second ones; a query that fails has an outcome with a cause.

    Attributes:
        system: System that answers.
        samples: Number of answers to each query.
        rankings: Number of rankings that these are generated from; answer i reads ranking i modulo
            this number.
        reasoning: True if reasoning is cut from the answers; of records, the data set decides.
        passages: Number of passages that an answer is generated from, as a plan assumes it.
        is_recorded: True if the answers stand in records, and none is asked for.
        only_retrieves: True if the records have passages, but neither answers nor tool calls.
    """

    kind, version = "generate", 2
    by_query = True
    samples = rankings = 1
    reasoning: Reasoning = "cut"
    passages = DEFAULT_PASSAGES
    is_recorded = False
    only_retrieves = False

    def __init__(
        self, plan: Plan, system: System, verb: str, sources: Sequence[Stage[HitOutcomes]] = ()
    ) -> None:
        """Titles start with `verb`; a plan shows the answers below the first source of hits."""
        under = sources[0] if sources and system.control is None else None
        super().__init__(plan, f"{verb} {system.name}", sources, under)
        self.system = system

    def hits(self, answers: Answers) -> HitOutcomes | None:
        """Return the passages of the answers as hits, an outcome for each; None if none has any.

        An answer without passages beside others with some has the cause `NO_CONTEXTS`.
        """
        outcomes = answers.outcomes
        if all(o.value is None or o.value.contexts is None for o in outcomes):
            return None
        return Mapped(_retrieved_with, outcomes)

    def read(self, line: bytes) -> Outcome[Prediction]:
        """Return a stored outcome, without the reasoning of the model unless it is kept."""
        outcome = read_outcome(Prediction, line)
        # stored as written, so that the other choice asks nothing again
        if outcome.value is None or self.reasoning == "keep":
            return outcome
        return replace(outcome, value=without_reasoning(outcome.value))

    def write(self, value: Outcome[Prediction]) -> Prediction | FailedAnswer:
        """Return the row of an outcome."""
        return answer_row(value)

    def output(self, inputs: Outputs, values: Sequence[Outcome[Prediction] | None]) -> Answers:
        """Return the answers; those that are not made are pending."""
        outcomes = []
        for value in values:
            outcomes.append(Outcome(None) if value is None else value)
        return Answers(self.system.name, outcomes, self.samples, self.rankings)

    def _reports_cost(self, results: Results) -> bool:
        """Return True if an answer of the system, stored or new, has a cost above 0."""
        for system in results.systems:
            if system.name == self.system.name and "usd" in system.costs:
                return bool(np.nansum(system.costs["usd"]) > 0)
        return False

    def reported(self, values: Sequence[Outcome[Prediction]]) -> Totals:
        """Return the cost that new answers report: an app or code of the user may count it."""
        return Totals(cost=sum(map(Fraction, map(_reported_cost, values)), Fraction()))

    def add(self, outputs: Outputs, results: Results) -> None:
        """Add the answers and the system to the results; warn of failed answers among several."""
        answers = outputs[self]
        results.answers[self.system.name] = answers
        results.add_scores(self.system)
        if self.samples == 1:
            return
        results.samples.setdefault(self.system.name, {})
        # where one answer of several is there, the query has a score, and the table no gap
        failed = without_value(answers.outcomes)
        causes = Counter(o.cause.word for _, o in failed if o.cause.failed)
        if causes:
            counts = list_counts(dict(sorted(causes.items())))
            results.warnings.append(
                f"{self.system.name}: {causes.total()} of {len(answers.outcomes)} answers failed "
                f"({counts}); a query's score is the mean over its others"
            )

    def warn_of_shared(self, key: str, results: Results) -> None:
        """Warn of an earlier system that has the same answers, since its component is equal.

        `key` is that of the component with the other inputs of its answers.
        """
        first = results.answer_sources.setdefault(key, self.system.name)
        if first != self.system.name:
            results.warnings.append(
                f"{self.system.name} was not asked: its type and options are those of {first}, and "
                "so are its answers; to ask both, give one of them another `version`"
            )


class Generate(AnswerQueries):
    """Stage that generates answers from the passages of a retriever, or of a control.

    Each answer has a slot, all first answers before the second ones. A query without passages has
    None for a slot, and is never asked: its answer has the cause of its retrieval.

    Attributes:
        generator: Name of the generator.
    """

    def __init__(self, resources: Resources, system: System, sources: Sequence[Retrieve]) -> None:
        """`sources` retrieve the passages; of a control, those that it replaces."""
        self.generator = system.generator or ""
        # controls and stored answers do not depend on a repeated ranking
        is_fixed = resources.plan.generators[self.generator].is_stored
        sources = sources[:1] if is_fixed or system.control is not None else sources
        super().__init__(resources.plan, system, "generate", sources)
        self._resources, self._sources, self.rankings = resources, sources, len(sources)
        self.samples = self.plan.repeat("generator", self.generator) * self.rankings
        self.reasoning = self.plan.reasoning("generator", self.generator)
        self._n_distractors = n_distractors(system.control)
        self.passages = self.plan.passages(self.generator) + self._n_distractors
        self.unit = "queries" if self.samples == 1 else "answers"

    def _contexts(self, inputs: Outputs) -> list[Sequence[Outcome[list[Document]]]]:
        """Return the passages of each query by each ranking, as `_contexts_of` does."""
        return [self._contexts_of(inputs[source]) for source in self._sources]

    def _contexts_of(self, hits: HitOutcomes) -> Sequence[Outcome[list[Document]]]:
        """Return the passages of each query, or the cause why it has none, or a pending outcome."""
        # Texts are read on access from the hits and the corpus, so that not all are in memory.
        plan, control = self.plan, self.system.control
        first, rows = Mapped(self._first_passages, hits), range(len(plan.queries))
        if control is None:
            return first
        if control == "no_context":
            return [Outcome([]) for _ in rows]
        if control == "gold_context":
            return Mapped(lambda query: _or_cause(self._relevant(query), _NO_GOLD), plan.queries)
        if self._n_distractors:
            return Mapped(lambda row: self._among_distractors(row, hits[row]), rows)
        if control == "injection":
            return Mapped(lambda row: self._injected(row, first[row]), rows)
        if len(rows) == 1:  # a single query has no other one to get passages from
            return [Outcome(None, Cause.NO_CONTEXTS)]
        # each query gets the passages of the one that follows it in a random order
        order = in_random_order(plan, rows)
        following = dict(zip(order, [*order[1:], *order[:1]], strict=True))
        return Mapped(lambda row: _of_another(first[following[row]]), rows)

    def _first_passages(self, outcome: Outcome[Retrieved]) -> Outcome[list[Document]]:
        """Return the first hits as documents with texts, or the cause of a failed retrieval."""
        documents = passages_of(outcome, self.plan.corpus, self.passages)
        return Outcome(documents, outcome.cause, outcome.detail)

    def _injected(self, row: int, passages: Outcome[list[Document]]) -> Outcome[list[Document]]:
        """Return the passages of the query at `row` with an injection, if it has passages."""
        if passages.is_pending:
            return passages
        injected = inject(passages.value or (), self.plan.ids[row], self.plan.config.seed)
        return _or_cause(injected, Cause.NO_CONTEXTS)

    def _among_distractors(
        self, row: int, retrieved: Outcome[Retrieved]
    ) -> Outcome[list[Document]]:
        """Return the relevant documents of the query at `row` among distractors, if it has any."""
        # Distractors are the best hits that are not relevant, then documents of the corpus at
        # random. A hit that is a chunk of a relevant document is no distractor.
        plan, query = self.plan, self.plan.queries[row]
        gold, corpus, n = self._relevant(query), plan.collection.documents, self._n_distractors
        if gold is None or plan.qrels is None or not corpus:
            return Outcome(None, _NO_GOLD)
        if retrieved.is_pending:
            return Outcome(None)
        relevant = set()
        for document, grade in plan.qrels.by_query[query.id].items():
            if grade > 0:
                relevant.add(document)
        hits = [] if retrieved.value is None else retrieved.value.documents
        documents = (document_of(h, plan.corpus) for h in hits if h.document not in relevant)
        random = Random(f"{plan.config.seed} {query.id}")
        # drawn with replacement: a corpus of millions is not copied
        draws = (corpus[random.randrange(len(corpus))] for _ in range(20 * n))
        candidates = (d for d in chain(documents, draws) if d is not None and d.id not in relevant)
        return Outcome(add_distractors(gold, candidates, n, random))

    def _relevant(self, query: Query) -> list[Document] | None:
        """Return the most relevant documents, as many as passages; None without any."""
        plan = self.plan
        grades = {} if plan.qrels is None else plan.qrels.by_query.get(query.id, {})
        # ties by id, so that every run gives the same passages
        relevant = sorted((-grade, name) for name, grade in grades.items() if grade > 0)
        documents = []
        for _, name in relevant:
            if name in plan.corpus:
                documents.append(plan.corpus[name])
        return documents[: plan.passages(self.generator)] or None

    def items(self, inputs: Outputs) -> list[Slot | None]:
        """Return the slots of all first answers, then of all second ones.

        The result is None for a query without passages, which is not asked.
        """
        key = self._resources.component_key("generator", self.generator, stage=self.version)
        group, n = ItemGroup(self.generator, key), len(self.plan.queries)
        by_ranking = list[list[Slot | None]]()
        for of_ranking in self._contexts(inputs):
            first: list[Slot | None] = []
            for row, contexts in enumerate(of_ranking):
                if contexts.value is not None:
                    key = passages_key(self.plan.queries[row], contexts.value)
                    first.append(Slot(group, key, row))
                else:
                    first.append(Slot(group, None, row) if contexts.is_pending else None)
            by_ranking.append(first)
        slots = list(by_ranking[0])
        for sample in range(1, self.samples):
            first = by_ranking[sample % self.rankings]
            for slot in first:
                slots.append(None if slot is None else _slot_of_sample(slot, sample, n))
        return slots

    def payer(self, results: Results) -> str:
        """Return the generator, if it calls models or its answers report a cost."""
        generator = self.plan.generators[self.generator]
        is_paid = not generator.is_stored and self._reports_cost(results)
        is_payer = isinstance(generator, ChatGenerator) or is_paid
        return f"generator {self.generator}" if is_payer else ""

    def add(self, outputs: Outputs, results: Results) -> None:
        """Add the answers to the results, with a warning if an equal one gave them."""
        super().add(outputs, results)
        if self.system.control is not None or self.plan.generators[self.generator].is_stored:
            return
        inputs = {
            "retriever": self.system.retriever,
            "passages": self.passages,
            "samples": self.samples,
            "reasoning": self.reasoning,
        }
        key = self._resources.component_key("generator", self.generator, **inputs)
        self.warn_of_shared(key, results)

    def totals(self) -> Totals:
        """Return calls, tokens and cost of the model so far."""
        generator = self.plan.generators[self.generator]
        return generator.totals() if isinstance(generator, ChatGenerator) else Totals()

    def reported(self, values: Sequence[Outcome[Prediction]]) -> Totals:
        """Return the cost that new answers report; a chat model has it in `totals`."""
        is_chat = isinstance(self.plan.generators[self.generator], ChatGenerator)
        return Totals() if is_chat else super().reported(values)

    def make(self, inputs: Outputs, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Generate the answers of some slots in random order, on workers where there are some.

        Each is kept as soon as it is there.
        """
        contexts, n = self._contexts(inputs), len(self.plan.queries)
        # a run that is stopped has answered a random sample, the same for each system
        order = in_random_order(self.plan, todo)
        generator, executor = self.plan.generators[self.generator], self._resources.executor
        # a live object has no entry to create it on a worker, and runs here
        component = self.plan.component("generator", self.generator)
        calls = self._resources.calls("generator", self.generator)
        workers = (executor, component) if executor and component and generator.computes else None

        def request(row: int) -> GeneratorRequest:
            passages = self._passages_at(contexts, row).value or []
            # replies are stored by sample: a further look asks for further ones
            sample = row // n + self.plan.choices.look * self.samples
            return GeneratorRequest(self.plan.queries[row % n], passages, sample)

        keep_all(generate(generator, Mapped(request, order), calls, workers), order, keep, advance)

    def output(self, inputs: Outputs, values: Sequence[Outcome[Prediction] | None]) -> Answers:
        """Return the answers; a query without passages has the cause of its retrieval."""
        contexts, outcomes = self._contexts(inputs), list[Outcome[Prediction]]()
        for position, outcome in enumerate(values):
            if outcome is None:
                passages = self._passages_at(contexts, position)
                outcome = Outcome(None, passages.cause, passages.detail)
            outcomes.append(outcome)
        return Answers(self.system.name, outcomes, self.samples, self.rankings)

    def _passages_at(
        self, contexts: Sequence[Sequence[Outcome[list[Document]]]], position: int
    ) -> Outcome[list[Document]]:
        """Return the passages that the answer at a position reads."""
        sample, row = divmod(position, len(self.plan.queries))
        return contexts[sample % self.rankings][row]

    def step(self, outputs: Outputs, work: Work | None) -> Step:
        """Return a step with the number of stored answers, and the cost of the others.

        Both are upper limits for a control whose passages depend on hits that are not there yet. A
        generator whose prompts are unknown has no cost.
        """
        node, contexts = self.node(work, 0), self._contexts(outputs)
        is_control = self.system.control is not None
        node.at_most = is_control and any(passages.is_pending for passages in contexts[0])
        generator, n = self.plan.generators[self.generator], len(self.plan.queries)
        if not isinstance(generator, ChatGenerator):
            return node
        requests, examples = [], []
        for position, outcome in enumerate(outputs[self].outcomes):
            if outcome.is_pending:
                sample, row = divmod(position, n)
                query = self.plan.queries[row]
                passages = self._passages_at(contexts, position).value
                if passages is None:
                    examples.append((query, self._example_passages(row), sample))
                else:
                    requests.append((query, passages, sample))
        counted = self._resources.counted
        # other systems have the same examples, and other passages in the run
        of_examples = generator.estimate(examples, counted, self.system.name)
        node.cost = generator.estimate(requests, counted) + of_examples
        return node

    def _example_passages(self, row: int) -> Sequence[Document]:
        """Return passages of the corpus for passages that are not retrieved yet."""
        passages = example_passages(self.plan, row, self.passages)
        if self.system.control != "injection":
            return passages
        return self._injected(row, Outcome(list(passages))).value or []


def _reported_cost(outcome: Outcome[Prediction]) -> float:
    """Return the dollars that an answer reports; 0 for a failed one and an unknown cost."""
    usd = None if outcome.value is None else outcome.value.usage.usd
    return usd or 0.0


# Cause of a query that gets the relevant documents, and has none.
_NO_GOLD = Cause.NO_RELEVANT


def _slot_of_sample(slot: Slot, sample: int, n: int) -> Slot:
    """Return the slot of a further answer to one of n queries."""
    # the first answer has the key of a single one: more samples keep what is stored
    key = None if slot.key is None else f"{slot.key}-{sample}"
    return replace(slot, key=key, row=slot.row + sample * n)


def _or_cause(passages: list[Document] | None, cause: Cause) -> Outcome[list[Document]]:
    """Return the outcome of passages; without any its cause."""
    return Outcome(None, cause) if passages is None else Outcome(passages)


def _of_another(passages: Outcome[list[Document]]) -> Outcome[list[Document]]:
    """Return the passages of another query; if its retrieval failed, this one has no passages."""
    return passages if passages.is_pending else _or_cause(passages.value, Cause.NO_CONTEXTS)


class AskApp(AnswerQueries):
    """Stage that asks a whole app, which retrieves by itself, for one answer to each query.

    The app gets the text of the question. A call that fails is an outcome with a cause. Answers of
    an app without `version` are stored for this run alone.
    """

    def __init__(self, resources: Resources, system: System) -> None:
        super().__init__(resources.plan, system, "answer")
        self._resources = resources
        self.reasoning = self.plan.reasoning("app", system.name)
        self.samples = self.plan.repeat("app", system.name)
        self.unit = "queries" if self.samples == 1 else "answers"

    def items(self, inputs: Outputs) -> list[Slot | None]:
        """Return the slots of all first answers, then of all second ones.

        A key depends on the query and the app, and without a `version` of the app on the run.
        """
        name, n = self.system.name, len(self.plan.queries)
        group = ItemGroup(name, self._resources.component_key("app", name, stage=self.version))
        slots = []
        for row, query in enumerate(self.plan.queries):
            slots.append(Slot(group, query_key(query), row))
        first = tuple(slots)
        for sample in range(1, self.samples):
            for slot in first:
                slots.append(_slot_of_sample(slot, sample, n))
        return [*slots]

    def payer(self, results: Results) -> str:
        """Return the app, if its answers report a cost."""
        return f"app {self.system.name}" if self._reports_cost(results) else ""

    def make(self, inputs: Outputs, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Ask the app the queries of some slots in random order.

        A passage without a text gets that of the corpus, if its id is there.
        """
        order, name = in_random_order(self.plan, todo), self.system.name
        queries = []
        for row in order:
            queries.append(self.plan.queries[row % len(self.plan.queries)])
        app, corpus = self.plan.apps[name], self.plan.corpus
        calls = self._resources.calls("app", name)

        def ask(query: Query) -> Prediction:
            prediction = read_answer(app.answer(query.text))
            if prediction.contexts is None:
                return prediction
            # an app may return ids alone; the corpus has the texts
            contexts = [d if d.full_text else corpus.get(d.id, d) for d in prediction.contexts]
            return structs.replace(prediction, contexts=contexts)

        answers = ((row, with_latency(outcome)) for row, outcome in calling(ask, queries, calls))
        keep_all(name_queries(queries, answers), order, keep, advance)

    def add(self, outputs: Outputs, results: Results) -> None:
        """Add the answers to the results, with a note where none of them has passages."""
        super().add(outputs, results)
        inputs = {"samples": self.samples, "reasoning": self.reasoning}
        key = self._resources.component_key("app", self.system.name, **inputs)
        self.warn_of_shared(key, results)
        predictions = [*values_of(outputs[self].outcomes)]
        if predictions and not any(prediction.contexts for prediction in predictions):
            name = self.system.name
            advice = self.plan.apps[name].passages_advice
            results.notes.append(
                f"{name}: no answer has passages, so that nothing tells where answers are lost; "
                f"{advice}"
            )

    def step(self, outputs: Outputs, work: Work | None) -> Step:
        """Return a step with the number of stored answers; the cost of an app is unknown."""
        return self.node(work, len(self.plan.queries) * self.samples)


class RecordedAnswers(AnswerQueries):
    """Stage that reads answers from the records of the data set; nothing is asked or stored.

    Its output has one outcome per query; `recorded_answers` tells the causes of missing ones.
    """

    is_recorded = True

    def __init__(self, plan: Plan, system: System) -> None:
        super().__init__(plan, system, "recorded")
        self._rows = plan.collection.recorded_answers[system.name]
        has_passages = has_answers = False
        for row in self._rows:
            has_passages = has_passages or row.contexts is not None
            # records with tool calls alone are answers of an agent, without a text
            has_answers = has_answers or row.answer is not None or row.tool_calls is not None
        self.only_retrieves = has_passages and not has_answers

    def output(self, inputs: Outputs, values: Sequence[Any]) -> Answers:
        """Return the answers of the records."""
        return recorded_answers(self.system.name, self.plan.queries, self._rows)

    def hits(self, answers: Answers) -> HitOutcomes:
        """Return the passages of the records as hits, one outcome per query in order.

        Records without an answer count too; a query without passages has a cause.
        """
        return Mapped(_read_retrieved, records_of(self.plan.queries, self._rows))


class AnswerHits(Stage[HitOutcomes | None]):
    """Stage that takes the passages of answers as hits; its output is None if none has any."""

    def __init__(self, answer: AnswerQueries, number: int = 0) -> None:
        """`number` is that of the answers among several to each query."""
        super().__init__(answer.plan, inputs=(answer,))
        self._answer, self._number = answer, number

    def output(self, inputs: Outputs, values: Sequence[Any]) -> HitOutcomes | None:
        """Return the passages of each answer as hits, one outcome per query."""
        return self._answer.hits(inputs[self._answer].by_sample()[self._number])
