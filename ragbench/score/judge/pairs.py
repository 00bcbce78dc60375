"""Pairwise comparison of answers in both orders; contradicting verdicts count as a tie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge, both_orders, missing_verdict
from ragbench.score.judge.judged import JudgeResults, collect_verdicts
from ragbench.score.judge.verdicts import judge_all
from ragbench.types import ScoreColumn
from ragbench.types.scores import Verdict

# Reasoning of a verdict on two equal answers.
SAME = "the two answers are the same: a tie, without asking the judge"


def judge_pairs(
    judge: RubricJudge,
    items: Sequence[JudgedItem],
    rubrics: Sequence[Rubric],
    *,
    type_name: str,
    advance: Advance | None = None,
) -> JudgeResults:
    """Compare `answer` with `other` of each item in both orders, by rubrics that judge pairs.

    A judge that calls models asks in both orders itself; any other judge gets each item a second
    time with the two answers exchanged. Verdicts that contradict each other are a tie. So are
    equal answers, without asking the judge. An item without one of the two answers gets no score.

    Args:
        judge: Judge of the pairs.
        items: Items with `answer` and `other`.
        rubrics: Rubrics with `asks: pair`.
        type_name: Name of the judge in rows and signatures.
        advance: Called with the number of items that were completed since the last call.

    Returns:
        Score columns with 1 for a win of `answer`, 0.5 for a tie and 0 for a loss. Among several
        samples or models the majority decides.

    Raises:
        RagbenchError: The user has to act, as for a missing key.
    """
    by_name = {rubric.name: rubric for rubric in rubrics}
    differing = [row for row, item in enumerate(items) if not same_answers(item)]
    compared = [items[row] for row in differing]
    if advance is not None:
        # equal answers count as completed without the judge
        advance(len(items) - len(compared))
    if judge.asks:
        outcomes = judge_all(judge, compared, rubrics, advance)
    else:
        swapped = [replace(item, answer=item.other, other=item.answer) for item in compared]
        first = judge_all(judge, compared, rubrics)
        second = judge_all(judge, swapped, rubrics, advance)
        outcomes = [
            {name: _merge_orders(one[name], two[name], rubric) for name, rubric in by_name.items()}
            for one, two in zip(first, second, strict=True)
        ]
    # equal answers, and items that lack one, get their verdicts without the judge
    ties = {
        rubric.name: Verdict(0.5, level=(1 + rubric.levels) / 2, reasoning=SAME)
        for rubric in rubrics
    }
    verdicts = [
        {rubric.name: missing_verdict(item, rubric) or ties[rubric.name] for rubric in rubrics}
        for item in items
    ]
    for row, by_rubric in zip(differing, outcomes, strict=True):
        verdicts[row] = by_rubric
    judged = collect_verdicts(judge, items, rubrics, verdicts, type_name=type_name)
    columns = {
        rubric.name: _win_column(judged.columns[rubric.name], rubric.direction == "lower")
        for rubric in rubrics
    }
    return replace(judged, columns=columns)


def same_answers(item: JudgedItem) -> bool:
    """Return True if both answers exist and differ in white space at most.

    Two empty answers are the same.
    """
    if item.answer is None or item.other is None:
        return False
    return item.answer.split() == item.other.split()


def _merge_orders(one: Verdict, two: Verdict, rubric: Rubric) -> Verdict:
    """Merge the verdicts of the two orders; if one has no score, return that verdict.

    The first of two without score counts. The scores of `two` are those of the exchanged answers.
    """
    if one.score is None or two.score is None:
        return one if one.score is None else two
    scores = one.score, 1 - two.score
    both = both_orders(rubric, scores, (one.reasoning, two.reasoning))
    return replace(one, score=both.score, level=both.level, reasoning=both.reasoning, orders=scores)


def _win_column(column: ScoreColumn, lower_wins: bool) -> ScoreColumn:
    """Return the column with each score rounded to a win 1, a tie 0.5 or a loss 0; NaN stays.

    With `lower_wins`, 0 is a win; the result is always higher is better.
    """
    import numpy as np

    values = 0.5 + 0.5 * np.sign(column.values - 0.5)
    return replace(column, values=1 - values if lower_wins else values, direction="higher")
