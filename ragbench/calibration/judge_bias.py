"""Bias of a judge against people, and the agreement of two judges with the same people."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from ragbench.calibration.judged_run import JudgedScore, Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.labels import Labels
from ragbench.calibration.ratings import Ratings
from ragbench.records.certificate import JudgeBias, JudgePair, PeopleDifference
from ragbench.stats.difference import difference_interval
from ragbench.stats.mean import finite, mean_interval


def judge_bias(ratings: Ratings, *, confidence: float, lower_is_better: bool) -> JudgeBias:
    """Return the mean score of a judge beside the mean label of the same answers, from 0 to 1.

    The interval of the difference treats queries as the sample. There is at least one answer.
    """
    people, clusters = ratings.mean_labels, ratings.queries
    difference = difference_interval(
        ratings.judge - people, baseline=people, confidence=confidence, clusters=clusters
    )
    mean = mean_interval(people, confidence=confidence, clusters=clusters)
    is_lenient: bool | None = None
    if difference.lower > 0 or difference.upper < 0:
        is_lenient = (difference.mean > 0) is not lower_is_better
    return JudgeBias(
        judge=float(ratings.judge.mean()),
        people=float(people.mean()),
        people_interval=(finite(mean.lower), finite(mean.upper)),
        difference=difference.mean,
        interval=(finite(difference.lower), finite(difference.upper)),
        lenient=is_lenient,
        answers=difference.n,
    )


def difference_from_people(ratings: Ratings, *, confidence: float) -> PeopleDifference | None:
    """Return the agreement of the judge with people minus that of people with each other.

    Only answers with two labels or more count, each with its share of equal pairs. None without
    such an answer, and on a scale without levels. The interval treats queries as the sample.
    """
    if not ratings.scale.levels:
        return None
    differences, shares, queries = [], [], []
    judge = ratings.scale.nearest_levels(ratings.judge)
    for level, people, query in zip(judge, ratings.people, ratings.queries, strict=True):
        labels = ratings.scale.nearest_levels(people[np.isfinite(people)])
        if len(labels) < 2:
            continue
        equal = [first == second for first, second in itertools.combinations(labels, 2)]
        shares.append(float(np.mean(equal)))
        differences.append(float((labels == level).mean()) - shares[-1])
        queries.append(query)
    if not shares:
        return None
    difference = difference_interval(
        np.array(differences),
        baseline=np.array(shares),
        confidence=confidence,
        clusters=np.array(queries),
    )
    return PeopleDifference(
        difference=difference.mean,
        interval=(finite(difference.lower), finite(difference.upper)),
        differs=difference.lower > 0 or difference.upper < 0,
        answers=difference.n,
    )


def agreements(
    score: JudgedScore, labels: Labels, scale: LabelScale | None = None
) -> dict[Key, float]:
    """Return answer -> share of its raters whose label is the judge's level.

    The result is empty on a scale without levels.
    """
    scale = LabelScale.of_score(score, scale)
    if not scale.levels:
        return {}
    ratings = Ratings.of(score, labels, scale)
    judge = scale.nearest_levels(ratings.judge)
    shares = {}
    for key, level, people in zip(ratings.keys, judge, ratings.people, strict=True):
        labelled = people[np.isfinite(people)]
        shares[key] = float((scale.nearest_levels(labelled) == level).mean())
    return shares


def pair_judges(
    scores: Mapping[str, JudgedScore],
    labels: Mapping[str, Labels],
    *,
    scale: LabelScale | None,
    confidence: float,
) -> tuple[JudgePair, ...]:
    """Return the difference in agreement of each two judges with the same labels.

    The better judge comes first in a pair. Only answers that both judges scored count. Intervals
    hold for all pairs together, by Bonferroni, with queries as the sample.
    """
    shares = {}
    for name, score in scores.items():
        if score.rubric.name in labels:
            shares[name] = agreements(score, labels[score.rubric.name], scale)
    pairs = []
    for name, other in itertools.combinations(shares, 2):
        by_rater = [labels[scores[n].rubric.name].by_rater for n in (name, other)]
        if by_rater[0] == by_rater[1] and shares[name].keys() & shares[other].keys():
            pairs.append((name, other))
    joint = 1 - (1 - confidence) / max(len(pairs), 1)
    return tuple(_pair(names, shares, joint) for names in pairs)


def _pair(
    names: tuple[str, str], shares: Mapping[str, Mapping[Key, float]], confidence: float
) -> JudgePair:
    """Return the difference in agreement of two judges, the better one first."""
    keys = sorted(shares[names[0]].keys() & shares[names[1]].keys())
    first, second = (np.array([shares[name][key] for key in keys]) for name in names)
    if second.mean() > first.mean():
        names, first, second = (names[1], names[0]), second, first
    queries = np.array([query for _, query in keys], dtype=object).astype(str)
    difference = difference_interval(
        first - second, baseline=second, confidence=confidence, clusters=queries
    )
    return JudgePair(
        score=names[0],
        against=names[1],
        agreement=float(first.mean()),
        agreement_against=float(second.mean()),
        difference=difference.mean,
        interval=(finite(difference.lower), finite(difference.upper)),
        differs=difference.lower > 0,
        answers=len(keys),
    )
