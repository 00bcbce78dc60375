"""Comparisons of two answers in both orders, whose disagreement is a tie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge, both_orders, missing_verdict
from ragbench.score.judge.judged import JudgeResults, collect_verdicts
from ragbench.score.judge.verdicts import judge_all
from ragbench.types import ScoreColumn
from ragbench.types.scores import Verdict

# What a verdict says where there is nothing to compare.
SAME = "the two answers are the same: a tie, without asking the judge"


def judge_pairs(
    judge: RubricJudge,
    items: Sequence[JudgedItem],
    rubrics: Sequence[Rubric],
    *,
    type_name: str,
    advance: Advance | None = None,
) -> JudgeResults:
    """Compare `answer` with `other` in both orders, by rubrics that ask of a pair.

    A judge that asks models asks them in both orders itself; any other one is given each item a
    second time with the answers in each other's place. A judge that says otherwise then has not
    told them apart: a tie. So are equal answers, which no judge is asked about. Without an answer,
    or another one, a rubric does not apply.

    Returns:
        Columns of 1 for a win of `answer`, 0.5 for a tie and 0 for a loss. Where several samples
        or models voted, the majority decides.
    """
    differing = [row for row, item in enumerate(items) if not same_answers(item)]
    compared = [items[row] for row in differing]
    if advance is not None:
        advance(len(items) - len(compared))
    if judge.asks:
        answered = judge_all(judge, compared, rubrics, advance)
    else:
        swapped = [replace(item, answer=item.other, other=item.answer) for item in compared]
        first = judge_all(judge, compared, rubrics)
        second = judge_all(judge, swapped, rubrics, advance)
        answered = [
            {rubric.name: _agreed(one[rubric.name], two[rubric.name], rubric) for rubric in rubrics}
            for one, two in zip(first, second, strict=True)
        ]
    ties = {
        rubric.name: Verdict(0.5, level=(1 + rubric.levels) / 2, reasoning=SAME)
        for rubric in rubrics
    }
    verdicts = [
        {rubric.name: missing_verdict(item, rubric) or ties[rubric.name] for rubric in rubrics}
        for item in items
    ]
    for row, by_rubric in zip(differing, answered, strict=True):
        verdicts[row] = by_rubric
    judged = collect_verdicts(judge, items, rubrics, verdicts, type_name=type_name)
    columns = {
        rubric.name: _decided(judged.columns[rubric.name], rubric.direction == "lower")
        for rubric in rubrics
    }
    return replace(judged, columns=columns)


def same_answers(item: JudgedItem) -> bool:
    """Return True if two answers look the same to a reader, so that no request is needed."""
    if item.answer is None or item.other is None:
        return False
    return item.answer.split() == item.other.split()


def _agreed(one: Verdict, two: Verdict, rubric: Rubric) -> Verdict:
    """One verdict of two orders; without a score in both, the one that lacks it."""
    if one.score is None or two.score is None:
        return one if one.score is None else two
    scores = one.score, 1 - two.score
    of = both_orders(rubric, scores, (one.reasoning, two.reasoning))
    return replace(one, score=of.score, level=of.level, reasoning=of.reasoning, orders=scores)


def _decided(column: ScoreColumn, lower_wins: bool) -> ScoreColumn:
    """The column with every value a win, a tie or a loss, as the direction has it."""
    import numpy as np

    values = 0.5 + 0.5 * np.sign(column.values - 0.5)
    return replace(column, values=1 - values if lower_wins else values, direction="higher")
