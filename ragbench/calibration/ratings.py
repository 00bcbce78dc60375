"""A judge's scores and the labels of people side by side, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ragbench.calibration.labels import Labels
from ragbench.calibration.scale import Scale
from ragbench.calibration.verdicts import JudgedScore, Key

if TYPE_CHECKING:
    from ragbench.types import FloatArray


@dataclass(frozen=True)
class Ratings:
    """The n answers that have a verdict and a label of anybody."""

    keys: Sequence[Key]
    """The answers."""
    scale: Scale
    """What people label on."""
    judge: FloatArray
    """Scores of the judge, from 0 to 1."""
    people: FloatArray
    """Labels as scores from 0 to 1, a column per rater; NaN where one gave none."""
    raters: Sequence[str]
    """Names of the columns."""

    @classmethod
    def of(cls, score: JudgedScore, labels: Labels, scale: Scale) -> Ratings:
        """Put scores and labels side by side."""
        keys = sorted(key for key in labels.labelled if key in score.scores)
        people = np.array(
            [[of_rater.get(key, np.nan) for of_rater in labels.by_rater.values()] for key in keys]
        ).reshape(len(keys), len(labels.by_rater))
        judge = np.array([score.scores[key] for key in keys], dtype=np.float64)
        return cls(keys, scale, judge, scale.scores(people), list(labels.by_rater))

    @property
    def mean_labels(self) -> FloatArray:
        """The mean label of each answer, from 0 to 1."""
        found: FloatArray = np.nanmean(self.people, axis=1)
        return found

    @property
    def queries(self) -> np.ndarray[Any, Any]:
        """The query of each answer: answers to one query vary together."""
        return np.array([query for _, query in self.keys], dtype=object).astype(str)

    @property
    def between(self) -> int:
        """How many labels lie between two levels."""
        if not self.scale.levels:
            return 0
        steps = self.people[np.isfinite(self.people)] * (len(self.scale.levels) - 1)
        return int(np.count_nonzero(np.abs(steps - np.round(steps)) > 1e-9))
