"""Hits that must never come up: the ranks at which rankings have them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from ragbench.comparison.passage_places import place_rankings
from ragbench.score.retrieval.leak import ForbiddenRanks, leak
from ragbench.signature import Signature
from ragbench.types import Cause, Collection, Document, ScoreColumn, ScoredDocument, Span
from ragbench.types.documents import documents_by_id
from ragbench.types.forbidden import NOTHING_FORBIDDEN, Forbidden
from ragbench.types.score_column import UPPER_LIMIT

# Score of systems that answer: the share of questions of which a forbidden passage was read.
LEAK_READ = "leak_read"


def forbidden_ranks(
    rankings: Sequence[Sequence[ScoredDocument]],
    forbidden: Sequence[Forbidden | None],
    documents: Sequence[Document] | None,
    unknown_ids: Container[int] = (),
) -> ForbiddenRanks:
    """Return the ranks of the first hits of each query that are forbidden, or may be.

    A hit is forbidden if its id or its document is, if its metadata or those of its document have a
    forbidden value, or if it has a character of a forbidden span.

    Args:
        rankings: Hits of each query, best first.
        forbidden: What must never come up, for each query; None without any.
        documents: Corpus; None without one.
        unknown_ids: Rows of queries none of whose hits has an id that is known.
    """
    spans = [(of_query or NOTHING_FORBIDDEN).spans for of_query in forbidden]
    placed = place_rankings(rankings, spans, documents)
    corpus = documents_by_id(documents or ())
    first, unclear = np.zeros((2, len(rankings)), np.int64)
    causes = np.full(len(rankings), Cause.SCORED, np.uint8)
    for row, (hits, of_query) in enumerate(zip(rankings, forbidden, strict=True)):
        if not of_query:
            causes[row] = Cause.NO_FORBIDDEN
            continue
        if of_query.documents and row in unknown_ids:
            causes[row] = Cause.UNKNOWN_IDS
            continue
        places = placed.spans.passages[row] if of_query.spans else [None] * len(hits)
        for rank, (hit, place) in enumerate(zip(hits, places, strict=True), start=1):
            is_forbidden = _is_forbidden(hit, place, of_query, corpus)
            if is_forbidden:
                first[row] = rank
                break
            if is_forbidden is None and not unclear[row]:
                unclear[row] = rank
    return ForbiddenRanks(first, unclear, causes)


def _is_forbidden(
    hit: ScoredDocument, place: Span | None, forbidden: Forbidden, corpus: Mapping[str, Document]
) -> bool | None:
    """Return True for a forbidden hit; None if its metadata or its place are needed and unknown."""
    if hit.id in forbidden.documents or hit.document in forbidden.documents:
        return True
    document = corpus.get(hit.document or hit.id) or corpus.get(hit.id)
    metadata: dict[str, Any] = {} if document is None else dict(document.metadata)
    if forbidden.has_metadata(hit.metadata) or forbidden.has_metadata(metadata):
        return True
    if place is not None and any(place.overlaps(span) for span in forbidden.spans):
        return True
    lacks_metadata = bool(forbidden.fields) and document is None and not hit.metadata
    lacks_place = bool(forbidden.spans) and place is None
    return None if lacks_metadata or lacks_place else False


def leak_read_column(
    passages: Sequence[Sequence[ScoredDocument]],
    contexts: Sequence[object | None],
    query_ids: Sequence[str],
    collection: Collection,
) -> ScoreColumn:
    """Return the column `leak_read`: 1 for a question of which a forbidden passage was read.

    Other questions with forbidden documents have 0, and lower is better.

    Args:
        passages: Passages of each question that were read.
        contexts: None for each question whose passages are unknown.
        query_ids: Ids of the questions.
        collection: Data set with the forbidden documents.
    """
    forbidden = [*map(collection.forbidden.get, query_ids)]
    ranks = forbidden_ranks(passages, forbidden, collection.documents)
    values, causes = leak(ranks), ranks.causes.copy()
    causes[(causes == Cause.SCORED) & np.isnan(values)] = Cause.UNPLACED_PASSAGE
    unknown = np.array([of_query is None for of_query in contexts], bool)
    is_scored = causes == Cause.SCORED
    causes[unknown & is_scored], values[unknown & is_scored] = Cause.NO_CONTEXTS, np.nan
    signature = Signature.of(
        LEAK_READ, forbidden=collection.fingerprint("forbidden"), interval=UPPER_LIMIT, v=1
    )
    return ScoreColumn(LEAK_READ, values, causes, signature, direction="lower")
