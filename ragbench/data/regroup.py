"""Brings the scattered lines of queries together: an external sort through a temporary file."""

from __future__ import annotations

import heapq
import struct
import tempfile
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import IO

from ragbench.data.run_text import ParsedText, parse_written
from ragbench.types.hit_block import HitBlock

_HEADER = struct.Struct("<IQ")
_query = itemgetter(0)


def regrouped(pieces: Iterable[ParsedText], block_bytes: int) -> Iterator[HitBlock]:
    """Yield the queries of all pieces, each whole, in the order of their ids.

    Each piece is sorted by query and written to a temporary file; then the pieces are merged. The
    lines of a query keep their order. The disk takes the size of the text; memory is that of one
    piece, one block, and the lines of one query per piece. Time grows as n log n.

    Args:
        pieces: The text of a run, part by part.
        block_bytes: A block is yielded as soon as it has so much text.
    """
    with tempfile.TemporaryFile() as file:
        ends = [_append_sorted(piece, file) for piece in pieces]
        parts = [_segments(file, *span) for span in zip([0, *ends], ends, strict=False)]
        merged = heapq.merge(*parts, key=_query)  # stable: earlier pieces first
        text: list[bytes] = []
        size = 0
        for _, segments in groupby(merged, key=_query):
            lines = [segment for _, segment in segments]
            text += lines
            size += sum(map(len, lines))
            if size >= block_bytes:
                yield parse_written(text).block
                text, size = [], 0
        if text:
            yield parse_written(text).block


def _append_sorted(piece: ParsedText, file: IO[bytes]) -> int:
    """Append the lines of a piece, query by query in the order of their ids; return the end."""
    text = piece.block.documents.data
    borders = piece.lines[piece.block.starts].tolist()
    segments: dict[bytes, list[bytes]] = {}
    for query, start, end in zip(piece.block.query_ids, borders, borders[1:], strict=False):
        segments.setdefault(query, []).append(text[start:end].tobytes())
    for query in sorted(segments):
        lines = b"".join(segments[query])
        file.write(_HEADER.pack(len(query), len(lines)) + query + lines)
    return file.tell()


def _segments(file: IO[bytes], start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """Read one sorted piece back: query and its lines."""
    while start < end:
        file.seek(start)
        n_query, n_lines = _HEADER.unpack(file.read(_HEADER.size))
        query, lines = file.read(n_query), file.read(n_lines)
        start += _HEADER.size + n_query + n_lines
        yield query, lines
