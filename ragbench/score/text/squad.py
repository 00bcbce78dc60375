"""Short answers as SQuAD normalises them: `exact_match`, `contains`, `token_f1`."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

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
from ragbench.score.text.tokenizers import note_articles, note_unspaced
from ragbench.text.tokenize import normalize_answer


class Normalized(NamedTuple):
    """An answer in normal form."""

    text: str
    """Lower-case, without punctuation, articles and extra white space."""
    tokens: tuple[str, ...]


@functools.lru_cache(maxsize=512)  # metrics run row by row: only the texts of a row come again
def normalized(text: str) -> Normalized:
    """Return the normal form of an answer and its words."""
    normal = normalize_answer(text)
    return Normalized(normal, tuple(normal.split()))


def _note_exact_match(texts: Sequence[str], options: Options) -> list[str]:
    return note_articles("exact_match", texts)


@metric(
    "exact_match",
    facts={"normalize": "squad", "references": "best"},
    notes=_note_exact_match,
    equals="the SQuAD script on ASCII; beyond it, Unicode punctuation and accents are normalised",
    not_for="answers in whole sentences",
)
def exact_match(prediction: str, references: str | Sequence[str]) -> float:
    """Return 1 where a prediction equals a reference after normalisation, else 0.

    Case, punctuation, English articles and white space do not count. An empty prediction gives 0.

    Raises:
        OptionError: There is no reference.

    Example:
        >>> exact_match("The Eiffel Tower!", ["eiffel tower", "la tour Eiffel"])
        1.0

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1.
    """
    references = reference_list("exact_match", references)
    if not prediction.strip():
        return 0.0
    answer = normalized(prediction).text
    return float(any(normalized(reference).text == answer for reference in references))


def _note_contains(texts: Sequence[str], options: Options) -> list[str]:
    return note_unspaced("contains", texts, "chrf sees parts of them")


@metric(
    "contains",
    facts={"normalize": "squad", "references": "any"},
    notes=_note_contains,
    equals="its definition, by brute force",
    not_for="long answers that name everything; references of one common word",
)
def contains(prediction: str, references: str | Sequence[str]) -> float:
    """Return 1 where the words of a reference stand in the prediction, in a row, else 0.

    Both are normalised as for `exact_match`. Whole words count: `no` is not in `know`. A
    reference without a word is in nothing. An empty prediction gives 0.

    Raises:
        OptionError: There is no reference.

    Example:
        >>> contains("It was built in 1889, for the fair.", "1889"), contains("I know.", "no")
        (1.0, 0.0)
    """
    references = reference_list("contains", references)
    haystack = f" {normalized(prediction).text} "
    needles = (normalized(reference).text for reference in references)
    return float(any(needle and f" {needle} " in haystack for needle in needles))


class _TokenF1Rows:
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


def _note_token_f1(texts: Sequence[str], options: Options) -> list[str]:
    return [
        *note_unspaced("token_f1", texts, "chrf sees parts of them"),
        *note_articles("token_f1", texts),
    ]


@metric(
    "token_f1",
    parts=("fmeasure", "precision", "recall"),
    open=_TokenF1Rows,
    facts={"normalize": "squad", "references": "best"},
    notes=_note_token_f1,
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
