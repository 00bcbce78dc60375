"""Scale of the labels of people: its ends, its levels, and the scores that labels stand for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from ragbench.calibration.judged_run import JudgedScore
from ragbench.errors import OptionError
from ragbench.score.judge.base import Rubric
from ragbench.types import FloatArray

Label = TypeVar("Label", float, FloatArray)

_MOST_LEVELS = 20
_ALLOWED = "two different numbers as in 1..5, the worst first (0..1, or 1..0 where 1 is bad)"
_NUMBER = r"[+-]?\d+(?:\.\d+)?"


@dataclass(frozen=True, slots=True)
class LabelScale:
    """Scale of labels, from the label of score 0 to the label of score 1.

    Levels are 1 apart. `high` may be the smaller number, on a scale where 1 is bad. The scale
    is `LabelScale(1, 5)` or `LabelScale.parse("1..5")`; only `parse` checks the ends. `score` turns
    labels into scores from 0 to 1. `levels` is empty if the ends are not whole steps, or 20 or
    more, apart. The last two attributes are no part of equality.

    Attributes:
        low: Label of the score 0.
        high: Label of the score 1.
        split: Score between two levels, above which the nearest level is the high one.
        split_is_high: True if a score at the split has the high level.
    """

    low: float
    high: float
    split: float = field(default=0.5, compare=False, repr=False)
    split_is_high: bool = field(default=False, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, option: str = "--scale") -> LabelScale:
        """Return the scale of a text such as `1..5`; `option` names its source in the error.

        Raises:
            OptionError: The text is not two different numbers.

        Example:
            >>> LabelScale.parse("1..5").levels
            (1.0, 2.0, 3.0, 4.0, 5.0)
        """
        match = re.fullmatch(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*", text)
        if not match or float(match[1]) == float(match[2]):
            raise OptionError(option, "", text, _ALLOWED)
        return cls(float(match[1]), float(match[2]))

    @classmethod
    def of_rubric(cls, rubric: Rubric) -> LabelScale:
        """Return the scale of people's labels: 1 to the top level of a rating, else 0 to 1.

        The levels of other methods rate single claims; people label an answer with a share.
        """
        return cls(1.0, float(rubric.levels)) if rubric.method == "rating" else cls(0.0, 1.0)

    @classmethod
    def of_score(cls, score: JudgedScore, scale: LabelScale | None = None) -> LabelScale:
        """Return the scale of people's labels, with the split that the score of a judge needs.

        `scale` None is that of the rubric. A score in the middle of two levels has the worse one:
        an answer of which half is supported does not pass.
        """
        scale, is_lower_better = scale or cls.of_rubric(score.rubric), score.is_lower_better
        if score.passing is None:
            return replace(scale, split=0.5, split_is_high=is_lower_better)
        return replace(scale, split=score.passing, split_is_high=not is_lower_better)

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels from low to high; empty if the ends are not whole steps, or 20 or more, apart.

        From the label of score 0, so falling if `high` is the smaller number.
        """
        steps = abs(self.high - self.low)
        if steps != round(steps) or steps >= _MOST_LEVELS:
            return ()
        step = math.copysign(1.0, self.high - self.low)
        return tuple(self.low + step * number for number in range(round(steps) + 1))

    def holds(self, label: float) -> bool:
        """Return True if a label lies between the ends of the scale, ends included.

        NaN is no level.
        """
        return min(self.low, self.high) <= label <= max(self.low, self.high)

    def score(self, label: Label) -> Label:
        """Return the score from 0 to 1 of a label, or the scores of an array of labels.

        A label off the scale gives a score below 0 or above 1; NaN stays NaN. If both ends are
        equal, a number raises ZeroDivisionError, and an array gives NaN or infinities.
        """
        return (label - self.low) / (self.high - self.low)

    def nearest_levels(self, scores: FloatArray) -> FloatArray:
        """Return the nearest level of each score; halfway between two, the one towards high.

        On two levels `split` decides in place of the middle. NaN stays NaN. The scale must have
        levels. Scores off 0..1 give numbers off the scale, except on two levels.

        Example:
            >>> LabelScale(1, 5).nearest_levels(np.array([0.0, 0.6, 0.625, 1.0]))
            array([1., 3., 4., 5.])
        """
        steps = len(self.levels) - 1
        # a share of three claims is 0.6666...; adding the rounding error must not move it
        if steps == 1:
            is_high = scores > self.split - math.copysign(1e-9, self.split_is_high - 0.5)
            places = np.where(np.isnan(scores), np.nan, is_high)
        else:
            places = np.floor(scores * steps + 0.5 + 1e-9)
        levels: FloatArray = self.low + math.copysign(1.0, self.high - self.low) * places
        return levels
