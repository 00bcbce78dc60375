"""BLEU: `bleu`, cumulative `bleu1` to `bleu4`, `bleu.precision1` to `4`, and `bleu.corpus`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

from ragbench.registry import Option
from ragbench.score.text.base import (
    Advance,
    BleuScore,
    Column,
    Metric,
    Options,
    Row,
    contributions,
    corpus_rows,
    metric,
    reference_list,
)
from ragbench.score.text.tokenizers import (
    WORD_TOKENIZERS,
    Counts,
    TokenizedText,
    TokenizedTexts,
    Tokenizer,
    note_unspaced,
    overlap,
    tokenizer,
)

Smoothing = Literal["exp", "floor", "add-k", "none"]
MaxOrder = Annotated[int, Option("Longest n-grams that are counted.", ge=1, le=20)]
Smooth = Annotated[Smoothing, Option("Smoothing of n-grams without a match.")]
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

    Orders above the length of the prediction are left out if `effective`, else they give 0.
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
    return smooth, _SMOOTH_VALUES.get(smooth, 0.0) if value is None else value


class BleuRows:
    """Scores many predictions; each distinct text is tokenised and counted once."""

    def __init__(self, options: Options) -> None:
        self.smoothing = smoothing_of(options["smooth"], options["smooth_value"])
        self.max_order = options["max_order"]
        self._texts = TokenizedTexts(tokenizer("bleu", options["tokenize"], options["lowercase"]))

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        """Score the rows by each metric."""
        readers = [_reader(metric, self.max_order) for metric in metrics]
        longest = max(order for order, _ in readers)
        columns: list[list[float]] = [[] for _ in metrics]
        for counted in self.count(rows, longest, advance):
            for column, (order, read) in zip(columns, readers, strict=True):
                column.append(read(bleu_of(counted, order, *self.smoothing)))
        return [Column(values) for values in columns]

    def count(self, rows: Sequence[Row], order: int, advance: Advance) -> Iterator[Statistics]:
        """Count the matches of each row."""
        self._texts.expect(rows)
        for prediction, references in rows:
            yield count(self._texts(prediction), [self._texts(t) for t in references], order)
            advance(1)


def _check(options: Options) -> None:
    tokenizer("bleu", options["tokenize"], options["lowercase"])


def _notes(texts: Sequence[str], options: Options) -> list[str]:
    if options["tokenize"] not in WORD_TOKENIZERS:
        return []
    return note_unspaced("bleu", texts, "bleu(tokenize=char) splits them, tokenize=zh Chinese")


class _Corpus(BleuRows):
    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        counted = list(self.count(rows, self.max_order, advance))
        whole = Statistics.sum(counted, self.max_order)
        column = contributions(counted, whole, Statistics.without, self._score)
        return [column for _ in metrics]

    def _score(self, counted: Statistics) -> float:
        return bleu_of(counted, self.max_order, *self.smoothing, effective=False).score


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
    open=BleuRows,
    computes=True,
    check=_check,
    facts={"order": "effective"},
    notes=_notes,
    equals="sacrebleu's sentence BLEU with effective order, divided by 100, bit for bit",
    not_for="short answers (one changed word of four leaves little); text without spaces, unless "
    "`tokenize` fits it",
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
    `sentence_bleu` divided by 100, bit for bit. An empty prediction gives 0. Of several references
    the n-grams of all count.

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
    references = reference_list("bleu", references)
    smooth, value = smoothing_of(smooth, smooth_value)
    split = tokenizer("bleu", tokenize, lowercase)
    counted = count(
        TokenizedText(split(prediction)),
        [TokenizedText(split(reference)) for reference in references],
        max_order,
    )
    return bleu_of(counted, max_order, smooth, value)


@metric(
    "bleu.corpus",
    aggregate="corpus",
    open=_Corpus,
    check=_check,
    facts={"order": "all"},
    notes=_notes,
    equals="sacrebleu's corpus BLEU, divided by 100, bit for bit",
    not_for="single answers: it is one number of a whole set, in which long texts weigh more",
)
def corpus_bleu(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    *,
    max_order: MaxOrder = 4,
    smooth: Smooth = "exp",
    smooth_value: SmoothValue = None,
    tokenize: Tokenizer = "13a",
    lowercase: Lowercase = False,
) -> BleuScore:
    """Score all predictions together by n-gram precisions over the whole corpus.

    Matches, n-grams and lengths are added up first, so that long texts weigh more than short
    ones: the BLEU of the papers on translation, that of sacrebleu's `corpus_bleu` divided by 100,
    bit for bit. It is not the mean of `bleu`. As a score of an experiment each query gets what it
    moves the number by (the jackknife's pseudo-values, moved so that their mean is the number):
    intervals and tests read those, and they may lie outside 0..1. Options as for `bleu`.

    Raises:
        OptionError: A prediction without a reference, or an option outside what is allowed.

    Example:
        Unigrams 3/4, bigrams 1/2: neither prediction has a bigram that the other lacks.

        >>> corpus_bleu(["a b", "c d"], ["a b", "c e"], max_order=2).precisions
        (0.75, 0.5)

    References:
        Papineni et al. (2002), BLEU. Efron and Tibshirani (1993), An Introduction to the
        Bootstrap, chapter 11, for the jackknife.
    """
    smoothing = smoothing_of(smooth, smooth_value)
    texts = TokenizedTexts(tokenizer("bleu", tokenize, lowercase))
    counted = [
        count(texts(text), [texts(t) for t in gold], max_order)
        for text, gold in corpus_rows("bleu.corpus", predictions, references)
    ]
    return bleu_of(Statistics.sum(counted, max_order), max_order, *smoothing, effective=False)
