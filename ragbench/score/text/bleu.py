"""BLEU of one prediction: `bleu`, cumulative `bleu1` to `bleu4`, and `bleu.precision1` to `4`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ragbench.errors import OptionError
from ragbench.score.text.base import (
    Advance,
    BleuScore,
    Column,
    Metric,
    Options,
    Row,
    metric,
    reference_list,
)
from ragbench.score.text.bleu_statistics import (
    Lowercase,
    MaxOrder,
    Smooth,
    SmoothValue,
    Statistics,
    bleu_of,
    count,
    smoothing_of,
)
from ragbench.score.text.ngrams import TokenizedText, TokenizedTexts
from ragbench.score.text.scripts import note_unspaced
from ragbench.score.text.tokenizers import WORD_TOKENIZERS, Tokenizer, tokenizer


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


def check_tokenizer(options: Options) -> None:
    """See whether the tokenizer is installed."""
    tokenizer("bleu", options["tokenize"], options["lowercase"])


def note_words(texts: Sequence[str], options: Options) -> list[str]:
    """Say where the tokenizer finds no words."""
    if options["tokenize"] not in WORD_TOKENIZERS:
        return []
    return note_unspaced("bleu", texts, "bleu(tokenize=char) splits them, tokenize=zh Chinese")


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
    check=check_tokenizer,
    facts={"order": "effective"},
    notes=note_words,
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
    `sentence_bleu` divided by 100, bit for bit. An empty prediction gives 0.

    Args:
        prediction: The generated text.
        references: One gold text or several; n-grams of all of them count.
        max_order: Longest n-grams that count.
        smooth: What stands in for n-grams without a match.
        smooth_value: The value of floor (default 0.1) or add-k (default 1).
        tokenize: 13a, intl, zh, char, none, or another of sacrebleu's that is installed.
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
    smooth, value = smoothing_of(smooth, smooth_value)
    split = tokenizer("bleu", tokenize, lowercase)
    counted = count(
        TokenizedText(split(prediction)),
        [TokenizedText(split(reference)) for reference in references],
        max_order,
    )
    return bleu_of(counted, max_order, smooth, value)
