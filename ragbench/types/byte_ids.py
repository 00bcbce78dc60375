"""Ids as spans of one buffer of bytes: hashed, compared and ordered without a loop over ids.

They become text when somebody looks at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragbench.types.checks import id_bytes

ByteArray = NDArray[np.uint8]
HashArray = NDArray[np.uint64]

# What has to follow the last id of a buffer, so that whole words can be read there.
PADDING = bytes(16)

# two odd constants without structure: the fractions of pi and of the golden ratio in 64 bits
_SPREAD = np.uint64(0x243F6A8885A308D3)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_NEWLINE = ord("\n")
_AT_ONCE = 1 << 16
_SLOT_BITS = 14
_WORDS_TO_SORT_BY = 8  # ids that differ later only are compared one by one


@dataclass(frozen=True, eq=False)
class ByteIds:
    """n ids, each a span of a buffer; costs 16 bytes an id beside the buffer.

    Attributes:
        data: The buffer; at least as many bytes as `PADDING` has follow the last id.
    """

    data: ByteArray
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> ByteIds:
        """Lay texts out one after the other, as the bytes that a file would hold."""
        joined = "\n".join(texts)
        if joined.isascii() and joined.count("\n") == len(texts) - 1:
            data = np.frombuffer(joined.encode("ascii") + b"\n" + PADDING, np.uint8)
            ends = np.flatnonzero(data[: len(joined) + 1] == ord("\n"))
            starts = np.concatenate((ends[:0], [0], ends[:-1] + 1))[: len(ends)]
            return cls(data, starts, ends - starts)
        return cls.of_bytes(list(map(id_bytes, texts)))

    @classmethod
    def of_bytes(cls, ids: Sequence[bytes]) -> ByteIds:
        """Lay ids out one after the other."""
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return cls(
            np.frombuffer(b"".join([*ids, PADDING]), np.uint8),
            np.cumsum(lengths) - lengths,
            lengths,
        )

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes:
        start = int(self.starts[row])
        return self.data[start : start + int(self.lengths[row])].tobytes()

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_] | slice) -> ByteIds:
        """Return some of the ids, over the same buffer."""
        return ByteIds(self.data, self.starts[rows], self.lengths[rows])

    def hashes(self) -> HashArray:
        """Return a 64-bit hash of each id; the same on every machine, equal where ids are.

        Different ids may share one: after a join by hashes, compare the bytes.
        """
        if len(self) > _AT_ONCE:  # so few that their columns stay in the caches of a core
            parts = range(0, len(self), _AT_ONCE)
            return np.concatenate([self.take(slice(n, n + _AT_ONCE)).hashes() for n in parts])
        mixed: HashArray = self.lengths.astype(np.uint64)
        mixed *= GOLDEN
        every = words_from(self.data, self.starts)
        for number in range(self._most_words()):
            rows = self._rows_with_word(number)
            if rows is None:
                after = self._ended(next(every), number, self.lengths)
            else:
                after = self.words(number, rows)
            after ^= mixed if rows is None else mixed[rows]
            after *= _SPREAD
            after ^= after >> np.uint64(29)
            if rows is None:
                mixed = after
            else:
                mixed[rows] = after
        mixed *= GOLDEN
        mixed ^= mixed >> np.uint64(32)
        return mixed

    def words(self, number: int, rows: NDArray[np.int64] | None = None) -> HashArray:
        """Return eight bytes of each id as a little-endian word, zeros after its end.

        `number` counts the words from 0. Given `rows`, only these ids are looked at; each must have
        a byte there.
        """
        starts, lengths = self.starts, self.lengths
        if rows is not None:
            starts, lengths = starts[rows], lengths[rows]
        found = next(words_from(self.data, starts + 8 * number if number else starts))
        return self._ended(found, number, lengths)

    def _ended(self, words: HashArray, number: int, lengths: NDArray[np.int64]) -> HashArray:
        """Return words as they were, with zeros after the end of each id."""
        if self._least == self._most < 8 * number + 8:
            words &= _FIRST_BYTES[max(self._least - 8 * number, 0)]
        elif self._least < 8 * number + 8:
            words &= _FIRST_BYTES[np.minimum(lengths - 8 * number, 8)]
        return words

    def padded(self) -> HashArray:
        """Return the ids as a table of words: a row each, as wide as the longest, then zeros."""
        table = np.zeros((len(self), self._most_words()), "<u8")
        for number in range(self._most_words()):
            rows = self._rows_with_word(number)
            table[slice(None) if rows is None else rows, number] = self.words(number, rows)
        return table

    def differ_from_last(self) -> NDArray[np.bool_]:
        """Tell for each id but the first whether it differs from the one before it."""
        differ: NDArray[np.bool_] = self.lengths[1:] != self.lengths[:-1]
        for number in range(self._most_words()):
            rows = self._rows_with_word(number)
            if rows is None:
                words = self.words(number)
                differ |= words[1:] != words[:-1]
            else:  # those of other length differ already
                both = rows[1:][np.diff(rows) == 1]
                differ[both - 1] |= self.words(number, both) != self.words(number, both - 1)
        return differ

    def equal(self, other: ByteIds) -> NDArray[np.bool_]:
        """Compare the ids with as many others, pair by pair."""
        same: NDArray[np.bool_] = self.lengths == other.lengths
        for number in range(self._most_words()):
            if number < self._least_words() and same.all():
                same &= self.words(number) == other.words(number)
                continue
            rows = np.flatnonzero(same & (self.lengths > 8 * number))
            same[rows] = self.words(number, rows) == other.words(number, rows)
        return same

    def falling_order(self, group: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the order that sorts ids by their bytes, the largest first, group by group."""
        n_words = self._most_words()
        if n_words > _WORDS_TO_SORT_BY:
            ids = [self[row] for row in range(len(self))]
            falling = sorted(range(len(self)), key=ids.__getitem__, reverse=True)
            by_id = np.array(falling, np.int64)
            return by_id[np.argsort(group[by_id], kind="stable")]
        code = group
        for number in range(n_words):
            rows = np.flatnonzero(self.lengths > 8 * number)
            words = np.zeros(len(self), np.uint64)
            words[rows] = self.words(number, rows)
            # read from the first byte, the largest to the front
            code = (numbered(code) << 32) + numbered(~words.byteswap())
        order: NDArray[np.int64] = np.argsort(code)
        return order

    @cached_property
    def _least(self) -> int:
        return int(self.lengths.min()) if len(self) else 0

    @cached_property
    def _most(self) -> int:
        return int(self.lengths.max(initial=0))

    def _least_words(self) -> int:
        return (self._least + 7) // 8

    def _most_words(self) -> int:
        return (self._most + 7) // 8

    def _rows_with_word(self, number: int) -> NDArray[np.int64] | None:
        """Return the ids that reach into a word; None where all do."""
        if number < self._least_words():
            return None
        return np.flatnonzero(self.lengths > 8 * number)


def query_keys(hashes: HashArray, query: NDArray[np.int64]) -> HashArray:
    """Make hashes of documents differ from query to query, by the number of each row's query."""
    keys: HashArray = query.astype(np.uint64)
    keys *= GOLDEN
    keys += hashes
    return keys


def numbered(values: NDArray[Any]) -> NDArray[np.int64]:
    """Number the distinct values from 0, the smallest first: n log n.

    The numbers have 32 bits, so two make one key: sorting that is several times quicker than
    `numpy.lexsort`, and gives the same.

    Example:
        >>> numbered(np.array([2.5, -1.0, 2.5]))
        array([1, 0, 1])
    """
    order, numbers = np.argsort(values), np.zeros(len(values), np.int64)
    rising = values[order]
    numbers[order[1:]] = np.cumsum(rising[1:] != rising[:-1])
    return numbers


def distinct(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the distinct numbers, told apart by their bits, and which of them each one is.

    Linear where they are so few that no two share a slot; else their order, n log n, is looked for.

    Example:
        >>> numbers, which = distinct(np.array([0.5, 2.0, 0.5]))
        >>> numbers[which]
        array([0.5, 2. , 0.5])
    """
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    slot = (bits * GOLDEN >> np.uint64(64 - _SLOT_BITS)).view(np.int64)
    table, used = np.zeros(1 << _SLOT_BITS, np.uint64), np.zeros(1 << _SLOT_BITS, bool)
    table[slot], used[slot] = bits, True
    if (table[slot] == bits).all():
        return table[used].view(np.float64), (np.cumsum(used) - 1)[slot]
    found, which = np.unique(bits, return_inverse=True)
    return found.view(np.float64), which


def spans(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all positions of several spans, one span after the other."""
    lengths = ends - starts
    shift = starts - (np.cumsum(lengths) - lengths)
    positions: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(shift, lengths)
    return positions


def side_by_side(tables: Sequence[HashArray]) -> bytes:
    """Return the rows of several tables of `ByteIds.padded`, each row whole, without the zeros.

    A table of one row stands in every row.

    Example:
        >>> names, ends = ByteIds.of(["d1", "d22"]), ByteIds.of([".", "!"])
        >>> side_by_side([names.padded(), ends.padded()])
        b'd1.d22!'
    """
    width = sum(table.shape[1] for table in tables)
    rows = np.empty((max(map(len, tables)), width), "<u8")
    for place, column in enumerate(chain.from_iterable(table.T for table in tables)):
        rows[:, place] = column  # several times as fast as parts of rows
    return rows.tobytes().translate(None, b"\0")


def words_from(data: ByteArray, places: NDArray[np.int64]) -> Iterator[HashArray]:
    """Yield the eight bytes from each place as a little-endian word, then the next eight, and on.

    There must be 15 bytes more than are read. NumPy gathers words at any place four times as slowly
    as at multiples of eight: two of these, shifted, make one.
    """
    aligned = data[: len(data) // 8 * 8].view("<u8")
    place, shift = places >> 3, ((places & 7) << 3).view(np.uint64)
    rest = np.uint64(64) - shift  # a shift by all 64 bits gives 0
    low = aligned[place].astype(np.uint64, copy=False)
    while True:
        place += 1
        high = aligned[place].astype(np.uint64, copy=False)
        low >>= shift
        low |= high << rest
        yield low
        low = high


def keep_freed_memory() -> None:
    """Have the columns of one chunk of text lie where those of the last one lay.

    glibc keeps freed arrays up to the size of the largest that it gave back so far, and looks at
    none of 32 MB or more; what it gives back, the system clears before it is used again.
    """
    np.empty(31 << 20, np.uint8)


def joined_bytes(pieces: Iterable[bytes | memoryview]) -> ByteArray:
    """Return pieces as one buffer that whole words can be read from anywhere."""
    return np.frombuffer(b"".join([*pieces, PADDING]), np.uint8)


class TextIds(Sequence[str]):
    r"""n ids out of a file, decoded when they are asked for.

    A file of a million hits becomes a run without a million Python objects: some 30 bytes an id.
    """

    def __init__(self, as_bytes: ByteIds) -> None:
        # The ids, one after the other, a line end after each.
        self.as_bytes = as_bytes

    @classmethod
    def of(cls, ids: ByteIds) -> TextIds:
        """Copy ids out of their buffer; none of them holds a line end."""
        # with the byte after each, whose place the line end takes
        if len(ids) and ids._least == ids._most:  # as rows, several times as fast as their bytes
            shape, row = (len(ids.data) - ids._most,), f"V{ids._most + 1}"
            data = np.ndarray(shape, row, ids.data, strides=(1,))[ids.starts].view(np.uint8)
        else:
            data = ids.data[spans(ids.starts, ids.starts + ids.lengths + 1)]
        data[np.cumsum(ids.lengths + 1) - 1] = _NEWLINE
        return cls._laid_out([data], ids.lengths)

    @classmethod
    def packed(cls, ids: Sequence[str]) -> TextIds | None:
        """Pack ids; None where these bytes would not be the same texts: a line end in one."""
        if isinstance(ids, TextIds):
            return ids
        made = cls.of(ByteIds.of(ids))
        return made if made[:] == [*ids] else None

    @classmethod
    def joined(cls, parts: Sequence[TextIds]) -> TextIds:
        """Return the ids of all parts, one part after the other."""
        lengths = np.concatenate([np.zeros(0, np.int64), *(p.as_bytes.lengths for p in parts)])
        return cls._laid_out([part.as_bytes.data[: -len(PADDING)] for part in parts], lengths)

    @classmethod
    def _laid_out(cls, data: Sequence[ByteArray], lengths: NDArray[np.int64]) -> TextIds:
        buffer = np.concatenate([*data, np.frombuffer(PADDING, np.uint8)])
        return cls(ByteIds(buffer, np.cumsum(lengths + 1) - lengths - 1, lengths))

    def __len__(self) -> int:
        return len(self.as_bytes)

    def __getitem__(self, place: Any) -> Any:
        if not isinstance(place, slice):
            return self.as_bytes[range(len(self))[place]].decode("utf-8", "surrogateescape")
        start, stop, step = place.indices(len(self))
        if step != 1:
            return [self[row] for row in range(start, stop, step)]
        return self.text(start, stop).split("\n") if start < stop else []

    def text(self, start: int, stop: int) -> str:
        """Return some ids as one text, a line end between two."""
        if start >= stop:
            return ""
        ids = self.as_bytes
        end = int(ids.starts[stop - 1] + ids.lengths[stop - 1])
        text = ids.data[int(ids.starts[start]) : end].tobytes()
        return text.decode("utf-8", "surrogateescape")

    def are_words(self) -> bool:
        """Tell whether none is empty, or holds white space of ASCII or a NUL."""
        # the buffer holds nothing else but a line end after each, and zeros at its end
        text = self.as_bytes.data[: -len(PADDING)].tobytes()
        n = len(text) - len(text.translate(None, b" \t\n\r\v\f\0"))
        return n == len(self) and bool(self.as_bytes.lengths.all())

    def __iter__(self) -> Iterator[str]:
        return iter(self[:])


def as_bytes(texts: Sequence[str]) -> ByteIds:
    """Return ids as bytes: those of a file are bytes already."""
    return texts.as_bytes if isinstance(texts, TextIds) else ByteIds.of(texts)
