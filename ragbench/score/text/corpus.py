"""Metrics of all predictions together, as corpora are scored in translation: `bleu.corpus`, ..."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from ragbench.errors import OptionError
from ragbench.score.text.base import Column, Row, reference_list

Part = TypeVar("Part")


def corpus_rows(
    owner: str, predictions: Sequence[str], references: Sequence[str | Sequence[str]]
) -> list[Row]:
    """Pair predictions with their references by position; each needs one at least."""
    if len(predictions) != len(references):
        found = f"{len(predictions)} predictions and {len(references)} references"
        raise OptionError(owner, "references", found, "one for each prediction")
    return [
        (text, reference_list(owner, gold))
        for text, gold in zip(predictions, references, strict=True)
    ]


def contributions(
    parts: Sequence[Part],
    whole: Part,
    without: Callable[[Part, Part], Part],
    score: Callable[[Part], float],
) -> Column:
    """Return each row's jackknife pseudo-value, moved so that their mean is the corpus score.

    Args:
        parts: The statistics of each row.
        whole: Those of all rows together.
        without: Takes the statistics of one row away from those of all.
        score: The score of some statistics.

    References:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 11.
    """
    if not parts:
        return Column([])
    total = score(whole)
    others = len(parts) - 1
    moved = [others * (total - score(without(whole, part))) for part in parts]
    centre = math.fsum(moved) / len(moved)
    return Column([total + each - centre for each in moved], total)
