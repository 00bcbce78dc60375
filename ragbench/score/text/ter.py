"""Translation edit rate: `ter`; lower is better."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Annotated

from ragbench.registry import Option
from ragbench.score.text.base import (
    Advance,
    Column,
    Metric,
    Options,
    Row,
    metric,
    reference_list,
)
from ragbench.score.text.ngrams import TokenizedTexts
from ragbench.score.text.scripts import note_unspaced
from ragbench.score.text.shifts import count_edits

Normalized = Annotated[bool, Option("Split punctuation off words and resolve XML entities.")]
NoPunct = Annotated[bool, Option("Remove punctuation.")]
AsianSupport = Annotated[
    bool, Option("With normalized or no_punct: also split Han characters, and East Asian marks.")
]
CaseSensitive = Annotated[bool, Option("Tell capitals from small letters.")]

_Split = Callable[[str], list[str]]


class _Rows:
    """Scores many predictions; each distinct reference is tokenised once."""

    def __init__(self, options: Options) -> None:
        self._split, split_reference = _tokenizers(**options)
        self._references = TokenizedTexts(split_reference)

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        self._references.expect(rows)
        values = []
        for prediction, references in rows:
            gold = [self._references(text).tokens for text in references]
            values.append(_rate(self._split(prediction), gold))
            advance(1)
        return [Column(values) for _ in metrics]


def _notes(texts: Sequence[str], options: Options) -> list[str]:
    if options["normalized"] and options["asian_support"]:
        return []
    instead = "ter(normalized=true,asian_support=true) splits Chinese characters"
    return note_unspaced("ter", texts, instead)


@metric(
    "ter",
    direction="lower",
    range=(0.0, math.inf),
    open=_Rows,
    facts={"references": "fewest"},
    notes=_notes,
    equals="sacrebleu's sentence TER, divided by 100, bit for bit",
    not_for="answers that may be longer than the reference: each further word is an edit; text "
    "without spaces",
)
def ter(
    prediction: str,
    references: str | Sequence[str],
    *,
    normalized: Normalized = False,
    no_punct: NoPunct = False,
    asian_support: AsianSupport = False,
    case_sensitive: CaseSensitive = False,
) -> float:
    """Count the edits that a prediction needs, per word of the reference; 0 is best.

    Insertions, deletions and substitutions of a word, and shifts of a run of words, cost one
    each. A prediction longer than its reference may need more edits than the reference has words:
    values above 1 are possible, without a bound. The score is that of sacrebleu's `TER` divided by
    100, bit for bit: an empty prediction needs every word and scores 1; both empty is 0, and
    an empty reference alone 1. The time grows with the square of the number of words that differ.

    Args:
        prediction: The generated text.
        references: One gold text or several: the fewest edits, divided by the mean length.
        normalized: Split punctuation off words and resolve XML entities.
        no_punct: Remove punctuation.
        asian_support: With the former two, also split Han characters and East Asian punctuation.
        case_sensitive: Tell capitals from small letters.

    Raises:
        OptionError: There is no reference.

    Example:
        `c d` is shifted to the end, and `x` becomes `e`: two edits for five words.

        >>> ter("c d a b x", "a b c d e"), ter("", "a b")
        (0.4, 1.0)

    References:
        Snover et al. (2006), A Study of Translation Edit Rate with Targeted Human Annotation.
    """
    split, split_reference = _tokenizers(normalized, no_punct, asian_support, case_sensitive)
    gold = [split_reference(reference) for reference in reference_list("ter", references)]
    return _rate(split(prediction), gold)


def _rate(words: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    edits = min(count_edits(words, reference) for reference in references)
    mean_length = sum(map(len, references)) / len(references)
    rate = edits / mean_length if mean_length > 0 else float(edits > 0)
    return 100 * rate / 100  # as sacrebleu, then divided: the last bit of a product may differ


def _tokenizers(
    normalized: bool, no_punct: bool, asian_support: bool, case_sensitive: bool
) -> tuple[_Split, _Split]:
    """What splits predictions, and what splits references."""
    if normalized or no_punct:
        split = _tercom(normalized, no_punct, asian_support, case_sensitive)
        # sacrebleu runs its rules twice over a reference: `it's\tso` comes apart in the second run
        return split, lambda text: split(" ".join(split(text)))
    split = str.split if case_sensitive else _split_lower
    return split, split


def _split_lower(text: str) -> list[str]:
    return text.lower().split()


@functools.cache
def _tercom(*options: bool) -> _Split:
    from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer

    tokenize = TercomTokenizer(*options)
    return lambda text: str(tokenize(text.rstrip())).split()
