"""Which of two systems' answers is better, over many queries: wins, ties and losses as a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragbench.score.base import Advance, ScoreColumn
from ragbench.score.judge.apply import judge_all
from ragbench.score.judge.base import (
    WHY_MISSING,
    AskingJudge,
    Item,
    Judge,
    Rubric,
    missing_input,
    not_applicable,
)
from ragbench.score.judge.columns import Judged, collect_verdicts
from ragbench.types.scores import Verdict

SAME = "the two answers are the same: a tie, which nobody was asked about"
"""What a verdict says where there is nothing to compare."""


def judge_pairs(
    judge: Judge,
    items: Sequence[Item],
    rubrics: Sequence[Rubric],
    *,
    type_name: str,
    advance: Advance | None = None,
) -> Judged:
    """Compare `answer` with `other` in both orders, by rubrics that ask of a pair.

    A judge that asks models asks them in both orders itself; any other one is given each item a
    second time with the answers in each other's place. A judge that says otherwise then has not
    told them apart: a tie. So are equal answers, which no judge is asked about.

    Args:
        judge: What judges.
        items: One per query; without an answer, or another one, a rubric does not apply.
        rubrics: Of method `pairwise`.
        type_name: The judge's `type`, for signatures.
        advance: Told after each item.

    Returns:
        Columns of 1 for a win of `answer`, 0.5 for a tie and 0 for a loss. Where several samples
        or models voted, the majority decides.
    """
    differing = [row for row, item in enumerate(items) if not same_answers(item)]
    asked = [items[row] for row in differing]
    if advance is not None:
        advance(len(items) - len(asked))
    if isinstance(judge, AskingJudge):
        answered = judge_all(judge, asked, rubrics, advance)
    else:
        answered = _in_both_orders(judge, asked, rubrics, advance)
    found = [{rubric.name: _tie(item, rubric) for rubric in rubrics} for item in items]
    for row, verdicts in zip(differing, answered, strict=True):
        found[row] = verdicts
    judged = collect_verdicts(judge, items, rubrics, found, type_name=type_name)
    columns = {
        rubric.name: _decided(judged.columns[rubric.name], rubric.direction == "lower")
        for rubric in rubrics
    }
    return replace(judged, columns=columns)


def same_answers(item: Item) -> bool:
    """Whether two answers differ in nothing that a reader sees; so that nobody need be asked."""
    if item.answer is None or item.other is None:
        return False
    return item.answer.split() == item.other.split()


def _tie(item: Item, rubric: Rubric) -> Verdict:
    """The verdict on equal answers."""
    cause = missing_input(item, rubric)
    if cause is not None:
        return not_applicable(cause, WHY_MISSING[cause])
    return Verdict(0.5, level=1 + 0.5 * (rubric.levels - 1), reasoning=SAME)


def _in_both_orders(
    judge: Judge, items: Sequence[Item], rubrics: Sequence[Rubric], advance: Advance | None
) -> list[dict[str, Verdict]]:
    swapped = [replace(item, answer=item.other, other=item.answer) for item in items]
    first = judge_all(judge, items, rubrics)
    second = judge_all(judge, swapped, rubrics, advance)
    return [
        {rubric.name: _agreed(one[rubric.name], two[rubric.name], rubric) for rubric in rubrics}
        for one, two in zip(first, second, strict=True)
    ]


def _agreed(one: Verdict, two: Verdict, rubric: Rubric) -> Verdict:
    """One verdict of two orders; without a score in both, the one that lacks it."""
    if one.score is None or two.score is None:
        return one if one.score is None else two
    scores = one.score, 1 - two.score
    agree = _side(scores[0]) == _side(scores[1])
    score = sum(scores) / 2 if agree else 0.5
    lines = [f"in this order: {one.reasoning}", f"in the other order: {two.reasoning}"]
    if not agree:
        lines.append("the two orders disagree: a tie")
    level = 1 + score * (rubric.levels - 1)
    return replace(one, score=score, level=level, reasoning="\n".join(lines))


def _side(score: float) -> int:
    return int(score > 0.5) - int(score < 0.5)


def _decided(column: ScoreColumn, lower_wins: bool) -> ScoreColumn:
    """The column with every value a win, a tie or a loss, as the direction has it."""
    import numpy as np

    values = 0.5 + 0.5 * np.sign(column.values - 0.5)
    return replace(column, values=1 - values if lower_wins else values, direction="higher")
