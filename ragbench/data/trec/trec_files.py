"""TREC run files and qrels: `rb.read_run`, `rb.read_qrels`, `rb.write_run`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragbench.data.files.jsonl import ID_ALLOWED, id_problem
from ragbench.data.files.judgements import read_judgements, trec_id
from ragbench.data.files.lines import Source
from ragbench.data.trec.stream import open_run_stream
from ragbench.data.trec.text import ParsedText, read_regular_qrels
from ragbench.errors import DataError
from ragbench.files import write_atomically
from ragbench.types import Qrels, Run
from ragbench.types.byte_ids import ByteIds, TextIds, query_keys
from ragbench.types.hit_block import HitBlock, Repeats, without_repeats

_NO_HITS = "# a run without hits\n"


def read_qrels(source: Source) -> Qrels:
    """Read judgements: TREC qrels or the BEIR table, plain or gzip.

    Raises:
        DataError: What is wrong, with file and line; see `judgements.read_judgements`.
    """
    regular = read_regular_qrels(source) if isinstance(source, (str, os.PathLike)) else None
    return read_judgements(source).qrels() if regular is None else regular


def read_run(source: Source, name: str | None = None) -> Run:
    """Read a TREC run, plain or gzip.

    Six columns or more between any white space; the rank column is not looked at. Blank lines and
    lines that start with '#' are skipped; ids may hold '#', and bytes that are not UTF-8. A
    document that a query names again counts once, at its best score (`duplicates` has the
    counts). inf and -inf are scores.

    Lines of six fields with one space or tab between them are parsed together, some 0.2 s a
    million; others one by one, five times as slow. Ids stay bytes until they are looked at.

    Args:
        source: The file, or an open binary stream.
        name: The name of the run; None takes the tag of its last line, as trec_eval does.

    Raises:
        DataError: Fewer than six columns, or a score that is not a number, with the line.
    """
    with open_run_stream(source, again=False) as stream:
        run = whole_run(stream.pieces())
        return replace(run, name=name or stream.tag or "run")


def write_run(
    run: Run | Mapping[str, Mapping[str, float]],
    path: str | os.PathLike[str],
    *,
    tag: str | None = None,
) -> None:
    """Write a run file, whole or not at all; see `format_run`.

    Args:
        run: The run, or its scores by query and document.
        path: The file; missing folders are made.
        tag: The last column; None takes the name of the run.

    Raises:
        DataError: The format cannot hold an id or score; nothing is written.
    """
    write_atomically(Path(path), format_run(run, tag=tag))


def format_run(run: Run | Mapping[str, Mapping[str, float]], *, tag: str | None = None) -> str:
    """Return a run as trec_eval reads it: best first, ranks from 1, scores with all their digits.

    A query without hits has no line in this format; a run without any hit is one comment. Ids
    whose bytes are not UTF-8 need `surrogateescape` when the text is encoded.

    Example:
        >>> print(format_run({"q1": {"d1": 0.5, "d2": 0.7}}, tag="mine"), end="")
        q1 Q0 d2 1 0.7 mine
        q1 Q0 d1 2 0.5 mine
    """
    return "".join(run_lines(run if isinstance(run, Run) else Run.from_dict(run), tag))


def run_lines(run: Run, tag: str | None = None) -> Iterator[str]:
    """Yield what `format_run` returns, the lines of a query together."""
    tag = run.name if tag is None else tag
    _check_ids([tag], "tag")
    _check_ids(run.query_ids, "query id")
    if not len(run):
        yield _NO_HITS
    ranked = run.best_first()
    starts = ranked.starts.tolist()
    for query, first, end in zip(ranked.query_ids, starts, starts[1:], strict=False):
        documents = ranked.documents[first:end]
        _check_ids(documents, "document id")
        # a line that starts with '#' is a comment, and a byte order mark at the start is dropped
        head = f" {query} Q0" if query[0] in "#\ufeff" else f"{query} Q0"
        hits = zip(documents, ranked.scores[first:end].tolist(), strict=True)
        lines = [
            f"{head} {name} {rank} {score!r} {tag}\n" for rank, (name, score) in enumerate(hits, 1)
        ]
        yield "".join(lines)


def _check_ids(names: Sequence[str], noun: str) -> None:
    """Check ids at once where they are plain, which nearly all are, else one by one."""
    joined = "\n".join(names)
    if not joined.isascii() or "\0" in joined or len(joined.split()) != len(names):
        for name in names:
            _check_id(name, noun)


def _check_id(name: str, noun: str) -> None:
    if why := id_problem(name):
        raise DataError(f"{noun} {why}: {name!r}", record="run file", allowed=ID_ALLOWED)


def whole_run(pieces: Iterable[ParsedText]) -> Run:
    """Return a run: queries and documents in the order in which they come first.

    Linear in the hits, but n log n where the lines of a query are scattered or name a document
    again. Memory is some 40 bytes a hit beside its id.
    """
    block = _whole_queries(pieces)
    query = np.repeat(np.arange(len(block.query_ids)), np.diff(block.starts))
    suspects = Repeats().suspects(query_keys(block.documents.hashes(), query))
    dropped = np.zeros(len(block.query_ids), np.int64)
    if len(suspects):
        n_hits = np.diff(block.starts)
        block, _ = without_repeats(block, query, suspects)
        dropped = n_hits - np.diff(block.starts)
        block = HitBlock(block.query_ids, block.starts, _packed(block.documents), block.scores)
    query_ids = tuple(map(trec_id, block.query_ids))
    repeated = np.flatnonzero(dropped)
    duplicates = {query_ids[at]: int(dropped[at]) for at in repeated.tolist()}
    documents = TextIds(block.documents)
    return Run(query_ids, block.starts, documents, block.scores, duplicates=duplicates)


def _whole_queries(pieces: Iterable[ParsedText]) -> HitBlock:
    """Bring the lines of each query together, in the order of the file."""
    codes: dict[bytes, int] = {}
    code_of: list[int] = []
    lengths: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    documents: list[TextIds] = []
    scores: list[NDArray[np.float64]] = [np.zeros(0)]
    for piece in pieces:
        block = piece.block
        code_of += [codes.setdefault(query, len(codes)) for query in block.query_ids]
        lengths.append(np.diff(block.starts))
        # packed, since the text of the piece is not kept
        documents.append(TextIds.of(block.documents))
        scores.append(block.scores)
    code, size = np.array(code_of, np.int64), np.concatenate(lengths)
    ids, values = TextIds.joined(documents).as_bytes, np.concatenate(scores)
    if (code[1:] < code[:-1]).any():
        order = np.argsort(np.repeat(code, size), kind="stable")
        ids, values = _packed(ids.take(order)), values[order]
    totals = np.bincount(code, weights=size, minlength=len(codes)).astype(np.int64)
    return HitBlock([*codes], np.concatenate(([0], np.cumsum(totals))), ids, values)


def _packed(ids: ByteIds) -> ByteIds:
    return TextIds.of(ids).as_bytes
