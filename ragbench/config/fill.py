"""The `fill` block: which judge grades the passages that nobody has judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.config.blocks import check_block
from ragbench.config.judges import check_rubric
from ragbench.config.references import Context
from ragbench.config.schema import JudgeBlock
from ragbench.config.scoring_blocks import Fill
from ragbench.config.tree import Item
from ragbench.registry import nearest

if TYPE_CHECKING:
    from ragbench.score.judge.base import Rubric


@dataclass(frozen=True, slots=True)
class Around:
    """What the other blocks say that a `fill` must go with."""

    judges: Mapping[str, JudgeBlock] | None
    """The judges by name; None where there is no such block, or where it is wrong."""
    judges_written: bool
    """Whether there is a block of judges at all."""
    top_k: int | None
    """Ranks that are kept and scored."""
    level: str
    """What counts as a hit."""


def check_fill(item: Item, around: Around, context: Context) -> tuple[Fill | None, dict[str, Any]]:
    """Check the block; what is wrong goes into the report.

    Returns:
        The checked block, None where a part of it is wrong, and the block as plain data.
    """
    report, before = context.report, len(context.report)
    values, written = check_block(item, Fill, report)
    name, judge = _judge(item, values, around, context)
    source = _rubric(item, values, judge, context)
    depth, top_k = values.get("depth"), around.top_k
    if depth is not None and top_k is not None and depth > top_k:
        at = item.get("depth") or item
        report.add(at.place, at.path, f"{depth} is deeper than top_k", f"up to {top_k}")
    if around.level != "id":
        found = f"fill does not go with match: level: {around.level}"
        report.add(item.place, item.path, found, "level: id")
    if len(report) > before or source is None or name is None:
        return None, written
    written["judge"] = name
    return Fill(**{**values, "judge": name, "rubric": source}), written


def _judge(
    item: Item, values: Mapping[str, Any], around: Around, context: Context
) -> tuple[str | None, JudgeBlock | None]:
    """The judge that is meant: the named one, or the only one."""
    if around.judges is None:
        if not around.judges_written:
            found = "fill needs a judge, and the config has none"
            context.report.add(item.place, item.path, found, "metrics.judge: {type: openai, ...}")
        return None, None
    known, given = list(around.judges), item.get("judge")
    if given is None and len(known) != 1:
        found = f"fill does not say which of {len(known)} judges grades"
        context.report.add(item.place, item.path, found, f"judge: {', '.join(known)}")
        return None, None
    name = known[0] if given is None else values.get("judge")
    if name is not None and name not in known and given is not None:
        close = nearest(str(name), known)
        found = f"no judge {given.shown()}"
        context.report.add(given.place, given.path, found, ", ".join(known), close)
        return None, None
    return name, around.judges.get(str(name))


def _rubric(
    item: Item, values: Mapping[str, Any], judge: JudgeBlock | None, context: Context
) -> str | Path | None:
    """Where the rubric is; None, with a problem, where it cannot give grades."""
    from ragbench.score.judge.rubric import load_rubric

    given = item.get("rubric")
    source: str | Path | None = values.get("rubric")
    if given is not None and isinstance(given.value, str):
        found = check_rubric(given, context)
        source = None if found is None else found[1]
    if source is None:
        return None
    at, rubric = given or item, load_rubric(source)
    if (rubric.asks, rubric.method) != ("context", "rating") or rubric.direction != "higher":
        found_text = f"rubric '{rubric.name}' does not rate passages"
        allowed = "one with asks: context, method: rating, direction: higher"
        context.report.add(at.place, at.path, found_text, allowed)
    served = None if judge is None else getattr(judge.cls, "served", None)
    if judge is not None and isinstance(served, (list, tuple)) and rubric.name not in served:
        found_text = f"judge '{judge.type}' cannot apply '{rubric.name}'"
        context.report.add(at.place, at.path, found_text, "a judge that is a language model")
    _check_levels(item, values, rubric, context)
    return source


def _check_levels(item: Item, values: Mapping[str, Any], rubric: Rubric, context: Context) -> None:
    start, at = values.get("relevant_from"), item.get("relevant_from")
    if start is not None and at is not None and start > rubric.levels:
        found = f"{start} is above the levels of '{rubric.name}'"
        context.report.add(at.place, at.path, found, f"2 to {rubric.levels}")
