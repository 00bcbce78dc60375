"""Scores of a system by its rankings, answers and judgements, where these are repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragbench.experiment.calls import values_of
from ragbench.experiment.plan.records import Plan, PlannedJudge
from ragbench.experiment.records import Results
from ragbench.records.causes import RIGHT
from ragbench.records.manifest import VerdictRow
from ragbench.records.score import Kind
from ragbench.types import FloatArray, ScoreColumn
from ragbench.types.lookups import index_by_name
from ragbench.types.rows import stack_values

# Levels of a table of repetitions, the outermost first.
LEVELS = ("retrieval", "answers", "judge")
APP_LEVELS = LEVELS[:2]


@dataclass(frozen=True)
class RepeatedScores:
    """Scores of a system by one measure, repetition by repetition.

    Attributes:
        column: Mean of the repetitions.
        table: Shape (queries, rankings, answers, judgements); NaN without a score.
        costs: Level -> cost of one of its items.
        is_judged: True if a judge decides the score.
        is_stored: True if the answers are read from a file, so that no more of them can be bought.
    """

    column: ScoreColumn
    table: FloatArray
    costs: Mapping[str, float]
    is_judged: bool
    is_stored: bool = False

    @property
    def repeats(self) -> dict[str, float]:
        """Level -> number of its repeats."""
        return dict(zip(LEVELS, map(float, self.table.shape[1:]), strict=True))


def repeated_scores(plan: Plan, results: Results, system: str, score: str) -> RepeatedScores | None:
    """Return the repetitions of a score of a system; None for a score of all queries together."""
    scored = index_by_name(results.systems)[system]
    column, kind = scored.columns[score], scored.kinds[score]
    if column.aggregate != "mean":
        return None
    columns = results.samples.get(system, {}).get(score, [column])
    answers = results.answers.get(system)
    # `pass^k` has one column, of all repetitions together
    n_rankings = 1 if answers is None or len(columns) == 1 else answers.rankings
    if kind == "retrieval":
        n_rankings = len(columns)
    values, judges = stack_values(columns, axis=1)[..., None], tuple[str, ...]()
    if kind == "judge" and (judge := judge_of(plan, score)) is not None:
        values, judges = judgements_of(results, system, judge, values), (judge[0],)
    elif score == RIGHT and system in results.judged_right:
        judged = results.judged_right[system]
        values, judges = judged.values, judged.judges
    # answer i reads ranking i modulo their number
    n, _, n_judgements = values.shape
    table = values.reshape(n, len(columns) // n_rankings, n_rankings, n_judgements).swapaxes(1, 2)
    costs = _costs(results, system, judges, table.shape)
    is_stored = _reads_answers(plan, system)
    if is_stored:
        costs |= dict.fromkeys(APP_LEVELS, 0.0)
    return RepeatedScores(column, table, costs, is_judged(kind, column), is_stored)


def is_judged(kind: Kind, column: ScoreColumn) -> bool:
    """Return True if a judge decides a score, or a part of it."""
    parts = map(column.signature.part, ("judge", "supported", "refusal"))
    return kind == "judge" or any(part is not None for part in parts)


def _reads_answers(plan: Plan, system: str) -> bool:
    """Return True if the answers of a system stand in records or in a predictions file."""
    planned = plan.system(system)
    if planned.type == "recorded":
        return True
    return planned.generator is not None and plan.generators[planned.generator].is_stored


def judge_of(plan: Plan, score: str) -> tuple[str, PlannedJudge, int] | None:
    """Return name, judge, and number of the rubric of a score; None for another score."""
    for name, judge in plan.judges.items():
        for number, rubric in enumerate(judge.rubrics):
            if plan.judge_score(rubric.name, name) == score:
                return name, judge, number
    return None


def judgements_of(
    results: Results, system: str, judge: tuple[str, PlannedJudge, int], values: FloatArray
) -> FloatArray:
    """Return the scores of each judgement, of shape (queries, answers, judgements).

    `judge` is that of `judge_of`. `values` are the scores, of shape (queries, answers, 1).
    """
    # Models of a jury are averaged, and its repeats kept apart. A verdict that combines its votes
    # in another way than by a mean has one judgement.
    name, planned, rubric = judge
    n, n_answers, _ = values.shape
    combine = planned.block.options.get("combine", "mean") if planned.judge.asks else "mean"
    if planned.repeat == 1 or combine != "mean":
        return values
    rows = results.judgements[system][name]
    table = np.full((n, n_answers, planned.repeat), np.nan)
    for position in range(n * n_answers):
        answer, query = divmod(position, n)
        votes = _votes(rows[rubric * n * n_answers + position], planned.repeat)
        if votes is not None and not np.isnan(values[query, answer]).any():
            table[query, answer] = votes
    return table


def _votes(row: VerdictRow, repeat: int) -> FloatArray | None:
    """Return the score of each repeat, the mean over the models."""
    votes = np.array([np.nan if vote is None else vote for vote in row.samples], np.float64)
    if len(votes) == 0 or len(votes) % repeat:
        return None
    by_model = votes.reshape(-1, repeat)
    has_votes = ~np.isnan(by_model)
    count = has_votes.sum(axis=0)
    total = np.where(has_votes, by_model, 0.0).sum(axis=0)
    means: FloatArray = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return means


def _costs(
    results: Results, system: str, judges: Sequence[str], shape: Sequence[int]
) -> dict[str, float]:
    """Return level -> dollars of one item; where prices are unknown, 1 for each paid call."""
    answers, (n, *repeats) = results.answers.get(system), shape
    if answers is None:
        return {"retrieval": 1.0}
    n_answers = n * repeats[0] * repeats[1]
    paid = [answer.usage.usd for answer in values_of(answers.outcomes)]
    prices = []
    for usd in paid:
        if usd is not None:
            prices.append(usd)
    costs = {"answers": sum(prices) / max(len(prices), 1)}
    uses = results.judge_uses.get(system, {})
    paid_judges = [uses[judge].usage.usd or 0.0 for judge in judges if judge in uses]
    if paid_judges:
        costs["judge"] = sum(paid_judges) / max(n_answers * repeats[2], 1)
    has_prices = len(prices) == len(paid) and sum(costs.values()) > 0
    return costs if has_prices else dict.fromkeys(costs, 1.0)
