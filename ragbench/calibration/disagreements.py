"""Answers on which a judge and people disagree, or on which their agreement flipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ragbench.calibration.earlier_agreement import ChangedAgreement
from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.labels import Labels
from ragbench.calibration.ratings import Ratings
from ragbench.types.lookups import index_positions

# Distance of scores from 0 to 1 that is a disagreement on a scale without levels.
_FAR = 0.25


# An answer on which judge and people agree only since the judge changed, or no longer.
Flip = Literal["", "gained", "lost"]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Answer whose level by the judge is not that of people, or was not before the judge changed.

    `find_disagreements` and `find_flips` return it.

    Attributes:
        score: Name of the judge's score.
        system: System that gave the answer.
        query_id: Id of the query.
        question: Question; empty if the run does not hold it.
        passages: Passages that the judge read; empty if the run does not hold them.
        answer: Answer; empty if the run does not hold it.
        labels: Rater -> label as it was written, without raters that did not label the answer.
        judge: Score of the judge on the scale of the written labels.
        difference: Score of the judge minus the mean label, both from 0 to 1.
        reason: Reason of the judge; empty without one.
        flip: `gained` if judge and people agree only since a change of the judge, `lost` if they no
            longer agree; empty for other answers, and without an earlier judge.
        judge_before: Level of the judge before the change, if agreement flipped; else None.
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
    flip: Flip = ""
    judge_before: float | None = None


def find_disagreements(
    run: JudgedRun,
    scores: Mapping[str, JudgedScore],
    labels: Mapping[str, Labels],
    scale: LabelScale | None = None,
) -> list[Disagreement]:
    """Return the answers on which judge and people disagree, the largest difference first.

    On a scale with levels, the mean label is nearer to another level than to that of the score; on
    another one, both differ by 0.25 or more. Raters who are split between two levels disagree with
    neither. Scores without labels are left out. Equal differences are in the order of scores and
    answers.
    """
    disagreements = []
    for name, score in scores.items():
        of_rubric = labels.get(score.rubric.name)
        if of_rubric is not None:
            own_scale = LabelScale.of_score(score, scale)
            disagreements += _of_score(run, name, score, of_rubric, own_scale)
    return sorted(disagreements, key=lambda of: -round(abs(of.difference), 12))


def find_flips(
    run: JudgedRun,
    scores: Mapping[str, JudgedScore],
    labels: Mapping[str, Labels],
    changes: Sequence[ChangedAgreement],
    scale: LabelScale | None = None,
) -> list[Disagreement]:
    """Return the answers whose agreement flipped, lost ones first, by falling size of the flip."""
    flips = []
    for change in changes:
        score = scores[change.score]
        own_scale = LabelScale.of_score(score, scale)
        ratings = Ratings.of(score, labels[score.rubric.name], own_scale)
        places = index_positions(ratings.keys)
        for key in change.flipped:
            is_gain = change.shares[key] > change.earlier_shares[key]
            answer = _answer(
                run, change.score, score, labels[score.rubric.name], ratings, places[key]
            )
            _, earlier_level, _ = change.levels[key]
            flips.append(
                replace(answer, flip="gained" if is_gain else "lost", judge_before=earlier_level)
            )
    return flips


def mark_flips(
    disagreements: Sequence[Disagreement], flips: Sequence[Disagreement]
) -> list[Disagreement]:
    """Return the disagreements with their flips, then the flipped answers that agree now."""
    by_answer = {(of.score, of.system, of.query_id): of for of in flips}
    marked = [by_answer.pop((of.score, of.system, of.query_id), of) for of in disagreements]
    return [*marked, *by_answer.values()]


def _of_score(
    run: JudgedRun, name: str, score: JudgedScore, labels: Labels, scale: LabelScale
) -> list[Disagreement]:
    """Return the disagreements of one judge with people, sorted by answer."""
    ratings = Ratings.of(score, labels, scale)
    differences = ratings.judge - ratings.mean_labels
    if scale.levels:
        steps = len(scale.levels) - 1
        judge = scale.score(scale.nearest_levels(ratings.judge))
        disagrees = np.abs(judge - ratings.mean_labels) * steps > 0.5 + 1e-9
    else:
        disagrees = np.abs(differences) >= _FAR - 1e-9
    places = np.flatnonzero(disagrees).tolist()
    return [_answer(run, name, score, labels, ratings, place) for place in places]


def _answer(
    run: JudgedRun,
    name: str,
    score: JudgedScore,
    labels: Labels,
    ratings: Ratings,
    place: int,
) -> Disagreement:
    """Return an answer with its texts, labels and the verdict of the judge."""
    key: Key = ratings.keys[place]
    item, scale = run.answers[key], ratings.scale
    judge = float(ratings.judge[place])
    by_rater = {}
    for rater, of_rater in labels.by_rater.items():
        if key in of_rater:
            by_rater[rater] = of_rater[key] - labels.shift
    return Disagreement(
        score=name,
        system=key[0],
        query_id=key[1],
        question=item.question or "",
        passages=tuple(item.contexts or ()),
        answer=item.answer or "",
        labels=by_rater,
        judge=scale.low + judge * (scale.high - scale.low) - labels.shift,
        difference=judge - float(ratings.mean_labels[place]),
        reason=score.reasons.get(key, ""),
    )
