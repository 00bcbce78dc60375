"""Test and retest: does a judge that is asked twice say the same?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ragbench.calibration.scale import Scale
from ragbench.calibration.verdicts import JudgedRun, JudgedScore
from ragbench.errors import DataError
from ragbench.signature import Signature
from ragbench.stats.agreement import raw_agreement

_SAME = ("judge", "model", "rubric")


def retest(
    first: tuple[JudgedRun, JudgedScore],
    second: JudgedRun,
    scale: Scale,
    *,
    confidence: float,
) -> dict[str, Any]:
    """Compare two runs of the same judge over the answers that both judged.

    Returns:
        The flip rate, the share of answers whose level differs, with its interval; and the mean
        absolute difference of the scores.

    Raises:
        DataError: The second run lacks the score, or it comes from another judge, model or rubric.
    """
    run, score = first
    other = second.scores.get(score.name)
    if other is None:
        allowed = ", ".join(second.scores)
        raise DataError(f"no score '{score.name}'", file=second.folder, allowed=allowed)
    _refuse_another_judge(score, other, second)
    keys = [
        key
        for key in sorted(score.scores.keys() & other.scores.keys())
        if run.answers[key].answer == second.answers[key].answer
    ]
    if not keys:
        return {"status": "not available", "reason": "no answer was judged in both runs"}
    a, b = (np.array([each.scores[key] for key in keys]) for each in (score, other))
    levels = [scale.nearest_levels(side) if scale.levels else side for side in (a, b)]
    same = raw_agreement(*levels, groups=[query for _, query in keys], confidence=confidence)
    if same.rule == "undefined":
        return {"status": "not available", "reason": same.reason}
    return {
        "status": "measured",
        "flip_rate": 1 - same.value,
        "interval": [1 - same.upper, 1 - same.lower],
        "mean_difference": float(np.abs(a - b).mean()),
        "n": len(keys),
        "unit": "level" if scale.levels else "score",
    }


def _refuse_another_judge(score: JudgedScore, other: JudgedScore, second: JudgedRun) -> None:
    here, there = (dict(Signature.parse(each.signature).parts) for each in (score, other))
    for part in _SAME:
        if here.get(part) != there.get(part):
            raise DataError(
                f"{score.name} has {part} {there.get(part)}, the first run {here.get(part)}",
                file=second.folder,
                allowed="the same judge, model and rubric in both runs",
            )
