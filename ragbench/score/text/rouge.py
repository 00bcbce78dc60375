"""ROUGE: `rouge1` to `rouge9`, `rougeL`, `rougeLsum`, each with `.precision .recall .fmeasure`."""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Annotated, Any, overload

from ragbench.errors import OptionError
from ragbench.registry import Option, check_allowed
from ragbench.score.text import base
from ragbench.score.text.tokenizers import (
    Tokenize,
    by_word,
    clipped_matches,
    note_texts,
    remember_texts,
    tokenizer,
)
from ragbench.text.analyzer import load_stemmer
from ragbench.text.languages import is_latin, unicode_words

NGRAM_TYPES = {f"rouge{n}": n for n in range(1, 10)}
TYPES = (*NGRAM_TYPES, "rougeL", "rougeLsum")

# Largest product of the words of a prediction (a repeated line counts once) and its reference.
MOST_LSUM_CELLS = 4_000_000
AUTO, ROUGE, UNICODE = "auto", "rouge", "unicode"


@functools.cache
def _tokenizer(name: str, stemmer: bool) -> Tokenize:
    """Return the tokenizer of a name, with stems of ASCII words if `stemmer`."""
    extra = (AUTO, ROUGE, UNICODE)
    split: Tokenize
    if name == ROUGE:
        # not `rouge_score.tokenizers`, which imports nltk even without a stemmer
        from rouge_score.tokenize import tokenize

        split = functools.partial(tokenize, stemmer=None)
    elif name == UNICODE:
        split = unicode_words
    else:
        split = tokenizer("rouge", name, lowercase=True, extra=extra)
    if stemmer:
        split = _with_stems(split)
    # tokens of a-z and 0-9 do not depend on the words beside them
    return by_word(split) if name == ROUGE else split


def _with_stems(split: Tokenize) -> Tokenize:
    """Return a tokenizer that stems ASCII tokens of `split` with more than three letters."""
    stem = load_stemmer("porter")

    def stemmed(text: str) -> list[str]:
        tokens = split(text)
        return [stem(token) if len(token) > 3 and token.isascii() else token for token in tokens]

    return stemmed


class _Tokenizers:
    """Tokenizers of a metric, one of which is chosen for each reference."""

    # Both texts of a pair need the same tokenizer: that of the reference, which is in the right
    # language.

    def __init__(self, name: str, stemmer: bool) -> None:
        names = {AUTO: (ROUGE, UNICODE)}.get(name, (name,))
        tokenizers = []
        for name in names:
            tokenize = _tokenizer(name, stemmer)
            tokenizers.append((tokenize, remember_texts(tokenize)))
        self._texts = tokenizers

    def of(self, reference: str) -> tuple[Tokenize, Callable[[str], list[str]]]:
        """Return the tokenizer for a reference, and a caching version of it."""
        tokens = self._texts[0][1]
        # ASCII first: nearly all texts are, and both tokenizers agree on them
        if reference.isascii() or _is_readable(reference, tokens(reference)):
            return self._texts[0]
        return self._texts[-1]


def _is_readable(text: str, tokens: Sequence[str]) -> bool:
    """Return True if half of the words or more are Latin, and rouge-score finds tokens."""
    n_beyond = len(text) - len(text.encode("ascii", "ignore"))
    # each character beyond ASCII splits at most one word, or is part of a word in other letters
    first = tokens[: 4 * n_beyond]
    if len(first) - sum(map(str.isdigit, first)) >= 2 * n_beyond:
        return bool(tokens)
    return bool(tokens) and is_latin(text)


def _open(options: base.Options) -> base.Scorer:
    """Return a scorer that computes a row once, and takes from it a value per metric."""
    tokenizers = _Tokenizers(options["tokenize"], options["stemmer"])

    def reader_of(metrics: Sequence[base.Metric]) -> base.RowReader:
        types = tuple(dict.fromkeys(metric.base for metric in metrics))
        fields = [(metric.base, base.OverlapScore._fields.index(metric.part)) for metric in metrics]

        def read(prediction: str, references: Sequence[str]) -> Sequence[float | str]:
            try:
                scores = _score(prediction, references, types, tokenizers)
            except base.TextTooLong as error:
                short_types = [name for name in types if name != "rougeLsum"]
                scores = _score(prediction, references, short_types, tokenizers)
                return [scores[name][i] if name in scores else str(error) for name, i in fields]
            return [scores[name][index] for name, index in fields]

        return read

    return base.row_scorer(reader_of)


def _notes(texts: Sequence[str], options: base.Options) -> list[str]:
    """Return a note on texts in which rouge-score finds no word, in a list."""
    texts = texts if options["tokenize"] == ROUGE else ()
    return note_texts("rouge", sum(map(_unseen, texts)), texts, _UNSEEN)


_UNSEEN = (
    "have no letter a-z and no digit, so that rouge-score counts no word in them; "
    "rouge1(tokenize=unicode) sees them"
)


def _unseen(text: str) -> bool:
    return not text.isascii() and bool(unicode_words(text)) and not _tokenizer(ROUGE, False)(text)


def _check(options: base.Options) -> None:
    _Tokenizers(options["tokenize"], options["stemmer"])


# of the default types, a type checker knows the names
@overload
def rouge(
    prediction: str,
    reference: str | Sequence[str],
    *,
    stemmer: bool = False,
    tokenize: str = AUTO,
) -> base.RougeScores[base.RougeType]: ...


@overload
def rouge(
    prediction: str,
    reference: str | Sequence[str],
    types: Sequence[base.TypeName],
    *,
    stemmer: bool = False,
    tokenize: str = AUTO,
) -> base.RougeScores[base.TypeName]: ...


@base.metric(
    *TYPES,
    parts=("fmeasure", "precision", "recall"),
    open=_open,
    computes=True,
    check=_check,
    facts={"references": "best"},
    notes=_notes,
    equals="rouge-score, bit for bit, on texts in Latin letters, and on all with `tokenize=rouge`; "
    "with other tokens, rouge-score given those",
    not_for="answers that may be worded otherwise",
)
def rouge(
    prediction: str,
    reference: str | Sequence[str],
    types: Sequence[str] = ("rouge1", "rouge2", "rougeL"),
    *,
    stemmer: Annotated[bool, Option("Compare Porter stems instead of words.")] = False,
    tokenize: Annotated[
        str,
        Option(
            "auto (rouge where the reference is mostly in Latin letters, else unicode), "
            "rouge (a-z and 0-9 alone, as rouge-score), unicode (letters of every "
            "script; Chinese, Japanese, Thai, Lao, Khmer and Burmese by character), or a "
            "tokenizer of bleu."
        ),
    ] = AUTO,
) -> base.RougeScores[Any]:
    """Score how many n-grams, or how long a subsequence, a prediction shares with a reference.

    The numbers are those of rouge-score, bit for bit; note that it takes the reference first. A
    pair with an empty text gives 0. rougeLsum takes each line as a sentence. The words of the
    prediction (a repeated line counts once) times those of a reference may be 4,000,000 at most.
    rouge-score knows the letters a-z alone: where most words of a reference have none of them,
    `auto` takes words of all letters instead, and characters in scripts without spaces. Each type
    takes the reference with the best F; of equal ones it takes the first.

    Args:
        prediction: The text that is scored.
        reference: Its reference, or a list of several.
        types: ROUGE types: `rouge1` to `rouge9`, `rougeL` and `rougeLsum`.

    Returns:
        Type -> precision, recall and F, each from 0 to 1, in the order of `types`; empty for no
        types.

    Raises:
        OptionError: No such type or tokenizer, or no reference; or `types` is a text, not a list.
        TextTooLong: The texts are beyond the limit of rougeLsum.
        MissingExtra: The tokenizer needs a package that is not installed.

    Warns:
        UnseenText: With `tokenize="rouge"`, a text has words but none with a letter a-z.

    Example:
        Six of seven words, and the reference has six.

        >>> score = rouge(
        ...     "I really loved reading the Hunger Games", "I loved reading the Hunger Games"
        ... )
        >>> score["rouge1"].recall, round(score["rouge1"].precision, 4), score["rouge2"].recall
        (1.0, 0.8571, 0.8)
        >>> rouge("北京是首都", "首都是北京")["rouge2"].fmeasure
        0.5

    References:
        Lin (2004), ROUGE: A Package for Automatic Evaluation of Summaries.
    """
    if isinstance(types, str):
        raise OptionError("rouge", "types", types, f"a list, such as ['{types}']")
    check_allowed("rouge", "types", types, TYPES)
    references = base.reference_list("rouge", reference)
    for note in _notes((prediction, *references), {"tokenize": tokenize}):
        warnings.warn(base.UnseenText(note), stacklevel=3)
    scores = _score(prediction, references, types, _Tokenizers(tokenize, stemmer))
    by_type = base.RougeScores[Any]()
    for name, (precision, recall, fmeasure) in scores.items():
        by_type[name] = base.RougeScore(
            {"precision": precision, "recall": recall, "fmeasure": fmeasure}
        )
    return by_type


def _score(
    prediction: str, references: Sequence[str], types: Sequence[str], tokenizers: _Tokenizers
) -> dict[str, base.OverlapScore]:
    best: dict[str, base.OverlapScore] = {}
    for reference in references:
        tokenize, texts = tokenizers.of(reference)
        mine, theirs = texts(prediction), texts(reference)
        for name in types:
            if name == "rougeL":
                score = base.OverlapScore.of_counts(
                    lcs_length(theirs, mine), len(mine), len(theirs)
                )
            elif name == "rougeLsum":
                score = _score_lines(_lines(prediction, tokenize), _lines(reference, tokenize))
            else:
                n = NGRAM_TYPES[name]
                matches = clipped_matches(mine, [theirs], n)
                score = base.OverlapScore.of_counts(matches, len(mine) - n + 1, len(theirs) - n + 1)
            if name not in best or score.fmeasure > best[name].fmeasure:
                best[name] = score
    return best


def _lines(text: str, tokenize: Tokenize) -> list[list[str]]:
    return [tokenize(line) for line in text.split("\n") if line]


def _score_lines(mine: list[list[str]], theirs: list[list[str]]) -> base.OverlapScore:
    """Return the union-LCS scores: common subsequences of each reference line with all lines."""
    # tokens of either side that no line has used yet: a token counts as often as both sides have it
    left_mine = Counter(chain.from_iterable(mine))
    left_theirs = Counter(chain.from_iterable(theirs))
    n_mine, n_theirs = left_mine.total(), left_theirs.total()
    # a model that loops repeats its lines, which have the same subsequences
    lines = set(map(tuple, mine))
    n_different = sum(map(len, lines))
    if n_different * n_theirs > MOST_LSUM_CELLS:
        raise base.TextTooLong("rougeLsum", n_different, n_theirs, MOST_LSUM_CELLS)
    hits = 0
    for reference in theirs:
        union = set[int]().union(*(lcs_positions(reference, line) for line in lines))
        for position in sorted(union):
            token = reference[position]
            # clipped: a token counts at most as often as each side has it, as in ROUGE 1.5.5
            if left_mine[token] > 0 and left_theirs[token] > 0:
                hits += 1
                left_mine[token] -= 1
                left_theirs[token] -= 1
    return base.OverlapScore.of_counts(hits, n_mine, n_theirs)


# Bit-parallel dynamic programming (Hyyro 2004, after Crochemore et al. 2001): a row of the table is
# one integer, of which 64 or more cells are computed at once. Bit j is set if the length does not
# grow at token j of the second text.
def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of `first` and `second`.

    0 if one of them is empty.

    Example:
        >>> lcs_length("the cat sat here".split(), "the sat cat".split())
        2
    """
    masks = _masks(second)
    row = full = (1 << len(second)) - 1
    for mask in filter(None, map(masks.get, first)):
        matched = row & mask
        row = (row + matched) | (row - matched)
    return len(second) - (row & full).bit_count()


def lcs_positions(first: Sequence[str], second: Sequence[str]) -> list[int]:
    """Return the positions in `first` of a longest common subsequence, in falling order.

    Of several subsequences, it is the one that rouge-score finds: its walk back from the end goes
    back in `second` if that keeps a longer subsequence than going back in `first`. Positions count
    from 0; none without a common token.
    """
    masks = _masks(second)
    full = (1 << len(second)) - 1
    row, rows = full, [full]
    for token in first:
        matched = row & masks.get(token, 0)
        row = ((row + matched) | (row - matched)) & full
        rows.append(row)

    positions = []
    i, j = len(first), len(second)
    length = j - row.bit_count()
    while i and j:
        if first[i - 1] == second[j - 1]:
            i, j = i - 1, j - 1
            positions.append(i)
            length -= 1
        # the length in a row and its first j columns is j minus the number of set bits
        elif rows[i] >> (j - 1) & 1 and j - (rows[i - 1] & ((1 << j) - 1)).bit_count() < length:
            j -= 1
        else:
            i -= 1
    return positions


def _masks(tokens: Sequence[str]) -> dict[str, int]:
    """Return token -> bit mask of its positions."""
    masks: dict[str, int] = {}
    bits = map((1).__lshift__, range(len(tokens)))
    for token, bit in zip(tokens, bits, strict=True):
        if token in masks:
            masks[token] |= bit
        else:
            masks[token] = bit
    return masks
