"""What people would say of all judged answers: a judge's means corrected by random labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ragbench.calibration.judged_run import JudgedRun, JudgedScore
from ragbench.calibration.labels import Labels, Ratings
from ragbench.calibration.sheet import draw_again
from ragbench.records.certificate import Correction
from ragbench.records.codec import from_json
from ragbench.stats.ppi import FEWEST_LABELS, CorrectedMean, ppi_difference, ppi_mean


@dataclass(frozen=True, slots=True)
class Sampling:
    """Whether the labelled answers are a random sample of the judged ones."""

    random: bool
    """Whether they are."""
    why: str
    """How that is known, or what speaks against it."""


def sampling(run: JudgedRun, score: JudgedScore, labels: Labels, *, vouched: bool) -> Sampling:
    """Say whether labels are of a random draw: by drawing again, or because the user vouches.

    Labels may end early, since the order of a sheet is random; gaps in between are a choice.
    """
    if vouched:
        return Sampling(True, "the user vouches for it (--random)")
    signatures = set(labels.rows.values())
    if "" in signatures:
        return Sampling(False, "the labels do not come from a drawn sheet")
    if len(signatures) > 1:
        return Sampling(False, f"the labels come from {len(signatures)} draws")
    signature = signatures.pop()
    # one sheet serves all judges of a rubric; it was spread over the scores of one of them
    alike = [s for s in run.scores.values() if s.rubric.name == score.rubric.name]
    alike = [s for s in alike if s.scores.keys() == score.scores.keys()]
    again = next(filter(None, (draw_again(run, other, signature) for other in alike)), None)
    if again is None:
        return Sampling(False, "the sheet was not drawn from these judgements")
    if set(again.keys) != set(labels.rows):
        counts = f"{len(labels.rows)} rows, {len(again.keys)} were drawn"
        return Sampling(False, f"the rows of the sheet are not those that were drawn: {counts}")
    done = [key in labels.labelled for key in again.keys]
    gaps = done[: max(place for place, has in enumerate(done) if has)].count(False)
    if gaps:
        return Sampling(False, f"{gaps} rows before the last labelled one have no label")
    return Sampling(True, "the draw was repeated, and gave the same answers")


def corrected_means(
    run: JudgedRun, score: JudgedScore, ratings: Ratings, drawn: Sampling, *, confidence: float
) -> dict[str, Correction]:
    """Return system -> its mean, corrected, or why it cannot be.

    Means are of scores from 0 to 1, which is where both ends of the labels' scale lie.
    """
    by_key = dict(zip(ratings.keys, ratings.mean_labels.tolist(), strict=True))
    found = {}
    for system in run.systems:
        keys = [key for key in sorted(score.scores) if key[0] == system]
        with_label = [key for key in keys if key in by_key]
        without = [key for key in keys if key not in by_key]
        reason = _refusal(drawn, len(with_label), len(without), "answers")
        found[system] = _absent(reason)
        if not reason:
            mean = ppi_mean(
                [by_key[key] for key in with_label],
                [score.scores[key] for key in with_label],
                [score.scores[key] for key in without],
                random=True,
                range=(0.0, 1.0),
                confidence=confidence,
            )
            found[system] = _present(mean)
    return found


def corrected_differences(
    run: JudgedRun, score: JudgedScore, ratings: Ratings, drawn: Sampling, *, confidence: float
) -> dict[str, Correction]:
    """Return system -> its mean paired difference from its baseline, corrected, or why not."""
    by_key = dict(zip(ratings.keys, ratings.mean_labels.tolist(), strict=True))
    found = {}
    for system, against in run.against.items():
        both = [
            query
            for _, query in sorted(key for key in score.scores if key[0] == system)
            if (against, query) in score.scores
        ]
        pairs = [((system, query), (against, query)) for query in both]
        with_label = [pair for pair in pairs if all(key in by_key for key in pair)]
        without = [pair for pair in pairs if not any(key in by_key for key in pair)]
        reason = _refusal(drawn, len(with_label), len(without), "queries with labels for both")
        if not reason and len(with_label) + len(without) < len(pairs):
            reason = "some queries have a label for one system only: draw with --unit query"
        if reason:
            found[system] = _absent(reason, against)
            continue
        corrected = ppi_difference(
            _sides(with_label, by_key),
            _sides(with_label, score.scores),
            _sides(without, score.scores),
            random=True,
            range=(0.0, 1.0),
            confidence=confidence,
        )
        found[system] = _present(corrected, against)
    return found


def _sides(pairs: Sequence[Any], values: Any) -> tuple[Any, Any]:
    first, second = zip(*[(values[a], values[b]) for a, b in pairs], strict=True)
    return np.array(first), np.array(second)


def _refusal(drawn: Sampling, labelled: int, others: int, noun: str) -> str:
    if not drawn.random:
        return f"not labelled at random: {drawn.why}"
    if labelled < FEWEST_LABELS:
        return f"{labelled} {noun}, {FEWEST_LABELS} are the fewest"
    return "all are labelled: the labels are the mean" if others < 2 else ""


def _present(mean: CorrectedMean, against: str | None = None) -> Correction:
    found = from_json(Correction, {"status": "corrected", **mean.to_dict()})
    return replace(found, against=against)


def _absent(reason: str, against: str | None = None) -> Correction:
    return Correction(against=against, status="not available", reason=reason)
