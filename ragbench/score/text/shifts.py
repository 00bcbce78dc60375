"""Fewest edits that turn one text into another where moving a run of words is one edit.

The search is that of Tercom as sacrebleu has it, with its limits, so that the numbers are the
same: the best shift is made as long as it saves edits, and edits are counted near the diagonal
of the table alone. All shifts of a round are tried together, one row of their tables at a time.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragbench.score.text.edit_table import Alignment, EditTable, Row, align

_LONGEST_SHIFT = 10  # words, as the next one: Tercom's limits
_FARTHEST_SHIFT = 50
_MOST_SHIFTS = 1000  # that are tried for one pair of texts: sacrebleu's limit
_ROOM = 1_000_000  # words of shifted texts in memory at a time


class _Shift(NamedTuple):
    """A run of words and the place before which it goes."""

    start: int
    length: int
    target: int

    def of(self, words: Sequence[int]) -> list[int]:
        """Return the words with the run moved."""
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
        """The first word that changes."""
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
    shifts: list[_Shift], text: Sequence[int], table: EditTable, rows: Sequence[Row]
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
