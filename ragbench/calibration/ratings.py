"""Scores of a judge beside labels of people, for the answers that have both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ragbench.calibration.judged_run import JudgedScore, Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.labels import Labels
from ragbench.types import FloatArray


@dataclass(frozen=True)
class Ratings:
    """Scores of a judge beside labels of people, for the n answers that have both.

    `Ratings.of` joins the scores of a judge with labels. `mean_labels` are the means over the
    raters.

    Attributes:
        keys: System and query id of each answer, sorted.
        scale: Scale of the labels.
        judge: Shape (n,): scores of the judge, 0 to 1.
        people: Shape (n, raters): labels as scores from 0 to 1; NaN for a missing label.
        raters: Names of the raters, in the order of the columns.
        units: Query id -> unit of sampling; a query without one is a unit of its own.
    """

    keys: Sequence[Key]
    scale: LabelScale
    judge: FloatArray
    people: FloatArray
    raters: Sequence[str]
    units: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, score: JudgedScore, labels: Labels, scale: LabelScale) -> Ratings:
        """Join the scores of a judge with labels by answer; empty arrays if none has both.

        Raters keep the order of `labels`; a rater without any such answer has a column of NaN.
        """
        keys = sorted(key for key in labels.labelled if key in score.scores)
        people = np.full((len(keys), len(labels.by_rater)), np.nan)
        for column, of_rater in enumerate(labels.by_rater.values()):
            people[:, column] = [of_rater.get(key, np.nan) for key in keys]
        judge = np.array([score.scores[key] for key in keys], dtype=np.float64)
        raters = list(labels.by_rater)
        return cls(keys, scale, judge, scale.score(people), raters, score.units)

    @property
    def mean_labels(self) -> FloatArray:
        """Mean label of each answer over its raters, from 0 to 1."""
        means: FloatArray = np.nanmean(self.people, axis=1)
        return means

    @property
    def queries(self) -> np.ndarray[Any, Any]:
        """Unit of each answer, mostly its query: answers of one unit are not independent."""
        units = [self.units.get(query, query) for _, query in self.keys]
        return np.array(units, dtype=object).astype(str)

    @property
    def between(self) -> int:
        """Number of labels between two levels; 0 for a scale without levels."""
        if not self.scale.levels:
            return 0
        steps = self.people[np.isfinite(self.people)] * (len(self.scale.levels) - 1)
        # rounding of the scaling to 0..1 is no step between levels
        return int(np.count_nonzero(np.abs(steps - np.round(steps)) > 1e-9))
