"""Order of the scores within rankings: scores that never fall say nothing about the best hit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_TIED = "all scores of a query are equal, so that the document ids decide the order"
_RISING = "scores rise from hit to hit, and higher is better, so that the last hit counts as best"
_OF_FILE = {
    _TIED: "if the rank column is right: awk '{$5 = 1 / $4; print}' RUN > NEW",
    _RISING: "if lower is better: awk '{$5 = -$5; print}' RUN > NEW",
}
_OF_MAPPING = {
    _TIED: "if the order is right: {query: list of ids, best first}",
    _RISING: "if lower is better: {query: {id: -score}}",
}


class ScoreSteps(NamedTuple):
    """Numbers of neighbouring hits of a query by their scores, in the order of the input.

    Attributes:
        equal: Pairs of equal scores.
        rising: Pairs in which the second score is higher.
        falling: Pairs in which the second score is lower.
    """

    equal: int = 0
    rising: int = 0
    falling: int = 0

    @classmethod
    def of(cls, scores: NDArray[np.float64], starts: NDArray[np.int64]) -> ScoreSteps:
        """Count the steps of rankings in columns; `starts` has the first row of each, and the end.

        Example:
            >>> ScoreSteps.of(np.array([0.1, 0.5, 0.2]), np.array([0, 2, 3]))
            ScoreSteps(equal=0, rising=1, falling=0)
        """
        within = np.ones(max(len(scores) - 1, 0), bool)
        borders = starts[1:-1]
        within[borders[(borders > 0) & (borders < len(scores))] - 1] = False
        upper, lower = scores[:-1], scores[1:]
        n_equal = int(((upper == lower) & within).sum())
        n_rising = int(((upper < lower) & within).sum())
        return cls(n_equal, n_rising, int(within.sum()) - n_equal - n_rising)

    @classmethod
    def of_lists(cls, rankings: Iterable[Sequence[float]]) -> ScoreSteps:
        """Count the steps of rankings up to the first that falls: no other changes the note."""
        n_equal = n_rising = 0
        for scores in rankings:
            for upper, lower in pairwise(scores):
                if upper > lower:
                    return cls(n_equal, n_rising, 1)
                n_equal += upper == lower
                n_rising += upper < lower
        return cls(n_equal, n_rising)

    @classmethod
    def total(cls, steps: Iterable[ScoreSteps]) -> ScoreSteps:
        """Return the sums of several counts; zeros for none."""
        sums = np.array([cls(), *steps]).sum(axis=0)
        return cls(*sums.tolist())

    def notes(self, *, from_file: bool) -> list[str]:
        """Return a note on a run whose scores never fall, with the line to write; else [].

        Example:
            >>> ScoreSteps(rising=2).notes(from_file=False)[0].partition("; ")[2]
            'if lower is better: {query: {id: -score}}'
        """
        if self.falling or not (self.equal or self.rising):
            return []
        problem = _RISING if self.rising else _TIED
        return [f"{problem}; {(_OF_FILE if from_file else _OF_MAPPING)[problem]}"]


NO_STEPS = ScoreSteps()
