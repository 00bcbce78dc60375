"""Runs and qrels in the files of TREC: read whole or query by query, and written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import BytesIO
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ragbench.data.files import lines, run_forms, trec_text
from ragbench.data.files.judgements import read_judgements, read_uniform_qrels, trec_id
from ragbench.data.files.rows import check_ids
from ragbench.errors import DataError
from ragbench.files import write_atomically
from ragbench.types import Qrels, Run, byte_ids
from ragbench.types.rows import HitBlock, repeated_rows, without_repeats

# Bytes that are parsed at once: with fewer, threads wait for each other more often.
CHUNK_BYTES = 2 << 20

# Bytes of a run file that are worth a further thread.
LEAST_PART = 32 << 20

# bytes after a point of a file in which a cut between two queries is searched: most files have
# one within the first window, the second is for long rankings
_CUT_WINDOWS = 1 << 16, 4 << 20
_COMMENT = ord("#")


class ScatteredQueriesError(Exception):
    """Lines of a query stand apart in a run file; `RunStream.grouped` reads such files.

    Callers of `RunStream.blocks` catch it.
    """


class RunStream:
    """Reader of a TREC run as blocks of whole queries; `open_run_stream` makes it.

    `blocks` yields the hits, once, and raises ScatteredQueriesError where the lines of a query
    stand apart; `grouped` then returns all hits as one block. The format and the errors are those
    of `read_run`. Lines of six fields with one space or tab between them are parsed together,
    others one by one.

    Attributes:
        yielded: Ids, as bytes, of the queries that `blocks` has yielded; empty for a pipe.
        tag: Last column of the last hit, as trec_eval takes it; empty before any hit.
        on_bytes: Called with the number of bytes of each piece that is read.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        chunk_bytes: int,
        *,
        at_start: bool = True,
        start: int | None = 0,
    ) -> None:
        """Prepare to read from the position of the stream.

        Args:
            stream: Decompressed bytes.
            name: Name of the file, for messages.
            chunk_bytes: Bytes that are parsed at once.
            at_start: False if the stream begins at a later line of its file.
            start: Position of the stream, to read it again; None for a pipe.
        """
        byte_ids.keep_freed_memory()
        self._stream, self._name, self._chunk_bytes = stream, name, chunk_bytes
        self._start = start
        self._lines = lines.WholeLines(lines.reader(stream), name, at_start=at_start)
        self._hits = self._comments = False
        self.yielded: set[bytes] = set()
        self.tag = ""
        self.on_bytes: Callable[[int], object] = int

    def blocks(self) -> Iterator[HitBlock]:
        """Yield the hits of whole queries, in the order of the file.

        Time grows with the length of the file, memory with its longest query and, by some 100 bytes
        each, with the number of queries. A pipe is one block, since it cannot be read again.
        The stream is read once: a second call yields no hits. A repeated document stays.

        Raises:
            ScatteredQueriesError: A query comes again after another one; the blocks so far are
                right but incomplete.
            DataError: The file cannot be read or is blank, or a line is wrong.
        """
        if self._start is None:
            yield group_queries(self.pieces())
            return
        for block in self._whole_queries():
            for query in block.query_ids:
                if query in self.yielded:
                    raise ScatteredQueriesError
                self.yielded.add(query)
            yield block

    def grouped(self) -> HitBlock:
        """Return all hits by query as one block, read from the start again.

        Memory grows with the file. Queries are in the order of their first line. Only for a stream
        that can seek.

        Raises:
            DataError: A line is wrong, or the file is damaged.
        """
        self._stream.seek(self._start or 0)
        self._lines = lines.WholeLines(lines.reader(self._stream), self._name)
        return group_queries(self.pieces())

    def pieces(self) -> Iterator[trec_text.ParsedText]:
        """Yield the parsed text in pieces, which may cut queries.

        A file of comments yields pieces without hits. The stream is read once.

        Raises:
            DataError: The file has neither hits nor comments, a line is wrong, or the file is empty
                or damaged.
        """
        while not self._lines.at_end:
            yield self._parsed(b"", 0, self._lines.pieces(self._chunk_bytes))
        self._check_hits()

    def _whole_queries(self) -> Iterator[HitBlock]:
        """Yield the blocks of whole queries, in the order of the file."""
        # The last query of each chunk is carried over, since the next may continue it.
        size, carried, n_carried = self._chunk_bytes, b"", 0
        while True:
            parsed = self._parsed(carried, n_carried, self._lines.pieces(size))
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

    def _parsed(self, carried: bytes, n_carried: int, pieces: lines.Pieces) -> trec_text.ParsedText:
        """Parse the carried text with new pieces: by columns if all lines are uniform."""
        self.on_bytes(sum(map(len, pieces)))
        parsed = trec_text.parse_uniform([carried, *pieces])
        text = b"".join(pieces) if parsed is None else b""
        # Windows line ends are replaced only where parsing failed: most files have none
        if b"\r\n" in text:
            parsed = trec_text.parse_uniform([carried, text.replace(b"\r\n", b"\n")])
        if parsed is None:
            first = self._lines.next_line
            text, n_lines, comment = trec_text.normalize_lines(text, self._name, first)
            self._comments = self._comments or comment
            parsed = trec_text.parse_normalized([carried, text])
        else:
            n_lines = len(parsed.block) - n_carried
        self._lines.next_line += n_lines
        if len(parsed.block):
            self._hits, self.tag = True, trec_id(parsed.tag)
        return parsed

    def _check_hits(self) -> None:
        """Raise a `DataError` for a file of blank lines; a run without hits has a comment."""
        if not self._hits and not self._comments:
            problem = "no rankings, only blank lines"
            raise DataError(problem, file=self._name, allowed=trec_text.COLUMNS)


@contextmanager
def open_run_stream(source: lines.Source, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[RunStream]:
    """Open a run for reading in blocks, and again by `grouped` if its queries are scattered.

    Yields the stream, and closes a file after the block; nothing is parsed yet.

    Raises:
        DataError: The file is missing, a folder, not readable, or named .gz without being gzip; or
            the source is neither a path nor a stream.
    """
    name = lines.source_name(source)
    # JSON and the columns of MS MARCO are read as lines of TREC
    text = run_forms.as_trec(source)
    with lines.opened(source if text is None else BytesIO(text), name) as stream:
        # a GzipFile says that it can seek whatever lies under it
        source_file: BinaryIO = getattr(stream, "fileobj", stream)
        start = stream.tell() if source_file.seekable() else None
        yield RunStream(stream, name, chunk_bytes, start=start)


class RunPart:
    """Part of a run file; iterating yields blocks of whole queries, as `RunStream.blocks` does.

    The file is open only while it is read; each iteration reads the part again. `split_run` makes
    the parts. Iteration raises the errors of `RunStream.blocks`; a line number counts from the
    start of the part.

    Attributes:
        span: First byte, and the byte after the last.
        yielded: Queries of the part, once it was read.
        tag: As in `RunStream`, once it was read.
        on_bytes: As in `RunStream`.
    """

    def __init__(self, path: str | os.PathLike[str], start: int, end: int, chunk: int) -> None:
        self._path, self._chunk_bytes = path, chunk
        self.span = start, end
        self.tag = ""
        self.yielded: set[bytes] = set()
        self.on_bytes: Callable[[int], object] = int

    def __iter__(self) -> Iterator[HitBlock]:
        """Yield blocks like `RunStream.blocks`; errors count lines from the start of the part.

        Raises OSError if the file can no longer be opened.
        """
        start, end = self.span
        # unbuffered and opened for this part alone: several parts are read at the same time
        with open(self._path, "rb", buffering=0) as file:
            file.seek(start)
            part = SimpleNamespace(read=lambda size: file.read(min(size, end - file.tell())))
            name = lines.source_name(self._path)
            stream = RunStream(cast("BinaryIO", part), name, self._chunk_bytes, at_start=not start)
            self.yielded, stream.on_bytes = stream.yielded, self.on_bytes
            yield from stream.blocks()
            self.tag = stream.tag


def split_run(
    source: lines.Source, workers: int, *, least: int = LEAST_PART, chunk_bytes: int = CHUNK_BYTES
) -> list[RunPart]:
    """Cut a run file between queries into parts that become shorter towards the end.

    So no worker waits long for another one at the end. Nothing is raised: a file that cannot be
    read gives an empty list.

    Args:
        source: The file.
        workers: Number of threads that will read parts.
        least: Bytes that are worth a further thread.
        chunk_bytes: Bytes that a part parses at once.

    Returns:
        The parts in order; empty for one worker, for a file below twice `least` bytes, a gzip file,
        a stream, and a file that has one query.
    """
    if workers < 2 or not isinstance(source, (str, os.PathLike)) or not os.path.isfile(source):
        return []
    with suppress(OSError), open(source, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size < 2 * least or file.read(len(lines.GZIP_MAGIC)) == lines.GZIP_MAGIC:
            return []
        cuts, offset, shortest = {0, size}, 0, least // 8 + 1
        while (
            offset := offset + max((size - offset) // (2 * min(workers, size // least)), shortest)
        ) < size:
            for length in _CUT_WINDOWS:
                file.seek(offset)
                if (cut := first_cut(file.read(length))) is not None:
                    cuts.add(offset + cut)
                    break
        spans = list(pairwise(sorted(cuts)))
        return [RunPart(source, *span, chunk_bytes) for span in spans] if len(spans) > 1 else []
    return []  # the caller opens the file again, and raises the error


def first_cut(text: bytes) -> int | None:
    """Return the offset of the first hit of the second query in a text; None for one query.

    The first line and a last one without a line end may be incomplete, and are not looked at.
    Comments and blank lines are skipped.
    """
    last_query = None
    start = text.find(b"\n") + 1
    while start and (end := text.find(b"\n", start)) >= 0:
        fields = text[start:end].split(None, 1)
        if fields and text[start] != _COMMENT:
            if last_query not in (None, fields[0]):
                return start
            last_query = fields[0]
        start = end + 1
    return None


# Query id -> document id -> score.
Scores = Mapping[str, Mapping[str, float]]
_NO_HITS = "# a run without hits\n"
_LINES_AT_ONCE = 8_192  # their columns fit into the caches of a core
_TABLE_BYTES = 4 << 20  # of a table of ids, where all rows are as wide as the longest id


def read_qrels(source: lines.Source) -> Qrels:
    """Read judgements: TREC qrels, the BEIR table or JSON of ranx and BEIR, plain or gzip.

    Queries are in the order of the file. A binary stream is read from its position to its end,
    without decompression, and stays open.

    Raises:
        DataError: The file cannot be read, a line is wrong, or a pair is judged twice; the message
            has the line.
    """
    # line by line only if the fast reader declines; a stream could not be read twice
    qrels = read_uniform_qrels(source) if isinstance(source, (str, os.PathLike)) else None
    return read_judgements(source).qrels() if qrels is None else qrels


def read_run(source: lines.Source, name: str | None = None) -> Run:
    """Read a TREC run, plain or gzip, or a run in another form of `run_forms`.

    Six columns or more between any white space; the rank column does not rank. Blank lines and
    lines that start with '#' are skipped; ids may hold '#', and bytes that are not UTF-8. A
    document that a query names again counts once, at its best score (`duplicates` has the
    counts). inf and -inf are scores.

    Lines of six fields with one space or tab between them are parsed together, some 0.2 s a
    million; others one by one, five times as slow. Ids stay bytes until they are looked at. Queries
    and hits are in the order of the file. A run of comments alone is a run without queries.

    Args:
        source: The file, or an open binary stream, which is read to its end without decompression
            and stays open.
        name: The name of the run; None takes the tag of its last line, as trec_eval does, or `run`
            without hits.

    Raises:
        DataError: The file cannot be read or is blank, or a line is wrong; the message has the
            line.
    """
    with open_run_stream(source) as stream:
        return replace(whole_run(stream), name=name or stream.tag or "run")


def write_run(run: Run | Scores, path: str | os.PathLike[str], *, tag: str | None = None) -> None:
    """Write a run file, whole or not at all; see `format_run`.

    Args:
        run: The run, or its scores by query and document.
        path: The file; missing folders are created.
        tag: The last column; None takes the name of the run, `run` for a mapping.

    Raises:
        DataError: The format cannot hold an id, score or tag; nothing is written.
        OSError: The file cannot be written.
    """
    write_atomically(Path(path), format_run(run, tag=tag))


def format_run(run: Run | Scores, *, tag: str | None = None) -> str:
    """Return a run as trec_eval reads it: best first, ranks from 1, scores with all their digits.

    A query without hits has no line in this format; a run without any hit is one comment. Ids whose
    bytes are not UTF-8 need `surrogateescape` when the text is encoded. Queries keep their order;
    ties are in the order of `Run.best_first`. Without a tag, the last column is the name of the
    run, `run` for a mapping. It raises DataError if a run file cannot hold the tag, an id or a
    score.

    Example:
        >>> print(format_run({"q1": {"d1": 0.5, "d2": 0.7}}, tag="mine"), end="")
        q1 Q0 d2 1 0.7 mine
        q1 Q0 d1 2 0.5 mine
    """
    return "".join(run_lines(run if isinstance(run, Run) else Run.from_dict(run), tag))


def run_lines(run: Run, tag: str | None = None) -> Iterator[str]:
    """Yield the text of a TREC run in pieces of up to some thousand lines.

    The pieces, joined, are the text of `format_run`. A run without hits is one comment line.
    Queries without hits are left out; hits are best first, ranks from 1.

    Args:
        run: Run, in any order.
        tag: Last column; None takes the name of the run.

    Raises:
        DataError: The tag or an id is empty or has white space. Pieces before a wrong document id
            are out already.
    """
    tag = run.name if tag is None else tag
    check_ids([tag], "tag")
    check_ids(run.query_ids, "query id")
    if not len(run):
        yield _NO_HITS
    ranked = run.best_first()
    are_words = isinstance(ranked.documents, byte_ids.TextIds) and ranked.documents.are_words()
    ids, rows = ranked.document_ids, range(0, len(ranked), _LINES_AT_ONCE)
    lengths = np.array([len(name) for name in ranked.query_ids], np.int64)
    parts = [slice(row, min(row + _LINES_AT_ONCE, len(ranked))) for row in reversed(rows)]
    while parts:
        n = (part := parts.pop()).stop - part.start
        first, end = np.searchsorted(ranked.starts, [part.start + 1, part.stop]) - [1, 0]
        longest = max(ids.lengths[part].max(), lengths[first:end].max())
        if n > 1 and n * int(longest) > _TABLE_BYTES:
            parts += [slice(part.start + n // 2, part.stop), slice(part.start, part.start + n // 2)]
            continue
        if not are_words:
            check_ids(ranked.documents[part], "document id")
        yield _lines(ranked, ids.take(part), part, tag).decode("utf-8", "surrogateescape")


def _lines(run: Run, ids: byte_ids.ByteIds, part: slice, tag: str) -> bytes:
    """Return some rows as lines, made column by column."""
    # A Python object per row would take most of the time.
    first, end = np.searchsorted(run.starts, [part.start + 1, part.stop]) - [1, 0]
    starts, names = run.starts[first:end], run.query_ids[first:end]
    sizes = np.diff(np.append(np.maximum(starts, part.start), part.stop))
    query = np.repeat(np.arange(end - first), sizes)
    # a line that starts with '#' is a comment; a byte order mark at the start is dropped
    heads = []
    for name in names:
        heads.append(f" {name} Q0 " if name[0] in "#\ufeff" else f"{name} Q0 ")
    rank = np.arange(part.start + 1, part.stop + 1) - np.repeat(starts, sizes)
    ranks = [f" {number} " for number in range(rank.min(), rank.max() + 1)]
    # formatting a float takes as long as all else: equal scores are formatted once
    scores, which = byte_ids.distinct(run.scores[part])
    columns = (heads, query), (ranks, rank - rank.min()), ([*map(repr, scores.tolist())], which)
    # `take` copies short rows ten times as fast as indexing does
    head, number, score = (
        byte_ids.ByteIds.of(texts).padded().take(index, 0) for texts, index in columns
    )
    tail = byte_ids.ByteIds.of([f" {tag}\n"]).padded()
    return byte_ids.side_by_side([head, ids.padded(), number, score, tail])


def whole_run(stream: RunStream) -> Run:
    """Return the run of a stream in the order of the file, under the name `run`.

    A file whose queries are scattered is read twice. A wrong line, and an empty or damaged file,
    raise a `DataError`.
    """
    try:
        parts = [_run_of(block) for block in stream.blocks()]
    except ScatteredQueriesError:
        parts = [_run_of(stream.grouped())]
    return Run.joined(parts)


def first_queries(source: lines.Source, n_bytes: int) -> Run:
    """Return the queries at the start of a run file, as far as some `n_bytes` have all their hits.

    Raises a DataError if the file cannot be read.
    """
    with open_run_stream(source, chunk_bytes=n_bytes) as stream:
        pieces = list(islice(stream.pieces(), 2))
    block = group_queries(pieces[:1])
    # the last query may go on in the second piece
    return _run_of(block.first(len(block.query_ids) - 1) if len(pieces) > 1 else block)


def _run_of(block: HitBlock) -> Run:
    """Return a block as a run; a document that a query names again counts once."""
    n_hits = np.diff(block.starts)
    query = np.repeat(np.arange(len(block.query_ids)), n_hits)
    # in each block by itself: its keys fit into the caches of a core
    suspects = repeated_rows(byte_ids.query_keys(block.documents.hashes(), query))
    if len(suspects):
        block, _ = without_repeats(block, query, suspects)
    names, dropped = tuple(map(trec_id, block.query_ids)), n_hits - np.diff(block.starts)
    duplicates = {names[row]: int(dropped[row]) for row in np.flatnonzero(dropped).tolist()}
    ids = byte_ids.TextIds.of(block.documents)
    return Run(names, block.starts, ids, block.scores, duplicates=duplicates)


def group_queries(pieces: Iterable[trec_text.ParsedText]) -> HitBlock:
    """Return the hits of all pieces as one block, those of each query together.

    Queries are in the order of their first line, hits in file order.
    """
    codes: dict[bytes, int] = {}
    code_of: list[int] = []
    lengths: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    documents: list[byte_ids.TextIds] = []
    scores: list[NDArray[np.float64]] = [np.zeros(0)]
    for piece in pieces:
        block = piece.block
        code_of += [codes.setdefault(query, len(codes)) for query in block.query_ids]
        lengths.append(np.diff(block.starts))
        # packed, since the text of the piece is not kept
        documents.append(byte_ids.TextIds.of(block.documents))
        scores.append(block.scores)
    code, size = np.array(code_of, np.int64), np.concatenate(lengths)
    ids, values = byte_ids.TextIds.joined(documents).as_bytes, np.concatenate(scores)
    if (code[1:] < code[:-1]).any():
        order = np.argsort(np.repeat(code, size), kind="stable")
        ids, values = byte_ids.TextIds.of(ids.take(order)).as_bytes, values[order]
    totals = np.bincount(code, weights=size, minlength=len(codes)).astype(np.int64)
    return HitBlock([*codes], np.concatenate(([0], np.cumsum(totals))), ids, values)
