"""BLEU of all predictions together: `bleu.corpus`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragbench.errors import OptionError
from ragbench.score.text.base import (
    Advance,
    BleuScore,
    Column,
    Metric,
    Row,
    metric,
    reference_list,
)
from ragbench.score.text.bleu import BleuRows, check_tokenizer, note_words
from ragbench.score.text.bleu_statistics import (
    Lowercase,
    MaxOrder,
    Smooth,
    Smoothing,
    SmoothValue,
    Statistics,
    bleu_of,
    count,
    smoothing_of,
)
from ragbench.score.text.ngrams import TokenizedTexts
from ragbench.score.text.tokenizers import Tokenizer, tokenizer


class _Corpus(BleuRows):
    """Scores all predictions together."""

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        counted = list(self.count(rows, self.max_order, advance))
        column = _contributions(counted, self.max_order, *self.smoothing)
        return [column for _ in metrics]


@metric(
    "bleu.corpus",
    aggregate="corpus",
    open=_Corpus,
    check=check_tokenizer,
    facts={"order": "all"},
    notes=note_words,
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
    intervals and tests read those, and they may lie outside 0..1.

    Args:
        predictions: The generated texts.
        references: For each of them one gold text or several.
        max_order: Longest n-grams that count.
        smooth: What stands in for n-grams without a match in the whole corpus.
        smooth_value: The value of floor (default 0.1) or add-k (default 1).
        tokenize: 13a, intl, zh, char, none, or another of sacrebleu's that is installed.
        lowercase: Compare texts in lower case.

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
    if len(predictions) != len(references):
        found = f"{len(predictions)} predictions and {len(references)} references"
        raise OptionError("bleu.corpus", "references", found, "one for each prediction")
    smoothing = smoothing_of(smooth, smooth_value)
    texts = TokenizedTexts(tokenizer("bleu", tokenize, lowercase))
    counted = [
        count(texts(text), [texts(t) for t in reference_list("bleu.corpus", gold)], max_order)
        for text, gold in zip(predictions, references, strict=True)
    ]
    return bleu_of(Statistics.sum(counted, max_order), max_order, *smoothing, effective=False)


def _contributions(
    counted: Sequence[Statistics], order: int, smooth: Smoothing, value: float
) -> Column:
    """Each row's jackknife pseudo-value, moved so that their mean is the BLEU of the corpus."""
    if not counted:
        return Column([])
    whole = Statistics.sum(counted, order)
    score = bleu_of(whole, order, smooth, value, effective=False).score
    others = len(counted) - 1
    moved = [
        others * (score - bleu_of(whole.without(row), order, smooth, value, effective=False).score)
        for row in counted
    ]
    centre = math.fsum(moved) / len(moved)
    return Column([score + each - centre for each in moved], score)
