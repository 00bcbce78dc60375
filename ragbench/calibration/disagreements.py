"""Answers on which a judge and people disagree, with all that shows which of them is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ragbench.calibration.judged_run import JudgedRun, JudgedScore
from ragbench.calibration.labels import Labels, Ratings
from ragbench.calibration.sheet import LabelScale

# Distance of scores from 0 to 1 that is a disagreement on a scale without levels.
_FAR = 0.25


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Answer whose level by the judge is not the level of people; `find_disagreements` returns it.

    Attributes:
        score: Name of the judge's score.
        system: System that gave the answer.
        query_id: Id of the query.
        question: Question; empty if the run does not hold it.
        passages: Passages that the judge read; empty if the run does not hold them.
        answer: Answer; empty if the run does not hold it.
        labels: Rater -> label, without raters that did not label the answer.
        judge: Score of the judge on the scale of the labels.
        difference: Score of the judge minus the mean label, both from 0 to 1.
        reason: Reason of the judge; empty without one.
    """

    score: str
    system: str
    query_id: str
    question: str
    passages: tuple[str, ...]
    answer: str
    labels: Mapping[str, float]
    judge: float
    difference: float
    reason: str


def find_disagreements(
    run: JudgedRun,
    scores: Mapping[str, JudgedScore],
    labels: Mapping[str, Labels],
    scale: LabelScale | None = None,
) -> list[Disagreement]:
    """Return the answers on which judge and people disagree, the largest difference first.

    On a scale with levels, the nearest levels of score and mean label differ; on another one, both
    differ by 0.25 or more. Scores without labels are left out. Equal differences are in the order
    of scores and answers.
    """
    disagreements = []
    for name, score in scores.items():
        of_rubric = labels.get(score.rubric.name)
        if of_rubric is not None:
            own_scale = scale or LabelScale.of_rubric(score.rubric)
            disagreements += _of_score(run, name, score, of_rubric, own_scale)
    return sorted(disagreements, key=lambda of: -round(abs(of.difference), 12))


def _of_score(
    run: JudgedRun, name: str, score: JudgedScore, labels: Labels, scale: LabelScale
) -> list[Disagreement]:
    """Return the disagreements of one judge with people, sorted by answer."""
    ratings = Ratings.of(score, labels, scale)
    differences = ratings.judge - ratings.mean_labels
    if scale.levels:
        levels = map(scale.nearest_levels, (ratings.judge, ratings.mean_labels))
        disagrees = np.not_equal(*levels)
    else:
        disagrees = np.abs(differences) >= _FAR - 1e-9
    disagreements = []
    for place in np.flatnonzero(disagrees).tolist():
        key = ratings.keys[place]
        item = run.answers[key]
        by_rater = {r: of[key] for r, of in labels.by_rater.items() if key in of}
        width = scale.high - scale.low
        disagreement = Disagreement(
            score=name,
            system=key[0],
            query_id=key[1],
            question=item.question or "",
            passages=tuple(item.contexts or ()),
            answer=item.answer or "",
            labels=by_rater,
            judge=scale.low + float(ratings.judge[place]) * width,
            difference=float(differences[place]),
            reason=score.reasons.get(key, ""),
        )
        disagreements.append(disagreement)
    return disagreements
