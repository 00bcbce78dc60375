"""BLEU of one prediction: `bleu`, cumulative `bleu1` to `bleu4`, and `bleu.precision1` to `4`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from ragbench.errors import OptionError
from ragbench.registry import Option, nearest
from ragbench.score.text.base import BleuScore, Metric, Row, metric, reference_list
from ragbench.score.text.mteval import tokenize_13a
from ragbench.score.text.ngrams import Counts, TokenizedText, TokenizedTexts, overlap

Smoothing = Literal["exp", "floor", "add-k", "none"]
MaxOrder = Annotated[int, Option("Longest n-grams that count.", ge=1, le=20)]
Smooth = Annotated[Smoothing, Option("What stands in for n-grams without a match.")]
SmoothValue = Annotated[
    float | None, Option("The value of floor (default 0.1) or add-k (default 1).", ge=0)
]
Tokenizer = Annotated[str, Option("13a, or another tokenizer of sacrebleu by its name.")]
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


def _score_rows(
    rows: Sequence[Row], metrics: Sequence[Metric], options: Mapping[str, Any]
) -> list[list[float]]:
    """Score many predictions; each distinct text is tokenised and counted once."""
    smooth, value = _smoothing(options.get("smooth", "exp"), options.get("smooth_value"))
    max_order = options.get("max_order", 4)
    tokenize = _tokenizer(options.get("tokenize", "13a"), options.get("lowercase", False))
    texts = TokenizedTexts(tokenize, (text for row in rows for text in (row[0], *row[1])))
    readers = [_reader(metric, max_order) for metric in metrics]
    longest = max(order for order, _ in readers)
    columns: list[list[float]] = [[] for _ in metrics]
    for prediction, references in rows:
        counted = count(texts(prediction), [texts(text) for text in references], longest)
        for column, (order, read) in zip(columns, readers, strict=True):
            column.append(read(bleu_of(counted, order, smooth, value)))
    return columns


def _reader(metric: Metric, max_order: int) -> tuple[int, Callable[[BleuScore], float]]:
    """The longest n-gram that a metric needs, and what it reads off the result."""
    if metric.part.startswith("precision"):
        n = int(metric.part.removeprefix("precision"))
        return n, lambda result: result.precisions[n - 1]
    order = int(metric.base.removeprefix("bleu") or max_order)
    return order, lambda result: result.score


@metric(
    "bleu",
    "bleu1",
    "bleu2",
    "bleu3",
    "bleu4",
    parts=("score", "precision1", "precision2", "precision3", "precision4"),
    batch=_score_rows,
    facts={"order": "effective"},
)
def bleu(
    prediction: str,
    references: str | Sequence[str],
    *,
    max_order: MaxOrder = 4,
    smooth: Smooth = "exp",
    smooth_value: SmoothValue = None,
    tokenize: Tokenizer = "13a",
    lowercase: Lowercase = False,
) -> BleuScore:
    """Score a prediction by its clipped n-gram precisions, and less where it is too short.

    The geometric mean of the precisions for n = 1 to `max_order` (fewer where the prediction has
    fewer tokens: effective order) times the brevity penalty. The score is that of sacrebleu's
    `sentence_bleu` divided by 100, bit for bit. An empty prediction gives 0.

    Args:
        prediction: The generated text.
        references: One gold text or several; n-grams of all of them count.
        max_order: Longest n-grams that count.
        smooth: What stands in for n-grams without a match.
        smooth_value: The value of floor (default 0.1) or add-k (default 1).
        tokenize: 13a, or another tokenizer of sacrebleu by its name.
        lowercase: Compare texts in lower case.

    Raises:
        OptionError: No reference, or an option outside what is allowed.

    Example:
        The reference has one `six`, so that one of five counts: clipped precision 1/5.

        >>> result = bleu("six six six six six", "six")
        >>> result.precisions, round(result.score, 4)
        ((0.2, 0.0, 0.0, 0.0), 0.1068)

    References:
        Papineni et al. (2002), BLEU. Post (2018), A Call for Clarity in Reporting BLEU Scores.
    """
    if type(max_order) is not int or not 1 <= max_order <= 20:
        raise OptionError("bleu", "max_order", max_order, "an integer from 1 to 20")
    references = reference_list("bleu", references)
    smooth, value = _smoothing(smooth, smooth_value)
    split = _tokenizer(tokenize, lowercase)
    counted = count(
        TokenizedText(split(prediction)),
        [TokenizedText(split(reference)) for reference in references],
        max_order,
    )
    return bleu_of(counted, max_order, smooth, value)


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


def bleu_of(counted: Statistics, order: int, smooth: Smoothing, value: float) -> BleuScore:
    """Compute BLEU with effective order from statistics, in sacrebleu's order of operations."""
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
    score = penalty * math.exp(sum(logs) / len(logs))
    return BleuScore(score / 100, precisions, penalty, length, reference_length)


def _smoothing(smooth: Smoothing, value: float | None) -> tuple[Smoothing, float]:
    if smooth not in ("exp", "floor", "add-k", "none"):
        raise OptionError("bleu", "smooth", smooth, "exp, floor, add-k, none")
    if value is not None and value < 0:
        raise OptionError("bleu", "smooth_value", value, "a number >= 0")
    return smooth, _SMOOTH_VALUES.get(smooth, 0.0) if value is None else value


def _tokenizer(name: str, lowercase: bool) -> Callable[[str], list[str]]:
    split = tokenize_13a if name == "13a" else _sacrebleu_tokenizer(name)
    return (lambda text: split(text.lower())) if lowercase else split


@functools.cache
def _sacrebleu_tokenizer(name: str) -> Callable[[str], list[str]]:
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        allowed = ", ".join(BLEU.TOKENIZERS)
        raise OptionError("bleu", "tokenize", name, allowed, nearest(name, BLEU.TOKENIZERS))
    try:
        tokenizer = BLEU(tokenize=name).tokenizer
    except (ImportError, RuntimeError) as error:  # ja-mecab, ko-mecab, spm: a package is missing
        allowed = f"13a, or what is installed ({' '.join(str(error).split())})"
        raise OptionError("bleu", "tokenize", name, allowed) from error
    return lambda text: str(tokenizer(text.rstrip())).split()
