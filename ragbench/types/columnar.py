"""Runs and qrels as columns: one flat list of document ids, one array of numbers, query borders.

Qrels may have subtopics, as TREC's diversity tasks do. Fingerprints tell whether the content of
qrels has changed, as a whole and query by query.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeGuard

import numpy as np

from ragbench.errors import DataError
from ragbench.types import tables
from ragbench.types.byte_ids import GOLDEN, ByteIds, HashArray, TextIds, as_bytes, spans
from ragbench.types.checks import (
    falling_scores,
    grade_row,
    id_bytes,
    plain,
    read_hit,
    with_text_ids,
)
from ragbench.types.display import counted
from ragbench.types.lookups import index_positions, select_keys, take_items
from ragbench.types.rows import (
    BoolArray,
    FloatArray,
    IntArray,
    borders,
    freeze,
    nested,
    score_column,
)

# Query -> document -> subtopic -> grade; a document without subtopics covers none.
Subtopics = Mapping[str, Mapping[str, Mapping[str, int]]]
# Part of the data (`question`, `judgements`, `subtopics`, `answers`, `spans`, `tool_calls`) ->
# query -> fingerprint of 12 hexadecimal digits. An unknown part is absent, and so is a query that
# has no entry in a part.
QueryFingerprints = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """Ranked lists with scores, a row per retrieved document, the rows of a query together.

    Build it with `from_dict` or `from_rankings`: the constructor itself checks nothing. The arrays
    are read-only afterwards. A query may have no rows. `from_dict` and `from_rankings` raise
    DataError for wrong ids and scores. `ranking` returns the hits of a query, best first, and []
    for an unknown query.

    Attributes:
        query_ids: Query ids; the rows of query q are starts[q] to starts[q + 1] - 1.
        starts: Shape (n queries + 1,), int64: first row of each query, then the number of rows.
        documents: Shape (rows,): document ids, distinct within a query.
        scores: Shape (rows,), float64: higher is better, never NaN.
        name: Name of the run in tables and as the tag of TREC files.
        duplicates: Query id -> number of repeated documents dropped; queries without any are
            absent.
        substituted: Number of queries ranked by order, since scores were missing, tied or unsorted.
    """

    query_ids: tuple[str, ...]
    starts: IntArray
    documents: Sequence[str]
    scores: FloatArray
    name: str = "run"
    duplicates: Mapping[str, int] = field(default_factory=dict)
    substituted: int = 0

    def __post_init__(self) -> None:
        freeze(self.starts, self.scores)

    def __repr__(self) -> str:
        queries = counted(len(self.query_ids), "queries")
        return f"<Run {self.name}: {queries}, {counted(len(self.documents), 'hits')}>"

    @classmethod
    def from_dict(cls, run: Mapping[str, Mapping[str, float]], name: str = "run") -> Run:
        """Build a run from {query id: {document id: score}}; scores rank, not the order.

        Queries and documents keep their order; an empty mapping gives a run without queries. An
        infinite score is valid.

        Raises:
            DataError: The run has another form, or a score is no finite number; the message names
                query and document.

        Example:
            >>> Run.from_dict({"q1": {"d1": 0.5, "d2": 0.7}}).ranking("q1")
            [('d2', 0.7), ('d1', 0.5)]
        """
        run = with_text_ids(run, "run")
        starts = borders(map(len, run.values()), len(run))
        scores = score_column(run, int(starts[-1]))
        documents = list(chain.from_iterable(run.values()))
        return cls(tuple(run), starts, documents, scores, name)

    @classmethod
    def from_frame(cls, frame: tables.Frame, name: str = "run") -> Run:
        """Build a run from a pandas, polars or Arrow table with a row per hit.

        Columns are `query_id`, `doc_id` and `score`, or their names in BEIR and PyTerrier. A
        document that repeats within a query counts once, at its best score. Queries are in the
        order of their first rows. `duplicates` has the number of dropped rows.

        Raises:
            DataError: A column is missing, a value is no id, or a score is NaN, no number, or too
                large for a double.
        """
        scores, duplicates = tables.rankings_of(frame)
        return replace(cls.from_dict(scores, name), duplicates=duplicates)

    @classmethod
    def from_rankings(cls, rankings: Mapping[str, Iterable[Any]], name: str = "run") -> Run:
        """Build a run from ranked lists, best first; the order ranks, not the scores.

        An item is a document id, a pair (id, score), or an object with `id` and `score`. If the
        scores of a query do not fall strictly, n, n - 1, ... 1 replace them. A repeated document
        counts once, at its first and so best position. A query without items stays, without hits.
        `duplicates` and `substituted` count both.

        Raises:
            DataError: The rankings have another form, or a score is no finite number; the message
                names query and document.

        Example:
            >>> run = Run.from_rankings({"q1": ["d3", "d1", "d3"], "q2": [("d1", 0.9)]})
            >>> run.to_dict(), run.duplicates, run.substituted
            ({'q1': {'d3': 2.0, 'd1': 1.0}, 'q2': {'d1': 0.9}}, {'q1': 1}, 1)
        """
        if not hasattr(rankings, "items"):
            allowed = "{query id: list of hits, best first}"
            raise DataError(f"run: found {type(rankings).__name__}", allowed=allowed)
        scored: dict[str, dict[str, float]] = {}
        duplicates: dict[str, int] = {}
        substituted = 0
        for query_id, items in rankings.items():
            _check_ranking(items, query_id)
            hits = [read_hit(item, query_id) for item in items]
            first: dict[str, float | None] = {}
            for document, score in hits:
                first.setdefault(document, score)
            if len(first) < len(hits):
                duplicates[query_id] = len(hits) - len(first)
            scores = falling_scores(first, query_id)
            if scores is None:
                substituted += 1
                scores = dict(zip(first, map(float, range(len(first), 0, -1)), strict=True))
            scored[query_id] = scores
        run = cls.from_dict(scored, name)
        return replace(run, duplicates=duplicates, substituted=substituted)

    @classmethod
    def joined(cls, parts: Iterable[Run], name: str = "run") -> Run:
        """Return a run with the queries of all parts, one part after the other.

        The caller makes sure that no query is in two parts; no parts give an empty run. Document
        ids are packed if possible: some 30 bytes per row instead of 70. `duplicates` are joined and
        `substituted` added up.

        Example:
            >>> parts = (Run.from_dict({q: {"d1": 2.0}}) for q in ("q1", "q2"))
            >>> Run.joined(parts).to_dict()
            {'q1': {'d1': 2.0}, 'q2': {'d1': 2.0}}
        """
        names, sizes, scores, columns = list[str](), list[int](), [np.zeros(0)], list[Any]()
        duplicates, substituted = dict[str, int](), 0
        for part in parts:
            names += part.query_ids
            sizes += np.diff(part.starts).tolist()
            scores.append(part.scores)
            ids = TextIds.packed(part.documents)
            columns.append(part.documents if ids is None else ids)
            duplicates |= part.duplicates
            substituted += part.substituted
        are_packed = {*map(type, columns)} <= {TextIds}
        documents = TextIds.joined(columns) if are_packed else [*chain.from_iterable(columns)]
        starts, values = borders(sizes, len(names)), np.concatenate(scores)
        return cls(tuple(names), starts, documents, values, name, duplicates, substituted)

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def query_index(self) -> Mapping[str, int]:
        """Position from 0 of each query id in `query_ids`; cached."""
        return index_positions(self.query_ids)

    @property
    def document_ids(self) -> ByteIds:
        """Document id of every row as bytes."""
        return as_bytes(self.documents)

    def ranking(self, query_id: str) -> list[tuple[str, float]]:
        """Return the hits (document id, score) of one query, best first; empty for a missing query.

        Hits of equal score are ordered by document id, descending by its bytes, as trec_eval does.
        """
        if (query := self.query_index.get(query_id)) is None:
            return []
        rows = slice(self.starts[query], self.starts[query + 1])
        scores = self.scores[rows]
        hits = zip(self.documents[rows], scores.tolist(), strict=True)
        if (scores[1:] < scores[:-1]).all():  # the usual case, at a fraction of the time
            return list(hits)
        return sorted(hits, key=lambda hit: (hit[1], id_bytes(hit[0])), reverse=True)

    def best_first(self) -> Run:
        """Return the run with the rows of each query in the order of `ranking`.

        It is the run itself if its scores fall strictly already, else a new run without
        `duplicates` and `substituted`.
        """
        query = np.repeat(np.arange(len(self.query_ids)), np.diff(self.starts))
        same = query[1:] == query[:-1]
        if not (same & (self.scores[1:] >= self.scores[:-1])).any():
            return self
        order: IntArray = np.lexsort((-self.scores, query))
        scores = self.scores[order]
        tied = same & (scores[1:] == scores[:-1])
        # Tied rows are neighbours now; only these few need their ids compared.
        group = np.concatenate(([0], np.cumsum(~tied)))
        several = np.flatnonzero(np.concatenate((tied, [False])) | np.concatenate(([False], tied)))
        ids = self.document_ids.take(order[several])
        order[several] = order[several[ids.falling_order(group[several])]]
        return self._rows(order, self.query_ids, self.starts)

    def first(self, query_ids: Iterable[str], top_k: int) -> Run:
        """Return the first `top_k` rows of some queries, in the order of `query_ids`.

        `query_ids` has each id once; queries that the run lacks are left out. Rows keep their
        stored order: call `best_first` before. It is the run itself if its queries are the same, in
        this order, and no row is cut; else a new run without `duplicates` and `substituted`.

        Example:
            >>> run = Run.from_dict({"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d3": 1.0}})
            >>> run.first(["q2", "q0", "q1"], 1).to_dict()
            {'q2': {'d3': 1.0}, 'q1': {'d1': 2.0}}
        """
        queries = tuple(query_ids)
        if queries != self.query_ids:
            queries = tuple(filter(self.query_index.__contains__, queries))
        if queries == self.query_ids and np.diff(self.starts).max(initial=0) <= top_k:
            return self
        chosen = np.array(list(map(self.query_index.__getitem__, queries)), np.int64)
        begin = self.starts[chosen]
        end = np.minimum(begin + top_k, self.starts[chosen + 1])
        return self._rows(spans(begin, end), queries, borders(end - begin, len(queries)))

    def only(self, keep: BoolArray) -> Run:
        """Return a run with the rows where `keep`, of shape (rows,), is True; all queries stay.

        Example:
            >>> run = Run.from_dict({"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d3": 1.0}})
            >>> run.only(np.array([False, True, False])).to_dict()
            {'q1': {'d2': 1.0}, 'q2': {}}
        """
        starts = np.concatenate(([0], np.cumsum(keep)))
        return self._rows(np.flatnonzero(keep), self.query_ids, starts[self.starts])

    def _rows(self, rows: IntArray, query_ids: tuple[str, ...], starts: IntArray) -> Run:
        """Return a run of some rows, in their order, with new queries and borders."""
        documents: Sequence[str]
        # Packed ids stay packed: decoding them would cost an object per row.
        if isinstance(self.documents, TextIds):
            documents = TextIds.of(self.documents.as_bytes.take(rows))
        else:
            documents = take_items(self.documents, rows.tolist())
        return Run(query_ids, starts, documents, self.scores[rows], self.name)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return {query id: {document id: score}}, in the order of the rows, not by score."""
        return nested(self.query_ids, self.starts, self.documents, self.scores)


def _check_ranking(items: object, query_id: object) -> None:
    """Check that the hits of a query are in an order; DataError names the query."""
    problem = ""
    if isinstance(items, (str, bytes)):
        problem = "found a text"
    elif isinstance(items, (set, frozenset)):
        problem = "found a set, which has no order"
    elif isinstance(items, Mapping):
        problem = "found a mapping, whose scores Run.from_dict reads"
    elif not isinstance(items, Iterable):
        problem = f"found {type(items).__name__}"
    if problem:
        allowed = "a list of hits, best first"
        raise DataError(problem, record=f"run: query '{query_id}'", allowed=allowed)


@dataclass(frozen=True, eq=False, repr=False)
class Qrels:
    """Graded judgements, a row per judged document, the rows of a query together.

    Build it with `from_dict`: the constructor itself checks nothing. The arrays are read-only
    afterwards. A query may have no rows. `from_dict` raises DataError for wrong ids and grades.
    `by_query` and `to_dict` are {query id: {document id: grade}}.

    Attributes:
        query_ids: Query ids; the rows of query q are starts[q] to starts[q + 1] - 1.
        starts: Shape (n queries + 1,), int64: first row of each query, then the number of rows.
        documents: Shape (rows,): document ids, distinct within a query.
        grades: Shape (rows,), int64: 0 and below means not relevant.
        subtopics: Grades by subtopic; the grade of a row is the best of its document. None if the
            qrels have no subtopics.
    """

    query_ids: tuple[str, ...]
    starts: IntArray
    documents: Sequence[str]
    grades: IntArray
    subtopics: Subtopics | None = None

    def __post_init__(self) -> None:
        freeze(self.starts, self.grades)

    def __repr__(self) -> str:
        queries = counted(len(self.query_ids), "queries")
        return f"<Qrels: {queries}, {counted(len(self.documents), 'judgements')}>"

    @classmethod
    def from_frame(cls, frame: tables.Frame) -> Qrels:
        """Build qrels from a pandas, polars or Arrow table with a row per judgement.

        Columns are `query_id`, `doc_id` and `relevance`, or their names in BEIR and PyTerrier.
        Queries are in the order of their first rows.

        Raises:
            DataError: A column is missing, a value is no id, a grade is no integer, or a pair
                has two grades.
        """
        return cls.from_dict(tables.judgements_of(frame))

    @classmethod
    def from_dict(cls, qrels: Mapping[str, Mapping[str, Any]]) -> Qrels:
        """Build qrels from {query id: {document id: grade}}.

        Whole floats and NumPy integers are valid grades. For diversity measures, every document may
        have {subtopic: grade} instead; its grade is then the best of these, or 0 for no subtopics.
        The order stays, and an empty mapping gives qrels without queries.

        Raises:
            DataError: The judgements have another form, or a grade is no integer of 32 bits; the
                message names query and document.
        """
        qrels = with_text_ids(qrels, "qrels")
        if _has_subtopics(qrels):
            subtopics: dict[str, dict[str, dict[str, int]]] = {}
            best_grades: dict[str, dict[str, int]] = {}
            for query, judged in qrels.items():
                subtopics[query], best_grades[query] = {}, {}
                for document, value in judged.items():
                    grades_by_topic = _check_topics(value, query, document)
                    subtopics[query][document] = grades_by_topic
                    best_grades[query][document] = max(grades_by_topic.values(), default=0)
            return replace(cls.from_dict(best_grades), subtopics=subtopics)
        starts = borders(map(len, qrels.values()), len(qrels))
        rows = chain.from_iterable(map(grade_row, qrels.values(), qrels))
        grades = np.fromiter(rows, np.int64, int(starts[-1]))
        return cls(tuple(qrels), starts, list(chain.from_iterable(qrels.values())), grades)

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def by_query(self) -> Mapping[str, Mapping[str, int]]:
        """Mapping {query id: {document id: grade}} for look-ups; cached, so do not change it."""
        return nested(self.query_ids, self.starts, self.documents, self.grades)

    def to_dict(self) -> dict[str, dict[str, int]]:
        """Return {query id: {document id: grade}}, in the order of the rows, without subtopics."""
        return nested(self.query_ids, self.starts, self.documents, self.grades)

    def of_queries(self, query_ids: Collection[str]) -> Qrels:
        """Return the judgements of some queries, in the order of these qrels.

        Ids that these qrels lack are ignored; without an id that they have, the result is empty.
        """
        qrels = Qrels.from_dict(select_keys(self.by_query, query_ids))
        if self.subtopics is None:
            return qrels
        topics = {}
        for query, docs in self.subtopics.items():
            if query in query_ids:
                topics[query] = docs
        return replace(qrels, subtopics=topics)

    @cached_property
    def document_ids(self) -> ByteIds:
        """Document id of every row as bytes, cached."""
        return as_bytes(self.documents)

    @cached_property
    def document_hashes(self) -> HashArray:
        """Hash of the document id of every row, shape (rows,), cached."""
        return self.document_ids.hashes()

    @cached_property
    def _digest(self) -> str:
        """Fingerprint of ids and grades, which `fingerprint` returns."""
        # Sorting hashes instead of ids takes a few milliseconds per 100,000 judgements.
        queries = ByteIds.of(self.query_ids).hashes()
        rows = (self.document_hashes ^ np.repeat(queries, np.diff(self.starts)) * GOLDEN) * GOLDEN
        rows ^= rows >> np.uint64(32)
        rows = (rows + self.grades.astype(np.uint64)) * GOLDEN
        digest = hashlib.sha256()
        for column in (queries, rows):
            digest.update(len(column).to_bytes(8, "little"))
            digest.update(np.sort(column).astype("<u8", copy=False).tobytes())
        return digest.hexdigest()[:12]

    def fingerprint(self) -> str:
        """Return 12 hexadecimal digits of the content, independent of the order of the rows.

        Queries without judgements count, subtopics do not (see `subtopics_fingerprint`).
        """
        return self._digest

    def query_fingerprints(self) -> QueryFingerprints:
        """Return {part: {query id: fingerprint}}, each of 12 hexadecimal digits.

        The parts are `judgements`, and `subtopics` if the qrels have any. Queries without
        judgements are absent.

        Example:
            >>> one = Qrels.from_dict({"q1": {"d1": 2}, "q2": {"d1": 1}}).query_fingerprints()
            >>> other = Qrels.from_dict({"q1": {"d1": 2}, "q2": {"d1": 0}}).query_fingerprints()
            >>> [one["judgements"][q] == other["judgements"][q] for q in ("q1", "q2")]
            [True, False]
        """
        grades = (self.grades.astype(np.uint64) + np.uint64(1)) * GOLDEN
        # Rows are mixed before they are summed, so that swapped grades change the sum.
        rows = _mixed(self.document_hashes ^ grades)
        # Sums wrap around in 64 bits, and their differences wrap back.
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(rows, dtype=np.uint64)])
        sizes = np.diff(self.starts)
        totals = sums[self.starts[1:]] - sums[self.starts[:-1]] + sizes.astype(np.uint64) * GOLDEN
        words = (_mixed(totals) >> np.uint64(16)).tolist()
        judged = np.flatnonzero(sizes).tolist()
        parts = {"judgements": {self.query_ids[row]: f"{words[row]:012x}" for row in judged}}
        if self.subtopics is not None:
            parts["subtopics"] = {}
            for query, documents in self.subtopics.items():
                if documents:
                    parts["subtopics"][query] = _subtopics_digest({"": documents})
        return parts

    @cached_property
    def subtopics_fingerprint(self) -> str | None:
        """Fingerprint of the subtopics of all documents with their grades; None without subtopics.

        It has 12 hexadecimal digits and does not depend on the order of the rows.
        """
        return None if self.subtopics is None else _subtopics_digest(self.subtopics)


def _has_subtopics(qrels: Mapping[Any, Any]) -> TypeGuard[Mapping[str, Mapping[str, Any]]]:
    """Return True for {query: {document: {subtopic: grade}}}, judging by the first document."""
    # A pass over all documents would cost every caller; a mixed input fails later with its place.
    judged = next(filter(None, qrels.values()), None)
    return isinstance(judged, Mapping) and isinstance(next(iter(judged.values())), Mapping)


def _check_topics(topics: Any, query: str, document: str) -> dict[str, int]:
    """Return subtopic as text -> grade of a document; raise a DataError that names the document."""
    place = f"qrels: query '{query}', document '{document}'"
    if not isinstance(topics, Mapping):
        problem = f"found {plain(topics)!r} where others have subtopics"
        raise DataError(problem, record=place, allowed="{subtopic: grade}")
    for topic in topics:
        if not isinstance(topic, (str, int)) or isinstance(topic, bool):
            raise DataError(f"subtopic {topic!r} is neither text nor an integer", record=place)
    try:
        grades = grade_row(topics, query)
    except DataError:
        # again: the error must name the document as well
        by_place = {f"{document}', subtopic '{topic}": grade for topic, grade in topics.items()}
        grades = grade_row(by_place, query)
    return dict(zip(map(str, topics), grades, strict=True))


def _subtopics_digest(subtopics: Subtopics) -> str:
    text = json.dumps(subtopics, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:12]


def _mixed(words: HashArray) -> HashArray:
    """Return a hash of each word: every bit of a word changes about half of the bits."""
    for shift in (32, 29, 32):
        words = (words ^ (words >> np.uint64(shift))) * GOLDEN
    words ^= words >> np.uint64(32)
    return words
