"""Warnings of a summary: failed items, scores without a value, and a budget that was reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.plan.scores import ONLY_REFUSALS
from ragbench.experiment.records import Results, failed_answers
from ragbench.experiment.spending import budget_warning
from ragbench.llm.failures import one_line
from ragbench.records import summary as records
from ragbench.records.comparison import PreferredPair
from ragbench.records.score import SystemScore
from ragbench.score.judge.verdicts import failures_of
from ragbench.types import Cause, ScoreColumn
from ragbench.types.display import printable


def count_failures(
    systems: Sequence[records.SystemSummary], pairs: Sequence[PreferredPair], results: Results
) -> Iterator[tuple[Mapping[str, int], int]]:
    """Yield (failures by cause, number of items with a value) of each score of the run."""
    for system in systems:
        for score in system.scores.values():
            yield (score.failed, score.n)
    for pair in pairs:
        yield (pair.failed, pair.n)
    for scores in results.samples.values():
        for columns in scores.values():
            scored = sum(int((column.causes == Cause.SCORED).sum()) for column in columns)
            yield failed_answers(columns), scored
    for scores_of in results.systems:
        for column in scores_of.columns.values():
            # a repetition of a judge may fail where the others have a score
            counts = failures_of(column)
            yield counts, int((column.verdict_causes == Cause.SCORED).sum())
    if results.filled is not None:
        yield results.filled.counts.failed, results.filled.counts.model


def summary_warnings(
    plan: Plan,
    results: Results,
    within: bool,
    systems: Sequence[records.SystemSummary],
    pairs: Sequence[PreferredPair],
) -> Iterator[str]:
    """Yield sentences on what makes the numbers doubtful; a reached budget comes first."""
    if results.spending is not None and results.spending.reached:
        yield budget_warning(results.spending)
    yield from (*plan.warnings, *results.warnings)
    if not within:
        allowed = plan.config.max_failed
        share = f"more than {allowed:.3g} of the" if allowed else "some"
        yield (
            f"incomplete: {share} items of a score failed; means are over the others, "
            "see unscored.jsonl"
        )
        for name in results.unreachable:
            reason = f"no request was served by the server of {name}"
            yield f"{reason}: the same command sends them again"
        yield from _first_failures(results.systems, plan.config.path)
    scores: list[SystemScore | PreferredPair] = [*pairs]
    for system in systems:
        scores += system.scores.values()
    n_values, has_failures = 0, False
    for score in scores:
        n_values += score.n
        has_failures = has_failures or bool(score.failed)
    # traces have a warning of their own
    if not n_values and ONLY_REFUSALS not in plan.warnings:
        reason = "every item failed"
        if not has_failures:
            reason = (
                "no measure, metric or rubric applies to any query; without gold, a judge scores "
                "answers: metrics: {judge: {type: openai, model: gpt-4o-mini}}"
            )
        yield f"nothing was scored: {reason}"


def _first_failures(systems: Sequence[SystemScores], config: Path | None) -> list[str]:
    """Return a sentence on the first failure of each system, each text once."""
    # A pair of retriever and generator often fails as its retriever does, with the same text.
    reasons = []
    for system in systems:
        failures = chain.from_iterable(map(ScoreColumn.failure_texts, system.columns.values()))
        reason = one_line(next(failures, ""))
        is_elsewhere = config is not None and config.parent.resolve() != Path.cwd()
        # own code opens relative paths in the working directory
        if "FileNotFoundError" in reason and is_elsewhere:
            reason += f"; run the command in the folder of {printable(config)}"
        reasons.append(reason)
    return [f"{records.FIRST_TO_FAIL}{reason}" for reason in dict.fromkeys(reasons) if reason]
