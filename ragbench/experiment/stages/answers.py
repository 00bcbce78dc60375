"""Answers: a generator over the passages of a retriever, or a whole app, all queries."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from random import Random
from typing import Any

from ragbench.config.schema import DEFAULT_PASSAGES, Component
from ragbench.executors.base import Executor, Facts, Task
from ragbench.experiment.calls import (
    Calls,
    Outcome,
    call_on,
    call_once,
    calling,
    name_queries,
    with_latency,
    without_value,
)
from ragbench.experiment.plan.records import System
from ragbench.experiment.plan.systems import n_distractors
from ragbench.experiment.records import Answers, Results
from ragbench.experiment.stages.base import (
    PENDING,
    Keep,
    Slot,
    Step,
    StoredStage,
    Workspace,
    keep_all,
)
from ragbench.experiment.stages.controls import add_distractors, inject
from ragbench.experiment.stages.matching import document_of, passages_of
from ragbench.experiment.stages.retrieval import Retrieve, key_after
from ragbench.experiment.stages.stored_items import (
    passages_key,
    query_key,
    read_predicted,
    write_predicted,
)
from ragbench.generate import GENERATORS
from ragbench.generate.base import Generator, MissingPrediction
from ragbench.generate.chat import ChatGenerator
from ragbench.generate.python import read_answer
from ragbench.llm import Estimate
from ragbench.retrieve.python import separate_chunks
from ragbench.score.base import Advance
from ragbench.types import Answered, Cause, Document, Prediction, Query, Retrieved, ScoredDocument
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
        AdapterError: The generator of a worker refuses its options, a worker has another model or
            another version of ragbench, or the first three requests each end their worker.
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
    """Create a built-in generator in a worker; raise `MissingExtra` if its package is missing.

    Other errors, such as an OptionError, pass through.
    """
    generator: Generator = GENERATORS.load(type_name)(**options)
    generator.check()
    return generator


def _answer_block(
    owner: str, timeout: float | None, generator: Generator, block: list[GeneratorRequest]
) -> list[Outcome[Prediction]]:
    """Return the outcome of each request of a block, in its order; an error becomes a cause.

    `timeout` is the limit of one call in seconds; None sets no limit.
    """
    calls = Calls(owner, timeout)
    return [_with_cause(call_once(partial(_answer, generator), ask, calls)) for ask in block]


def _facts_of(generator: Generator) -> Facts:
    """Return the signature of a generator, such as its model and device, as texts.

    Name -> text; {} if the signature has no parts.
    """
    parts = generator.signature_parts()
    return {name: str(value) for name, value in parts.items()}


def _answer(generator: Generator, ask: GeneratorRequest) -> Prediction | None:
    """Return an answer with the passages that it was generated from.

    An answer that names passages itself keeps them. None if a predictions file has no answer to the
    query. Raises `AdapterError` if the reply of the user's generator is no answer; other errors of
    the generator pass through.
    """
    try:
        if ask.sample:
            answer: Any = generator.generate_sample(ask.query, ask.contexts, ask.sample)
        else:
            answer = generator.generate_for(ask.query, ask.contexts)
    # a file without an answer to the query: a cause, not an error of the generator
    except MissingPrediction:
        return None
    prediction = read_answer(answer)
    return replace(prediction, contexts=ask.contexts) if prediction.contexts is None else prediction


def _with_cause(outcome: Outcome[Prediction | None]) -> Outcome[Prediction]:
    """Return the outcome with its latency, and `MISSING_ANSWER` where no answer was returned.

    The latency is the one that the answer reports, else that of the call.
    """
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
    """Return the answer of a record with its passages, usage and tool calls.

    `ERROR` where it names an error, `MISSING_ANSWER` without a record or an answer.
    """
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
    """Return the passages of a record as hits; `NO_CONTEXTS` where it has none, or for None.

    A record with passages and an error has hits: generation failed after retrieval. A record with
    an error and without passages has the cause `ERROR`, and a record without any output
    `MISSING_ANSWER`.
    """
    if row is None:
        return Outcome(None, Cause.NO_CONTEXTS)
    if row.ranking is not None:
        return Outcome(Retrieved(hits_of_passages(row.ranking), row.queries))
    if row.error is not None:
        return Outcome(None, Cause.ERROR, row.error)
    has_output = row.queries or row.answer is not None or row.tool_calls is not None
    return Outcome(None, Cause.NO_CONTEXTS if has_output else Cause.MISSING_ANSWER)


def _retrieved_with(outcome: Outcome[Prediction]) -> Outcome[Retrieved]:
    """Return the passages of an answer as hits; the cause of the answer where it failed.

    An answer without passages has the cause `NO_CONTEXTS`.
    """
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
    return separate_chunks(
        # a passage that is an id alone has the text of the corpus, or none
        [
            ScoredDocument(p.id, None, p.text if p.full_text else None, p.title, p.metadata)
            for p in passages
        ]
    )


class AnswerQueries(StoredStage):
    """Stage that answers every query by one system, once or several times.

    Subclasses generate, ask an app, or read records; `graph.stages_of` makes them. A query that
    fails has an outcome with a cause. `answers_to(rows)` asks only for the queries at `rows`.

    Attributes:
        system: System that answers.
        samples: Number of answers to each query.
        reasoning: Whether reasoning is cut from the answers; of records, the data set decides.
        passages: Number of passages that an answer is generated from, as a plan assumes it.
        is_recorded: True if the answers stand in records, and none is asked for.
        only_retrieves: True if the records have passages, but neither answers nor tool calls.
        partial: Answers so far, in a run whose budget grows the queries round by round; the others
            are pending. `pay_for` sets it; before, it is missing.
        answers: Answers to all queries, made on first access.
    """

    kind, version = "generate", 1
    samples = 1
    reasoning: Reasoning = "cut"
    passages = DEFAULT_PASSAGES
    is_recorded = False
    only_retrieves = False
    partial: Answers

    def __init__(
        self, workspace: Workspace, system: System, verb: str, under: Retrieve | None = None
    ) -> None:
        """Titles start with `verb`; a plan shows the stage below the retrieval `under`."""
        super().__init__(workspace, f"{verb} {system.name}", under)
        self.system = system

    @cached_property
    def answers(self) -> Answers:
        """Answers to all queries; those that are not stored are asked for on first access."""
        return self.answers_to()

    @abstractmethod
    def answers_to(self, rows: Sequence[int] | None = None) -> Answers:
        """Return the outcome of each answer: all first answers, then all second ones.

        A query that fails has a cause.

        Args:
            rows: Rows of the queries that are asked; stored answers of other queries are read, and
                those that are not stored are pending. None asks all queries.
        """

    def retrieved(self) -> Sequence[Outcome[Retrieved]] | None:
        """Return the passages of each answer as hits, one outcome per query; None if none has any.

        An answer without passages beside others with some has the cause `NO_CONTEXTS`.
        """
        outcomes = self.answers.outcomes
        if all(o.value is None or o.value.contexts is None for o in outcomes):
            return None
        return Mapped(_retrieved_with, outcomes)

    @property
    def is_known(self) -> bool:
        """Return True if every answer is stored or failed, and none is pending."""
        return PENDING not in self.answers.outcomes

    def read(self, stored: Mapping[str, Any]) -> Outcome[Prediction]:
        """Return a stored outcome, without the reasoning of the model unless it is kept."""
        outcome = read_predicted(dict(stored))
        # stored as written, so that the other choice asks nothing again
        if outcome.value is None or self.reasoning == "keep":
            return outcome
        return replace(outcome, value=without_reasoning(outcome.value))

    def write(self, value: Outcome[Prediction]) -> dict[str, Any]:
        """Return an outcome as the JSON that `read` reads."""
        return write_predicted(value)

    def collect(self, results: Results) -> None:
        """Add the answers and the system to the results; warn of failed answers among several."""
        results.answers[self.system.name] = self.answers
        results.add_scores(self.system)
        if self.samples == 1:
            return
        results.samples[self.system.name] = {}
        # where one answer of several is there, the query has a score, and the table no gap
        outcomes = self.answers.outcomes
        causes = Counter(o.cause.word for _, o in without_value(outcomes) if o.cause.failed)
        if causes:
            counts = ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items()))
            results.warnings.append(
                f"{self.system.name}: {causes.total()} of {len(outcomes)} answers failed "
                f"({counts}); a query's score is the mean over its others"
            )

    def pay_for(self, rows: Sequence[int]) -> None:
        """Answer the queries of some rows, and set `partial`."""
        # kept for the judges, which read them in the same round
        self.partial = self.answers_to(rows)


class Generate(AnswerQueries):
    """Stage that generates answers from the passages of a retriever, or of a control.

    Each answer has a slot, whether it is stored or not, all first answers before the second ones. A
    query without passages has None for a slot, and is never asked. `answers_to` returns an outcome
    for every answer; its `rows` says only which queries may be asked.

    Attributes:
        generator: Name of the generator.
    """

    def __init__(self, workspace: Workspace, system: System, source: Retrieve) -> None:
        """`source` retrieves the passages; of a control, those that it replaces."""
        under = source if system.control is None else None
        super().__init__(workspace, system, "generate", under=under)
        self.generator = system.generator or ""
        self.samples = self.plan.samples(self.generator)
        self.reasoning = self.plan.reasoning("generator", self.generator)
        self._n_distractors = n_distractors(system.control)
        self.passages = self.plan.passages(self.generator) + self._n_distractors
        self.unit = "queries" if self.samples == 1 else "answers"
        self._source = source

    @cached_property
    def _contexts(self) -> tuple[Sequence[list[Document] | None], Sequence[Outcome[Retrieved]]]:
        """Passages of each query, None where it has none; and the outcome that says why.

        A pair gets the first hits of its retriever, a control other passages or none. Texts are
        read on access from the hits and the corpus, so that not all are in memory.
        """
        plan, control, outcomes = self.plan, self.system.control, self._source.outcomes
        first = Mapped(partial(passages_of, corpus=plan.corpus, passages=self.passages), outcomes)
        contexts: Sequence[list[Document] | None] = first
        if control is None:
            return contexts, outcomes
        missing = Cause.NO_CONTEXTS
        if control == "no_context":
            contexts = [[] for _ in plan.queries]
        elif control == "gold_context":
            contexts, missing = Mapped(self._relevant, plan.queries), Cause.NO_RELEVANT
        elif self._n_distractors:
            contexts = Mapped(self._among_distractors, range(len(plan.queries)))
            missing = Cause.NO_RELEVANT
        elif control == "injection":
            contexts = Mapped(lambda row: self._injected(row, first[row]), range(len(plan.queries)))
        elif len(plan.queries) > 1:
            # each query gets the passages of the one that follows it in a random order
            order = self.workspace.in_random_order(range(len(plan.queries)))
            following = dict(zip(order, [*order[1:], *order[:1]], strict=True))
            contexts = Mapped(first.__getitem__, [following[row] for row in range(len(order))])
        else:  # a single query has no other one to get passages from
            contexts = [None] * len(plan.queries)

        def outcome_of(documents: list[Document] | None) -> Outcome[Retrieved]:
            return Outcome(None, missing) if documents is None else Outcome(Retrieved([]))

        return contexts, Mapped(outcome_of, contexts)

    def _injected(self, row: int, passages: Sequence[Document] | None) -> list[Document] | None:
        """Return the passages of the query at `row` with an injection; None without passages."""
        return inject(passages or (), self.plan.ids[row], self.plan.config.seed)

    def _among_distractors(self, row: int) -> list[Document] | None:
        """Return the relevant documents of the query at `row` among distractors; None without any.

        Distractors are the best hits that are not relevant, then documents of the corpus at random.
        A hit that is a chunk of a relevant document is no distractor. None without a corpus too.
        """
        plan, query = self.plan, self.plan.queries[row]
        gold, corpus, n = self._relevant(query), plan.collection.documents, self._n_distractors
        if gold is None or plan.qrels is None or not corpus:
            return None
        relevant = {d for d, grade in plan.qrels.by_query[query.id].items() if grade > 0}
        retrieved = self._source.outcomes[row].value
        hits = [] if retrieved is None else retrieved.documents
        documents = (document_of(h, plan.corpus) for h in hits if h.document not in relevant)
        random = Random(f"{plan.config.seed} {query.id}")
        # drawn with replacement: a corpus of millions is not copied
        draws = (corpus[random.randrange(len(corpus))] for _ in range(20 * n))
        candidates = (d for d in chain(documents, draws) if d is not None and d.id not in relevant)
        return add_distractors(gold, candidates, n, random)

    def _relevant(self, query: Query) -> list[Document] | None:
        """Return the most relevant documents, as many as passages; None without any.

        A relevant document that the corpus lacks is left out. Equal grades are ordered by id;
        relevant is a grade above 0.
        """
        plan = self.plan
        grades = {} if plan.qrels is None else plan.qrels.by_query.get(query.id, {})
        # ties by id, so that every run gives the same passages
        relevant = sorted((-grade, name) for name, grade in grades.items() if grade > 0)
        documents = [plan.corpus[name] for _, name in relevant if name in plan.corpus]
        return documents[: plan.passages(self.generator)] or None

    def slots(self) -> list[Slot | None]:
        """Return the slots of all first answers, then of all second ones.

        None for a query without passages, which is not asked.
        """
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
            # the first answer has the key of a single one: more samples keep what is stored
            Slot(file, f"{key}-{sample}" if sample else key, row + sample * n) if key else None
            for sample in range(self.samples)
            for row, key in enumerate(keys)
        ]

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Generate the answers of some slots in random order, on workers where there are some.

        Each is kept as soon as it is there.
        """
        contexts, _ = self._contexts
        # a run that is stopped has answered a random sample, the same for each system
        order, n = self.workspace.in_random_order(todo), len(self.plan.queries)
        generator, executor = self.plan.generators[self.generator], self.workspace.executor
        # a live object has no entry to create it on a worker, and runs here
        component = self.plan.component("generator", self.generator)
        calls = self.workspace.calls("generator", self.generator)
        workers = (executor, component) if executor and component and generator.computes else None

        def request(row: int) -> GeneratorRequest:
            return GeneratorRequest(self.plan.queries[row % n], contexts[row % n] or [], row // n)

        keep_all(generate(generator, Mapped(request, order), calls, workers), order, keep, advance)

    def answers_to(self, rows: Sequence[int] | None = None) -> Answers:
        """Return the answers, all first ones before the second ones.

        A query without passages has the cause of its retrieval. Answers of queries that are not in
        `rows`, and not stored, are pending.
        """
        n = len(self.plan.queries)
        # rows of all samples of the chosen queries
        chosen = None if rows is None else {r + s * n for r in rows for s in range(self.samples)}
        outcomes = self.items(chosen, default=PENDING)
        for row, slot in enumerate(self._slots):
            if slot is None:
                retrieval = self._contexts[1][row % n]
                outcomes[row] = Outcome(None, retrieval.cause, retrieval.detail)
        return Answers(self.system.name, outcomes, self.samples)

    def forecast(self) -> Step:
        """Return a step with the number of stored answers, and the cost of the others.

        The passages of a control are known in a run only: the plan counts all its answers as not
        stored, which is an upper limit. A generator whose prompts are unknown has no cost.
        """
        n = len(self.plan.queries)
        is_pair = self.system.control is None
        contexts = self._contexts[0] if is_pair else [None] * n
        outcomes = self.answers.outcomes if is_pair else [PENDING] * n * self.samples
        node = self.node(n * self.samples)
        node.cost, node.at_most = self._cost(contexts, outcomes), not is_pair
        return node

    def _cost(
        self, contexts: Sequence[list[Document] | None], outcomes: Sequence[Outcome[Prediction]]
    ) -> Estimate | None:
        """Estimate the cost of the pending answers; None for generators whose prompts are unknown.

        `contexts` has the passages of each query, and `outcomes` are those of `Answers`. Passages
        that are not retrieved yet are replaced by others of the corpus. 0 if none is pending.
        """
        generator, n = self.plan.generators[self.generator], len(self.plan.queries)
        if not isinstance(generator, ChatGenerator):
            return None
        requests = []
        for row in (number % n for number, outcome in enumerate(outcomes) if outcome == PENDING):
            passages: Sequence[Document] | None = contexts[row]
            if passages is None:
                passages = self.workspace.example_passages(row, self.passages)
                if self.system.control == "injection":
                    passages = self._injected(row, passages) or []
            requests.append((self.plan.queries[row], passages))
        return generator.estimate(requests)


class AskApp(AnswerQueries):
    """Stage that asks a whole app, which retrieves by itself, for one answer to each query.

    The app gets the text of the question. A call that fails is an outcome with a cause. Answers of
    an app without `version` are stored for this run alone.
    """

    def __init__(self, workspace: Workspace, system: System) -> None:
        super().__init__(workspace, system, "answer")
        self.reasoning = self.plan.reasoning("app", system.name)

    def slots(self) -> list[Slot | None]:
        """Return a slot for each query, in order.

        Its key depends on the query and the app, and without a `version` of the app on the run.
        """
        name = self.system.name
        key = self.workspace.component_key("app", name, stage=self.version)
        file = self.items_of_key(name, key)
        return [Slot(file, query_key(query), row) for row, query in enumerate(self.plan.queries)]

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Ask the app the queries of some slots in random order.

        A passage without a text gets that of the corpus, if its id is there.
        """
        order, name = self.workspace.in_random_order(todo), self.system.name
        queries = [self.plan.queries[row] for row in order]
        app, corpus = self.plan.apps[name], self.plan.corpus
        calls = self.workspace.calls("app", name)

        def ask(query: Query) -> Prediction:
            prediction = read_answer(app.answer(query.text))
            if prediction.contexts is None:
                return prediction
            # an app may return ids alone; the corpus has the texts
            contexts = [d if d.full_text else corpus.get(d.id, d) for d in prediction.contexts]
            return replace(prediction, contexts=contexts)

        answers = ((row, with_latency(outcome)) for row, outcome in calling(ask, queries, calls))
        keep_all(name_queries(queries, answers), order, keep, advance)

    def answers_to(self, rows: Sequence[int] | None = None) -> Answers:
        """Return the answers of the app; those that are not stored and not asked are pending."""
        return Answers(self.system.name, self.items(rows, default=PENDING))

    def forecast(self) -> Step:
        """Return a step with the number of stored answers; the cost of an app is unknown."""
        _ = self.answers  # looks the answers up, which `node` counts
        return self.node(len(self.plan.queries))


class Recorded(AnswerQueries):
    """Stage that reads answers from the records of the data set; nothing is asked or stored.

    `answers` has one outcome per query; `recorded_answers` tells the causes of missing ones.
    """

    is_recorded = True

    def __init__(self, workspace: Workspace, system: System) -> None:
        super().__init__(workspace, system, "recorded")
        self._rows = workspace.plan.collection.given[system.name]
        # records with tool calls alone are answers of an agent, without a text
        retrieves = any(row.contexts is not None for row in self._rows)
        self.only_retrieves = retrieves and all(
            row.answer is None and row.tool_calls is None for row in self._rows
        )

    def answers_to(self, rows: Sequence[int] | None = None) -> Answers:
        """Return the answers of the records; `rows` has no effect, as nothing is paid for."""
        return recorded_answers(self.system.name, self.plan.queries, self._rows)

    def retrieved(self) -> Sequence[Outcome[Retrieved]]:
        """Return the passages of the records as hits, one outcome per query in order.

        Records without an answer count too; a query without passages has a cause.
        """
        return Mapped(_read_retrieved, records_of(self.plan.queries, self._rows))

    def slots(self) -> list[Slot | None]:
        """Return []: the records hold the answers."""
        return []

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Do nothing: there is no answer to ask for."""

    def forecast(self) -> None:
        """Return None: a plan shows only the stages that read the records."""
