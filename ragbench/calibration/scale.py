"""The scale on which people label, beside the judge's scores from 0 to 1."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import OptionError
from ragbench.score.judge.base import Rubric

if TYPE_CHECKING:
    from ragbench.types import FloatArray

_MOST_LEVELS = 20
_ALLOWED = "two different numbers as in 1..5, the worst first (0..1, or 1..0 where 1 is bad)"
_NUMBER = r"[+-]?\d+(?:\.\d+)?"


@dataclass(frozen=True, slots=True)
class Scale:
    """From the label that means 0 to the label that means 1; the levels are one apart."""

    low: float
    """The label that the score 0 stands for."""
    high: float
    """The label that the score 1 stands for."""

    @classmethod
    def parse(cls, text: str, option: str = "--scale") -> Scale:
        """Read `1..5`, the value of an option.

        Raises:
            OptionError: Not two different numbers.

        Example:
            >>> Scale.parse("1..5").levels
            (1.0, 2.0, 3.0, 4.0, 5.0)
        """
        found = re.fullmatch(rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*", text)
        if not found or float(found[1]) == float(found[2]):
            raise OptionError(option, "", text, _ALLOWED)
        return cls(float(found[1]), float(found[2]))

    @classmethod
    def of_rubric(cls, rubric: Rubric) -> Scale:
        """Return the scale that people use for a rubric.

        The levels of a rubric that rates an answer. One that rates claims has levels of a claim;
        an answer is labelled with a share, from 0 to 1.
        """
        return cls(1.0, float(rubric.levels)) if rubric.method == "rating" else cls(0.0, 1.0)

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels from low to high; none where the ends are not whole steps apart."""
        steps = abs(self.high - self.low)
        if steps != round(steps) or steps >= _MOST_LEVELS:
            return ()
        step = math.copysign(1.0, self.high - self.low)
        return tuple(self.low + step * number for number in range(round(steps) + 1))

    def holds(self, label: float) -> bool:
        """Whether a label lies on the scale."""
        return min(self.low, self.high) <= label <= max(self.low, self.high)

    def scores(self, labels: FloatArray) -> FloatArray:
        """Turn labels into scores from 0 to 1."""
        found: FloatArray = (labels - self.low) / (self.high - self.low)
        return found

    def nearest_levels(self, scores: FloatArray) -> FloatArray:
        """Turn scores into levels, the nearest one; halfway the one towards high.

        Example:
            >>> Scale(1, 5).nearest_levels(np.array([0.0, 0.6, 0.625, 1.0]))
            array([1., 3., 4., 5.])
        """
        steps = len(self.levels) - 1
        # a share of three claims is 0.6666...; adding the rounding error must not move it
        places = np.floor(scores * steps + 0.5 + 1e-9)
        found: FloatArray = self.low + math.copysign(1.0, self.high - self.low) * places
        return found
