"""What sways a judge besides the quality of an answer, as far as stored verdicts show it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ragbench.calibration.asking import Probe, why_not
from ragbench.calibration.ratings import Ratings
from ragbench.calibration.verdicts import JudgedRun, JudgedScore
from ragbench.stats.rank_correlation import spearman
from ragbench.stats.student import t_quantile

if TYPE_CHECKING:
    from ragbench.types import FloatArray

_ASKED_AGAIN: tuple[Probe, ...] = ("position", "authority", "injection")


def probe(
    run: JudgedRun, score: JudgedScore, ratings: Ratings, *, confidence: float
) -> dict[str, dict[str, Any]]:
    """Look for biases: each has a value with its interval, or the reason why it has none.

    - `verbosity`: rank correlation of the judge's error, score minus mean label, with the number
      of words of the answer. Above 0 it favours long answers more than people do.
    - `self_preference`: mean error on answers of the judge's own model minus that on others.
    - `position`, `authority`, `injection`: need the judge to be asked again (`ask_again`).
    """
    errors = ratings.judge - ratings.mean_labels
    return {
        "verbosity": _verbosity(run, ratings, errors, confidence),
        "self_preference": _self_preference(run, score, ratings, errors, confidence),
        **{name: _absent(_asks_again(score, name)) for name in _ASKED_AGAIN},
    }


def _absent(reason: str) -> dict[str, Any]:
    return {"status": "not available", "reason": reason}


def _asks_again(score: JudgedScore, name: Probe) -> str:
    reason = why_not(score.rubric, name)
    return reason or f"stored verdicts cannot show it: --probe {name} asks the judge again"


def _verbosity(
    run: JudgedRun, ratings: Ratings, errors: FloatArray, confidence: float
) -> dict[str, Any]:
    answers = [run.answers[key].answer for key in ratings.keys]
    if None in answers:
        return _absent("there are no answers, whose words could be counted")
    words = np.array([len((answer or "").split()) for answer in answers], dtype=float)
    found = spearman(words, errors, groups=ratings.queries, confidence=confidence)
    if found.rule == "undefined":
        return _absent(found.reason)
    finding = _reading(found.lower, found.upper, "favours long answers", "favours short answers")
    return {
        "status": "measured",
        "statistic": "spearman(words, error)",
        **found.to_dict(),
        "finding": finding,
    }


def _self_preference(
    run: JudgedRun, score: JudgedScore, ratings: Ratings, errors: FloatArray, confidence: float
) -> dict[str, Any]:
    own = np.array([run.models.get(system) == score.model for system, _ in ratings.keys])
    if not own.any():
        return _absent(f"no labelled answer was written by the judge's own model, {score.model}")
    if own.all():
        return _absent(f"all labelled answers were written by the judge's own model, {score.model}")
    found = _difference(errors, own, ratings.queries, confidence)
    if found is None:
        return _absent("too few labelled answers on one side")
    value, low, high = found
    finding = _reading(low, high, "favours its own model", "is harder on its own model")
    return {
        "status": "measured",
        "statistic": "mean error on own answers - on others",
        "value": value,
        "interval": [low, high],
        "n": len(errors),
        "n_own": int(own.sum()),
        "finding": finding,
    }


def _reading(low: float, high: float, above: str, below: str) -> str:
    if low > 0:
        return above
    return below if high < 0 else "no bias shown"


def _difference(
    values: FloatArray, own: np.ndarray[Any, Any], groups: np.ndarray[Any, Any], confidence: float
) -> tuple[float, float, float] | None:
    """Give the difference of two means with Student's interval over the groups."""
    sizes: Mapping[bool, int] = {side: int(np.count_nonzero(own == side)) for side in (True, False)}
    if min(sizes.values()) < 2:
        return None
    means = {side: float(values[own == side].mean()) for side in sizes}
    parts = np.where(
        own, (values - means[True]) / sizes[True], -(values - means[False]) / sizes[False]
    )
    _, of_item = np.unique(groups, return_inverse=True)
    sums = np.bincount(of_item.reshape(len(values)), weights=parts)
    if len(sums) < 3:
        return None
    error = math.sqrt(float((sums**2).sum()) * len(sums) / (len(sums) - 1))
    half = t_quantile((1 + confidence) / 2, len(sums) - 1) * error
    value = means[True] - means[False]
    return value, value - half, value + half
