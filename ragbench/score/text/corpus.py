"""Corpus metrics of sacrebleu: one score of all predictions, and the contribution of each row."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ragbench.score.text.base import Advance, Column, Metric, Row, TextTooLong

# Counts and lengths of a prediction; sacrebleu adds them up over a corpus.
Statistics = list[float]


class CorpusScorer:
    """Scorer of all rows together by a metric of sacrebleu.

    The column of a corpus metric has the jackknife pseudo-value of each row, shifted so that their
    mean is the score of the corpus: intervals and tests over queries read these values. Scores are
    those of sacrebleu divided by 100. `peer` is a metric of sacrebleu, such as `BLEU()`, and
    `check(peer, row)` raises `TextTooLong` for a row that it cannot take. A call with rows, metrics
    and `advance` returns an equal column for each metric; `score` returns the score of all rows.

    References:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 11.
    """

    # `Any`: the classes of sacrebleu are not fully typed
    def __init__(self, peer: Any, check: Callable[[Any, Row], None] | None = None) -> None:
        self._peer, self._check = peer, check

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        """Return the same column for each metric; empty columns without a row.

        `advance` is called once, with the number of rows; a single row has the score itself as its
        value. Rows that are too long have no value, and the score is that of the others.
        """
        parts, lost = list[Statistics](), dict[int, str]()
        for number, row in enumerate(rows):
            try:
                parts.append(self._count(row))
            except TextTooLong as error:
                lost[number] = str(error)
        advance(len(rows))
        values, total = self._pseudo_values(parts)
        next_values = iter(values)
        column = [math.nan if row in lost else next(next_values) for row in range(len(rows))]
        return [Column(column, total, lost) for _ in metrics]

    def _pseudo_values(self, parts: Sequence[Statistics]) -> tuple[list[float], float | None]:
        """Return the pseudo-value of each row, and the score of all; None without a row."""
        if not parts:
            return [], None
        # statistics add up, scores do not
        whole = _add_up(parts)
        total = self._score(whole)
        n_others = len(parts) - 1
        # the corpus without one row, by subtracting its counts: linear instead of quadratic
        pseudo_values = []
        for part in parts:
            without_row = self._score(list(map(operator.sub, whole, part)))
            pseudo_values.append(n_others * (total - without_row))
        centre = math.fsum(pseudo_values) / len(pseudo_values)
        return [total + value - centre for value in pseudo_values], total

    def count(self, rows: Sequence[Row]) -> Statistics:
        """Return the sum of sacrebleu's statistics of all rows; an empty list without a row."""
        return _add_up([self._count(row) for row in rows]) if rows else []

    def score(self, rows: Sequence[Row]) -> float:
        """Return sacrebleu's score of all rows together, divided by 100; 0 without a row."""
        return self._score(self.count(rows)) if rows else 0.0

    def _count(self, row: Row) -> Statistics:
        prediction, references = row
        if self._check is not None:
            self._check(self._peer, row)
        # private in sacrebleu: its public functions return no statistics to subtract
        count = self._peer._extract_corpus_statistics
        statistics: Statistics = count([prediction], [[text] for text in references])[0]
        return statistics

    def _score(self, statistics: Statistics) -> float:
        return float(self._peer._compute_score_from_stats(statistics).score) / 100


def _add_up(parts: Sequence[Statistics]) -> Statistics:
    """Return the sum of the statistics of rows."""
    from sacrebleu.utils import sum_of_lists

    # sacrebleu's own sum: since Python 3.12, `sum` rounds in another way
    total: Statistics = sum_of_lists(parts)  # type: ignore[no-untyped-call]
    return total
