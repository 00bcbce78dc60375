"""Rubrics applied to items: at once where a judge can, else one by one; failures are verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ragbench.score.base import Advance
from ragbench.score.judge.base import (
    WHY_MISSING,
    Item,
    Judge,
    ManyJudge,
    Rubric,
    missing_input,
    not_applicable,
)
from ragbench.types.scores import Cause, Verdict


def judge_all(
    judge: Judge, items: Iterable[Item], rubrics: Sequence[Rubric], advance: Advance | None = None
) -> list[dict[str, Verdict]]:
    """Return for each item, in order, a verdict per rubric.

    Args:
        judge: A `ManyJudge` takes all items at once, any other one by one.
        items: What is judged.
        rubrics: As `load_rubrics` returns them.
        advance: Told after each item.
    """
    if isinstance(judge, ManyJudge):
        return judge.judge_all(items, rubrics, advance)
    found = []
    for item in items:
        found.append({rubric.name: apply_rubric(judge, item, rubric) for rubric in rubrics})
        if advance is not None:
            advance(1)
    return found


async def ajudge_all(
    judge: Judge, items: Iterable[Item], rubrics: Sequence[Rubric]
) -> list[dict[str, Verdict]]:
    """Return the same without blocking the running loop.

    Cancelling gives up the calls under way; a judge that makes none is stopped between two items.
    """
    if isinstance(judge, ManyJudge):
        return await judge.ajudge_all(items, rubrics)
    return [(await asyncio.to_thread(judge_all, judge, [item], rubrics))[0] for item in items]


def apply_rubric(judge: Judge, item: Item, rubric: Rubric) -> Verdict:
    """Judge one item by one rubric; whatever goes wrong becomes a verdict that says so."""
    cause = missing_input(item, rubric)
    if cause is not None:
        return not_applicable(cause, WHY_MISSING[cause])
    try:
        return judge.judge(item, rubric)
    except Exception as error:  # noqa: BLE001 - a judge of the user's may raise anything
        return failed_verdict(error)


def failed_verdict(error: Exception) -> Verdict:
    """Return the verdict of a judge that raised."""
    reason = f"{type(error).__name__}: {error}"
    return Verdict(None, reasoning=reason, status="failed", cause=Cause.ERROR.word)
