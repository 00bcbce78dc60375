"""Character n-gram F-score: `chrf`; `chrf++`, with pairs of words as well; `chrf.corpus`."""

from __future__ import annotations

import itertools
import operator
import string
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, cast

from ragbench.registry import Option, declared_options
from ragbench.score.text.base import (
    Advance,
    Column,
    Metric,
    Options,
    Row,
    contributions,
    corpus_rows,
    metric,
    reference_list,
    takes_options_of,
)
from ragbench.score.text.tokenizers import TokenizedText, note_unspaced, overlap
from ragbench.types.scores import Value

if TYPE_CHECKING:
    import numpy as np

    from ragbench.types import IntArray

CharOrder = Annotated[int, Option("Longest n-grams of characters that are counted.", ge=1, le=20)]
WordOrder = Annotated[int, Option("Longest n-grams of words that are counted.", ge=0, le=20)]
Beta = Annotated[float, Option("How many times recall counts as much as precision.", ge=0, le=100)]
Lowercase = Annotated[bool, Option("Compare texts in lower case.")]
Whitespace = Annotated[bool, Option("Count white space as characters.")]
EpsSmoothing = Annotated[
    bool, Option("Average the F of every order, as chrF++.py does, not only those that occur.")
]

_PUNCTUATION = frozenset(string.punctuation)
_ROWS = 500  # that are prepared at once: bounds the memory
_TINY = 1e-16  # sacrebleu's value of a ratio without a denominator

_BITS = 63
_BLOCK = 16_384  # symbols; larger arrays are taken from the system anew each time: twice the time
_SPARSE = 16  # table entries per symbol; above, sorting the symbols is faster than a table

Counts = tuple[int, int, int]
"""Of one order: n-grams of the prediction, of the reference, and how many they share."""


class _Text(NamedTuple):
    characters: str
    words: list[str]


class _Rows:
    """Scores many predictions; n-grams of many pairs of texts are counted at once."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        values = [score / 100 for score, _ in self.best(rows, advance)]
        return [Column(values) for _ in metrics]

    def best(self, rows: Sequence[Row], advance: Advance) -> Iterator[tuple[float, list[Counts]]]:
        """The score of each prediction, 0..100, with its counts, by its best reference."""
        for start in range(0, len(rows), _ROWS):
            block = rows[start : start + _ROWS]
            pairs = [(prediction, text) for prediction, gold in block for text in gold]
            counted = _count_pairs(pairs, self._options)
            for _, references in block:
                both = [
                    (self.score(each), each) for each in itertools.islice(counted, len(references))
                ]
                # of equal ones the first, as sacrebleu
                yield max(both, key=operator.itemgetter(0))
            advance(len(block))

    def score(self, counts: Sequence[Counts]) -> float:
        return _f_score(counts, self._options["beta"], self._options["eps_smoothing"])


class _Corpus(_Rows):
    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        parts = [counts for _, counts in self.best(rows, advance)]
        column = contributions(parts, _sum(parts), _without, lambda each: self.score(each) / 100)
        return [column for _ in metrics]


def _sum(parts: Sequence[list[Counts]]) -> list[Counts]:
    """Add up the counts of many predictions, order by order."""
    columns = [zip(*of_order, strict=True) for of_order in zip(*parts, strict=True)]
    return [(sum(mine), sum(theirs), sum(shared)) for mine, theirs, shared in columns]


def _without(whole: list[Counts], part: list[Counts]) -> list[Counts]:
    return [(a - x, b - y, c - z) for (a, b, c), (x, y, z) in zip(whole, part, strict=True)]


def _notes(texts: Sequence[str], options: Options) -> list[str]:
    return note_unspaced("chrf++", texts, "chrf has characters alone") * bool(options["word_order"])


@metric(
    "chrf",
    open=_Rows,
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
    char_order: CharOrder = 6,
    word_order: WordOrder = 0,
    beta: Beta = 2,
    lowercase: Lowercase = False,
    whitespace: Whitespace = False,
    eps_smoothing: EpsSmoothing = False,
) -> Value:
    """Score how many character n-grams a prediction shares with its best reference.

    Sees parts of words, so that inflected forms and compounds count in part, in every script. The F
    of the mean precision and the mean recall over n = 1 to `char_order`, and over word n-grams up
    to `word_order`; recall counts twice. The score is that of sacrebleu's `CHRF` divided by 100,
    bit for bit. An empty prediction gives 0; with `eps_smoothing`, where both texts lack n-grams of
    some length, less than 1e-15 instead. `word_order=2` gives chrF++.

    Raises:
        OptionError: No reference, or an option outside what is allowed.

    Example:
        All of `c a t`, `ca at` and `cat` is right; the reference has 4, 3 and 2 such n-grams:
        recall r is (3/4 + 2/3 + 1/2) / 3, and chrF 5 * 1 * r / (4 * 1 + r).

        >>> round(chrf("cat", "cats", char_order=3), 4)
        0.6886

    References:
        Popovic (2015), chrF: character n-gram F-score. Popovic (2017), chrF++: words helping
        character n-grams.
    """
    mine = _prepare(prediction, lowercase, whitespace, word_order)
    scores = []
    for reference in reference_list("chrf", references):
        theirs = _prepare(reference, lowercase, whitespace, word_order)
        counts = _count_pair(mine, theirs, char_order, word_order)
        scores.append(_f_score(counts, beta, eps_smoothing))
    return Value(max(scores) / 100)


@metric(
    "chrf++",
    open=_Rows,
    computes=True,
    facts={"references": "best"},
    notes=_notes,
    equals="sacrebleu's sentence chrF with word_order 2, divided by 100, bit for bit",
    not_for="answers that may be worded otherwise; text without spaces, where chrf does as well",
)
@takes_options_of(chrf, word_order=2)
def chrf_plus_plus(prediction: str, references: str | Sequence[str], **options: Any) -> Value:
    """Score character n-grams as `chrf` does, and words and pairs of words besides.

    The same as `chrf` with `word_order=2`, whose arguments it takes.

    Example:
        >>> chrf_plus_plus("a small cat", "a small cat"), chrf_plus_plus("", "a small cat")
        (1.0, 0.0)
    """
    return chrf(prediction, references, **{"word_order": 2, **options})


@metric(
    "chrf.corpus",
    aggregate="corpus",
    open=_Corpus,
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
    `bleu.corpus`. Options as for `chrf`; with `word_order=2` it is chrF++ of the corpus.

    Raises:
        OptionError: A prediction without a reference, or an option outside what is allowed.

    Example:
        Of 4 + 1 characters 3 + 1 are right, and the references have 3 + 2.

        >>> corpus_chrf(["cats", "a"], ["cat", "an"], char_order=1)
        0.8

    References:
        Popovic (2015), chrF: character n-gram F-score. Efron and Tibshirani (1993), An Introduction
        to the Bootstrap, chapter 11, for the jackknife.
    """
    declared = declared_options(corpus_chrf)
    scorer = _Rows({name: option.default for name, option in declared.items()} | options)
    rows = corpus_rows("chrf.corpus", predictions, references)
    parts = [counts for _, counts in scorer.best(rows, lambda _: None)]
    return Value(scorer.score(_sum(parts)) / 100)


def _prepare(text: str, lowercase: bool, whitespace: bool, word_order: int) -> _Text:
    text = text.lower() if lowercase else text
    pieces = text.split()
    return _Text(text if whitespace else "".join(pieces), _words(pieces) if word_order else [])


def _words(pieces: list[str]) -> list[str]:
    """Split one punctuation mark off the end of each word, or else off its start."""
    words: list[str] = []
    for piece in pieces:
        if len(piece) > 1 and piece[-1] in _PUNCTUATION:
            words += (piece[:-1], piece[-1])
        elif len(piece) > 1 and piece[0] in _PUNCTUATION:
            words += (piece[0], piece[1:])
        else:
            words.append(piece)
    return words


def _count_pairs(pairs: Sequence[tuple[str, str]], options: Options) -> Iterator[list[Counts]]:
    """Count the n-grams of each pair of texts, first of characters, then of words."""
    char_order, word_order = options["char_order"], options["word_order"]
    how = options["lowercase"], options["whitespace"], word_order
    prepared = {text: _prepare(text, *how) for text in {*itertools.chain.from_iterable(pairs)}}
    both = [(prepared[mine], prepared[theirs]) for mine, theirs in pairs]
    of_characters = shared_ngrams([(m.characters, t.characters) for m, t in both], char_order)
    of_words = shared_ngrams([(m.words, t.words) for m, t in both], word_order)
    for (mine, theirs), characters, words in zip(both, of_characters, of_words, strict=True):
        if characters is None or words is None:
            yield _count_pair(mine, theirs, char_order, word_order)
        else:
            yield [
                *_with_totals(mine.characters, theirs.characters, characters),
                *_with_totals(mine.words, theirs.words, words),
            ]


def _count_pair(mine: _Text, theirs: _Text, char_order: int, word_order: int) -> list[Counts]:
    """Count the n-grams of one pair of texts, without arrays."""
    counts: list[Counts] = []
    for ours, gold, order in (
        (mine.characters, theirs.characters, char_order),
        (mine.words, theirs.words, word_order),
    ):
        known = TokenizedText(gold)
        shared = [overlap(ours, known.counts(n), n) for n in range(1, order + 1)]
        counts += _with_totals(ours, gold, shared)
    return counts


def _with_totals(
    mine: Sequence[str], theirs: Sequence[str], shared: Sequence[int]
) -> Iterator[Counts]:
    for n, both in enumerate(shared):
        in_reference = max(len(theirs) - n, 0)
        # an order that the reference lacks is not charged to the prediction
        yield max(len(mine) - n, 0) if in_reference else 0, in_reference, both


def _f_score(counts: Sequence[Counts], beta: float, eps_smoothing: bool) -> float:
    """Compute chrF, 0..100, in sacrebleu's order of operations, so that the last bit is equal."""
    if not counts:  # of no prediction at all
        return 0.0
    factor = beta**2
    total = mean_precision = mean_recall = 0.0
    orders = 0
    for n_mine, n_theirs, shared in counts:
        precision = shared / n_mine if n_mine > 0 else _TINY
        recall = shared / n_theirs if n_theirs > 0 else _TINY
        if eps_smoothing:
            below = factor * precision + recall
            total += ((1 + factor) * precision * recall / below) if below > 0 else _TINY
        elif n_mine > 0 and n_theirs > 0:
            mean_precision += precision
            mean_recall += recall
            orders += 1
    if eps_smoothing:
        return 100 * total / len(counts)
    if not orders or not mean_precision + mean_recall:
        return 0.0
    mean_precision /= orders
    mean_recall /= orders
    score = (1 + factor) * mean_precision * mean_recall
    score /= (factor * mean_precision) + mean_recall
    return 100 * score


Text = TypeVar("Text", bound=Sequence[str])


# The longest n-gram that starts at each place becomes one integer: the pair in its high bits, then
# one symbol after the other. One sort of these brings equal n-grams of a pair together, for every
# n, since the shorter ones are prefixes of the longer.
def shared_ngrams(pairs: Sequence[tuple[Text, Text]], order: int) -> Iterator[list[int] | None]:
    """Count the n-grams that the two texts of a pair share, each at most as often as both have it.

    The symbols of a string are its characters, those of a list its tokens. Yields for each pair its
    counts for n = 1 to `order`; None where it has too many different symbols for n-grams of this
    length to be one integer.

    Example:
        `an` occurs in both twice, `ba` and `na` once.

        >>> list(shared_ngrams([("banana", "bandana"), ("", "a")], 3))
        [[6, 4, 2], [0, 0, 0]]
    """
    sizes = [len(first) + len(second) for first, second in pairs]
    start = total = 0
    for end, size in enumerate(sizes, start=1):
        total += size
        if total >= _BLOCK or end == len(sizes):
            yield from _count(pairs[start:end], order)
            start, total = end, 0


def _count(pairs: Sequence[tuple[Text, Text]], order: int) -> list[list[int] | None]:
    """Count in one block; in halves of it where its alphabet is too large."""
    counts = _count_block(pairs, order)
    if counts is not None:
        return list(counts.T.tolist())
    if len(pairs) == 1:
        return [None]
    middle = len(pairs) // 2
    return _count(pairs[:middle], order) + _count(pairs[middle:], order)


def _count_block(pairs: Sequence[tuple[Text, Text]], order: int) -> IntArray | None:
    import numpy as np

    lengths = np.array([(len(first), len(second)) for first, second in pairs]).reshape(-1)
    symbols, alphabet = _compact(_symbols(pairs))
    bits = alphabet.bit_length()
    if bits * order + len(pairs).bit_length() + 1 > _BITS:
        return None
    sides = np.arange(len(lengths))
    keys = np.repeat(sides >> 1, lengths)
    for n in range(order):
        keys <<= bits
        keys[: max(len(keys) - n, 0)] |= symbols[n:]
    # what was read beyond the end of a text is taken out again
    left = np.repeat(lengths.cumsum(), lengths) - np.arange(len(keys))
    ends = np.flatnonzero(left < order)
    beyond = bits * (order - left[ends])
    keys[ends] = keys[ends] >> beyond << beyond
    keys = (keys << 1) | np.repeat(sides & 1, lengths)
    keys.sort()
    return _count_runs(keys, bits, order, len(pairs))


def _count_runs(keys: IntArray, bits: int, order: int, n_pairs: int) -> IntArray:
    """Count what both sides have in each run of equal n-grams, from the longest n to the first."""
    import numpy as np

    counts = np.zeros((order, n_pairs), dtype=np.int64)
    second, keys = keys & 1, keys >> 1
    starts = np.arange(len(keys) + 1)  # of runs, and how many of the second text are before them
    before = np.concatenate(([0], second.cumsum()))
    for n in range(order, 0, -1):
        is_start = np.ones(len(keys) + 1, dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=is_start[1:-1])
        index = np.flatnonzero(is_start)
        # a run becomes one entry: equal shorter n-grams are runs of these
        keys, starts, before = keys[index[:-1]], starts[index], before[index]
        in_second = np.diff(before)
        shared = np.minimum(in_second, np.diff(starts) - in_second)
        in_both = np.flatnonzero(shared)
        ngrams, shared = keys[in_both], shared[in_both]
        shared[ngrams & ((1 << bits) - 1) == 0] = 0  # the text ends before the n-gram does
        counts[n - 1] = np.bincount(ngrams >> (bits * n), weights=shared, minlength=n_pairs)
        keys >>= bits
    return counts


def _symbols(pairs: Sequence[tuple[Text, Text]]) -> np.ndarray:
    """Every symbol of every text as a number, the same for the same symbol."""
    import numpy as np

    texts = list(itertools.chain.from_iterable(pairs))
    if isinstance(texts[0], str):
        joined = "".join(cast("list[str]", texts))
        return np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    numbers: dict[str, int] = {}
    tokens = itertools.chain.from_iterable(texts)
    return np.array([numbers.setdefault(token, len(numbers)) for token in tokens], dtype=np.int64)


def _compact(symbols: np.ndarray) -> tuple[IntArray, int]:
    """Number the symbols that occur from 1 on; 0 is left for what comes after a text's end."""
    import numpy as np

    if not len(symbols):
        return np.zeros(0, dtype=np.int64), 0
    top = int(symbols.max())
    if top > _SPARSE * len(symbols):
        known, numbered = np.unique(symbols, return_inverse=True)
        return numbered.astype(np.int64) + 1, len(known)
    seen = np.zeros(top + 1, dtype=bool)
    seen[symbols] = True
    numbers = seen.cumsum(dtype=np.int64)
    return numbers[symbols], int(numbers[-1])
