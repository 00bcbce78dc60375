"""How often a judge that is asked twice gives another level."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.calibration.sheet import Scale
from ragbench.errors import DataError
from ragbench.records.certificate import RetestFound
from ragbench.records.summary import Ends
from ragbench.signature import Signature
from ragbench.stats.agreement import FEWEST, raw_agreement
from ragbench.stats.mean import mean_interval

if TYPE_CHECKING:
    from ragbench.types import FloatArray


@dataclass(frozen=True, slots=True)
class Flips:
    """How two askings about the same answers differ."""

    rate: float
    """Share of answers with another level."""
    interval: Ends | None
    """Its confidence limits; None where there are too few queries."""
    mean_difference: float
    """Mean absolute difference of the scores."""
    unit: str
    """What flips: a level, or the score."""


def flips(
    first: FloatArray,
    second: FloatArray,
    queries: Sequence[str],
    scale: Scale,
    *,
    confidence: float,
) -> Flips:
    """Compare the scores of two askings about the same n answers; n is at least 1.

    Args:
        first: Scores from 0 to 1.
        second: Scores of the same answers.
        queries: The query of each: answers to one query vary together.
        scale: Its levels are compared; the scores themselves where it has none.
        confidence: Coverage of the interval.
    """
    levels = [scale.nearest_levels(side) if scale.levels else side for side in (first, second)]
    flipped = levels[0] != levels[1]
    return Flips(
        rate=float(np.mean(flipped)),
        interval=_interval(levels, queries, confidence),
        mean_difference=float(np.abs(first - second).mean()),
        unit="level" if scale.levels else "score",
    )


def _interval(
    levels: Sequence[FloatArray], queries: Sequence[str], confidence: float
) -> Ends | None:
    """The limits of the flip rate over the queries; None where there are too few."""
    same = raw_agreement(*levels, groups=list(queries), confidence=confidence)
    if same.rule != "undefined":
        return 1 - same.upper, 1 - same.lower
    if same.value > 0 or same.n < FEWEST:
        return None
    # all differ: nothing varies that could be left out, but a share of hits still has its limits
    hits = mean_interval(np.ones(len(set(queries))), confidence=confidence)
    return hits.lower, hits.upper


_SAME = ("judge", "model", "rubric", "prompt")


def retest_runs(
    first: tuple[JudgedRun, JudgedScore],
    second: JudgedRun,
    scale: Scale,
    *,
    confidence: float,
) -> RetestFound:
    """Compare two runs of the same judge over the answers that both judged.

    Returns:
        The flip rate, the share of answers whose level differs, with its interval; and the mean
        absolute difference of the scores.

    Raises:
        DataError: The second run lacks the score, or it comes from another judge, model or rubric.
    """
    run, score = first
    other = second.scores.get(score.name)
    if other is None:
        allowed = ", ".join(second.scores)
        raise DataError(f"no score '{score.name}'", file=second.folder, allowed=allowed)
    _refuse_another_judge(score, other, second)
    pairs = [
        (key, score.scores[key], other.scores[key])
        for key in sorted(score.scores.keys() & other.scores.keys())
        if run.answers[key].judged == second.answers[key].judged
    ]
    if not pairs:
        return _absent("no answer was judged in both runs")
    return _compared(pairs, "two runs", scale, confidence)


def retest_samples(score: JudgedScore, scale: Scale, *, confidence: float) -> RetestFound:
    """Compare the samples of each answer, each two of one model, where a run has several.

    Returns:
        What `retest_runs` returns: the flip rate is the share of pairs of samples that differ.
    """
    pairs = [
        (key, one, other)
        for key, by_model in sorted(score.samples.items())
        for samples in by_model
        for one, other in itertools.combinations([s for s in samples if s is not None], 2)
    ]
    if not pairs:
        reason = "one verdict per answer: take samples: 2, or name a second run with --retest"
        return _absent(reason)
    return _compared(pairs, "two samples", scale, confidence)


def _compared(
    pairs: Sequence[tuple[Key, float, float]], between: str, scale: Scale, confidence: float
) -> RetestFound:
    keys = [key for key, _, _ in pairs]
    a, b = (np.array([pair[side] for pair in pairs], dtype=np.float64) for side in (1, 2))
    found = flips(a, b, [query for _, query in keys], scale, confidence=confidence)
    if found.interval is None:
        return _absent("too few answers were judged twice")
    return RetestFound(
        status="measured",
        flip_rate=found.rate,
        mean_difference=found.mean_difference,
        unit=found.unit,
        interval=found.interval,
        n=len(set(keys)),
        between=between,
    )


def _absent(reason: str) -> RetestFound:
    return RetestFound(status="not available", reason=reason)


def _refuse_another_judge(score: JudgedScore, other: JudgedScore, second: JudgedRun) -> None:
    signatures = [Signature.parse(each.signature) for each in (score, other)]
    for part in _SAME:
        here, there = (signature.part(part) for signature in signatures)
        if here != there:
            raise DataError(
                f"{score.name} has {part} {there}, the first run {here}",
                file=second.folder,
                allowed="the same judge, model and rubric in both runs",
            )
