"""What BLEU is computed from: clipped matches, n-grams and lengths, which add up over texts."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from ragbench.errors import OptionError
from ragbench.registry import Option
from ragbench.score.text.base import BleuScore
from ragbench.score.text.ngrams import Counts, TokenizedText, overlap

Smoothing = Literal["exp", "floor", "add-k", "none"]
MaxOrder = Annotated[int, Option("Longest n-grams that count.", ge=1, le=20)]
Smooth = Annotated[Smoothing, Option("What stands in for n-grams without a match.")]
SmoothValue = Annotated[
    float | None, Option("The value of floor (default 0.1) or add-k (default 1).", ge=0)
]
Lowercase = Annotated[bool, Option("Compare texts in lower case.")]

_SMOOTH_VALUES = {"floor": 0.1, "add-k": 1.0}
_LOG_OF_ZERO = -9999999999.0  # sacrebleu's: exp of any mean with it in is 0


class Statistics(NamedTuple):
    """What BLEU is computed from; those of many predictions add up to a corpus."""

    correct: tuple[int, ...]
    """Clipped matches, by order."""
    total: tuple[int, ...]
    """N-grams of the prediction, by order."""
    prediction_length: int
    """Tokens of the prediction."""
    reference_length: int
    """Tokens of the closest reference."""

    @classmethod
    def sum(cls, counted: Sequence[Statistics], order: int) -> Statistics:
        """Add up those of many texts."""
        if not counted:
            return cls((0,) * order, (0,) * order, 0, 0)
        correct, total, lengths, reference_lengths = zip(*counted, strict=True)
        return cls(
            tuple(map(sum, zip(*correct, strict=True))),
            tuple(map(sum, zip(*total, strict=True))),
            sum(lengths),
            sum(reference_lengths),
        )

    def without(self, part: Statistics) -> Statistics:
        """Take those of one text away."""
        return Statistics(
            tuple(map(operator.sub, self.correct, part.correct)),
            tuple(map(operator.sub, self.total, part.total)),
            self.prediction_length - part.prediction_length,
            self.reference_length - part.reference_length,
        )


def count(prediction: TokenizedText, references: Sequence[TokenizedText], order: int) -> Statistics:
    """Count the clipped matches of a prediction for n = 1 to `order`."""
    length = len(prediction.tokens)
    correct = [0] * order
    for n in range(1, order + 1):
        matches = overlap(prediction.tokens, _most(references, n), n) if n <= length else 0
        if not matches:  # then no longer n-gram matches either
            break
        correct[n - 1] = matches
    lengths = (len(reference.tokens) for reference in references)
    return Statistics(
        tuple(correct),
        tuple(max(length - n, 0) for n in range(order)),
        length,
        min(lengths, key=lambda other: (abs(length - other), other)),
    )


def _most(references: Sequence[TokenizedText], n: int) -> Counts:
    """For each n-gram, its count in the reference that has it most often."""
    if len(references) == 1:
        return references[0].counts(n)
    most = dict(references[0].counts(n))
    for reference in references[1:]:
        for gram, number in reference.counts(n).items():
            if number > most.get(gram, 0):
                most[gram] = number
    return most


def bleu_of(
    counted: Statistics, order: int, smooth: Smoothing, value: float, *, effective: bool = True
) -> BleuScore:
    """Compute BLEU from statistics, in sacrebleu's order of operations.

    Args:
        counted: Of one prediction, or the sums over a corpus.
        order: Longest n-grams that count.
        smooth: What stands in for n-grams without a match.
        value: The value of floor or add-k.
        effective: Leave out the orders above the length of the prediction, instead of giving 0.
    """
    correct, total, length, reference_length = counted
    penalty = 1.0
    if length < reference_length:
        penalty = math.exp(1 - reference_length / length) if length > 0 else 0.0
    precisions = tuple(c / t if t else 0.0 for c, t in zip(correct[:order], total, strict=False))
    if not correct[0]:
        return BleuScore(0.0, precisions, penalty, length, reference_length)
    logs: list[float] = []
    halved = 1.0
    for n, (matches, possible) in enumerate(zip(correct[:order], total, strict=False)):
        top, bottom, percent = float(matches), float(possible), 0.0
        if smooth == "add-k" and n > 0:
            top, bottom = top + value, bottom + value
        if bottom == 0:
            break
        if top > 0:
            percent = 100.0 * top / bottom
        elif smooth == "exp":
            halved *= 2
            percent = 100.0 / (halved * bottom)
        elif smooth == "floor":
            percent = 100.0 * value / bottom
        logs.append(math.log(percent) if percent else _LOG_OF_ZERO)
    if not effective:
        logs += [_LOG_OF_ZERO] * (order - len(logs))
    score = penalty * math.exp(sum(logs) / len(logs))
    return BleuScore(score / 100, precisions, penalty, length, reference_length)


def smoothing_of(smooth: Smoothing, value: float | None) -> tuple[Smoothing, float]:
    """Return the smoothing with its value, the default one where none is given."""
    if smooth not in ("exp", "floor", "add-k", "none"):
        raise OptionError("bleu", "smooth", smooth, "exp, floor, add-k, none")
    if value is not None and value < 0:
        raise OptionError("bleu", "smooth_value", value, "a number >= 0")
    return smooth, _SMOOTH_VALUES.get(smooth, 0.0) if value is None else value
