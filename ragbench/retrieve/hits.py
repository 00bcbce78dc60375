"""What retrievers return, in all the shapes that people write, as one shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ragbench.data.corpus import encode_spaces
from ragbench.data.jsonl import id_problem
from ragbench.errors import AdapterError
from ragbench.registry import shown
from ragbench.types import Document, Retrieved, ScoredDocument

_SHAPES = "ids, (id, score) pairs, documents, or mappings with 'id'"


def read_hits(answer: Any, top_k: int) -> Retrieved:
    """Turn a retriever's answer to one query into `Retrieved`, of at most `top_k` documents.

    Accepts a list (or any iterable but text) of ids, (id, score) pairs, `Document` and
    `ScoredDocument` objects or mappings with `id` and, where known, `score`, `text`, `title`,
    `metadata`; also `Retrieved` and a mapping {id: score}, which is sorted by score.

    Raises:
        AdapterError: It is something else; says which hit, what it is, and what is allowed.
    """
    queries: list[str] = []
    if isinstance(answer, Retrieved):
        queries, answer = list(answer.queries), answer.documents
    if isinstance(answer, Mapping):
        answer = sorted(answer.items(), key=lambda pair: -float(pair[1]))
    if answer is None or isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise AdapterError(f"found {shown(answer)} instead of a list of hits, allowed: {_SHAPES}")
    hits = [_read_hit(hit, position) for position, hit in enumerate(answer, start=1)]
    return Retrieved(first_documents(hits, top_k), queries)


def first_documents(hits: list[ScoredDocument], top_k: int) -> list[ScoredDocument]:
    """Return the hits up to the one that brings the `top_k`-th document.

    Every hit is one document, but for the chunks of a `Chunked` retriever, which say of which
    document they are.

    Example:
        >>> hits = [ScoredDocument(f"{d}#{n}", document=d) for d, n in ("a0", "b0", "a1", "c0")]
        >>> [hit.id for hit in first_documents(hits, 2)]
        ['a#0', 'b#0']
    """
    if all(hit.document is None for hit in hits):
        return hits[:top_k]
    seen: set[str] = set()
    for position, hit in enumerate(hits):
        seen.add(hit.id if hit.document is None else hit.document)
        if len(seen) == top_k:
            return hits[: position + 1]
    return hits


def _read_hit(hit: Any, position: int) -> ScoredDocument:
    if isinstance(hit, ScoredDocument):
        found = hit
    elif isinstance(hit, Document):
        found = ScoredDocument(hit.id, None, hit.text, hit.title, hit.metadata)
    elif isinstance(hit, (str, int)) and not isinstance(hit, bool):
        found = ScoredDocument(str(hit))
    elif isinstance(hit, Mapping) and "id" in hit:
        found = ScoredDocument(
            str(hit["id"]),
            hit.get("score"),
            hit.get("text"),
            hit.get("title"),
            hit.get("metadata") or {},
        )
    elif isinstance(hit, (tuple, list)) and len(hit) == 2:
        found = ScoredDocument(str(hit[0]), hit[1])
    else:
        raise AdapterError(f"hit {position} is {shown(hit)}, allowed: {_SHAPES}")
    return _checked(found, position)


def _checked(hit: ScoredDocument, position: int) -> ScoredDocument:
    """The hit with a plain float score."""
    if not isinstance(hit.id, str):
        raise AdapterError(f"hit {position} has the id {hit.id!r}, allowed: text")
    # run files are split at white space; ids of a folder of documents are written so, too
    identifier = encode_spaces(hit.id)
    if why := id_problem(identifier):
        raise AdapterError(f"hit {position}: the id {hit.id!r} {why}")
    if hit.score is None:
        return replace(hit, id=identifier)
    try:
        score = float(hit.score)
    except (TypeError, ValueError) as error:
        found = f"hit {position} has the score {shown(hit.score)}"
        raise AdapterError(f"{found}, allowed: a number") from error
    if math.isnan(score):
        raise AdapterError(f"hit {position} has the score NaN, allowed: a number")
    return replace(hit, id=identifier, score=score)
