"""Gathers the pieces of a run file into a run in memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ragbench.data.judgements import trec_id
from ragbench.data.run_text import ParsedText
from ragbench.types import Run
from ragbench.types.byte_ids import ByteIds, query_keys
from ragbench.types.hit_block import HitBlock
from ragbench.types.repeats import Repeats, without_repeats
from ragbench.types.text_ids import TextIds


def gathered(pieces: Iterable[ParsedText]) -> Run:
    """Return a run: queries and documents in the order in which they come first.

    Linear in the hits, but n log n where the lines of a query are scattered or name a document
    again. Memory is some 40 bytes a hit beside its id.

    Args:
        pieces: The text of the run, part by part.
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
