"""Where things are, by their names: two numbers each, whatever the names are."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable

import numpy as np

_FEWEST = 1024
_PART = 8


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
        if len(self._new) >= max(_FEWEST, len(self._hashes) // _PART):
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
