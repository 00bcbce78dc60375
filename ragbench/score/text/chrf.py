"""Character n-gram F-score by sacrebleu: `chrf`; `chrf++`, with word pairs; `chrf.corpus`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from ragbench.registry import Option
from ragbench.score.base import takes_options_of
from ragbench.score.text.base import Options, metric, paired_rows, reference_list
from ragbench.score.text.corpus import CorpusScorer
from ragbench.score.text.tokenizers import note_unspaced
from ragbench.types.scores import Value


def _notes(texts: Sequence[str], options: Options) -> list[str]:
    # words count only with `word_order`; characters need no spaces
    return note_unspaced("chrf++", texts, "chrf has characters alone") * bool(options["word_order"])


@metric(
    "chrf",
    computes=True,
    facts={"references": "best"},
    notes=_notes,
    equals="sacrebleu's sentence chrF, divided by 100, bit for bit",
    not_for="answers that may be worded otherwise; unlike texts share letters and score above 0",
)
def chrf(
    prediction: str,
    references: str | Sequence[str],
    *,
    char_order: Annotated[
        int, Option("Longest n-grams of characters that are counted.", ge=1, le=20)
    ] = 6,
    word_order: Annotated[
        int, Option("Longest n-grams of words that are counted.", ge=0, le=20)
    ] = 0,
    beta: Annotated[
        float, Option("How many times recall counts as much as precision.", ge=0, le=100)
    ] = 2,
    lowercase: Annotated[bool, Option("Compare texts in lower case.")] = False,
    whitespace: Annotated[bool, Option("Count white space as characters.")] = False,
    eps_smoothing: Annotated[
        bool, Option("Average the F of every order, as chrF++.py does, not only those that occur.")
    ] = False,
) -> Value:
    """Score how many character n-grams a prediction shares with its best reference.

    Sees parts of words, so that inflected forms and compounds count in part, in every script. The F
    of the mean precision and the mean recall over n = 1 to `char_order`, and over word n-grams up
    to `word_order`; recall counts `beta` times. The score is that of sacrebleu's `CHRF` divided by
    100, bit for bit. An empty prediction gives 0; with `eps_smoothing`, where both texts lack
    n-grams of some length, less than 1e-15 instead. `word_order=2` gives chrF++. Values are from 0
    to 1.

    Args:
        prediction: The text that is scored.
        references: Its reference, or a list of several.

    Raises:
        OptionError: No reference, or an option that is not allowed.

    Example:
        All of `c a t`, `ca at` and `cat` is right; the reference has 4, 3 and 2 such n-grams:
        recall r is (3/4 + 2/3 + 1/2) / 3, and chrF 5 * 1 * r / (4 * 1 + r).

        >>> round(chrf("cat", "cats", char_order=3), 4)
        0.6886

    References:
        Popovic (2015), chrF: character n-gram F-score. Popovic (2017), chrF++: words helping
        character n-grams.
    """
    from sacrebleu.metrics.chrf import CHRF

    # sacrebleu takes any number for beta, though it declares an integer
    peer = CHRF(char_order, word_order, beta, lowercase, whitespace, eps_smoothing)  # type: ignore[arg-type]
    return Value(peer.sentence_score(prediction, reference_list("chrf", references)).score / 100)


@metric(
    "chrf++",
    computes=True,
    facts={"references": "best"},
    notes=_notes,
    equals="sacrebleu's sentence chrF with word_order 2, divided by 100, bit for bit",
    not_for="answers that may be worded otherwise; text without spaces, where chrf does as well",
)
@takes_options_of(chrf, word_order=2)
def chrf_plus_plus(prediction: str, references: str | Sequence[str], **options: Any) -> Value:
    """Score character n-grams as `chrf` does, and words and pairs of words besides.

    The same as `chrf` with `word_order=2`, whose arguments it takes. Values are from 0 to 1; an
    empty prediction gives 0.

    Raises:
        OptionError: No reference, or an option that is not allowed.

    Example:
        >>> chrf_plus_plus("a small cat", "a small cat"), chrf_plus_plus("", "a small cat")
        (1.0, 0.0)
    """
    # a `word_order` of the caller takes precedence
    return chrf(prediction, references, **{"word_order": 2, **options})


def _open_corpus(options: Options) -> CorpusScorer:
    from sacrebleu.metrics.chrf import CHRF

    return CorpusScorer(CHRF(**options))


@metric(
    "chrf.corpus",
    aggregate="corpus",
    open=_open_corpus,
    facts={"references": "best"},
    notes=_notes,
    equals="sacrebleu's corpus chrF, divided by 100, bit for bit",
    not_for="single answers: it is one number of a whole set, in which long texts weigh more",
)
@takes_options_of(chrf)
def corpus_chrf(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]], **options: Any
) -> Value:
    """Score all predictions together by the character n-grams that they share with references.

    The n-grams of each prediction and its best reference are added up first, so that long texts
    weigh more than short ones: sacrebleu's `corpus_chrf` divided by 100, bit for bit. It is not the
    mean of `chrf`. As a score of an experiment each query gets what it moves the number by, as for
    `bleu.corpus`. Options as for `chrf`; with `word_order=2` it is chrF++ of the corpus. Values are
    from 0 to 1; 0 without predictions.

    Raises:
        DataError: The lists differ in length, a member is no text, or a reference is missing.
        OptionError: An option is not allowed.

    Example:
        Of 4 + 1 characters 3 + 1 are right, and the references have 3 + 2.

        >>> corpus_chrf(["cats", "a"], ["cat", "an"], char_order=1)
        0.8

    References:
        Popovic (2015), chrF: character n-gram F-score. Efron and Tibshirani (1993), An Introduction
        to the Bootstrap, chapter 11, for the jackknife.
    """
    return Value(_open_corpus(options).score(paired_rows(predictions, references)))
