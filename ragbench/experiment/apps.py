"""Whole apps: asked once for each query, and scored on both sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ragbench.experiment.calls import Calls, Outcome, call_each, naming
from ragbench.generate.answer import read_answer
from ragbench.generate.base import App
from ragbench.types import Cause, Document, Prediction, Query, Retrieved, ScoredDocument


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
