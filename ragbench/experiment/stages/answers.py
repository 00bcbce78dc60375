"""Answers: a generator over the passages of a retriever, or a whole app, all queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ragbench.experiment.calls import Calls, Outcome, call_each, naming
from ragbench.experiment.records import Answers
from ragbench.generate.answer import read_answer
from ragbench.generate.base import App, Generator, MissingPrediction
from ragbench.types import Answered, Cause, Document, Prediction, Query, Retrieved, ScoredDocument


@dataclass(frozen=True, slots=True)
class _Task:
    query: Query
    contexts: list[Document]
    sample: int


def passages_of(
    outcomes: Sequence[Outcome[Retrieved]], corpus: Mapping[str, Document], passages: int
) -> list[list[Document] | None]:
    """Return for each query its first passages as documents with text; None where it failed.

    A hit's own text counts, else the corpus document's; a hit that has neither is left out.
    """
    return [
        None if outcome.value is None else _documents(outcome.value, corpus)[:passages]
        for outcome in outcomes
    ]


def _documents(retrieved: Retrieved, corpus: Mapping[str, Document]) -> list[Document]:
    found = (document_of(hit, corpus) for hit in retrieved.documents)
    return [document for document in found if document is not None]


def document_of(hit: ScoredDocument, corpus: Mapping[str, Document]) -> Document | None:
    """Return a hit as a document with text: its own, else the corpus document's, else None."""
    if hit.text is not None:
        return Document(hit.id, hit.text, hit.title or "", hit.metadata)
    return corpus.get(hit.id)


def generate(
    generator: Generator,
    queries: Sequence[Query],
    contexts: Sequence[list[Document] | None],
    retrieved: Sequence[Outcome[Retrieved]],
    calls: Calls,
    on_outcome: Callable[[int, Outcome[Prediction]], None] = lambda position, outcome: None,
    samples: Sequence[int] = (),
) -> list[Outcome[Prediction]]:
    """Let a generator answer every query; a query whose retrieval failed is not asked.

    Args:
        generator: What answers.
        queries: The n queries.
        contexts: n lists of passages; None where retrieval failed.
        retrieved: The n outcomes of retrieval, for the cause of a failure.
        calls: Timeout and concurrency.
        on_outcome: Given each asked query's position and outcome as soon as it is there.
        samples: Which of its answers each query is asked for, from 0; default: the first.
    """
    numbers = samples or [0] * len(queries)
    asked = [position for position, documents in enumerate(contexts) if documents is not None]
    tasks = [_Task(queries[each], contexts[each] or [], numbers[each]) for each in asked]
    outcomes: list[Outcome[Prediction]] = [
        Outcome(None, outcome.cause, outcome.detail) for outcome in retrieved
    ]

    def take(number: int, outcome: Outcome[Prediction | None]) -> None:
        outcomes[asked[number]] = _known(outcome)
        on_outcome(asked[number], outcomes[asked[number]])

    call_each(lambda task: _ask(generator, task), tasks, calls, take)
    return outcomes


def _ask(generator: Generator, task: _Task) -> Prediction | None:
    """One answer, with the passages that it was made from; None where a file has none."""
    try:
        if task.sample:
            answer: Any = generator.generate_sample(task.query, task.contexts, task.sample)
        else:
            answer = generator.generate_for(task.query, task.contexts)
    except MissingPrediction:
        return None
    prediction = read_answer(answer)
    if prediction.contexts is not None:
        return prediction
    return replace(prediction, contexts=task.contexts)


def _known(outcome: Outcome[Prediction | None]) -> Outcome[Prediction]:
    """An outcome in which 'there is no answer' is a cause, not a value."""
    cause = outcome.cause
    if outcome.value is None and cause is Cause.SCORED:
        cause = Cause.MISSING_ANSWER
    told = None if outcome.value is None else outcome.value.latency_ms
    return Outcome(
        outcome.value, cause, outcome.detail, outcome.latency_ms if told is None else told
    )


def given_answers(name: str, queries: Sequence[Query], rows: Sequence[Answered]) -> Answers:
    """Return the answers that the records came with, in the order of the queries."""
    by_query = {row.query_id: row for row in rows}
    return Answers(name, [_given(by_query.get(query.id)) for query in queries])


def _given(row: Answered | None) -> Outcome[Prediction]:
    if row is None or row.answer is None:
        return Outcome(None, Cause.MISSING_ANSWER)
    return Outcome(Prediction(row.answer, row.contexts, queries=row.queries))


def ask_app(
    app: App,
    queries: Sequence[Query],
    calls: Calls,
    on_outcome: Callable[[int, Outcome[Prediction]], None],
    corpus: Mapping[str, Document] = MappingProxyType({}),
) -> None:
    """Ask an app every query.

    Args:
        app: The app.
        queries: The n queries.
        calls: Timeout and concurrency.
        on_outcome: Given each query's position and outcome as soon as it is there.
        corpus: Documents by id: the texts of passages of which the app tells the id alone.
    """

    def take(position: int, outcome: Outcome[Prediction]) -> None:
        told = None if outcome.value is None else outcome.value.latency_ms
        latency = outcome.latency_ms if told is None else told
        known = Outcome(outcome.value, outcome.cause, outcome.detail, latency)
        on_outcome(position, naming(queries[position].id, known))

    def ask(query: Query) -> Prediction:
        prediction = read_answer(app.answer(query.text))
        if prediction.contexts is None:
            return prediction
        told = [d if d.full_text else corpus.get(d.id, d) for d in prediction.contexts]
        return replace(prediction, contexts=told)

    call_each(ask, queries, calls, take)


def retrieved_by(outcomes: Sequence[Outcome[Prediction]]) -> list[Outcome[Retrieved]] | None:
    """Return what an app retrieved, in its order; None where it never says.

    An answer without passages beside others with some is one whose ranking is not known.
    """
    if all(o.value is None or o.value.contexts is None for o in outcomes):
        return None
    return [_ranking(outcome) for outcome in outcomes]


def _ranking(outcome: Outcome[Prediction]) -> Outcome[Retrieved]:
    prediction = outcome.value
    if prediction is None:
        return Outcome(None, outcome.cause, outcome.detail, outcome.latency_ms)
    if prediction.contexts is None:
        return Outcome(None, Cause.NO_CONTEXTS)
    hits = [
        ScoredDocument(document.id, None, document.text, document.title, document.metadata)
        for document in prediction.contexts
    ]
    return Outcome(Retrieved(hits, prediction.queries), latency_ms=outcome.latency_ms)
