"""Columns of scores: what failed has none, and one score of several samples (`samples: n`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ragbench.experiment.calls import Outcome, without_value
from ragbench.experiment.plan.records import System
from ragbench.experiment.records import Answers, Results
from ragbench.experiment.stages.answers import Answer
from ragbench.experiment.stages.base import Stage, Workspace
from ragbench.records.score import Kind
from ragbench.types import Cause, ScoreColumn

_OF_THE_QUERY = (
    Cause.NO_RELEVANT,
    Cause.NO_JUDGEMENTS,
    Cause.NO_REFERENCE,
    Cause.NO_QUESTION,
    Cause.NO_GUIDELINES,
    Cause.NO_TURNS,
    Cause.NO_EXPECTED_CALLS,
)
"""Causes that lie in the data or in the plan, not in what a system made of them."""


def with_failures(column: ScoreColumn, failed: Mapping[int, Outcome[Any]]) -> ScoreColumn:
    """Return the column without values where the system had no output, with the causes.

    `failed` is what `without_value` yields, row -> outcome. Where the score could not have applied,
    whatever the output, it still does not apply.
    """
    failed = {row: f for row, f in failed.items() if column.causes[row] not in _OF_THE_QUERY}
    if not failed:
        return column
    values, causes = column.values.copy(), column.causes.copy()
    for row, failure in failed.items():
        values[row], causes[row] = math.nan, failure.cause
    details = {row: failure.detail for row, failure in failed.items() if failure.detail}
    return replace(column, values=values, causes=causes, details={**column.details, **details})


def with_failures_of(answers: Answers, column: ScoreColumn) -> ScoreColumn:
    """Return the column without values where a system has no answer, with the causes."""
    return with_failures(column, dict(without_value(answers.outcomes)))


def split_samples(column: ScoreColumn, samples: int) -> list[ScoreColumn]:
    """Return the column of each sample, of one that has all of them one after the other."""
    if samples == 1:
        return [column]
    n = len(column.values) // samples
    return [_part(column, start, start + n) for start in range(0, samples * n, n)]


def _part(column: ScoreColumn, start: int, end: int) -> ScoreColumn:
    details = {row - start: text for row, text in column.details.items() if start <= row < end}
    values, causes = column.values[start:end], column.causes[start:end]
    return replace(column, values=values, causes=causes, details=details)


def mean_over_samples(columns: Sequence[ScoreColumn]) -> ScoreColumn:
    """Return one column of several: each query's mean over its answers that have a score.

    A query has no score only where none of its answers has one. Its cause is then the first that
    is a failure, else the first. The causes of the single answers stay with it: those that failed
    leave a score open. A number that is computed from all queries at once is the mean of those of
    the samples.
    """
    if len(columns) == 1:
        return columns[0]
    values = np.stack([column.values for column in columns])
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    means = np.full(values.shape[1], np.nan)
    # nanmean warns of queries without any score
    np.divide(np.where(known, values, 0.0).sum(axis=0), counts, out=means, where=counts > 0)
    causes, details = columns[0].causes.copy(), dict[int, str]()
    for row in range(len(means)):
        if counts[row]:
            causes[row] = Cause.SCORED
            continue
        chosen = next((c for c in columns if Cause(int(c.causes[row])).failed), columns[0])
        causes[row] = chosen.causes[row]
        if row in chosen.details:
            details[row] = chosen.details[row]
    totals = [c.total for c in columns if c.total is not None and np.isfinite(c.total)]
    total = float(np.mean(totals)) if totals else columns[0].total
    return replace(
        columns[0],
        values=means,
        causes=causes,
        details=details,
        total=total,
        answer_causes=np.stack([column.causes for column in columns], axis=1),
    )


def failed_answers(columns: Sequence[ScoreColumn]) -> dict[str, int]:
    """Count the answers that failed in a score, by cause: also those of queries with a score."""
    codes = Counter(int(code) for column in columns for code in column.causes)
    return {Cause(code).word: n for code, n in sorted(codes.items()) if Cause(code).failed}


def sample_notes(systems: Iterable[Answers]) -> list[str]:
    """Say what scores of several answers are, and where these are all the same."""
    several = [answers for answers in systems if answers.samples > 1]
    by_number: dict[int, list[str]] = {}
    for answers in several:
        by_number.setdefault(answers.samples, []).append(answers.name)
    same = [
        f"{each.name}: all answers to a query are the same text: asking {each.samples} times told "
        "nothing"
        for each in several
        if _all_the_same(each)
    ]
    notes = [
        f"{', '.join(names)}: each query was answered {n} times; its score is the mean over its "
        "answers, and intervals cover other answers of the generator as well as other queries"
        for n, names in by_number.items()
    ]
    return [*notes, *same]


def _all_the_same(answers: Answers) -> bool:
    texts = [
        [None if o.value is None else o.value.answer for o in each.outcomes]
        for each in answers.each()
    ]
    several = [set(row) - {None} for row in zip(*texts, strict=True)]
    # where every answer failed, all() holds of nothing
    return any(several) and all(len(found) < 2 for found in several)


def add_samples(
    results: Results, system: System, name: str, columns: Sequence[ScoreColumn], kind: Kind
) -> None:
    """Add a score to the results: of several samples their mean, and each by itself."""
    results.add_scores(system, {name: mean_over_samples(columns)}, kind)
    if len(columns) > 1:
        results.samples[system.name][name] = list(columns)


class CountFailed(Stage):
    """Says how many of several answers failed, by cause; no query need lack a score for it."""

    def __init__(self, workspace: Workspace, answer: Answer) -> None:
        super().__init__(workspace)
        self._answer = answer

    def collect(self, results: Results) -> None:
        """Add a warning where some failed."""
        answers = self._answer.answers
        lacking = (outcome for _, outcome in without_value(answers.outcomes))
        failed = [outcome.cause.word for outcome in lacking if outcome.cause.failed]
        if answers.samples == 1 or not failed:
            return
        said = ", ".join(f"{count} {cause}" for cause, count in sorted(Counter(failed).items()))
        results.warnings.append(
            f"{answers.name}: {len(failed)} of {len(answers.outcomes)} answers failed "
            f"({said}); a query's score is the mean over its others"
        )
