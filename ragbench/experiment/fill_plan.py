"""Who grades the passages that nobody has judged, and how a level becomes a grade."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.config.schema import ExperimentConfig, Fill
from ragbench.experiment.choices import Choices
from ragbench.experiment.components import PlannedJudge, build_judge
from ragbench.score.judge.base import Rubric
from ragbench.score.judge.judge import load_rubrics
from ragbench.score.retrieval.notation import parse_measures


@dataclass(frozen=True, slots=True)
class PlannedFill:
    """A judge that grades passages, ready."""

    name: str
    """The judge's name."""
    judge: PlannedJudge
    """What grades."""
    rubric: Rubric
    """What it is asked."""
    rules: Fill
    """What is graded, and how a level becomes a grade."""

    @property
    def top_grade(self) -> int:
        """The best grade that it can give."""
        return self.rubric.levels - 1 if self.rules.relevant_from is None else 1

    def grade_of(self, level: float) -> int:
        """Turn a level into a grade; a level that lies half between two is the lower one."""
        nearest = min(max(math.ceil(level - 0.5), 1), self.rubric.levels)
        if self.rules.relevant_from is None:
            return nearest - 1
        return int(nearest >= self.rules.relevant_from)


def plan_fill(
    config: ExperimentConfig,
    choices: Choices,
    judges: Mapping[str, PlannedJudge],
) -> tuple[PlannedFill | None, str]:
    """Make the judge that grades passages; one that judges answers too serves both.

    Returns:
        The judge, None where nothing is filled, and why it is not although the config asks for it.

    Raises:
        ConfigError: It refuses an option.
    """
    rules, blocks = config.metrics.retrieval.fill, config.metrics.judges
    if rules is None or blocks is None:
        return None, ""
    name = str(rules.judge)
    if not choices.judge:
        return None, f"judgements are not filled: judge {name} is not asked (--no-judge)"
    judge = judges.get(name) or build_judge(blocks[name], ())
    missing = None if choices.judge_replay else judge.missing_key
    if blocks[name].when == "available" and missing is not None:
        return None, f"judgements are not filled: judge {name}: {missing} is not set"
    (rubric,) = load_rubrics([rules.rubric], judge.type, judge.judge)
    return PlannedFill(name, judge, rubric, rules), ""


def fit_measures(
    fill: PlannedFill | None, measures: Sequence[str], top_k: int
) -> tuple[PlannedFill | None, list[str]]:
    """Return the judge if a measure reads what it grades, and what measures see of it."""
    read = [m for m in parse_measures(measures) if m.spec.reads == "grades"]
    if fill is None or not read:
        unread = fill is not None and bool(measures)
        return None, ["fill: no measure reads judgements, and so none are made"] * unread
    deep = [m.written for m in read if (m.k or top_k) > fill.rules.depth]
    if not deep:
        return fill, []
    return fill, [
        f"fill: {', '.join(deep)} may look below rank {fill.rules.depth}, where only people's "
        "judgements count, and what is not judged is taken for not relevant (fill.depth)"
    ]
