"""Agreement of a judge with people on two levels, and on the answers of each group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ragbench.calibration.judge_bias import judge_bias
from ragbench.calibration.judged_run import Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.rater_agreement import agreement_record, level_agreement
from ragbench.calibration.ratings import Ratings
from ragbench.records.certificate import AgreementResult, GroupAgreement
from ragbench.stats.two_levels import (
    PassFail,
    TwoLevelAgreement,
    mean_of_shares,
    two_level_agreement,
)


def level_labels(scale: LabelScale, *, lower_is_better: bool) -> dict[str, float]:
    """Return the labels of the better level, `pass`, and of the worse one, `fail`."""
    ends = (scale.low, scale.high) if lower_is_better else (scale.high, scale.low)
    return {"pass": ends[0], "fail": ends[1]}


def two_levels(
    ratings: Ratings,
    *,
    lower_is_better: bool,
    confidence: float,
    rare: PassFail | None = None,
) -> TwoLevelAgreement | None:
    """Return the agreement over the labels of all raters; None if there are more than two levels.

    Labels between both levels are shares, which are no levels. `rare` is that of
    `two_level_agreement`.
    """
    scale = ratings.scale
    if len(scale.levels) != 2 or ratings.between:
        return None
    labelled = np.isfinite(ratings.people)
    passing = level_labels(scale, lower_is_better=lower_is_better)["pass"]
    judge = np.broadcast_to(ratings.judge[:, np.newaxis], labelled.shape)
    clusters = np.broadcast_to(ratings.queries[:, np.newaxis], labelled.shape)
    return two_level_agreement(
        scale.nearest_levels(judge[labelled]) == passing,
        scale.nearest_levels(ratings.people[labelled]) == passing,
        clusters=clusters[labelled],
        confidence=confidence,
        rare=rare,
    )


def statistic_records(agreement: TwoLevelAgreement | None) -> dict[str, AgreementResult]:
    """Return the statistics of two levels as records; {} for None."""
    if agreement is None:
        return {}
    records = {}
    for name, of in agreement.statistics.items():
        records[name] = agreement_record(of)
    return records


def group_agreements(
    ratings: Ratings,
    groups: Mapping[Key, str],
    *,
    lower_is_better: bool,
    confidence: float,
    rare: PassFail | None = None,
) -> tuple[dict[str, GroupAgreement], dict[str, AgreementResult]]:
    """Return group -> agreement on its answers, sorted by name; and the means over the groups.

    `groups` is answer -> group; answers without one count in no group. `rare` is the rare level of
    all answers. Published sets print the means: LLM-AggreFact that of the balanced accuracy. They
    are those of the shares of two levels that all groups have; {} for fewer than two groups.
    """
    options: dict[str, Any] = {"confidence": confidence, "lower_is_better": lower_is_better}
    names = [groups.get(key, "") for key in ratings.keys]
    agreements, by_group = {}, []
    for name in sorted({*names} - {""}):
        places = []
        for place, of in enumerate(names):
            if of == name:
                places.append(place)
        part = replace(
            ratings,
            keys=[ratings.keys[place] for place in places],
            judge=ratings.judge[places],
            people=ratings.people[places],
        )
        levels = two_levels(part, rare=rare, **options)
        by_group.append(levels)
        agreements[name] = GroupAgreement(
            n=len(places),
            bias=judge_bias(part, **options),
            agreement=level_agreement(part, confidence=confidence) | statistic_records(levels),
            confusion={} if levels is None else levels.confusion,
        )
    # groups that share queries, such as systems, vary together
    pairs = {*zip(ratings.queries.tolist(), names, strict=True)}
    is_apart = len(pairs) == len({query for query, _ in pairs})
    return agreements, _means(by_group) if is_apart else {}


def _means(by_group: Sequence[TwoLevelAgreement | None]) -> dict[str, AgreementResult]:
    """Return the means over the groups of agreement on passes, on fails, and of both."""
    levels = []
    for of in by_group:
        if of is not None:
            levels.append(of)
    means = {}
    for name in ("tpr", "tnr", "balanced_accuracy"):
        mean = mean_of_shares([of.statistics[name] for of in levels]) if len(levels) > 1 else None
        if mean is not None and math.isfinite(mean.value):
            means[name] = agreement_record(mean)
    return means
