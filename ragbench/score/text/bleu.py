"""BLEU: `bleu`, cumulative `bleu1` to `bleu4`, `bleu.precision1` to `4`, and `bleu.corpus`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from ragbench.registry import Option, default_options
from ragbench.score.base import takes_options_of
from ragbench.score.text import base
from ragbench.score.text.corpus import CorpusScorer
from ragbench.score.text.tokenizers import (
    WORD_TOKENIZERS,
    Tokenizer,
    clipped_matches,
    note_unspaced,
    remember_texts,
    tokenizer,
)

Smoothing = Literal["exp", "floor", "add-k", "none"]


def count(prediction: Sequence[str], references: Sequence[Sequence[str]], order: int) -> list[int]:
    """Return the statistics of one row; see `statistics_of`. There is at least one reference."""
    matches = [0] * order
    for n in range(1, order + 1):
        matches[n - 1] = clipped_matches(prediction, references, n)
        if not matches[n - 1]:  # then no longer n-gram can match either
            break
    return statistics_of(prediction, references, matches)


def statistics_of(
    prediction: Sequence[str], references: Sequence[Sequence[str]], matches: Sequence[int]
) -> list[int]:
    """Return the statistics of sacrebleu for a row with these clipped matches for n = 1, 2, ...

    They are one list: tokens of the prediction, tokens of the reference of the closest length, the
    matches, and the number of n-grams for each n.
    """
    length = len(prediction)
    # of two references equally close, the shorter one, as in sacrebleu
    closest = min(map(len, references), key=lambda other: (abs(length - other), other))
    return [length, closest, *matches, *(max(length - n, 0) for n in range(len(matches)))]


def bleu_of(
    statistics: Sequence[float], order: int, options: base.Options, *, effective: bool = True
) -> base.BleuScore:
    """Return sacrebleu's BLEU from the statistics of `count`, for n-grams up to `order`.

    `effective` leaves out orders above the length of the prediction; else they make the score 0.
    The score is from 0 to 1; `options` needs `smooth` and `smooth_value`. Precisions are 0 for
    orders without an n-gram.
    """
    from sacrebleu.metrics.bleu import BLEU

    length, reference_length, *counts = map(int, statistics)
    longest = len(counts) // 2
    correct, total = counts[:order], counts[longest : longest + order]
    precisions = tuple(c / t if t else 0.0 for c, t in zip(correct, total, strict=True))
    smoothing = options["smooth"], options["smooth_value"]
    # After the precisions: sacrebleu's smoothing changes the two lists in place. It adds logarithms
    # by `sum`, so that the last digit is another one from Python 3.12 on.
    bleu = BLEU.compute_bleu(correct, total, length, reference_length, *smoothing, effective, order)
    return base.BleuScore(bleu.score / 100, precisions, bleu.bp, length, reference_length)


def _open(options: base.Options) -> base.Scorer:
    """Return a scorer that counts a row once, and computes from it a value per metric."""
    # here: one text is scored without NumPy, by `count`
    from ragbench.score.text.ngram_matches import clipped_matches_of_rows

    texts = remember_texts(tokenizer("bleu", options["tokenize"], options["lowercase"]))

    def reader_of(metrics: Sequence[base.Metric]) -> base.BlockReader:
        readers = [_reader(metric, options["max_order"]) for metric in metrics]
        longest = max(order for order, _ in readers)

        def read(rows: Sequence[base.Row]) -> list[list[float]]:
            tokens = [(texts(text), [*map(texts, references)]) for text, references in rows]
            matches = clipped_matches_of_rows(tokens, longest).tolist()
            values = []
            for (prediction, references), row_matches in zip(tokens, matches, strict=True):
                statistics = statistics_of(prediction, references, row_matches)
                values.append(
                    [value(bleu_of(statistics, order, options)) for order, value in readers]
                )
            return values

        return read

    return base.block_scorer(reader_of)


def _check(options: base.Options) -> None:
    tokenizer("bleu", options["tokenize"], options["lowercase"])


def _notes(texts: Sequence[str], options: base.Options) -> list[str]:
    if options["tokenize"] not in WORD_TOKENIZERS:
        return []
    return note_unspaced("bleu", texts, "bleu(tokenize=char) splits them, tokenize=zh Chinese")


def _reader(metric: base.Metric, max_order: int) -> tuple[int, Callable[[base.BleuScore], float]]:
    """Return the longest n-gram that a metric needs, and the function that reads its value."""
    if metric.part.startswith("precision"):
        n = int(metric.part.removeprefix("precision"))
        return n, lambda result: result.precisions[n - 1]
    order = int(metric.base.removeprefix("bleu") or max_order)
    return order, lambda result: result.score


@base.metric(
    "bleu",
    "bleu1",
    "bleu2",
    "bleu3",
    "bleu4",
    parts=("score", "precision1", "precision2", "precision3", "precision4"),
    open=_open,
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
    max_order: Annotated[int, Option("Longest n-grams that are counted.", ge=1, le=20)] = 4,
    smooth: Annotated[Smoothing, Option("Smoothing of n-grams without a match.")] = "exp",
    smooth_value: Annotated[
        float | None, Option("The value of floor (default 0.1) or add-k (default 1).", ge=0)
    ] = None,
    tokenize: Tokenizer = "13a",
    lowercase: Annotated[bool, Option("Compare texts in lower case.")] = False,
) -> base.BleuScore:
    """Score a prediction by its clipped n-gram precisions, and less where it is too short.

    The geometric mean of the precisions for n = 1 to `max_order` (fewer where the prediction has
    fewer tokens: effective order) times the brevity penalty. The score is that of sacrebleu's
    `sentence_bleu` divided by 100, bit for bit. An empty prediction gives 0. Of several references
    the n-grams of all count. `smooth_value` None takes 0.1 for `floor`, 1 for `add-k`. The score is
    from 0 to 1, rounding aside.

    Args:
        prediction: The text that is scored.
        references: Its reference, or a list of several.
        tokenize: Tokenizer of both texts.

    Raises:
        OptionError: No reference, or an option that is not allowed.
        MissingExtra: The tokenizer needs a package or model that is not installed.

    Example:
        The reference has one `six`, so that one of five counts: clipped precision 1/5.

        >>> result = bleu("six six six six six", "six")
        >>> result.precisions, round(result.score, 4)
        ((0.2, 0.0, 0.0, 0.0), 0.1068)

    References:
        Papineni et al. (2002), BLEU. Post (2018), A Call for Clarity in Reporting BLEU Scores.
    """
    split = tokenizer("bleu", tokenize, lowercase)
    gold = [split(text) for text in base.reference_list("bleu", references)]
    options = {"smooth": smooth, "smooth_value": smooth_value}
    return bleu_of(count(split(prediction), gold, max_order), max_order, options)


def _open_corpus(options: base.Options) -> CorpusScorer:
    from sacrebleu.metrics.bleu import BLEU

    _check(options)
    return CorpusScorer(
        BLEU(
            options["lowercase"],
            force=True,  # no warning of texts that are tokenized already
            tokenize=options["tokenize"],
            smooth_method=options["smooth"],
            smooth_value=options["smooth_value"],
            max_ngram_order=options["max_order"],
        )
    )


@base.metric(
    "bleu.corpus",
    aggregate="corpus",
    open=_open_corpus,
    check=_check,
    facts={"order": "all"},
    notes=_notes,
    equals="sacrebleu's corpus BLEU, divided by 100, bit for bit",
    not_for="single answers: it is one number of a whole set, in which long texts weigh more",
)
@takes_options_of(bleu)
def corpus_bleu(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], **options: Any
) -> base.BleuScore:
    """Score all predictions together by n-gram precisions over the whole corpus.

    Matches, n-grams and lengths are added up first, so that long texts weigh more than short ones:
    the BLEU of the papers on translation, that of sacrebleu's `corpus_bleu` divided by 100, bit for
    bit. It is not the mean of `bleu`. As a score of an experiment each query gets what it moves the
    number by (the jackknife's pseudo-values, moved so that their mean is the number): intervals and
    tests read those, and they may lie outside 0..1. The options are those of `bleu`. Without
    predictions the score is 0.

    Raises:
        DataError: The lists differ in length, a member is no text, or a reference is missing.
        OptionError: An option is not allowed.
        MissingExtra: The tokenizer needs a package or model that is not installed.

    Example:
        Unigrams 3/4, bigrams 1/2: neither prediction has a bigram that the other lacks.

        >>> corpus_bleu(["a b", "c d"], ["a b", "c e"], max_order=2).precisions
        (0.75, 0.5)

    References:
        Papineni et al. (2002), BLEU. Efron and Tibshirani (1993), An Introduction to the
        Bootstrap, chapter 11, for the jackknife.
    """
    options = default_options(bleu) | options
    order = options["max_order"]
    counted = _open_corpus(options).count(base.paired_rows(predictions, references))
    # without a prediction there are no statistics: zeros give a score of 0
    return bleu_of(counted or [0] * (2 + 2 * order), order, options, effective=False)
