"""The table of edit distances near its diagonal, for one text or for several of one length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragbench.types import IntArray

_BEAM = 25  # cells on either side of the diagonal, as in sacrebleu
_FEW = 120  # cells of a row; the step of an array takes as long
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


class TableRow(NamedTuple):
    """The cells of a row of the table that were computed."""

    low: int
    """Column of the first one."""
    cells: list[int]
    """Edits, from there on."""

    def __call__(self, column: int) -> int:
        """Return a cell; far too many edits where it was not computed."""
        column -= self.low
        return self.cells[column] if 0 <= column < len(self.cells) else _FAR

    def between(self, first: int, end: int) -> list[int]:
        """Return the cells from one column to before another, which lies further right."""
        start = first - self.low
        found = [_FAR] * -start if start < 0 else []
        found += self.cells[max(start, 0) : end - self.low]
        return found + [_FAR] * (end - first - len(found))


def align(rows: Sequence[TableRow], words: Sequence[int], reference: Sequence[int]) -> Alignment:
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
        self._reference = list(reference)
        self._bands = list(_bands(length, len(reference)))
        self._width = max((high - low for low, high in self._bands), default=0)

    def rows(self, words: Sequence[int]) -> list[TableRow]:
        """Return the table of one text."""
        # row 1 looks no further than its own band
        width = self._bands[0][1] if self._bands else len(self._reference) + 1
        rows = [TableRow(0, list(range(width)))]
        for word, band in zip(words, self._bands, strict=True):
            rows.append(self._row_after(rows[-1], word, *band))
        return rows

    def _row_after(self, before: TableRow, word: int, low: int, high: int) -> TableRow:
        """Compute the cells of a band from the row before."""
        start = max(low, 1)
        above = before.between(start - 1, high)
        cells = [] if low else [before(0) + 1]
        left = cells[0] if cells else _FAR
        for symbol, diagonal, up in zip(
            self._reference[start - 1 : high - 1], above, above[1:], strict=False
        ):
            edits = diagonal if symbol == word else diagonal + 1
            if up + 1 < edits:
                edits = up + 1
            if left + 1 < edits:
                edits = left + 1
            left = edits
            cells.append(edits)
        return TableRow(low, cells)

    def edits(
        self, texts: Sequence[Sequence[int]], firsts: Sequence[int], rows: Sequence[TableRow]
    ) -> list[int]:
        """Return the edits of further texts, which start like one whose table is there.

        The texts have one length; `firsts`, which rise, are the places of their first words that
        differ, `rows` the table of the text that they start like.
        """
        if len(texts) * self._width <= _FEW:
            return [
                self._edits_of(text, first, rows) for text, first in zip(texts, firsts, strict=True)
            ]
        return self._edits_together(texts, firsts, rows)

    def _edits_of(self, text: Sequence[int], first: int, rows: Sequence[TableRow]) -> int:
        row = rows[first]
        for place in range(first, len(self._bands)):
            row = self._row_after(row, text[place], *self._bands[place])
        return row.cells[-1]

    def _edits_together(
        self, texts: Sequence[Sequence[int]], firsts: Sequence[int], rows: Sequence[TableRow]
    ) -> list[int]:
        """The same by arrays: each row of all texts in a few steps."""
        import numpy as np

        words, symbols = np.array(texts), np.array(self._reference)
        row = np.full((len(texts), len(symbols) + 1), _FAR, dtype=np.int64)
        other = row.copy()
        active = 0
        for place in range(firsts[0], len(self._bands)):
            joining = active
            while active < len(firsts) and firsts[active] <= place:
                active += 1
            if active > joining:
                low, cells = rows[place]
                row[joining:active, low : low + len(cells)] = cells
            low, high = self._bands[place]
            differ = words[:active, place, None] != symbols[max(low, 1) - 1 : high - 1]
            _next_row(row[:active], other[:active], differ, low, high)
            row, other = other, row
        last: list[int] = row[:, -1].tolist()
        return last


def _next_row(
    row: IntArray, into: IntArray, differ: NDArray[np.bool_], low: int, high: int
) -> None:
    """Compute the cells of a band from the row before, for several texts."""
    import numpy as np

    cells = into[:, low:high]
    np.add(row[:, low:high], 1, out=cells)  # deletion
    start = max(low, 1)
    inner = into[:, start:high]
    np.minimum(inner, row[:, start - 1 : high - 1] + differ, out=inner)
    places = np.arange(low, high)
    cells -= places
    np.minimum.accumulate(cells, axis=1, out=cells)  # insertions, any number in a row
    cells += places
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
