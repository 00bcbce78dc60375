"""The certificate of a judge: what labels of people say of it, for a gate to require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench.calibration.agreement import (
    confusion,
    correlations,
    good_from,
    judge_against_people,
    people_against_people,
    recorded,
)
from ragbench.calibration.corrected import corrected_differences, corrected_means, sampling
from ragbench.calibration.judged_run import JudgedRun, JudgedScore
from ragbench.calibration.labels import Labels, Ratings
from ragbench.calibration.probes import ELSEWHERE, probe
from ragbench.calibration.retest import retest_runs, retest_samples
from ragbench.calibration.scale import Scale
from ragbench.errors import DataError, OptionError
from ragbench.records.certificate import (
    Certificate,
    CertifiedRubric,
    LabelsRead,
    ProbedRubric,
    ProbeFound,
    ProbeReport,
    RetestFound,
)
from ragbench.signature import fingerprint_json


@dataclass(frozen=True, slots=True)
class Calibration:
    """How labels are read and what is computed."""

    scale: Scale | None = None
    """The scale of the labels; None: that of each rubric."""
    good: float | None = None
    """The label from which an answer is good; None: beyond the middle of the scale."""
    confidence: float = 0.95
    """Coverage of the intervals."""
    random: bool = False
    """Whether the user vouches that the labelled answers were drawn at random."""
    again: JudgedRun | None = None
    """A second run of the same judge."""
    asked: Mapping[str, Mapping[str, ProbeFound]] = field(default_factory=dict)
    """Score -> probe -> what came out when the judge was asked again."""


def certify(
    run: JudgedRun,
    scores: Mapping[str, JudgedScore],
    labels: Mapping[str, Labels],
    calibration: Calibration,
) -> Certificate:
    """Return the certificate: the same labels and verdicts give the same bytes.

    Args:
        run: The run.
        scores: The scores that are certified, by name.
        labels: Labels by rubric.
        calibration: How they are read.

    Raises:
        DataError: No labelled answer has a verdict, or the second run is not of the same judge.
        OptionError: The label that is good from is not on the scale.
    """
    return Certificate(
        run=run.name,
        data=run.data,
        systems=run.systems,
        confidence=calibration.confidence,
        rubrics={
            name: _certify_score(run, score, labels[score.rubric.name], calibration)
            for name, score in scores.items()
            if score.rubric.name in labels
        },
    )


def probe_report(
    run: JudgedRun,
    scores: Sequence[JudgedScore],
    asked: Mapping[str, Mapping[str, ProbeFound]],
    *,
    scale: Scale | None = None,
    confidence: float = 0.95,
) -> ProbeReport:
    """Return what is known of judges without labels: probes and test-retest.

    Args:
        run: The run.
        scores: What was asked again.
        asked: Score -> probe -> what came out.
        scale: The scale whose levels flip; None: that of each rubric.
        confidence: Coverage of the intervals.
    """
    return ProbeReport(
        run=run.name,
        data=run.data,
        systems=run.systems,
        confidence=confidence,
        rubrics={
            score.name: ProbedRubric(
                **_facts(score),
                probes=asked[score.name],
                retest=retest_samples(
                    score, scale or Scale.of_rubric(score.rubric), confidence=confidence
                ),
            )
            for score in scores
        },
    )


def _facts(score: JudgedScore) -> dict[str, Any]:
    """Whose score it is: the fields of a `JudgedRubric`."""
    return {
        "rubric": score.rubric.name,
        # of a judge that ran elsewhere only the name is known
        "rubric_fingerprint": score.rubric.fingerprint if score.rubric.scale else "",
        "judge": score.judge,
        "model": score.model,
        "signature": score.signature,
    }


def _certify_score(
    run: JudgedRun, score: JudgedScore, labels: Labels, calibration: Calibration
) -> CertifiedRubric:
    scale = calibration.scale or Scale.of_rubric(score.rubric)
    ratings = Ratings.of(score, labels, scale)
    if not ratings.keys:
        raise DataError(f"no answer with a label has a verdict on {score.name}", file=run.folder)
    confidence = calibration.confidence
    good = None
    if calibration.good is not None:
        if not scale.holds(calibration.good):
            raise OptionError("--good", "", calibration.good, f"a label on {scale}")
        good = (calibration.good - scale.low) / (scale.high - scale.low)
    drawn = sampling(run, score, labels, vouched=calibration.random)
    against = judge_against_people(ratings, good=good, confidence=confidence)
    among = people_against_people(ratings, confidence=confidence)
    return CertifiedRubric(
        **_facts(score),
        scale=(scale.low, scale.high),
        good=good_from(scale, calibration.good),
        labels=LabelsRead(
            n=len(ratings.keys),
            raters=tuple(ratings.raters),
            without_label=len(labels.rows.keys() - labels.labelled),
            without_verdict=len(labels.labelled) - len(ratings.keys),
            between_levels=ratings.between,
            queries=len(set(ratings.queries.tolist())),
            fingerprint=_fingerprint(labels),
            random=drawn.random,
            why=drawn.why,
        ),
        agreement={name: recorded(each) for name, each in against.items()},
        ceiling={name: recorded(each) for name, each in among.items()},
        correlations=correlations(ratings, confidence=confidence),
        confusion=confusion(ratings),
        probes={
            **probe(run, score, ratings, confidence=confidence),
            **calibration.asked.get(score.name, {}),
        },
        retest=_retest(run, score, scale, calibration),
        corrected=corrected_means(run, score, ratings, drawn, confidence=confidence),
        corrected_differences=corrected_differences(
            run, score, ratings, drawn, confidence=confidence
        ),
    )


def _retest(
    run: JudgedRun, score: JudgedScore, scale: Scale, calibration: Calibration
) -> RetestFound:
    if run.elsewhere:
        return RetestFound(status="not available", reason=ELSEWHERE)
    if calibration.again is not None:
        again = calibration.again
        return retest_runs((run, score), again, scale, confidence=calibration.confidence)
    return retest_samples(score, scale, confidence=calibration.confidence)


def _fingerprint(labels: Labels) -> str:
    """Fingerprint who said what of which answer, whatever the order of rows."""
    said = {
        rater: sorted([*key, label] for key, label in of_rater.items())
        for rater, of_rater in labels.by_rater.items()
    }
    return fingerprint_json(said)
