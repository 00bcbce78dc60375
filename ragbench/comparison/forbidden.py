"""Hits that must never come up: the ranks at which rankings have them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ragbench.comparison.id_pairs import IdPair, IdPairs, QuestionIds, pair_ids
from ragbench.comparison.passage_places import place_rankings
from ragbench.records.causes import LEAK_READ
from ragbench.score.retrieval.leak import ForbiddenRanks, leak
from ragbench.signature import Signature
from ragbench.types import Cause, Document, ScoreColumn, ScoredDocument, Span
from ragbench.types.forbidden import NOTHING_FORBIDDEN, Forbidden
from ragbench.types.lookups import index_by_id
from ragbench.types.score_column import UPPER_LIMIT


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
        forbidden: Documents and passages that must never come up, for each query; None without any.
        documents: Corpus; None without one.
        unknown_ids: Rows of queries none of whose hits has an id that is known.
    """
    first, unclear = np.zeros((2, len(rankings)), np.int64)
    causes = np.full(len(rankings), Cause.SCORED, np.uint8)
    for row, states in enumerate(_states(rankings, forbidden, documents)):
        of_query = forbidden[row]
        if not of_query:
            causes[row] = Cause.NO_FORBIDDEN
        elif of_query.documents and row in unknown_ids and True not in states:
            causes[row] = Cause.UNKNOWN_IDS
        else:
            first[row] = states.index(True) + 1 if True in states else 0
            unclear[row] = states.index(None) + 1 if None in states else 0
    return ForbiddenRanks(first, unclear, causes)


def forbidden_marks(
    rankings: Sequence[Sequence[ScoredDocument]],
    forbidden: Sequence[Forbidden | None],
    documents: Sequence[Document] | None,
) -> list[list[bool]]:
    """Return True for each hit of each query that is forbidden, as `forbidden_ranks` tells."""
    states = _states(rankings, forbidden, documents)
    marks = []
    for of_query in states:
        marks.append([state is True for state in of_query])
    return marks


def _states(
    rankings: Sequence[Sequence[ScoredDocument]],
    forbidden: Sequence[Forbidden | None],
    documents: Sequence[Document] | None,
) -> Iterator[list[bool | None]]:
    """Yield for each query: True for each forbidden hit, None for one that may be forbidden."""
    spans = [(of_query or NOTHING_FORBIDDEN).spans for of_query in forbidden]
    placed = place_rankings(rankings, spans, documents)
    corpus = index_by_id(documents or ())
    pairs = _pair_spellings(rankings, forbidden, corpus)
    gold_of_hit = pairs.gold_of_hit
    for row, (hits, of_query) in enumerate(zip(rankings, forbidden, strict=True)):
        if not of_query:
            yield [False] * len(hits)
            continue
        rule = _Rule(of_query, corpus, gold_of_hit, pairs.unclear)
        places = placed.spans.passages[row] if of_query.spans else [None] * len(hits)
        yield [rule.state(hit, place) for hit, place in zip(hits, places, strict=True)]


def _pair_spellings(
    rankings: Sequence[Sequence[ScoredDocument]],
    forbidden: Sequence[Forbidden | None],
    corpus: Mapping[str, Document],
) -> IdPairs:
    """Return the pairs of forbidden ids and hits of another spelling, by the rule of gold ids."""
    questions = []
    for hits, of_query in zip(rankings, forbidden, strict=True):
        if of_query is not None and of_query.documents:
            grades = dict.fromkeys(of_query.documents, 1)
            questions.append(QuestionIds(grades, [hit.document or hit.id for hit in hits]))
    return pair_ids(questions, corpus.keys())


class _Rule(NamedTuple):
    """Rule that tells the forbidden hits of one query."""

    forbidden: Forbidden
    corpus: Mapping[str, Document]
    gold_of_hit: Mapping[str, str]  # forbidden id of each hit in another spelling
    unclear: Sequence[IdPair]  # forbidden ids and hits that look alike

    def state(self, hit: ScoredDocument, place: Span | None) -> bool | None:
        """Return True for a forbidden hit, None for one that may be forbidden, else False."""
        if self.forbids(hit, place):
            return True
        return None if self.may_forbid(hit, place) else False

    def forbids(self, hit: ScoredDocument, place: Span | None) -> bool:
        """Return True if a hit with this place in a document is forbidden."""
        name = hit.document or hit.id
        names = {hit.id, name, self.gold_of_hit.get(name, name)}
        if not names.isdisjoint(self.forbidden.documents):
            return True
        document = self._document(hit)
        metadata = {} if document is None else document.metadata
        if self.forbidden.has_metadata(hit.metadata) or self.forbidden.has_metadata(metadata):
            return True
        return place is not None and any(place.overlaps(span) for span in self.forbidden.spans)

    def may_forbid(self, hit: ScoredDocument, place: Span | None) -> bool:
        """Return True if the id, the metadata or the place that tell of a hit are unknown."""
        if self.forbidden.fields and not hit.metadata and self._document(hit) is None:
            return True
        if self.forbidden.spans and place is None:
            return True
        name = hit.document or hit.id
        alike = set()
        for pair in self.unclear:
            if pair.hit == name:
                alike.add(pair.gold)
        return not alike.isdisjoint(self.forbidden.documents)

    def _document(self, hit: ScoredDocument) -> Document | None:
        """Return the document of the corpus that a hit is of; None without one."""
        return self.corpus.get(hit.document or hit.id) or self.corpus.get(hit.id)


def unclear_warning(
    system: str, query_ids: Sequence[str], columns: Sequence[ScoreColumn]
) -> list[str]:
    """Return a list with one warning that counts the queries with hits that may be forbidden.

    It names the column with most such queries, and one of them; without any it is empty.
    """
    counts = [int((column.causes == Cause.UNCLEAR_PASSAGE).sum()) for column in columns]
    if not any(counts):
        return []
    column = columns[counts.index(max(counts))]
    rows = np.flatnonzero(column.causes == Cause.UNCLEAR_PASSAGE)
    n_forbidden = int((column.causes != Cause.NO_FORBIDDEN).sum())
    return [
        f"{system}: {len(rows)} of {n_forbidden} questions have no value by {column.name}, such as "
        f"'{query_ids[rows[0]]}': the id, metadata or place of a hit do not tell whether it is "
        "forbidden (unclear_passage)"
    ]


def leak_read_column(
    ranks: ForbiddenRanks, contexts: Sequence[object | None], fingerprint: str | None
) -> ScoreColumn:
    """Return the column `leak_read`: 1 for a question of which a forbidden passage was read.

    Other questions with forbidden documents have 0, and lower is better.

    Args:
        ranks: Places of the first forbidden passages that were read, in the order of the prompt.
        contexts: None for each question whose passages are unknown.
        fingerprint: Fingerprint of the forbidden documents of the data set.
    """
    values, causes = leak(ranks), ranks.causes.copy()
    causes[(causes == Cause.SCORED) & np.isnan(values)] = Cause.UNCLEAR_PASSAGE
    unknown = np.array([of_query is None for of_query in contexts], bool)
    is_scored = causes == Cause.SCORED
    causes[unknown & is_scored], values[unknown & is_scored] = Cause.NO_CONTEXTS, np.nan
    parts = {"forbidden": fingerprint, "interval": UPPER_LIMIT, "v": 1}
    return ScoreColumn(LEAK_READ, values, causes, Signature.of(LEAK_READ, **parts), "lower")
