"""Verdicts of judges on many items, here or on workers.

Rubrics are applied at once where a judge can, else one by one; a failure is a verdict too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ragbench.executors.base import Executor, Facts, LostItem, Task, blocks_of
from ragbench.score.base import Advance
from ragbench.score.judge import JUDGES
from ragbench.score.judge.base import Item, Judge, Rubric
from ragbench.score.judge.items import judge_with_evidence
from ragbench.score.judge.python import declared
from ragbench.types.scores import Cause, Verdict


def judge_all(
    judge: Judge, items: Iterable[Item], rubrics: Sequence[Rubric], advance: Advance | None = None
) -> list[dict[str, Verdict]]:
    """Return for each item, in order, a verdict per rubric.

    A judge that takes many gets all items at once, any other one by one.
    """
    if judge.takes_many:
        return judge.judge_all(items, rubrics, advance)
    verdicts = []
    for item in items:
        verdicts.append({rubric.name: apply_rubric(judge, item, rubric) for rubric in rubrics})
        if advance is not None:
            advance(1)
    return verdicts


async def ajudge_all(
    judge: Judge, items: Iterable[Item], rubrics: Sequence[Rubric]
) -> list[dict[str, Verdict]]:
    """Return the same without blocking the running loop.

    Cancelling gives up the calls under way; a judge that makes none is stopped between two items.
    """
    if judge.takes_many:
        return await judge.ajudge_all(items, rubrics)
    return [(await asyncio.to_thread(judge_all, judge, [item], rubrics))[0] for item in items]


def apply_rubric(judge: Judge, item: Item, rubric: Rubric) -> Verdict:
    """Judge one item by one rubric; whatever goes wrong becomes a verdict that says so."""
    try:
        return judge_with_evidence(item, rubric, judge.judge)
    except Exception as error:  # noqa: BLE001 - a judge of the user's may raise anything
        return failed_verdict(error)


def failed_verdict(error: Exception) -> Verdict:
    """Return the verdict of a judge that raised."""
    reason = f"{type(error).__name__}: {error}"
    return Verdict(None, reasoning=reason, status="failed", cause=Cause.ERROR.word)


_BLOCK = 8  # items that a worker gets at once


def judge_on(
    executor: Executor,
    items: Iterable[Item],
    rubrics: Sequence[Rubric],
    judge: Judge,
    type_name: str,
    options: Mapping[str, Any],
) -> Iterator[list[dict[str, Verdict]]]:
    """Yield in parts what `judge_all` returns; the items of a lost block have failed."""
    task = Task(
        f"judge '{type_name}'",
        _make_judge,
        {"type_name": type_name, "options": options},
        partial(judge_all, rubrics=rubrics),
        _facts_of,
        _facts_of(judge),
    )
    for results in executor.map(task, blocks_of(items, _BLOCK)):
        yield [
            {rubric.name: failed_verdict(ChildProcessError(result.why)) for rubric in rubrics}
            if isinstance(result, LostItem)
            else result
            for result in results
        ]


def _make_judge(type_name: str, options: Mapping[str, Any]) -> Judge:
    return declared(JUDGES.load(type_name)(**options))


def _facts_of(judge: Judge) -> Facts:
    return {"model": judge.model}
