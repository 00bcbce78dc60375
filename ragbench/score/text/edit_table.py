"""The table of edit distances near its diagonal, for one text or for several of one length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ragbench.types import IntArray

_BEAM = 25  # cells on either side of the diagonal, as in sacrebleu
_FAR = 1 << 28  # more than any number of edits


class Alignment(NamedTuple):
    """What stands where, after the fewest edits without shifts."""

    edits: int
    aligned: list[int]
    """For each word of the reference, the place in the text where it ends up."""
    wrong: list[bool]
    """Whether each word of the text is edited."""
    wrong_reference: list[bool]
    """Whether each word of the reference is edited."""


class Row(NamedTuple):
    """The cells of a row of the table that were computed."""

    low: int
    """Column of the first one."""
    cells: list[int]
    """Edits, from there on."""

    def __call__(self, column: int) -> int:
        """Return a cell; far too many edits where it was not computed."""
        column -= self.low
        return self.cells[column] if 0 <= column < len(self.cells) else _FAR


def align(rows: Sequence[Row], words: Sequence[int], reference: Sequence[int]) -> Alignment:
    """Read off a table which words are kept; of equal ways substitutions, then deletions."""
    i, j = len(words), len(reference)
    aligned = [0] * j
    wrong, wrong_reference = [True] * i, [True] * j
    while i or j:
        here = rows[i](j)
        if i and j:
            differ = words[i - 1] != reference[j - 1]
            if rows[i - 1](j - 1) + differ == here:
                i, j = i - 1, j - 1
                aligned[j] = i
                wrong[i] = wrong_reference[j] = differ
                continue
        if i and rows[i - 1](j) + 1 == here:
            i -= 1
        else:
            j -= 1
            aligned[j] = i - 1
    return Alignment(rows[-1].cells[-1], aligned, wrong, wrong_reference)


class EditTable:
    """Edit distances of texts of one length to a reference, near the diagonal."""

    def __init__(self, length: int, reference: Sequence[int]) -> None:
        import numpy as np

        self._symbols = np.array(reference)
        self._places = np.arange(len(reference) + 1)
        self._bands = list(_bands(length, len(reference)))

    def rows(self, words: Sequence[int]) -> list[Row]:
        """Return the table of one text."""
        import numpy as np

        text = np.array([words])
        row = np.full_like(self._places, _FAR)[None]
        other = row.copy()
        # what row 1 does not look at stays far, also when the array comes to be row 2
        high = self._bands[0][1] if self._bands else len(self._places)
        row[0, :high] = self._places[:high]
        rows = [Row(0, row[0, :high].tolist())]
        for place, (low, high) in enumerate(self._bands):
            self._next_row(row, other, text[:, place], (low, high))
            rows.append(Row(low, other[0, low:high].tolist()))
            row, other = other, row
        return rows

    def edits(
        self, texts: Sequence[Sequence[int]], firsts: Sequence[int], rows: Sequence[Row]
    ) -> list[int]:
        """Return the edits of further texts, which start like one whose table is there.

        Args:
            texts: Texts of the same length.
            firsts: For each the place of the first word that differs, in rising order.
            rows: The table of the text that they start like.
        """
        import numpy as np

        words = np.array(texts)
        row = np.full((len(texts), len(self._places)), _FAR, dtype=np.int64)
        other = row.copy()
        active = 0
        for place in range(firsts[0], len(self._bands)):
            joining = active
            while active < len(firsts) and firsts[active] <= place:
                active += 1
            if active > joining:
                low, cells = rows[place]
                row[joining:active, low : low + len(cells)] = cells
            self._next_row(row[:active], other[:active], words[:active, place], self._bands[place])
            row, other = other, row
        last: list[int] = row[:, -1].tolist()
        return last

    def _next_row(
        self, row: IntArray, into: IntArray, words: IntArray, band: tuple[int, int]
    ) -> None:
        """Compute the cells of a band from the row before, for several texts."""
        import numpy as np

        low, high = band
        cells = into[:, low:high]
        np.add(row[:, low:high], 1, out=cells)  # deletion
        start = max(low, 1)
        differ = words[:, None] != self._symbols[start - 1 : high - 1]
        inner = into[:, start:high]
        np.minimum(inner, row[:, start - 1 : high - 1] + differ, out=inner)
        cells -= self._places[low:high]
        np.minimum.accumulate(cells, axis=1, out=cells)  # insertions, any number in a row
        cells += self._places[low:high]
        if low:
            into[:, low - 1] = _FAR  # left over from two rows before


def _bands(length: int, n_reference: int) -> Iterator[tuple[int, int]]:
    """The cells of each row that are looked at."""
    ratio = n_reference / length if length else 1.0
    width = math.ceil(ratio / 2 + _BEAM) if ratio / 2 > _BEAM else _BEAM
    for row in range(1, length + 1):
        middle = math.floor(row * ratio)
        high = n_reference + 1 if row == length else min(n_reference + 1, middle + width)
        yield max(0, middle - width), high
