"""Several samples of one model, and several models: one verdict of many."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ragbench.score.judge.base import Rubric
from ragbench.types.scores import Verdict

Combine = Literal["mean", "median", "majority"]
"""How the models of a jury become one."""


def majority(values: Sequence[float]) -> float:
    """Return the most frequent value; the mean of those that are equally frequent.

    Example:
        >>> majority([4, 4, 1]), majority([4, 1])
        (4.0, 2.5)
    """
    counts = Counter(values)
    most = max(counts.values())
    return statistics.fmean(value for value, count in counts.items() if count == most)


_COMBINED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "majority": majority,
}


def verdict_of_samples(verdicts: Sequence[Verdict], rubric: Rubric) -> Verdict:
    """Return the mean verdict of one model's samples.

    Samples are exchangeable: those that failed are left out of the mean, and the reasoning says
    so. Without a score, the first failure, or else the first verdict, speaks for all.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    scored = [verdict for verdict in verdicts if verdict.score is not None]
    labels = [f"sample {number}" for number in range(1, len(verdicts) + 1)]
    if not scored:
        return _joined(_speaker(verdicts), verdicts, labels)
    return _joined(_combined(scored, rubric, "mean"), verdicts, labels)


def verdict_of_jury(
    verdicts: Sequence[Verdict], rubric: Rubric, models: Sequence[str], combine: Combine
) -> Verdict:
    """Return the verdict of several models.

    Models are not exchangeable: where one fails, the item fails, since otherwise items would be
    judged by different juries. Where it applies for some models only, those count.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    scored = [verdict for verdict in verdicts if verdict.score is not None]
    if not scored or any(verdict.status == "failed" for verdict in verdicts):
        return _joined(_speaker(verdicts), verdicts, models)
    return _joined(_combined(scored, rubric, combine), verdicts, models)


def _combined(verdicts: Sequence[Verdict], rubric: Rubric, combine: Combine) -> Verdict:
    """One verdict of those with a score; by levels where all have one."""
    levels = [verdict.level for verdict in verdicts if verdict.level is not None]
    weighted = any(verdict.weighted for verdict in verdicts)
    if len(levels) == len(verdicts):
        # a model that was weighted votes for the level that it came nearest to
        votes = [float(round(level)) for level in levels] if combine == "majority" else levels
        level = _COMBINED[combine](votes)
        return Verdict(rubric.score_of(level), level=level, weighted=weighted)
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return Verdict(_COMBINED[combine](scores), weighted=weighted)


def _speaker(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict whose status stands for all: the first failure, else the first."""
    return next((v for v in verdicts if v.status == "failed"), verdicts[0])


def _joined(whole: Verdict, verdicts: Sequence[Verdict], labels: Sequence[str]) -> Verdict:
    """The whole verdict with what all of them said, and how far they lie apart."""
    samples = [sample for v in verdicts for sample in (v.samples or (v.score,))]
    known = [sample for sample in samples if sample is not None]
    said = [
        f"{label}: {_shown(verdict)}: {verdict.reasoning}"
        for label, verdict in zip(labels, verdicts, strict=True)
    ]
    failed = sum(verdict.status == "failed" for verdict in verdicts)
    if failed and whole.status == "scored":
        said.insert(0, f"the mean of {len(known)} samples; {failed} of {len(verdicts)} failed")
    return replace(
        whole,
        score=None if whole.status != "scored" else whole.score,
        level=None if whole.status != "scored" else whole.level,
        reasoning="\n".join(said),
        samples=tuple(samples),
        spread=statistics.stdev(known) if len(known) > 1 else None,
    )


def _shown(verdict: Verdict) -> str:
    if verdict.level is not None:
        return f"level {verdict.level:.3g}"
    return verdict.cause if verdict.score is None else f"{verdict.score:.3g}"
