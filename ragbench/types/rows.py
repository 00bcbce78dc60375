"""Columns whose rows lie query by query, the hits of some queries, values and places by names.

A run file may name a document twice; such are found among millions of hashes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import methodcaller
from struct import error as struct_error
from struct import pack_into
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ragbench.types.byte_ids import ByteIds, HashArray
from ragbench.types.checks import checked_score

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
CauseArray = NDArray[np.uint8]
NO_NUMBER = (TypeError, ValueError, OverflowError, struct_error)
"""What `struct` raises where it is given something else than a number that a double can hold."""

_AT_ONCE = 1000
Item = TypeVar("Item")
Value = TypeVar("Value")
_values = methodcaller("values")

_FEWEST_SLOT_BITS, _MOST_SLOT_BITS = 17, 24
_MOST_ROUNDS = 32  # of looking for repeated keys; one or two are usual
_FEWEST_NEW, _NEW_PART = 1024, 8  # places that are not sorted in yet


def borders(lengths: Iterable[int], n: int) -> IntArray:
    """Turn n lengths into the n + 1 borders between the rows of the queries."""
    starts = np.zeros(n + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, n), out=starts[1:])
    return starts


def nested(
    query_ids: Sequence[str], starts: IntArray, documents: Sequence[str], values: NDArray[Any]
) -> dict[str, dict[str, Any]]:
    """Return the columns as one dictionary per query."""
    documents, numbers, borders = [*documents], values.tolist(), starts.tolist()
    return {
        query_id: dict(zip(documents[start:end], numbers[start:end], strict=True))
        for query_id, start, end in zip(query_ids, borders, borders[1:], strict=False)
    }


def freeze(*arrays: NDArray[Any]) -> None:
    """Make arrays read-only, so that a frozen record is frozen in its columns too."""
    for each in arrays:
        each.setflags(write=False)


def score_column(run: Mapping[str, Mapping[str, float]], rows: int) -> FloatArray:
    """Return the scores of all queries one after the other."""
    try:
        return plain_scores(run.values(), len(run), rows)
    except NO_NUMBER:
        return _checked_scores(run, rows)


def plain_scores(rankings: Iterable[Mapping[str, float]], n_queries: int, rows: int) -> FloatArray:
    """Return the scores of n queries with so many rows; else an error of `NO_NUMBER`."""
    scores, place = np.empty(rows, np.float64), 0
    target = memoryview(scores)  # type: ignore[arg-type]  # an array is a buffer since Python 3.12
    lists = iter(rankings)
    # so many at once that calls cost little, so few that they are still in the cache
    at_once = max(1, _AT_ONCE * n_queries // max(rows, 1))
    while batch := [*islice(lists, at_once)]:
        values = [*chain.from_iterable(map(_values, batch))]
        # unlike NumPy, struct refuses '0.5'
        pack_into(f"{len(values)}d", target, 8 * place, *values)
        place += len(values)
    if np.isnan(scores).any():
        raise ValueError("NaN")
    return scores


def _checked_scores(run: Mapping[str, Mapping[str, float]], rows: int) -> FloatArray:
    """Look at every score by itself: the slow way, which can say what is wrong where."""
    checked = (
        checked_score(score, query_id, document)
        for query_id, hits in run.items()
        for document, score in hits.items()
    )
    return np.fromiter(checked, np.float64, rows)


class Mapped(Sequence[Value]):
    """What a function makes of each item, made when somebody looks at it: nothing is held."""

    def __init__(self, function: Callable[[Item], Value], items: Sequence[Item]) -> None:
        self._function, self._items = function, items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, row: int) -> Value: ...

    @overload
    def __getitem__(self, row: slice) -> Mapped[Value]: ...

    def __getitem__(self, row: int | slice) -> Value | Mapped[Value]:
        if isinstance(row, slice):
            return Mapped(self._function, self._items[row])
        return self._function(self._items[row])


@dataclass(frozen=True, eq=False)
class HitBlock:
    """Whole queries, a row per hit, the rows of a query together.

    A document may be there twice: ranking counts it once, at its best score.
    """

    query_ids: Sequence[bytes]
    """The queries; row i of query q lies between starts[q] and starts[q + 1]."""
    starts: NDArray[np.int64]
    """Shape (n queries + 1,): where each query's rows start; no query is empty."""
    documents: ByteIds
    scores: NDArray[np.float64]
    """The score of every row; never NaN."""

    def __len__(self) -> int:
        return len(self.scores)

    def first(self, n_queries: int) -> HitBlock:
        """Return the first queries alone."""
        rows = slice(0, int(self.starts[n_queries]))
        return HitBlock(
            self.query_ids[:n_queries],
            self.starts[: n_queries + 1],
            self.documents.take(rows),
            self.scores[rows],
        )


class Repeats:
    """Looks for repeated keys in one table after another; the table is made once."""

    def __init__(self) -> None:
        self._slots = np.empty(1 << _FEWEST_SLOT_BITS, np.int32)

    def suspects(self, keys: HashArray) -> IntArray:
        """Return all rows that share their key with another; none is by far the usual case.

        Linear; n log n where a key is there twice.
        """
        bits = min(len(keys).bit_length() + 2, _MOST_SLOT_BITS)
        if len(self._slots) < 1 << bits:
            self._slots = np.empty(1 << bits, np.int32)
        if not may_repeat(keys, self._slots):
            return np.zeros(0, np.int64)
        rows = np.argsort(keys)
        twice = keys[rows[1:]] == keys[rows[:-1]]
        shared = np.concatenate((twice, [False])) | np.concatenate(([False], twice))
        return np.sort(rows[shared])


def may_repeat(keys: HashArray, slots: NDArray[np.int32]) -> bool:
    """Whether a key is there twice; now and then also where none is.

    Every row is written into the slot of its key, and the last one stays. The few others share a
    slot by chance, or because they share the key: either with the one that stayed, or with one that
    lost the slot too, which the next round over the losers finds. The number of slots is a power of
    two; anything may be in them.
    """
    shift = np.uint64(65 - len(slots).bit_length())
    for _ in range(_MOST_ROUNDS):
        if not len(keys):
            return False
        numbers = np.arange(len(keys), dtype=np.int32)
        slot = (keys >> shift).view(np.int64)
        slots[slot] = numbers
        winner = slots[slot]
        losers = np.flatnonzero(winner != numbers)
        if (keys[losers] == keys[winner[losers]]).any():
            return True
        keys = keys[losers]
    return True  # perhaps: so many ids share a slot that sorting is quicker


def without_repeats(
    block: HitBlock, query: IntArray, suspects: IntArray
) -> tuple[HitBlock, IntArray]:
    """Keep each document of a query once, where it came first, at its best score.

    `suspects` are the rows that may share query and document with another, ascending. Returned with
    the rows that were kept.
    """
    scores, keep = block.scores.copy(), np.ones(len(block), bool)
    first: dict[tuple[int, bytes], int] = {}
    for row, number in zip(suspects.tolist(), query[suspects].tolist(), strict=True):
        before = first.setdefault((number, block.documents[row]), row)
        if before != row:
            keep[row] = False
            scores[before] = max(scores[row], scores[before])
    kept = np.flatnonzero(keep)
    starts = np.concatenate(([0], np.cumsum(keep)))[block.starts]
    return HitBlock(block.query_ids, starts, block.documents.take(kept), scores[kept]), kept


class Places:
    """Numbers from 0 on by keys, in 16 bytes each: of a key no more than its hash is kept.

    Two keys share a number where their hashes of 64 bits do, once in some 10^7 tables of a million.
    Who must be sure looks at what is there.

    Example:
        >>> places = Places()
        >>> places["q1"] = 7
        >>> places.get("q1"), places.get("q2"), "q1" in places, len(places)
        (7, None, True, 1)
    """

    def __init__(self) -> None:
        self._hashes, self._numbers = array("q"), array("q")
        """In the order of the hashes."""
        self._new: dict[int, int] = {}
        """Those that came last; -1 where a key was taken out."""
        self._n = 0

    @classmethod
    def of(cls, keys: Iterable[Hashable]) -> Places:
        """Number keys in their order."""
        made = cls()
        for number, key in enumerate(keys):
            made[key] = number
        return made

    def __len__(self) -> int:
        return self._n

    def __contains__(self, key: Hashable) -> bool:
        return self._find(hash(key)) >= 0

    def get(self, key: Hashable) -> int | None:
        """Return the number of a key; None where it has none."""
        number = self._find(hash(key))
        return None if number < 0 else number

    def __setitem__(self, key: Hashable, number: int) -> None:
        self._set(hash(key), number)

    def setdefault(self, key: Hashable, number: int) -> int:
        """Return the number of a key; a new one gets this one."""
        known = self._find(own := hash(key))
        if known >= 0:
            return known
        self._set(own, number)
        return number

    def discard(self, key: Hashable) -> None:
        """Take a key out, if it is there."""
        if self._find(own := hash(key)) >= 0:
            self._new[own] = -1
            self._n -= 1

    def _find(self, own: int) -> int:
        number = self._new.get(own)
        if number is None:
            at = bisect_left(self._hashes, own)
            is_there = at < len(self._hashes) and self._hashes[at] == own
            number = self._numbers[at] if is_there else -1
        return number

    def _set(self, own: int, number: int) -> None:
        self._n += self._find(own) < 0
        self._new[own] = number
        if len(self._new) >= max(_FEWEST_NEW, len(self._hashes) // _NEW_PART):
            self._sort()

    def _sort(self) -> None:
        """Put those that came last where they belong."""
        n = len(self._new)
        new = np.fromiter(self._new, np.int64, n), np.fromiter(self._new.values(), np.int64, n)
        old = np.array(self._hashes, np.int64), np.array(self._numbers, np.int64)
        hashes, numbers = map(np.concatenate, zip(old, new, strict=True))
        order = np.argsort(hashes, kind="stable")
        hashes, numbers = hashes[order], numbers[order]
        # of a key that was there before, the one that came last counts
        stays = np.append(hashes[1:] != hashes[:-1], True) & (numbers >= 0)
        self._hashes, self._numbers = (array("q", p[stays].tobytes()) for p in (hashes, numbers))
        self._new = {}


class WithIds(Sequence[Value]):
    """Values that lie elsewhere, and their ids, which are at hand.

    Example:
        >>> kept = WithIds(["q1", "q2", "q3"], ["one", "two", "three"])
        >>> kept.only({"q1", "q3"}).ids, [*kept.only({"q3"})], [*kept[1:]], kept[0]
        (['q1', 'q3'], ['three'], ['two', 'three'], 'one')
    """

    def __init__(self, ids: Sequence[str], values: Sequence[Value]) -> None:
        self.ids, self._values = ids, values

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, row: int) -> Value: ...

    @overload
    def __getitem__(self, row: slice) -> WithIds[Value]: ...

    def __getitem__(self, row: int | slice) -> Value | WithIds[Value]:
        if isinstance(row, slice):
            return WithIds(self.ids[row], self._values[row])
        return self._values[row]

    def only(self, wanted: Container[str]) -> WithIds[Value]:
        """Return those of some ids, in the same order."""
        rows = array("q", (row for row, name in enumerate(self.ids) if name in wanted))
        return WithIds([self.ids[row] for row in rows], Mapped(self._values.__getitem__, rows))


class Growing(Protocol[Value]):
    """What values are appended to: a list, or what keeps them elsewhere."""

    def __iter__(self) -> Iterator[Value]: ...

    @overload
    def __getitem__(self, row: int, /) -> Value: ...

    @overload
    def __getitem__(self, row: slice, /) -> Growing[Value]: ...

    def __setitem__(self, row: int, value: Value, /) -> None: ...

    def append(self, value: Value, /) -> None:
        """Add a row; a `ValueError` where the value cannot be kept there."""


class Keyed(Mapping[str, Value]):
    """Values by their keys, in the order in which these came, and kept wherever `values` are.

    In memory a key is itself and 24 bytes. Where `values` refuses one, a list holds all.

    Example:
        >>> kept = Keyed([])
        >>> kept["q1"], kept["q2"], kept["q1"] = 1, 2, 3
        >>> kept.setdefault("q2", 7), kept.setdefault("q3", 7), dict(kept)
        (2, 7, {'q1': 3, 'q2': 2, 'q3': 7})
    """

    def __init__(self, values: Growing[Value]) -> None:
        self._ids, self._values, self._rows = list[str](), values, Places()
        self._alike: dict[str, int] = {}
        """The rows of keys that share their hash with one before."""

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __contains__(self, key: object) -> bool:
        return self._row(key) is not None

    def __getitem__(self, key: str) -> Value:
        if (row := self._row(key)) is None:
            raise KeyError(key)
        return self._values[row]

    def __setitem__(self, key: str, value: Value) -> None:
        row = self._row(key)
        try:
            self._put(row, value)
        except ValueError:
            self._values = [*self._values]
            self._put(row, value)
        if row is None:
            number = len(self._ids)
            self._ids.append(key)
            if self._rows.setdefault(key, number) != number:
                self._alike[key] = number

    def setdefault(self, key: str, value: Value) -> Value:
        """Return the value of a key; a new one gets this one."""
        if (row := self._row(key)) is not None:
            return self._values[row]
        self[key] = value
        return value

    @property
    def rows(self) -> WithIds[Value]:
        """The values in order, with their keys."""
        return WithIds(self._ids, Mapped(self._values.__getitem__, range(len(self._ids))))

    def only(self, wanted: Container[str]) -> Keyed[Value]:
        """Return those of some keys, kept in the same way."""
        found = Keyed(self._values[:0])
        for key in self._ids:
            if key in wanted:
                found[key] = self[key]
        return found

    def _put(self, row: int | None, value: Value) -> None:
        if row is None:
            self._values.append(value)
        else:
            self._values[row] = value

    def _row(self, key: Hashable) -> int | None:
        row = self._rows.get(key)
        if row is None or self._ids[row] == key:
            return row
        return self._alike.get(key) if isinstance(key, str) else None
