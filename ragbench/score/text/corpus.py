"""Metrics of a whole corpus: one number of all predictions, and the share of each row in it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from ragbench.errors import OptionError
from ragbench.score.text.base import Advance, Column, Metric, Row, reference_list

# Counts and lengths of a prediction, which sacrebleu adds up over a corpus.
Statistics = list[float]


class CorpusScorer:
    """Score all rows together by a metric of sacrebleu, whose classes are not typed in full.

    The column of a corpus metric holds each row's jackknife pseudo-value, moved so that their mean
    is the score of the corpus: intervals and tests over queries read these.

    References:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 11.
    """

    def __init__(self, peer: Any) -> None:
        self._peer = peer

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        """Return the same column for each of the metrics."""
        if not rows:
            return [Column([]) for _ in metrics]
        parts = []
        for row in rows:
            parts.append(self._count(row))
            advance(1)
        whole = _add_up(parts)
        total = self._score(whole)
        n_others = len(parts) - 1
        moved = [
            n_others * (total - self._score(list(map(operator.sub, whole, part)))) for part in parts
        ]
        centre = math.fsum(moved) / len(moved)
        column = Column([total + value - centre for value in moved], total)
        return [column for _ in metrics]

    def count(self, rows: Sequence[Row]) -> Statistics:
        """Return the statistics of all rows, added up; empty without a row."""
        return _add_up([self._count(row) for row in rows]) if rows else []

    def score(self, rows: Sequence[Row]) -> float:
        """Return the score of all rows, 0 to 1; 0 without a row."""
        return self._score(self.count(rows)) if rows else 0.0

    def _count(self, row: Row) -> Statistics:
        prediction, references = row
        # private in sacrebleu, whose public functions return no statistics to subtract
        count = self._peer._extract_corpus_statistics
        statistics: Statistics = count([prediction], [[text] for text in references])[0]
        return statistics

    def _score(self, statistics: Statistics) -> float:
        return float(self._peer._compute_score_from_stats(statistics).score) / 100


def _add_up(parts: Sequence[Statistics]) -> Statistics:
    from sacrebleu.utils import sum_of_lists

    # adds one after the other: `sum` rounds otherwise since Python 3.12
    total: Statistics = sum_of_lists(parts)  # type: ignore[no-untyped-call]
    return total


def corpus_rows(
    owner: str, predictions: Sequence[str], references: Sequence[str | Sequence[str]]
) -> list[Row]:
    """Pair predictions with their references by position; each needs one at least."""
    if len(predictions) != len(references):
        sizes = f"{len(predictions)} predictions and {len(references)} references"
        raise OptionError(owner, "references", sizes, "one for each prediction")
    return [
        (text, reference_list(owner, gold))
        for text, gold in zip(predictions, references, strict=True)
    ]
