"""Agreement of a judge with people before its rubric, prompt, model or code changed, and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ragbench.calibration.judge_bias import agreements
from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key, read_answers, read_scores
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.labels import Labels
from ragbench.data.runs.run_folder import read_summary
from ragbench.data.runs.run_list import previous_run
from ragbench.score.judge.base import JudgedItem
from ragbench.signature import Signature
from ragbench.stats.difference import DifferenceInterval, difference_interval

# Parts of a signature whose change makes another judge.
_PARTS = ("rubric", "prompt", "model", "code")


@dataclass(frozen=True, slots=True)
class ChangedAgreement:
    """Agreement with people on the same answers before and after a change of the judge.

    Attributes:
        score: Name of the judge's score.
        run: Id of the run before the change; empty for a result of `evaluate`.
        parts: Changed parts: `rubric`, `prompt`, `model`, `code` of a function; empty if the
            signature tells no change.
        earlier_shares: Answer -> share of raters with the level of the judge before the change.
        shares: Answer -> that share after the change.
        levels: Answer -> labels of people, and levels of the judge before and after the change.
        difference: Agreement after the change minus that before, with its interval.
    """

    score: str
    run: str
    parts: tuple[str, ...]
    earlier_shares: Mapping[Key, float]
    shares: Mapping[Key, float]
    levels: Mapping[Key, tuple[tuple[float, ...], float, float]]
    difference: DifferenceInterval

    @property
    def flipped(self) -> list[Key]:
        """Answers whose agreement changed, those that were lost first."""
        gains = {}
        for key in self.shares:
            gains[key] = self.shares[key] - self.earlier_shares[key]
        flipped = []
        for key, gain in gains.items():
            if gain:
                flipped.append(key)
        return sorted(flipped, key=lambda key: (gains[key], key))


def changed_agreements(
    run: JudgedRun,
    scores: Mapping[str, JudgedScore],
    labels: Mapping[str, Labels],
    *,
    scale: LabelScale | None,
    confidence: float,
) -> Iterator[ChangedAgreement]:
    """Yield the change of each score whose judge was another one in an earlier run.

    The last run of the experiment with another rubric, prompt, model or code counts. Answers that
    differ between the runs, and scores without levels, are left out.

    Raises:
        DataError: A file of an earlier run is damaged.
    """
    for name, score in scores.items():
        of_rubric = labels.get(score.rubric.name)
        if of_rubric is None:
            continue
        folder = previous_run(run.folder)
        while folder is not None:
            earlier = _earlier_score(folder, run, score)
            if earlier is not None:
                own_scale = LabelScale.of_score(score, scale)
                change = _change(name, score, earlier, of_rubric, own_scale, confidence)
                if change is not None:
                    yield replace(change, run=folder.name)
                break
            folder = previous_run(folder)


def agreement_since(
    earlier: JudgedRun,
    run: JudgedRun,
    scores: Mapping[str, JudgedScore],
    labels: Mapping[str, Labels],
    *,
    scale: LabelScale | None,
    confidence: float,
) -> Iterator[ChangedAgreement]:
    """Yield the change of each score since another judgement of the same answers.

    The earlier score has the same name; the only score of a run may have any. Answers that differ,
    and scores without levels, are left out.
    """
    for name, score in scores.items():
        earlier_score = earlier.scores.get(name)
        if earlier_score is None and len(scores) == len(earlier.scores) == 1:
            (earlier_score,) = earlier.scores.values()
        of_rubric = labels.get(score.rubric.name)
        if earlier_score is None or of_rubric is None:
            continue
        equal = {}
        for key, value in earlier_score.scores.items():
            if key in run.answers and _equal(earlier.answers[key], run.answers[key]):
                equal[key] = value
        same_rubric = replace(
            earlier_score, scores=equal, rubric=score.rubric, passing=score.passing
        )
        own_scale = LabelScale.of_score(score, scale)
        change = _change(name, score, same_rubric, of_rubric, own_scale, confidence)
        if change is not None:
            yield change


def _earlier_score(folder: Path, run: JudgedRun, score: JudgedScore) -> JudgedScore | None:
    """Return the score in an earlier run, if its judge was another one; else None."""
    scores: dict[Key, float] = {}
    signature = ""
    for system in read_summary(folder).systems:
        if score.name not in system.scores or system.name not in run.systems:
            continue
        signature = system.scores[score.name].signature
        answers = dict(read_answers(folder, system.name))
        for query, value, _ in read_scores(folder, system.name, score.name):
            key = (system.name, query)
            if key in answers and key in run.answers and _equal(answers[key], run.answers[key]):
                scores[key] = value
    if not scores or not changed_parts(signature, score.signature):
        return None
    return replace(score, scores=scores, signature=signature)


def _equal(item: JudgedItem, other: JudgedItem) -> bool:
    """Return True if two items have the same answer and passages."""
    return (item.answer, item.contexts) == (other.answer, other.contexts)


def changed_parts(earlier: str, current: str) -> tuple[str, ...]:
    """Return the parts of a judge that differ between two signatures of a score.

    They are some of `rubric`, `prompt`, `model` and `code`, in this order.
    """
    signatures = Signature.parse(earlier), Signature.parse(current)
    changed = []
    for part in _PARTS:
        if signatures[0].part(part) != signatures[1].part(part):
            changed.append(part)
    return tuple(changed)


def _change(
    name: str,
    score: JudgedScore,
    earlier: JudgedScore,
    labels: Labels,
    scale: LabelScale,
    confidence: float,
) -> ChangedAgreement | None:
    """Return the change of one score; None without levels or common answers."""
    by_judge = [agreements(of, labels, scale) for of in (earlier, score)]
    keys = sorted(by_judge[0].keys() & by_judge[1].keys())
    if not keys:
        return None
    earlier_shares, shares = (np.array([of[key] for key in keys]) for of in by_judge)
    queries = np.array([query for _, query in keys], dtype=object).astype(str)
    difference = difference_interval(
        shares - earlier_shares, baseline=earlier_shares, confidence=confidence, clusters=queries
    )
    judged = []
    for of in (earlier, score):
        nearest = scale.nearest_levels(np.array([of.scores[key] for key in keys]))
        judged.append((nearest - labels.shift).tolist())
    levels = {}
    for place, key in enumerate(keys):
        people = tuple(of[key] - labels.shift for of in labels.by_rater.values() if key in of)
        levels[key] = (people, judged[0][place], judged[1][place])
    return ChangedAgreement(
        score=name,
        run="",
        parts=changed_parts(earlier.signature, score.signature),
        earlier_shares=dict(zip(keys, earlier_shares.tolist(), strict=True)),
        shares=dict(zip(keys, shares.tolist(), strict=True)),
        levels=levels,
        difference=difference,
    )
