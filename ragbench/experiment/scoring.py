"""The score and judge stages: what each system's answers are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from ragbench.experiment.calls import Outcome
from ragbench.experiment.generation import Answers
from ragbench.score.base import ScoreColumn
from ragbench.score.judge.base import Item
from ragbench.score.text.base import Advance, Metric
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.notation import text_notes
from ragbench.types import Cause, Query

_OF_THE_QUERY = (
    Cause.NO_RELEVANT,
    Cause.NO_JUDGEMENTS,
    Cause.NO_REFERENCE,
    Cause.NO_QUESTION,
    Cause.NO_GUIDELINES,
    Cause.STOPPED_EARLY,
)
"""Causes that lie in the data or in the plan, not in what a system made of them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the item in one row has no output that could be scored."""

    cause: Cause
    detail: str = ""


def failures(outcomes: Sequence[Outcome[Any]]) -> dict[int, Failure]:
    """Return row -> failure for the outcomes without a value."""
    return {
        row: Failure(outcome.cause, outcome.detail)
        for row, outcome in enumerate(outcomes)
        if outcome.value is None
    }


def with_failures(column: ScoreColumn, failed: Mapping[int, Failure]) -> ScoreColumn:
    """Return the column without values where the system had no output, with the causes.

    Where the score could not have applied, whatever the output, it still does not apply.
    """
    failed = {row: f for row, f in failed.items() if column.causes[row] not in _OF_THE_QUERY}
    if not failed:
        return column
    values, causes = column.values.copy(), column.causes.copy()
    for row, failure in failed.items():
        values[row], causes[row] = nan, failure.cause
    details = {row: failure.detail for row, failure in failed.items() if failure.detail}
    return replace(column, values=values, causes=causes, details={**column.details, **details})


def with_failures_of(answers: Answers, column: ScoreColumn) -> ScoreColumn:
    """Return the column without values where a system has no answer, with the causes."""
    return with_failures(column, failures(answers.outcomes))


def score_answers(
    answers: Answers,
    queries: Sequence[Query],
    references: Mapping[str, Sequence[str]],
    scorer: TextScorer,
    advance: Advance,
) -> list[ScoreColumn]:
    """Score a system's answers against the gold ones."""
    predictions = [o.value.answer if o.value is not None else None for o in answers.outcomes]
    gold = [references.get(query.id, ()) for query in queries]
    return scorer.score(predictions, gold, advance)


def notes_on_answers(
    answers: Answers,
    queries: Sequence[Query],
    references: Mapping[str, Sequence[str]],
    metrics: Sequence[Metric],
) -> list[str]:
    """Say what the metrics cannot see in these texts; one sentence each."""
    predictions = [o.value.answer if o.value is not None else None for o in answers.outcomes]
    gold = [references.get(query.id, ()) for query in queries]
    return [f"{answers.name}: {note}" for note in text_notes(predictions, gold, metrics)]


def judged_items(
    answers: Answers, queries: Sequence[Query], references: Mapping[str, Sequence[str]]
) -> list[Item]:
    """Return a system's answers as a judge sees them; a query without an answer is not judged."""
    return [
        Item(
            question=query.text,
            answer=None if outcome.value is None else outcome.value.answer,
            contexts=passage_texts(outcome),
            references=list(references.get(query.id, ())),
            query_id=query.id,
            queries=None if outcome.value is None else outcome.value.queries or None,
            sample=sample,
        )
        for sample, each in enumerate(answers.each())
        for query, outcome in zip(queries, each.outcomes, strict=True)
    ]


def passage_texts(outcome: Outcome[Any]) -> list[str] | None:
    """Return the passages that an answer was made from, as the judge reads them."""
    if outcome.value is None or outcome.value.contexts is None:
        return None
    return [document.full_text for document in outcome.value.contexts]
