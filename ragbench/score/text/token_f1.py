"""Token F1: `token_f1`, with `.precision .recall`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ragbench.score.text.answers import normalized
from ragbench.score.text.base import (
    Advance,
    Column,
    Metric,
    Options,
    RougeScore,
    Row,
    metric,
    reference_list,
)
from ragbench.score.text.ngrams import overlap
from ragbench.score.text.scripts import note_articles, note_unspaced


class _Rows:
    """Scores many predictions by several parts at once."""

    def __init__(self, options: Options) -> None:
        """There are no options."""

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        best = []
        for prediction, references in rows:
            best.append(_best(prediction, references))
            advance(1)
        return [Column([getattr(score, metric.part) for score in best]) for metric in metrics]


def _notes(texts: Sequence[str], options: Options) -> list[str]:
    return [
        *note_unspaced("token_f1", texts, "chrf sees parts of them"),
        *note_articles("token_f1", texts),
    ]


@metric(
    "token_f1",
    parts=("fmeasure", "precision", "recall"),
    open=_Rows,
    facts={"normalize": "squad", "references": "best"},
    notes=_notes,
    equals="the SQuAD script on ASCII; beyond it, Unicode punctuation and accents are normalised",
    not_for="long answers, whose words overlap by chance; text without spaces",
)
def token_f1(prediction: str, references: str | Sequence[str]) -> float:
    """Return the F1 of the words that a prediction shares with its best reference.

    Words are those of the normalised texts (see `exact_match`); repeated words count as often as
    both sides have them. An empty prediction gives 0.

    Raises:
        OptionError: There is no reference.

    Example:
        Two of three words are right, and two of two are there: 2 * 2/3 * 1 / (2/3 + 1).

        >>> token_f1("in Paris, France", "Paris France")
        0.8

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1.
    """
    return _best(prediction, reference_list("token_f1", references)).fmeasure


def _best(prediction: str, references: Sequence[str]) -> RougeScore:
    return max((_score(prediction, text) for text in references), key=lambda score: score.fmeasure)


def _score(prediction: str, reference: str) -> RougeScore:
    mine, theirs = normalized(prediction).tokens, normalized(reference).tokens
    shared = overlap(mine, Counter(theirs), 1)
    if not shared:
        return RougeScore(0.0, 0.0, 0.0)
    precision, recall = shared / len(mine), shared / len(theirs)
    return RougeScore(precision, recall, 2 * precision * recall / (precision + recall))
