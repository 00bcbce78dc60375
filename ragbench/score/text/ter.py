"""Translation edit rate: `ter`, and `ter.corpus`; lower is better.

The search for shifts is that of Tercom as sacrebleu has it, with its limits, so that the numbers
are the same: the best shift is made as long as it saves edits, and edits are counted near the
diagonal of the table alone. All shifts of a round are tried together, one row of their tables at a
time.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

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
from ragbench.score.text.edit_table import Alignment, EditTable, TableRow, align
from ragbench.score.text.tokenizers import TokenizedTexts, note_unspaced
from ragbench.types.scores import Value

Normalized = Annotated[bool, Option("Split punctuation off words and resolve XML entities.")]
NoPunct = Annotated[bool, Option("Remove punctuation.")]
AsianSupport = Annotated[
    bool, Option("With normalized or no_punct: also split Han characters, and East Asian marks.")
]
CaseSensitive = Annotated[bool, Option("Distinguish upper and lower case.")]

_Split = Callable[[str], list[str]]

_LONGEST_SHIFT = 10  # words, as the next one: Tercom's limits
_FARTHEST_SHIFT = 50
_MOST_SHIFTS = 1000  # that are tried for one pair of texts: sacrebleu's limit
_ROOM = 1_000_000  # words of shifted texts in memory at a time


class _Rows:
    """Scores many predictions; each distinct reference is tokenised once."""

    def __init__(self, options: Options) -> None:
        self._split, split_reference = _tokenizers(**options)
        self._references = TokenizedTexts(split_reference)

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        values = [_rate(*counted) for counted in self.count(rows, advance)]
        return [Column(values) for _ in metrics]

    def count(self, rows: Sequence[Row], advance: Advance) -> Iterator[_Edits]:
        self._references.expect(rows)
        for prediction, references in rows:
            gold = [self._references(text).tokens for text in references]
            yield _count(self._split(prediction), gold)
            advance(1)


class _Corpus(_Rows):
    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        parts = list(self.count(rows, advance))
        column = contributions(parts, _sum(parts), _without, lambda each: _rate(*each))
        return [column for _ in metrics]


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
    normalized: Normalized = False,
    no_punct: NoPunct = False,
    asian_support: AsianSupport = False,
    case_sensitive: CaseSensitive = False,
) -> Value:
    """Count the edits that a prediction needs, per word of the reference; 0 is best.

    Insertions, deletions and substitutions of a word, and shifts of a run of words, cost one each.
    A prediction longer than its reference may need more edits than the reference has words: values
    above 1 are possible, without a bound. The score is that of sacrebleu's `TER` divided by 100,
    bit for bit: an empty prediction needs every word and scores 1; both empty is 0, and an empty
    reference alone 1. The time grows with the square of the number of words that differ. Of several
    references it is the fewest edits, divided by the mean length.

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
    return Value(_rate(*_count(split(prediction), gold)))


@metric(
    "ter.corpus",
    aggregate="corpus",
    direction="lower",
    range=(0.0, math.inf),
    open=_Corpus,
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
    `bleu.corpus`. Options as for `ter`.

    Raises:
        OptionError: A prediction without a reference, or an option outside what is allowed.

    Example:
        One edit for one word, and none for four.

        >>> corpus_ter(["x", "a b c d"], ["a", "a b c d"])
        0.2

    References:
        Snover et al. (2006), A Study of Translation Edit Rate with Targeted Human Annotation. Efron
        and Tibshirani (1993), An Introduction to the Bootstrap, chapter 11, for the jackknife.
    """
    declared = declared_options(corpus_ter)
    scorer = _Rows({name: option.default for name, option in declared.items()} | options)
    rows = corpus_rows("ter.corpus", predictions, references)
    return Value(_rate(*_sum(list(scorer.count(rows, lambda _: None)))))


class _Edits(NamedTuple):
    """What TER is computed from; those of many predictions add up."""

    edits: float
    """The fewest edits that make a reference."""
    length: float
    """Words of the references, on average."""


def _count(words: Sequence[str], references: Sequence[Sequence[str]]) -> _Edits:
    edits = min(count_edits(words, reference) for reference in references)
    return _Edits(edits, sum(map(len, references)) / len(references))


def _sum(parts: Sequence[_Edits]) -> _Edits:
    edits = length = 0.0
    for part in parts:  # one after the other, as sacrebleu: `sum` rounds otherwise in Python 3.12
        edits, length = edits + part.edits, length + part.length
    return _Edits(edits, length)


def _without(whole: _Edits, part: _Edits) -> _Edits:
    return _Edits(whole.edits - part.edits, whole.length - part.length)


def _rate(edits: float, length: float) -> float:
    rate = edits / length if length > 0 else float(edits > 0)
    return 100 * rate / 100  # as sacrebleu, then divided: the last bit of a product may differ


def _tokenizers(
    normalized: bool, no_punct: bool, asian_support: bool, case_sensitive: bool
) -> tuple[_Split, _Split]:
    """What splits predictions, and what splits references."""
    if normalized or no_punct:
        split = _tercom(normalized, no_punct, asian_support, case_sensitive)
        # sacrebleu runs its rules twice over a reference: `it's\tso` comes apart in the second run
        return split, lambda text: split(" ".join(split(text)))
    split = str.split if case_sensitive else lambda text: text.lower().split()
    return split, split


@functools.cache
def _tercom(*options: bool) -> _Split:
    from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer

    tokenize = TercomTokenizer(*options)
    return lambda text: str(tokenize(text.rstrip())).split()


class _Shift(NamedTuple):
    """A run of words and the place before which it goes."""

    start: int
    length: int
    target: int

    def of(self, words: Sequence[int]) -> list[int]:
        start, length, target = self
        run, end = [*words[start : start + length]], start + length
        if target < start:
            return [*words[:target], *run, *words[target:start], *words[end:]]
        if target > end:
            return [*words[:start], *words[end:target], *run, *words[target:]]
        # into the run itself: as many words behind it go before it
        behind = length + target
        return [*words[:start], *words[end:behind], *run, *words[behind:]]

    @property
    def first(self) -> int:
        return min(self.start, self.target)


def count_edits(words: Sequence[str], reference: Sequence[str]) -> int:
    """Count insertions, deletions, substitutions and shifts that make the reference of a text.

    Example:
        `c d` moves to the end, and `x` becomes `e`.

        >>> count_edits("c d a b x".split(), "a b c d e".split())
        2
    """
    if not reference:
        return len(words)
    numbers = {word: number for number, word in enumerate(dict.fromkeys([*words, *reference]))}
    text, gold = [numbers[word] for word in words], [numbers[word] for word in reference]
    table = EditTable(len(text), gold)
    n_shifts = tried = 0
    while True:
        rows = table.rows(text)
        alignment = align(rows, text, gold)
        shifts, found = _shifts(text, gold, alignment, _MOST_SHIFTS - tried)
        tried += found
        if not shifts or tried >= _MOST_SHIFTS:
            return n_shifts + alignment.edits
        fewest, _, best = min(_try(shifts, text, table, rows))
        if fewest >= alignment.edits:
            return n_shifts + alignment.edits
        text = best.of(text)
        n_shifts += 1


def _try(
    shifts: list[_Shift], text: Sequence[int], table: EditTable, rows: Sequence[TableRow]
) -> Iterator[tuple[int, tuple[int, int, int], _Shift]]:
    """The edits that each shift leaves, and its rank among those that leave as many."""
    shifts.sort(key=lambda shift: shift.first)
    at_once = max(1, _ROOM // len(text))
    for start in range(0, len(shifts), at_once):
        block = shifts[start : start + at_once]
        texts = [shift.of(text) for shift in block]
        left = table.edits(texts, [shift.first for shift in block], rows)
        for edits, shift in zip(left, block, strict=True):
            yield edits, (-shift.length, shift.start, shift.target), shift


def _shifts(
    words: Sequence[int], reference: Sequence[int], alignment: Alignment, most: int
) -> tuple[list[_Shift], int]:
    """The different shifts worth trying, and how many were found before `most` was reached."""
    shifts: dict[_Shift, None] = {}
    found = 0
    for start, start_reference, length in _common_runs(words, reference):
        if not any(alignment.wrong[start : start + length]):
            continue
        if not any(alignment.wrong_reference[start_reference : start_reference + length]):
            continue
        if start <= alignment.aligned[start_reference] < start + length:
            continue
        places = alignment.aligned[start_reference : start_reference + length]
        before = alignment.aligned[start_reference - 1] if start_reference else -1
        previous = -1
        for target in (before + 1, *(place + 1 for place in places)):
            if target != previous:
                shifts[_Shift(start, length, target)] = None
                found += 1
                previous = target
        if found >= most:
            break
    return list(shifts), found


def _common_runs(words: Sequence[int], reference: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Starts and length of every run that both have, up to the limits, in Tercom's order."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, word in enumerate(reference):
        places[word].append(place)
    for start, word in enumerate(words):
        known = places.get(word, [])
        nearest = bisect.bisect_left(known, start - _FARTHEST_SHIFT)
        for place in known[nearest : bisect.bisect_right(known, start + _FARTHEST_SHIFT)]:
            longest = min(_LONGEST_SHIFT, len(words) - start, len(reference) - place)
            for length in range(longest):
                if words[start + length] != reference[place + length]:
                    break
                yield start, place, length + 1
