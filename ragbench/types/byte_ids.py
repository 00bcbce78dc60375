"""Ids as spans of one buffer of bytes: hashed, compared and ordered without a loop over ids.

An id becomes text only when a caller reads it. A word is eight bytes of an id as one integer.
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

# Bytes after the last id of a buffer, so that whole words can be read at its end.
PADDING = bytes(16)

# Odd multipliers without structure: the fractions of pi and of the golden ratio in 64 bits.
_SPREAD = np.uint64(0x243F6A8885A308D3)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Row n masks the first n bytes of a little-endian word.
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_NEWLINE = ord("\n")
_ROWS_PER_BATCH = 1 << 16  # so few that their columns stay in the caches of a core
_SLOT_BITS = 14
_IDS_PER_BLOCK = 4096  # decoded at once
_MAX_SORT_WORDS = 8  # longer ids are sorted as Python objects: rare, and simpler


@dataclass(frozen=True, eq=False)
class ByteIds:
    """Ids of n rows, each a span of a shared buffer; costs 16 bytes per id beside the buffer.

    Indexing returns the bytes of an id; `of` and `of_bytes` build the object. `take` returns the
    ids of some rows, most other methods an array with an entry per id.

    Attributes:
        data: Buffer of bytes; the length of `PADDING` or more follows the last id.
        starts: Shape (n,): position of the first byte of each id.
        lengths: Shape (n,): number of bytes of each id; 0 for an empty id.
    """

    data: ByteArray
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> ByteIds:
        """Copy texts into one buffer, as the bytes that a file would hold (see `id_bytes`)."""
        joined = "\n".join(texts)
        # ASCII without line ends inside ids: one encode and one search find all borders.
        if joined.isascii() and joined.count("\n") == len(texts) - 1:
            data = np.frombuffer(joined.encode("ascii") + b"\n" + PADDING, np.uint8)
            ends = np.flatnonzero(data[: len(joined) + 1] == ord("\n"))
            starts = np.concatenate((ends[:0], [0], ends[:-1] + 1))[: len(ends)]
            return cls(data, starts, ends - starts)
        return cls.of_bytes(list(map(id_bytes, texts)))

    @classmethod
    def of_bytes(cls, ids: Sequence[bytes]) -> ByteIds:
        """Copy ids into one buffer, one after the other."""
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
        """Return the ids of some rows, in the order of `rows`, or those where a mask is True.

        They share the buffer, which is not copied.
        """
        return ByteIds(self.data, self.starts[rows], self.lengths[rows])

    def hashes(self) -> HashArray:
        """Return a 64-bit hash of each id, shape (n,); it is the same on every machine.

        Equal ids have equal hashes. Different ids may collide, so compare the bytes after a join
        by hashes.
        """
        if len(self) > _ROWS_PER_BATCH:
            batches = (slice(n, n + _ROWS_PER_BATCH) for n in range(0, len(self), _ROWS_PER_BATCH))
            return np.concatenate([self.take(batch).hashes() for batch in batches])
        state: HashArray = self.lengths.astype(np.uint64)
        state *= GOLDEN
        word_columns = words_from(self.data, self.starts)
        for number in range(self._most_words()):
            rows = self._rows_with_word(number)
            if rows is None:
                words = self._clear_tail(next(word_columns), number, self.lengths)
            else:
                words = self.words(number, rows)
            words ^= state if rows is None else state[rows]
            words *= _SPREAD
            words ^= words >> np.uint64(29)
            if rows is None:
                state = words
            else:
                state[rows] = words
        state *= GOLDEN
        state ^= state >> np.uint64(32)
        return state

    def words(self, number: int, rows: NDArray[np.int64] | None = None) -> HashArray:
        """Return eight bytes of each id as a little-endian word, with zeros after its end.

        The shape is (n,), or (rows,).

        Args:
            number: Position of the word in the id, from 0: bytes 8 * number to 8 * number + 7.
            rows: Rows to read, each with at least one byte there; None reads all ids, which then
                all need one. In word 0 an id may be empty.
        """
        starts, lengths = self.starts, self.lengths
        if rows is not None:
            starts, lengths = starts[rows], lengths[rows]
        words = next(words_from(self.data, starts + 8 * number if number else starts))
        return self._clear_tail(words, number, lengths)

    def _clear_tail(self, words: HashArray, number: int, lengths: NDArray[np.int64]) -> HashArray:
        """Set the bytes beyond the end of each id to zero, in place, and return the words."""
        if self._least == self._most < 8 * number + 8:
            words &= _FIRST_BYTES[max(self._least - 8 * number, 0)]
        elif self._least < 8 * number + 8:
            words &= _FIRST_BYTES[np.minimum(lengths - 8 * number, 8)]
        return words

    def padded(self) -> HashArray:
        """Return the ids as a table of words, shape (n, words of the longest id).

        Zeros fill the row of a shorter id.
        """
        table = np.zeros((len(self), self._most_words()), "<u8")
        for number in range(self._most_words()):
            rows = self._rows_with_word(number)
            table[slice(None) if rows is None else rows, number] = self.words(number, rows)
        return table

    def differ_from_last(self) -> NDArray[np.bool_]:
        """Return a mask: for each id but the first, True if it differs from its predecessor.

        The shape is (n - 1,).
        """
        differ: NDArray[np.bool_] = self.lengths[1:] != self.lengths[:-1]
        for number in range(self._most_words()):
            rows = self._rows_with_word(number)
            if rows is None:
                words = self.words(number)
                differ |= words[1:] != words[:-1]
            else:  # ids of different lengths differ already
                both = rows[1:][np.diff(rows) == 1]
                differ[both - 1] |= self.words(number, both) != self.words(number, both - 1)
        return differ

    def equal(self, other: ByteIds) -> NDArray[np.bool_]:
        """Return a mask of shape (n,): True where the id equals that of `other` in its row.

        Both have n ids.
        """
        same: NDArray[np.bool_] = self.lengths == other.lengths
        for number in range(self._most_words()):
            if number < self._least_words() and same.all():
                same &= self.words(number) == other.words(number)
                continue
            rows = np.flatnonzero(same & (self.lengths > 8 * number))
            same[rows] = self.words(number, rows) == other.words(number, rows)
        return same

    def falling_order(self, group: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows sorted by group, then by the bytes of the id, largest first; shape (n,).

        Rows of one group with equal ids have no fixed order.

        Args:
            group: Shape (n,): number of the group of each row; smaller groups come first.
        """
        n_words = self._most_words()
        if n_words > _MAX_SORT_WORDS:
            ids = [self[row] for row in range(len(self))]
            falling = sorted(range(len(self)), key=ids.__getitem__, reverse=True)
            by_id = np.array(falling, np.int64)
            return by_id[np.argsort(group[by_id], kind="stable")]
        code = group
        for number in range(n_words):
            rows = np.flatnonzero(self.lengths > 8 * number)
            words = np.zeros(len(self), np.uint64)
            words[rows] = self.words(number, rows)
            # Big-endian words compare as their bytes do; inverted, the largest comes first.
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
        """Return the rows whose ids have a byte in a word; None if all have one."""
        if number < self._least_words():
            return None
        return np.flatnonzero(self.lengths > 8 * number)


def query_keys(hashes: HashArray, query: NDArray[np.int64]) -> HashArray:
    """Return a key of query and document for each row, shape (n,), uint64.

    Different pairs may have one key, but seldom do.

    Args:
        hashes: Hash of the document of each row.
        query: Number of the query of each row.
    """
    keys: HashArray = query.astype(np.uint64)
    keys *= GOLDEN
    keys += hashes
    return keys


def numbered(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each value its rank among the distinct values, from 0 for the smallest.

    Ranks fit into 32 bits, so two of them make one 64-bit key. Sorting such keys gives the order of
    `numpy.lexsort` several times faster. It takes n log n steps. Each NaN counts as a value of its
    own.

    Example:
        >>> numbered(np.array([2.5, -1.0, 2.5]))
        array([1, 0, 1])
    """
    order, numbers = np.argsort(values), np.zeros(len(values), np.int64)
    rising = values[order]
    numbers[order[1:]] = np.cumsum(rising[1:] != rising[:-1])
    return numbers


def distinct(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return (distinct numbers, position of the number of each value among them).

    Numbers are compared by their bits: 0.0 and -0.0 are distinct. Linear if the distinct numbers
    are few and share no slot of the table, else n log n. The numbers have no fixed order.

    Example:
        >>> numbers, which = distinct(np.array([0.5, 2.0, 0.5]))
        >>> numbers[which]
        array([0.5, 2. , 0.5])
    """
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    slot = (bits * GOLDEN >> np.uint64(64 - _SLOT_BITS)).view(np.int64)
    table, used = np.zeros(1 << _SLOT_BITS, np.uint64), np.zeros(1 << _SLOT_BITS, bool)
    table[slot], used[slot] = bits, True
    # A slot that two numbers share holds only one of them, so the other one fails this check.
    if (table[slot] == bits).all():
        return table[used].view(np.float64), (np.cumsum(used) - 1)[slot]
    numbers, which = np.unique(bits, return_inverse=True)
    return numbers.view(np.float64), which


def spans(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of all spans, one span after the other; an empty span adds none.

    Ends are not included.

    Example:
        >>> spans(np.array([5, 0]), np.array([7, 1]))
        array([5, 6, 0])
    """
    lengths = ends - starts
    shift = starts - (np.cumsum(lengths) - lengths)
    positions: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(shift, lengths)
    return positions


def side_by_side(tables: Sequence[HashArray]) -> bytes:
    """Return the rows of several tables joined to one line of bytes, without zero bytes.

    The tables are those of `ByteIds.padded`. A table with a single row is repeated in every row.
    Bytes that are zero inside an id are lost.

    Raises:
        ValueError: There is no table, or tables have different numbers of rows, not 1.

    Example:
        >>> names, ends = ByteIds.of(["d1", "d22"]), ByteIds.of([".", "!"])
        >>> side_by_side([names.padded(), ends.padded()])
        b'd1.d22!'
    """
    width = sum(table.shape[1] for table in tables)
    rows = np.empty((max(map(len, tables)), width), "<u8")
    for place, column in enumerate(chain.from_iterable(table.T for table in tables)):
        rows[:, place] = column  # by column: several times as fast as by parts of rows
    return rows.tobytes().translate(None, b"\0")


def words_from(data: ByteArray, places: NDArray[np.int64]) -> Iterator[HashArray]:
    """Yield the eight bytes at each place as little-endian words, then the next eight, without end.

    The caller stops the iteration. `data` must extend at least 15 bytes beyond the last word read.
    """
    # NumPy gathers unaligned words four times as slowly, so two aligned words are shifted into one.
    aligned = data[: len(data) // 8 * 8].view("<u8")
    place, shift = places >> 3, ((places & 7) << 3).view(np.uint64)
    complement = np.uint64(64) - shift  # a shift by all 64 bits gives 0
    # `clip` spares a check of every place; all of them are inside
    low = aligned.take(place, mode="clip").astype(np.uint64, copy=False)
    while True:
        place += 1
        high = aligned.take(place, mode="clip").astype(np.uint64, copy=False)
        low >>= shift
        low |= high << complement
        yield low
        low = high


def keep_freed_memory() -> None:
    """Make glibc reuse freed arrays up to 31 MiB instead of returning them to the system.

    Call it before work in chunks of text or batches: memory from the system is cleared before each
    use. It holds for all threads of the process.
    """
    # glibc keeps freed blocks up to the size of the largest one freed so far, at most 32 MB.
    np.empty(31 << 20, np.uint8)


def joined_bytes(pieces: Iterable[bytes | memoryview]) -> ByteArray:
    """Return all pieces and then `PADDING` as one read-only array of bytes.

    The 16 zero bytes of `PADDING` allow to read an 8-byte word at every position of the text.
    """
    return np.frombuffer(b"".join([*pieces, PADDING]), np.uint8)


class TextIds(Sequence[str]):
    r"""Sequence of n ids of a file, decoded when they are read; some 30 bytes per id.

    A file of a million hits becomes a run without a million Python objects. `of`, `packed` and
    `joined` build the object. Indexing returns an id as text, a slice returns a list.

    Attributes:
        as_bytes: Ids in one buffer, each followed by a line end.
    """

    def __init__(self, as_bytes: ByteIds) -> None:
        self.as_bytes = as_bytes

    @classmethod
    def of(cls, ids: ByteIds) -> TextIds:
        """Copy ids out of their buffer; no id may hold a line end."""
        # Each id is copied with the byte after it, which then becomes the line end.
        # Ids of one length are copied as rows: several times as fast as byte by byte.
        if len(ids) and ids._least == ids._most:
            shape, row = (len(ids.data) - ids._most,), f"V{ids._most + 1}"
            data = np.ndarray(shape, row, ids.data, strides=(1,))[ids.starts].view(np.uint8)
        else:
            data = ids.data[spans(ids.starts, ids.starts + ids.lengths + 1)]
        data[np.cumsum(ids.lengths + 1) - 1] = _NEWLINE
        return cls._laid_out([data], ids.lengths)

    @classmethod
    def packed(cls, ids: Sequence[str]) -> TextIds | None:
        """Return ids in packed form; None if an id would not survive it, as one with a line end.

        `TextIds` are returned as they are.
        """
        if isinstance(ids, TextIds):
            return ids
        texts = cls.of(ByteIds.of(ids))
        return texts if texts[:] == [*ids] else None

    @classmethod
    def joined(cls, parts: Sequence[TextIds]) -> TextIds:
        """Return the ids of all parts, one part after the other."""
        lengths = np.concatenate([np.zeros(0, np.int64), *(p.as_bytes.lengths for p in parts)])
        return cls._laid_out([part.as_bytes.data[: -len(PADDING)] for part in parts], lengths)

    @classmethod
    def _laid_out(cls, data: Sequence[ByteArray], lengths: NDArray[np.int64]) -> TextIds:
        """Return the ids whose bytes stand behind each other in `data`."""
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
        """Return the ids from `start` to before `stop`, joined by line ends; '' for no ids."""
        if start >= stop:
            return ""
        ids = self.as_bytes
        first, end = ids.starts.item(start), ids.starts.item(stop - 1) + ids.lengths.item(stop - 1)
        return ids.data[first:end].tobytes().decode("utf-8", "surrogateescape")

    def are_words(self) -> bool:
        """Return True if no id is empty or holds ASCII white space or a NUL; True for no ids."""
        # The buffer has one line end per id, so any further deleted byte stands inside an id.
        text = self.as_bytes.data[: -len(PADDING)].tobytes()
        n = len(text) - len(text.translate(None, b" \t\n\r\v\f\0"))
        return n == len(self) and bool(self.as_bytes.lengths.all())

    def __iter__(self) -> Iterator[str]:
        # in blocks: a search ends early, and few ids are in memory
        starts = range(0, len(self), _IDS_PER_BLOCK)
        return chain.from_iterable(self[start : start + _IDS_PER_BLOCK] for start in starts)


def as_bytes(texts: Sequence[str]) -> ByteIds:
    """Return ids as bytes; those of `TextIds` without a copy."""
    return texts.as_bytes if isinstance(texts, TextIds) else ByteIds.of(texts)
