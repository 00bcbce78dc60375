"""Reads TREC runs in blocks of whole queries, so that a file may be larger than memory.

Where the lines of a query are scattered, an external sort through a temporary file brings them
together.
"""

from __future__ import annotations

import heapq
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import IO

from ragbench.data.files.judgements import trec_id
from ragbench.data.files.lines import Rewindable, Source, WholeLines, opened, source_name
from ragbench.data.trec.text import ParsedText, no_rankings, parse_regular, parse_written, rewritten
from ragbench.types.hit_block import HitBlock

CHUNK_BYTES = 1 << 20
"""How much text is parsed at once: what fits into the caches of a core is quickest."""

_SORTED_CHUNKS = 4  # chunks that are sorted together where queries are scattered
_HEADER = struct.Struct("<IQ")
_query = itemgetter(0)


class ScatteredQueriesError(Exception):
    """A query came up again after another one: `RunStream.regrouped` reads such files."""


class RunStream:
    """A TREC run, plain or gzip, as blocks of whole queries; see `open_run_stream`.

    The format is that of `read_run`, with its errors. Lines of six fields with one space or tab
    between them are parsed together, others one by one.
    """

    def __init__(self, source: Rewindable, name: str, chunk_bytes: int) -> None:
        self._source, self._name, self._chunk_bytes = source, name, chunk_bytes
        self._lines = WholeLines(source.read, name)
        self._hits = self._comments = False
        self.tag = ""
        """The last column of the last hit that was read, as trec_eval takes it; else empty."""

    def blocks(self) -> Iterator[HitBlock]:
        """Yield the queries in the order of the file, up to a `ScatteredQueriesError`.

        Time grows with the length of the file, memory with its longest query and, by some 100 bytes
        each, with the number of queries.
        """
        seen: set[bytes] = set()
        for block in self._whole_queries():
            for query in block.query_ids:
                if query in seen:
                    raise ScatteredQueriesError
                seen.add(query)
            yield block

    def regrouped(self) -> Iterator[HitBlock]:
        """Yield all queries in the order of their ids, from the start again.

        Their lines may stand anywhere in the file; see `regrouped` below for the cost.
        """
        self._source.rewind()
        self._lines = WholeLines(self._source.read, self._name)
        return regrouped(self.pieces(_SORTED_CHUNKS * self._chunk_bytes), self._chunk_bytes)

    def pieces(self, size: int | None = None) -> Iterator[ParsedText]:
        """Yield the text in pieces that may cut queries; without a size as is quickest to parse."""
        while not self._lines.at_end:
            yield self._parsed(b"", 0, self._lines.read(size or self._chunk_bytes))
        self._check_hits()

    def _whole_queries(self) -> Iterator[HitBlock]:
        """Yield blocks; the last query of a chunk waits for the next chunk."""
        size, carried, n_carried = self._chunk_bytes, b"", 0
        while True:
            parsed = self._parsed(carried, n_carried, self._lines.read(size))
            block = parsed.block
            if self._lines.at_end:
                break
            n_whole = max(len(block.query_ids) - 1, 0)
            # a query longer than the chunk: read twice as much, or parsing it again and again
            # would take time that grows with the square of its length
            size = self._chunk_bytes if n_whole else 2 * size
            carried = parsed.text_from(n_whole)
            n_carried = len(block) - int(block.starts[n_whole])
            if n_whole:
                yield block.first(n_whole)
        if len(block):
            yield block
        self._check_hits()

    def _parsed(self, carried: bytes, n_carried: int, fresh: bytes) -> ParsedText:
        parsed = parse_regular([carried, fresh])
        if parsed is None and b"\r\n" in fresh:
            parsed = parse_regular([carried, fresh.replace(b"\r\n", b"\n")])
        if parsed is None:
            first = self._lines.next_line
            fresh, n_lines, comment = rewritten(fresh, self._name, first)
            self._comments = self._comments or comment
            parsed = parse_written([carried, fresh])
        else:
            n_lines = len(parsed.block) - n_carried
        self._lines.next_line += n_lines
        if len(parsed.block):
            self._hits, self.tag = True, trec_id(parsed.tag)
        return parsed

    def _check_hits(self) -> None:
        if not self._hits and not self._comments:
            raise no_rankings(self._name)


@contextmanager
def open_run_stream(
    source: Source, *, chunk_bytes: int = CHUNK_BYTES, again: bool = True
) -> Iterator[RunStream]:
    """Open a run for reading in blocks, and again by `regrouped` if so wanted.

    For that, a stream that cannot go back, such as a pipe, is kept in a temporary file.
    """
    name = source_name(source)
    with opened(source, name) as stream:
        rewindable = Rewindable(stream, keep=again)
        try:
            yield RunStream(rewindable, name, chunk_bytes)
        finally:
            rewindable.close()


def regrouped(pieces: Iterable[ParsedText], block_bytes: int) -> Iterator[HitBlock]:
    """Yield the queries of all pieces, each whole, in the order of their ids.

    Each piece is sorted by query and written to a temporary file; then the pieces are merged. The
    lines of a query keep their order. The disk takes the size of the text; memory is that of one
    piece, one block (`block_bytes` of text), and the lines of one query per piece. Time grows as n
    log n.
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
    while start < end:
        file.seek(start)
        n_query, n_lines = _HEADER.unpack(file.read(_HEADER.size))
        query, lines = file.read(n_query), file.read(n_lines)
        start += _HEADER.size + n_query + n_lines
        yield query, lines
