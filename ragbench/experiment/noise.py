"""Noise of the scores of repeated systems: tables of repetitions, their shares, and flips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import structs

from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results
from ragbench.experiment.repeated_scores import APP_LEVELS, LEVELS, RepeatedScores, repeated_scores
from ragbench.records.comparison import Comparisons, Difference
from ragbench.records.noise import (
    FlippingQuestion,
    FlipSource,
    Noise,
    NoisePurchase,
    NoiseShare,
)
from ragbench.stats import NoisePart, next_purchases, noise_parts
from ragbench.types import Cause, ScoreColumn
from ragbench.types.rows import BoolArray


def noise_of(
    scores: RepeatedScores,
    interval: tuple[float | None, float | None] | None,
    confidence: float,
    *,
    against: RepeatedScores | None = None,
    seed: int = 0,
) -> Noise | None:
    """Return the noise of a mean, or of the mean difference from `against`.

    The result is None where nothing was repeated, or fewer than two queries have a score.
    """
    tables = [scores.table] if against is None else [scores.table, against.table]
    if all(table[0].size <= 1 for table in tables):
        return None
    parts = noise_parts(
        scores.table,
        LEVELS,
        against=None if against is None else against.table,
        confidence=confidence,
        seed=seed,
    )
    if not parts:
        return None
    low, high = interval or (None, None)
    half_width = None if low is None or high is None else (high - low) / 2
    has_scores = []
    for table in tables:
        has_scores.append(~np.isnan(table).reshape(len(table), -1).all(axis=1))
    shares = {}
    for name, part in parts.items():
        shares[name] = NoiseShare(share=part.share, low=part.low, high=part.high)
    apart = {}
    for name, share in shares.items():
        if name in APP_LEVELS:
            apart[name] = share
    noise = Noise(
        n=int(np.all(has_scores, axis=0).sum()),
        half_width=half_width,
        questions=shares["questions"],
        app=_together(apart),
        judge=shares.get("judge"),
        buy=tuple(_purchases(scores, parts, half_width, against)),
    )
    return structs.replace(noise, **apart) if len(apart) > 1 else noise


def _together(shares: Mapping[str, NoiseShare]) -> NoiseShare | None:
    """Return the share of retrieval and answers together."""
    if not shares:
        return None
    return NoiseShare(
        share=sum(share.share for share in shares.values()),
        # the limits of a sum lie within the sums of the limits
        low=sum(share.low for share in shares.values()),
        high=min(1.0, sum(share.high for share in shares.values())),
    )


def _purchases(
    scores: RepeatedScores,
    parts: Mapping[str, NoisePart],
    half_width: float | None,
    against: RepeatedScores | None,
) -> Iterator[NoisePurchase]:
    """Yield the purchases of an equal sum; nothing without an interval or without noise."""
    total = sum(part.variance for part in parts.values())
    if half_width is None or not total:
        return
    is_apart = "retrieval" in parts and "answers" in parts
    is_stored = scores.is_stored or (against is not None and against.is_stored)
    for purchase in next_purchases(parts, scores.costs, scores.repeats):
        level = purchase.level
        if level in APP_LEVELS and is_stored:
            continue
        if level in APP_LEVELS and not is_apart:
            level = "app"
        yield NoisePurchase(
            level=level,
            times=purchase.factor,
            half_width=half_width * purchase.standard_error / total**0.5,
        )


def find_flips(
    scores: RepeatedScores, query_ids: Sequence[str]
) -> tuple[FlipSource | None, tuple[FlippingQuestion, ...]]:
    """Return the source of flips, and the questions that are right in one repetition alone.

    A repetition is right if its score is in the better half of the range. Scores that are neither
    judged nor hits and misses have no flips. With a repeated judge, all its judgements of one
    repetition are right and all of another one are wrong: its errors must not name the app.
    """
    column, table = scores.column, scores.table
    values = table[~np.isnan(table)]
    is_binary = np.isin(values, (column.low, column.high)).all()
    repeats_app = table.shape[1] * table.shape[2] > 1
    if not repeats_app or not (is_binary or scores.is_judged) or not np.isfinite(column.high):
        return None, ()
    runs = table.swapaxes(1, 2).reshape(len(table), -1, table.shape[3])
    middle = (column.low + column.high) / 2
    has_score = ~np.isnan(runs)
    passes = has_score & ((runs >= middle) if column.direction == "higher" else (runs <= middle))
    fails, has_votes = has_score & ~passes, has_score.any(axis=2)
    all_pass, all_fail = has_votes & ~fails.any(axis=2), has_votes & ~passes.any(axis=2)
    flips = []
    for row in np.flatnonzero(all_pass.any(axis=1) & all_fail.any(axis=1)).tolist():
        flips.append(
            FlippingQuestion(
                query_id=query_ids[row],
                pass_rate=float(passes[row].sum() / has_score[row].sum()),
                passed=_first(all_pass[row]),
                failed=_first(all_fail[row]),
            )
        )
    is_unsure = scores.is_judged and table.shape[3] == 1
    return "app or judge" if is_unsure else "app", tuple(flips)


def _first(is_true: BoolArray) -> int:
    return int(np.flatnonzero(is_true)[0])


def system_noise(
    plan: Plan,
    results: Results,
    system: str,
    intervals: Mapping[str, tuple[float | None, float | None] | None],
) -> dict[str, Noise]:
    """Return score -> noise of a system; scores without repetitions are absent.

    `intervals` has the interval of each score.
    """
    noises = {}
    for name, interval in intervals.items():
        scores = repeated_scores(plan, results, system, name)
        if scores is None:
            continue
        confidence, seed = plan.config.statistics.confidence, plan.config.seed
        noise = noise_of(scores, interval, confidence, seed=seed)
        if noise is not None:
            flips_by, flipping = find_flips(scores, plan.ids)
            n_partly_failed = _count_partly_failed(
                scores.column, results.samples.get(system, {}).get(name, ())
            )
            noises[name] = structs.replace(
                noise, flips_by=flips_by, flipping=flipping, n_partly_failed=n_partly_failed
            )
    return noises


def _count_partly_failed(column: ScoreColumn, repetitions: Sequence[ScoreColumn]) -> int:
    """Return the number of queries with a failed repetition, and another one with a score."""
    if column.answer_causes is not None:
        # of the judge, too
        causes = column.answer_causes
    elif repetitions:
        causes = np.stack([repetition.causes for repetition in repetitions], axis=1)
    else:
        return 0
    failed_codes = [cause for cause in Cause if cause.failed]
    has_failed = np.isin(causes, failed_codes).any(axis=1)
    return int((has_failed & (causes == Cause.SCORED).any(axis=1)).sum())


def with_noise(plan: Plan, results: Results, comparisons: Comparisons) -> Comparisons:
    """Return the comparisons with the noise of the differences between repeated systems."""
    if not any(results.samples.values()) and all(j.repeat == 1 for j in plan.judges.values()):
        return comparisons
    measures = []
    for family in comparisons.measures:
        rows = [_with_noise(plan, results, family.measure, row) for row in family.comparisons]
        measures.append(structs.replace(family, comparisons=tuple(rows)))
    return structs.replace(comparisons, measures=tuple(measures))


def _with_noise(plan: Plan, results: Results, measure: str, row: Difference) -> Difference:
    """Return a difference with its noise; unchanged if neither system was repeated."""
    if row.unlike is not None:
        return row
    system = repeated_scores(plan, results, row.system, measure)
    baseline = repeated_scores(plan, results, row.baseline, measure)
    if system is None or baseline is None:
        return row
    confidence, seed = plan.config.statistics.confidence, plan.config.seed
    noise = noise_of(system, row.interval, confidence, against=baseline, seed=seed)
    return structs.replace(row, noise=noise)
