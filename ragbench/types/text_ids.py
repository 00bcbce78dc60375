"""Ids as text that stay bytes until somebody looks at them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragbench.types.byte_ids import PADDING, ByteArray, ByteIds, spans

_NEWLINE = ord("\n")


class TextIds(Sequence[str]):
    r"""n ids out of a file, decoded when they are asked for.

    A file of a million hits becomes a run without a million Python objects: some 30 bytes an id.

    Example:
        >>> ids = TextIds.of(ByteIds.of(["d1", "d2", "d3"]))
        >>> ids[0], ids[1:], len(ids)
        ('d1', ['d2', 'd3'], 3)
    """

    def __init__(self, as_bytes: ByteIds) -> None:
        self.as_bytes = as_bytes
        """The ids, one after the other, a line end after each."""

    @classmethod
    def of(cls, ids: ByteIds) -> TextIds:
        """Copy ids out of their buffer; none of them holds a line end."""
        # with the byte after each, whose place the line end takes
        data = ids.data[spans(ids.starts, ids.starts + ids.lengths + 1)]
        data[np.cumsum(ids.lengths + 1) - 1] = _NEWLINE
        return cls._laid_out([data], ids.lengths)

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
        if start >= stop:
            return []
        ids = self.as_bytes
        end = int(ids.starts[stop - 1] + ids.lengths[stop - 1])
        text = ids.data[int(ids.starts[start]) : end].tobytes()
        return text.decode("utf-8", "surrogateescape").split("\n")

    def __iter__(self) -> Iterator[str]:
        return iter(self[:])


def as_bytes(texts: Sequence[str]) -> ByteIds:
    """Return ids as bytes: those of a file are bytes already."""
    return texts.as_bytes if isinstance(texts, TextIds) else ByteIds.of(texts)
