"""Verdicts of a judge on many items, in this process or on workers.

A judge that takes many items gets all of them at once, any other judge one item after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ragbench.executors.base import Executor, Facts, LostItem, Task, blocks_of
from ragbench.score.base import Advance
from ragbench.score.judge import JUDGES
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge
from ragbench.score.judge.items import judge_with_evidence
from ragbench.score.judge.python import as_judge
from ragbench.types.scores import Cause, Verdict


def judge_all(
    judge: RubricJudge,
    items: Iterable[JudgedItem],
    rubrics: Sequence[Rubric],
    advance: Advance | None = None,
) -> list[dict[str, Verdict]]:
    """Return rubric -> verdict per item, in order; a failure is a verdict, not an error.

    `advance` is called with the number of items that were completed since the last call. No items
    give an empty list. RagbenchError of a judge that takes many items is raised: the user has to
    act.
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
    judge: RubricJudge, items: Iterable[JudgedItem], rubrics: Sequence[Rubric]
) -> list[dict[str, Verdict]]:
    """Return the result of `judge_all` without blocking the running event loop.

    Cancelling aborts the requests in progress; a judge without requests stops between two items.
    Errors are those of `judge_all`.
    """
    if judge.takes_many:
        return await judge.ajudge_all(items, rubrics)
    return [(await asyncio.to_thread(judge_all, judge, [item], rubrics))[0] for item in items]


def apply_rubric(judge: RubricJudge, item: JudgedItem, rubric: Rubric) -> Verdict:
    """Return the verdict of a judge on one item; `failed` if the judge raises an exception.

    A part that the item lacks makes it `not_applicable`.
    """
    try:
        return judge_with_evidence(item, rubric, judge.judge)
    except Exception as error:  # noqa: BLE001 - a judge of the user's may raise anything
        return failed_verdict(error)


def failed_verdict(error: Exception) -> Verdict:
    """Return a verdict with status `failed` whose reasoning is the type and text of an error.

    The score is None and the cause `error`.
    """
    reason = f"{type(error).__name__}: {error}"
    return Verdict(None, reasoning=reason, status="failed", cause=Cause.ERROR.word)


_BLOCK = 8  # items that a worker process gets at once


def judge_on(
    executor: Executor,
    items: Iterable[JudgedItem],
    rubrics: Sequence[Rubric],
    judge: RubricJudge,
    type_name: str,
    options: Mapping[str, Any],
) -> Iterator[list[dict[str, Verdict]]]:
    """Judge items on the workers of an executor; yield lists of rubric -> verdict, in order.

    Workers create the judge anew from `type_name` and `options`, and must report the same model.
    Items whose worker process died get `failed` verdicts.

    Raises:
        AdapterError: A worker cannot create the judge, or reports another model.
        RagbenchError: The user has to act, as for a missing key.
        RuntimeError: The judge fails with another error.
    """
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
            # a text may crash a worker: its block fails, the run goes on
            {rubric.name: failed_verdict(ChildProcessError(result.why)) for rubric in rubrics}
            if isinstance(result, LostItem)
            else result
            for result in results
        ]


def _make_judge(type_name: str, options: Mapping[str, Any]) -> RubricJudge:
    return as_judge(JUDGES.load(type_name)(**options))


def _facts_of(judge: RubricJudge) -> Facts:
    return {"model": judge.model}
