"""Translation edit rate by sacrebleu: `ter`, and `ter.corpus`; lower is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

from ragbench.registry import Option
from ragbench.score.base import takes_options_of
from ragbench.score.text.base import (
    Options,
    Row,
    TextTooLong,
    metric,
    paired_rows,
    reference_list,
)
from ragbench.score.text.corpus import CorpusScorer
from ragbench.score.text.tokenizers import note_unspaced
from ragbench.types.scores import Value

# Words of a prediction x words of its references, from which the search for shifts takes minutes.
MOST_CELLS = 1_000_000


def _check_length(peer: Any, row: Row) -> None:
    """Raise `TextTooLong` for texts beyond the limit."""
    prediction, references = row
    words = len(peer.tokenizer(prediction).split())
    gold_words = sum(len(peer.tokenizer(text).split()) for text in references)
    if words * gold_words > MOST_CELLS:
        raise TextTooLong("ter", words, gold_words, MOST_CELLS)


def _notes(texts: Sequence[str], options: Options) -> list[str]:
    # sacrebleu then splits Han characters
    if options["normalized"] and options["asian_support"]:
        return []
    instead = "ter(normalized=true,asian_support=true) splits Chinese characters"
    return note_unspaced("ter", texts, instead)


@metric(
    "ter",
    direction="lower",
    range=(0.0, math.inf),
    computes=True,
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
    normalized: Annotated[
        bool, Option("Split punctuation off words and resolve XML entities.")
    ] = False,
    no_punct: Annotated[bool, Option("Remove punctuation.")] = False,
    asian_support: Annotated[
        bool,
        Option("With normalized or no_punct: also split Han characters, and East Asian marks."),
    ] = False,
    case_sensitive: Annotated[bool, Option("Distinguish upper and lower case.")] = False,
) -> Value:
    """Count the edits that a prediction needs, per word of the reference; 0 is best.

    Insertions, deletions and substitutions of a word, and shifts of a run of words, cost one each.
    A prediction longer than its reference may need more edits than the reference has words: values
    above 1 are possible, without a bound. The score is that of sacrebleu's `TER` divided by 100,
    bit for bit: an empty prediction needs every word and scores 1; both empty is 0, and an empty
    reference alone 1. Of several references it is the fewest edits, divided by the mean length.
    Words of the prediction x words of all references are 1,000,000 at most, since the time grows
    with their product.

    Args:
        prediction: The text that is scored.
        references: Its reference, or a list of several.

    Raises:
        OptionError: There is no reference, or an option has a wrong type.
        TextTooLong: The texts are beyond the limit.

    Example:
        `c d` is shifted to the end, and `x` becomes `e`: two edits for five words.

        >>> ter("c d a b x", "a b c d e"), ter("", "a b")
        (0.4, 1.0)

    References:
        Snover et al. (2006), A Study of Translation Edit Rate with Targeted Human Annotation.
    """
    from sacrebleu.metrics.ter import TER

    peer = TER(normalized, no_punct, asian_support, case_sensitive)
    texts = reference_list("ter", references)
    _check_length(peer, (prediction, texts))
    return Value(peer.sentence_score(prediction, texts).score / 100)


def _open_corpus(options: Options) -> CorpusScorer:
    from sacrebleu.metrics.ter import TER

    return CorpusScorer(TER(**options), _check_length)


@metric(
    "ter.corpus",
    aggregate="corpus",
    direction="lower",
    range=(0.0, math.inf),
    open=_open_corpus,
    facts={"references": "fewest"},
    notes=_notes,
    equals="sacrebleu's corpus TER, divided by 100, bit for bit",
    not_for="single answers: it is one number of a whole set, in which long texts weigh more",
)
@takes_options_of(ter)
def corpus_ter(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], **options: Any
) -> Value:
    """Count the edits that all predictions need, per word of their references; 0 is best.

    Edits and words are added up first, so that long texts weigh more than short ones: the TER of
    the papers on translation, sacrebleu's `corpus_ter` divided by 100, bit for bit. It is not the
    mean of `ter`. As a score of an experiment each query gets what it moves the number by, as for
    `bleu.corpus`. The options are those of `ter`. Without predictions it is 0.

    Raises:
        DataError: The lists differ in length, a member is no text, or a reference is missing.
        OptionError: An option is not allowed.
        TextTooLong: A text is beyond the limit of `ter`; in an experiment it is left out and named.

    Example:
        One edit for one word, and none for four.

        >>> corpus_ter(["x", "a b c d"], ["a", "a b c d"])
        0.2

    References:
        Snover et al. (2006), A Study of Translation Edit Rate with Targeted Human Annotation. Efron
        and Tibshirani (1993), An Introduction to the Bootstrap, chapter 11, for the jackknife.
    """
    return Value(_open_corpus(options).score(paired_rows(predictions, references)))
