"""Certificate of a judge: agreement with labels of people, which a gate can require."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.calibration.draw import Draw, draw_again, is_unsure_draw
from ragbench.calibration.group_agreement import (
    group_agreements,
    level_labels,
    statistic_records,
    two_levels,
)
from ragbench.calibration.judge_bias import difference_from_people, judge_bias, pair_judges
from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.labels import Labels
from ragbench.calibration.rater_agreement import (
    correlations,
    judge_against_people,
    people_against_people,
)
from ragbench.calibration.ratings import Ratings
from ragbench.errors import DataError, OptionError, Phrase
from ragbench.records import certificate
from ragbench.records.codec import from_json
from ragbench.signature import fingerprint_json
from ragbench.stats.mean import (
    FEWEST_LABELS,
    CorrectedMean,
    finite,
    mean_interval,
    ppi_difference,
    ppi_mean,
)
from ragbench.stats.stratified import stratified_ppi_difference, stratified_ppi_mean


@dataclass(frozen=True, slots=True)
class Calibration:
    """Options of a calibration: the scale of the labels and the figures to compute.

    It checks nothing itself: `certify` does. A table of ratings needs a `scale`, as its rubrics
    have none.

    Attributes:
        scale: Scale of the labels; None: the scale of each rubric.
        good: Smallest label of a good answer; None: labels beyond the middle of the scale.
        confidence: Confidence of all intervals.
        random: True if the user vouches that the labelled answers are a random draw.
        probes: Score -> probe -> result.
        by: Column of the groups, for their name; empty without groups.
        groups: Answer -> its group, such as its data set; answers without one are in no group.
    """

    scale: LabelScale | None = None
    good: float | None = None
    confidence: float = 0.95
    random: bool = False
    probes: Mapping[str, Mapping[str, certificate.ProbeResult]] = field(default_factory=dict)
    by: str = ""
    groups: Mapping[Key, str] = field(default_factory=dict)


def certify(
    run: JudgedRun,
    scores: Mapping[str, JudgedScore],
    labels: Mapping[str, Labels],
    calibration: Calibration,
) -> certificate.JudgeCertificate:
    """Return the certificate of the judges of a run; equal labels and verdicts give equal bytes.

    Args:
        run: Run with the verdicts.
        scores: Name -> score of a judge; scores whose rubric has no labels are left out.
        labels: Rubric -> labels of people.
        calibration: Options.

    Returns:
        Rubrics are in the order of `scores`; without labels for any, the certificate has none.

    Raises:
        DataError: No labelled answer has a verdict, or a sheet of unsure answers was changed or is
            of another run.
        OptionError: `good` is not on the scale, or confidence is outside (0, 1).
        ValueError: There is no scale for a table of ratings.
    """
    rubrics = {}
    for name, score in scores.items():
        if score.rubric.name in labels:
            rubrics[name] = _certify_score(run, score, labels[score.rubric.name], calibration)
    return certificate.JudgeCertificate(
        run=run.name,
        data=run.data,
        systems=run.systems,
        confidence=calibration.confidence,
        rubrics=rubrics,
        pairs=pair_judges(
            scores, labels, scale=calibration.scale, confidence=calibration.confidence
        ),
    )


def probe_report(
    run: JudgedRun,
    scores: Sequence[JudgedScore],
    probes: Mapping[str, Mapping[str, certificate.ProbeResult]],
    *,
    confidence: float = 0.95,
) -> certificate.ProbeReport:
    """Return the report on probes of some scores; `probes` is score -> probe -> result.

    A score that `probes` lacks raises KeyError. Scores keep their order.
    """
    rubrics = {}
    for score in scores:
        of_score = probes[score.name]
        rubrics[score.name] = certificate.ProbedRubric(**rubric_facts(score), probes=of_score)
    return certificate.ProbeReport(
        run=run.name, data=run.data, systems=run.systems, confidence=confidence, rubrics=rubrics
    )


def rubric_facts(score: JudgedScore) -> dict[str, Any]:
    """Return the fields of a `JudgedRubric` for a score: rubric, judge, model and signature."""
    return {
        "rubric": score.rubric.name,
        # a table of ratings gives the name of its rubric, not the text
        "rubric_fingerprint": score.rubric.fingerprint if score.rubric.scale else "",
        "judge": score.judge,
        "model": score.model,
        "signature": score.signature,
    }


def check_good(good: float, scale: LabelScale) -> None:
    """Raise an OptionError if the smallest label of a good answer is not on the scale."""
    if not scale.holds(good):
        raise OptionError("--good", "", good, f"a label on {scale}")


def with_passing_score(
    scores: Mapping[str, JudgedScore],
    passing: float | None,
    scale: LabelScale | None,
) -> dict[str, JudgedScore]:
    """Return the scores with the score that passes beside labels of two levels; None: the middle.

    Raises:
        OptionError: It is not from 0 to 1, or no labels have two levels.
    """
    if passing is None:
        return dict(scores)
    if not 0 <= passing <= 1:
        raise OptionError("--judge-good", "", passing, "a score from 0 to 1")
    scales = [LabelScale.of_score(score, scale) for score in scores.values()]
    if all(len(of.levels) != 2 for of in scales):
        labels = Phrase(f"labels on {', '.join(sorted(set(map(str, scales))))}")
        raise OptionError("--judge-good", "", labels, "labels of two levels, as --scale 0..1")
    return {name: replace(score, passing=passing) for name, score in scores.items()}


def _passing_scores(score: JudgedScore, ratings: Ratings) -> str:
    """Return the scores that pass, in words; empty if all scores are levels, as are labels."""
    if score.passing is not None:
        side = "up to" if score.is_lower_better else "from"
        return f"scores {side} {score.passing:g}"
    if np.isin(ratings.judge.round(9), (0.0, 1.0)).all():
        return ""
    return f"scores {'below' if score.is_lower_better else 'above'} 0.5"


def _certify_score(
    run: JudgedRun, score: JudgedScore, labels: Labels, calibration: Calibration
) -> certificate.CertifiedRubric:
    """Return agreement, correlations and corrected means of one score."""
    scale = LabelScale.of_score(score, calibration.scale)
    ratings = Ratings.of(score, labels, scale)
    if not ratings.keys:
        problem = f"no answer with a label has a verdict on {score.name}"
        allowed = "labels of answers that the judge scored, as `calibrate --draw N` draws them"
        raise DataError(problem, file=run.folder, allowed=allowed)
    confidence = calibration.confidence
    good, words = None, f"labels beyond {(scale.low + scale.high) / 2:g}"
    if calibration.good is not None:
        check_good(calibration.good, scale)
        good, words = scale.score(calibration.good), f"labels from {calibration.good:g} on"
    design = _unsure_draw(run, score, labels)
    facts = _read_labels(run, score, labels, ratings, design, vouched=calibration.random)
    mean_labels = dict(zip(ratings.keys, ratings.mean_labels.tolist(), strict=True))
    corrector = _Corrector(score.scores, mean_labels, facts, confidence, design)
    corrected = {system: corrector.estimate(system) for system in run.systems}
    differences = {}
    for system, other in run.against.items():
        differences[system] = corrector.estimate(system, other)
    is_lower_better = score.is_lower_better
    options: dict[str, Any] = {"confidence": confidence, "lower_is_better": is_lower_better}
    levels = two_levels(ratings, **options)
    level_names = {}  # the labels of both levels as the raters wrote them
    for name, level in level_labels(scale, lower_is_better=is_lower_better).items():
        level_names[name] = level - labels.shift
    confusion, rare = (levels.confusion, levels.rare) if levels is not None else ({}, None)
    groups, groups_mean = group_agreements(ratings, calibration.groups, rare=rare, **options)
    # raters behind a joint label are only compared with each other
    is_joint = bool(labels.ceiling)
    from_people = None if is_joint else difference_from_people(ratings, confidence=confidence)
    people = judge_against_people(ratings, good=good, confidence=confidence)
    return certificate.CertifiedRubric(
        **rubric_facts(score),
        scale=(scale.low, scale.high),
        good=words,
        labels=facts,
        agreement=people | statistic_records(levels),
        ceiling=_ceiling(ratings, score, labels, confidence),
        correlations=correlations(ratings, confidence=confidence),
        probes=calibration.probes.get(score.name, {}),
        corrected=corrected,
        corrected_differences=differences,
        corrected_order=corrector.order(corrected),
        bias=judge_bias(ratings, **options),
        from_people=from_people,
        confusion=confusion,
        levels=level_names if levels is not None else {},
        judge_good=_passing_scores(score, ratings) if levels is not None else "",
        rare=rare or "",
        by=calibration.by if groups else "",
        groups=groups,
        groups_mean=groups_mean,
    )


def _read_labels(
    run: JudgedRun,
    score: JudgedScore,
    labels: Labels,
    ratings: Ratings,
    design: Draw | None,
    *,
    vouched: bool,
) -> certificate.LabelsRead:
    """Return the counts of the labels, and whether the labelled answers are a random draw."""
    random, why = True, "the draw was repeated, and is the same"
    if design is None:
        random, why = _sampling(run, score, labels, vouched=vouched)
    elif any(design.strata.values()):
        why = f"{certificate.DRAWN_UNSURE}; {why}"
    # sorted, so that the order of the rows does not change the fingerprint
    sorted_labels = {}
    for rater, by_key in labels.by_rater.items():
        sorted_labels[rater] = sorted([*key, label] for key, label in by_key.items())
    n_labels = np.isfinite(ratings.people).sum(axis=0).tolist()
    return certificate.LabelsRead(
        n=len(ratings.keys),
        raters=tuple(ratings.raters),
        without_label=len(labels.draws.keys() - labels.labelled),
        without_verdict=len(labels.labelled) - len(ratings.keys),
        between_levels=ratings.between,
        queries=len(set(ratings.queries.tolist())),
        fingerprint=fingerprint_json(sorted_labels),
        random=random,
        why=why,
        by_rater=dict(zip(ratings.raters, n_labels, strict=True)),
    )


def _ceiling(
    ratings: Ratings, score: JudgedScore, labels: Labels, confidence: float
) -> dict[str, certificate.AgreementResult]:
    """Return the agreement of the raters with each other, also of those behind a joint label."""
    if labels.ceiling:
        ratings = Ratings.of(score, replace(labels, by_rater=labels.ceiling), ratings.scale)
    return people_against_people(ratings, confidence=confidence)


def _edited_queries(design: Draw, labels: Labels) -> list[str]:
    """Return the queries whose answers have another probability in the sheet than in the draw."""
    edited = []
    for key in design.keys:
        in_sheet = labels.probabilities.get(key, math.nan)
        if not math.isclose(in_sheet, design.probability_of(key), rel_tol=1e-3):
            edited.append(key[1])
    return edited


def _unsure_draw(run: JudgedRun, score: JudgedScore, labels: Labels) -> Draw | None:
    """Return the draw of a sheet of answers on which the judge is unsure; None for other labels."""
    signatures = set(labels.draws.values())
    if not any(map(is_unsure_draw, signatures)):
        return None
    design = _repeat_draw(run, score, signatures.pop()) if len(signatures) == 1 else None
    if design is None:
        problem = "the labels do not come from one sheet that was drawn from this run"
    elif missing := len(design.keys) - len(labels.labelled.intersection(design.keys)):
        problem = f"{missing} of {len(design.keys)} answers of the sheet have no label"
    elif edited := _edited_queries(design, labels):
        problem = "answers have another probability than in the draw, "
        problem += f"{len(edited)} in all, the first to "
        problem += f"query '{edited[0]}'"
    else:
        return design
    allowed = "the sheet as `calibrate --draw N --where unsure` wrote it, with all labels"
    raise DataError(problem, file=run.folder, allowed=allowed)


def _repeat_draw(run: JudgedRun, score: JudgedScore, signature: str) -> Draw | None:
    """Draw the sheet of a signature again; the result is None for another signature."""
    # one sheet serves all judges of a rubric, but was stratified by the scores of one of them
    for other in run.scores.values():
        has_same_rubric = other.rubric.name == score.rubric.name
        if has_same_rubric and other.scores.keys() == score.scores.keys():
            draw = draw_again(run, other, signature)
            if draw is not None:
                return draw
    return None


def _sampling(
    run: JudgedRun, score: JudgedScore, labels: Labels, *, vouched: bool
) -> tuple[bool, str]:
    """Return (True, reason) if the labelled answers are a random draw, else (False, reason)."""
    if vouched:
        return True, "the user vouches for it (--random)"
    signatures = set(labels.draws.values())
    again = _repeat_draw(run, score, signatures.pop()) if len(signatures) == 1 else None
    if again is None or set(again.keys) != set(labels.draws):
        return False, "the labels do not come from one whole sheet drawn from these judgements"
    # labels may end early, since the order of a sheet is random; gaps in between are a choice
    gaps = n_unlabelled = 0
    for key in again.keys:
        if key in labels.labelled:
            gaps = n_unlabelled
        else:
            n_unlabelled += 1
    if gaps:
        return False, f"{gaps} rows before the last labelled one have no label"
    return True, "the draw was repeated, and gave the same answers"


_ALL_LABELLED = "all are labelled: the labels are the mean"


@dataclass(frozen=True, slots=True)
class _Corrector:
    """Corrector of a judge's means by labels of people (prediction-powered inference)."""

    scores: Mapping[Key, float]  # score of the judge for each answer, 0 to 1
    labels: Mapping[Key, float]  # mean label of each labelled answer, 0 to 1
    facts: certificate.LabelsRead  # facts about the labels, such as whether they are a random draw
    confidence: float  # confidence of the intervals
    design: Draw | None  # draw with unequal probabilities; None if all answers had the same

    def estimate(self, system: str, against: str = "") -> certificate.Correction:
        """Return the corrected mean of a system, or its mean paired difference from `against`."""
        names = (system, against) if against else (system,)
        result = self._designed(*names) if self.design is not None else self._plain(*names)
        against_other = against or None
        if isinstance(result, str):
            means = {} if against or result != _ALL_LABELLED else self._means(system)
            return certificate.Correction(
                against=against_other, status="not available", reason=result, **means
            )
        values = {"against": against_other, "status": "corrected", **result.to_dict()}
        return from_json(certificate.Correction, values)

    def _means(self, system: str) -> dict[str, Any]:
        """Return the means of judge and people for a system whose answers are all labelled."""
        scores, labels = [], []
        for key in sorted(self.scores):
            if key[0] == system:
                scores.append(self.scores[key])
                labels += [self.labels[key]] if key in self.labels else []
        mean = mean_interval(labels, confidence=self.confidence)
        return {
            "judge_mean": float(np.mean(scores)),
            "labels_mean": float(np.mean(labels)),
            "labels_interval": (finite(mean.lower), finite(mean.upper)),
            "width_ratio": None,
            "n_labels": len(labels),
            "n_judged": len(scores),
        }

    def _plain(self, *names: str) -> CorrectedMean | str:
        """Return the estimate from a draw with equal probabilities, or the reason for none."""
        labelled: list[str] = []
        unlabelled: list[str] = []
        has_half = False
        # sorted: the order of summation decides the last digits
        for system, query in sorted(self.scores):
            keys = {(name, query) for name in names}
            if system != names[0] or not keys <= self.scores.keys():
                continue
            n_labels = len(keys & self.labels.keys())
            if n_labels == len(names):
                labelled.append(query)
            elif n_labels == 0:
                unlabelled.append(query)
            else:
                # a query with a label for one system only has half a difference
                has_half = True
        noun = "answers" if len(names) == 1 else "queries with labels for both"
        # the variance of the unlabelled scores needs two of them
        if labelled and len(unlabelled) < 2 and not has_half:
            part = f"one of the {noun} has no label: all, or two without one, allow a mean"
            return part if unlabelled else _ALL_LABELLED
        if not self.facts.random:
            return f"not labelled at random: {self.facts.why}"
        if len(labelled) < FEWEST_LABELS:
            return f"{len(labelled)} {noun}, {FEWEST_LABELS} are the fewest"
        if has_half:
            return "some queries have a label for one system only: draw with --unit query"
        options: dict[str, Any] = {"range": (0.0, 1.0), "confidence": self.confidence}
        sides = (
            _columns(self.labels, names, labelled),
            _columns(self.scores, names, labelled),
            _columns(self.scores, names, unlabelled),
        )
        if len(names) == 1:
            return ppi_mean(*sides, random=True, **options)
        return ppi_difference(*sides, random=True, **options)

    def order(
        self, corrected: Mapping[str, certificate.Correction]
    ) -> tuple[certificate.Correction, ...]:
        """Return the corrected differences of all pairs of corrected systems, best system first."""
        means = {}
        for name, of in corrected.items():
            if of.mean is not None:
                means[name] = of.mean
        names = sorted(means, key=lambda name: (-means[name], name))
        pairs = list(itertools.combinations(names, 2))
        joint = replace(self, confidence=1 - (1 - self.confidence) / max(len(pairs), 1))
        differences = []
        for system, other in pairs:
            difference = joint.estimate(system, other)
            if difference.status == "corrected":
                low, _ = difference.interval or (None, None)
                differs = low is not None and low > 0
                differences.append(structs.replace(difference, system=system, differs=differs))
        return tuple(differences)

    def _designed(self, *names: str) -> CorrectedMean | str:
        """Return the estimate from a draw with unequal probabilities, or the reason for none."""
        strata = self.design.strata if self.design is not None else {}
        queries = sorted(query for name, query in strata if name == names[0])
        if not queries or any((name, queries[0]) not in strata for name in names):
            return "no answer of the system was drawn (--system)"
        options: dict[str, Any] = {"range": (0.0, 1.0), "confidence": self.confidence}
        sides = (
            _columns(self.labels, names, queries),
            _columns(self.scores, names, queries),
            _columns(strata, names, queries),
        )
        if len(names) == 1:
            return stratified_ppi_mean(*sides, **options)
        return stratified_ppi_difference(*sides, **options)


def _columns(source: Mapping[Key, float], names: Sequence[str], queries: Sequence[str]) -> Any:
    """Return the values of queries, NaN for none: a column for a mean, two for a difference."""
    columns = []
    for name in names:
        columns.append(np.array([source.get((name, query), np.nan) for query in queries]))
    return columns[0] if len(names) == 1 else tuple(columns)
