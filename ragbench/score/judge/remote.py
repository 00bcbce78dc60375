"""A judge on workers: items and rubrics as JSON, verdicts back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from ragbench.executors.base import Facts, Json, Lost, Opened, Task
from ragbench.executors.pool import Pool
from ragbench.score.judge import JUDGES
from ragbench.score.judge.base import Item, Judge, Rubric
from ragbench.score.judge.verdicts import failed_verdict, judge_all
from ragbench.types.conversation import ToolCall, Turn
from ragbench.types.records import Nugget, Usage
from ragbench.types.scores import Verdict

_TUPLES = ("samples", "orders", "left_out")


def computes(judge: Judge) -> bool:
    """Whether a judge asks nobody, so that workers can be asked in its place."""
    return bool(getattr(judge, "computes", False))


def judge_on(
    pool: Pool,
    blocks: Iterable[Sequence[Item]],
    rubrics: Sequence[Rubric],
    judge: Judge,
    type_name: str,
    options: Facts,
) -> Iterator[list[dict[str, Verdict]]]:
    """Yield for each block what `judge_all` returns; an item that ends its workers has failed."""
    plain = {key: str(v) if isinstance(v, Path) else v for key, v in options.items()}
    given = {"type_name": type_name, "options": plain, "rubrics": [asdict(r) for r in rubrics]}
    about = {"model": judge.model}
    task = Task(f"judge '{type_name}'", f"{__name__}:open_judge", given, about)
    for results in pool.blocks(task, ([asdict(item) for item in block] for block in blocks)):
        yield [_verdicts(result, rubrics) for result in results]


def _verdicts(result: Json, rubrics: Sequence[Rubric]) -> dict[str, Verdict]:
    if isinstance(result, Lost):
        return {rubric.name: failed_verdict(ChildProcessError(result.why)) for rubric in rubrics}
    return {name: _read_verdict(stored) for name, stored in result.items()}


def _read_verdict(stored: Facts) -> Verdict:
    tuples = {name: tuple(stored[name]) for name in _TUPLES}
    return Verdict(**{**stored, **tuples, "usage": Usage(**stored["usage"])})


def open_judge(type_name: str, options: Facts, rubrics: Sequence[Facts]) -> Opened:
    """Make the judge on a worker."""
    judge: Judge = JUDGES.load(type_name)(**options)
    known = [_read_rubric(rubric) for rubric in rubrics]

    def compute(items: list[Facts]) -> list[Facts]:
        found = judge_all(judge, map(_read_item, items), known)
        return [{name: each.to_dict() for name, each in given.items()} for given in found]

    return Opened(compute, {"model": judge.model})


def _read_rubric(stored: Facts) -> Rubric:
    scale = {int(level): text for level, text in stored["scale"].items()}
    lists = ("needs", "steps", "examples", "guidelines")
    return Rubric(**{**stored, **{name: tuple(stored[name]) for name in lists}, "scale": scale})


def _read_turn(stored: Facts) -> Turn:
    calls = tuple(ToolCall(**each) for each in stored["tool_calls"])
    return Turn(stored["role"], stored["text"], tuple(stored["contexts"]), calls)


def _read_item(stored: Facts) -> Item:
    nuggets, calls = stored["nuggets"], stored["tool_calls"]
    read = {
        "nuggets": None if nuggets is None else tuple(Nugget(*each) for each in nuggets),
        "turns": tuple(map(_read_turn, stored["turns"])),
        "tool_calls": None if calls is None else tuple(ToolCall(**each) for each in calls),
    }
    return Item(**{**stored, **read})
