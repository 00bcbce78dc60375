"""Records of one system in a table, with the ids by which their passages are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from msgspec import structs

from ragbench.comparison.excluded import HitNames, find_excluded
from ragbench.comparison.hit_documents import document_resolver
from ragbench.comparison.id_pairs import QuestionIds, pair_ids
from ragbench.errors import DataError
from ragbench.score.retrieval.passage_matching import credit_alternatives
from ragbench.types import (
    Answered,
    Collection,
    ScoredDocument,
)
from ragbench.types.documents import record_ids


def records_of(collection: Collection) -> list[Answered]:
    """Return the record of each question, in their order; an empty one where there is none."""
    systems = [*collection.recorded_answers]
    if len(systems) > 1:
        problem = f"rows of {len(systems)} systems: {', '.join(systems)}"
        allowed = "rows of one system, or run_experiment, which compares systems"
        raise DataError(problem, record="evaluate", allowed=allowed)
    by_id = {}
    for record in chain.from_iterable(collection.recorded_answers.values()):
        group_heads = collection.alternatives.get(record.query_id)
        if group_heads is not None:
            record = _with_alternatives(record, group_heads, collection)
        by_id[record.query_id] = record if record.error is None else replace(record, answer=None)
    return [by_id.get(query.id, Answered(query.id)) for query in collection.queries]


def gold_answers(collection: Collection) -> list[list[str]]:
    """Return the gold answers of each question, in their order; [] for none."""
    return [collection.answers.get(query.id, []) for query in collection.queries]


def with_gold_ids(
    records: Sequence[Answered], collection: Collection
) -> tuple[list[Answered], list[str]]:
    """Return the records with the gold ids of hits in another spelling, and notes on them."""
    judged = {} if collection.qrels is None else collection.qrels.by_query
    questions = []
    for record in records:
        hits = [hit.id for hit in record.ranking or ()]
        questions.append(QuestionIds(judged.get(record.query_id, {}), hits))
    pairs = pair_ids(questions, frozenset(record_ids(collection.documents or ())))
    names, renamed = pairs.gold_of_hit, []
    for record in records:
        if names and record.ranking is not None:
            record = _with_ids(record, [names.get(hit.id, hit.id) for hit in record.ranking])
        renamed.append(record)
    return renamed, [*pairs.notes(), *pairs.warnings()]


def _with_alternatives(
    record: Answered, group_heads: Mapping[str, str], collection: Collection
) -> Answered:
    """Return a record whose hits have the ids that they are scored by, of alternatives of gold."""
    if record.ranking is None or collection.qrels is None:
        return record
    grades = collection.qrels.by_query.get(record.query_id, {})
    ids = [hit.id for hit in record.ranking]
    return _with_ids(record, credit_alternatives(ids, group_heads, grades))


def _with_ids(record: Answered, ids: Sequence[str]) -> Answered:
    """Return a record with other ids of its hits, in their order."""
    hits = record.ranking or []
    renamed = []
    for hit, name in zip(hits, ids, strict=True):
        renamed.append(structs.replace(hit, id=name))
    n_read = len(record.contexts or ())
    return replace(record, contexts=renamed[:n_read], further=renamed[n_read:])


def without_excluded(
    records: Sequence[Answered], collection: Collection
) -> tuple[Sequence[Answered], list[str]]:
    """Return the records without the passages that are excluded for their query, and notes."""
    if not collection.excluded:
        return records, []
    corpus = collection.documents or ()
    ids, document_of_hit = frozenset(record_ids(corpus)), document_resolver(corpus)
    excluded, rankings = [], []
    for record in records:
        names = collection.excluded.get(record.query_id, frozenset())
        names_of_hits = []
        for passage in (record.ranking or ()) if names else ():
            hit = ScoredDocument(passage.id, metadata=passage.metadata)
            document = None if hit.id in ids else document_of_hit(hit)
            names_of_hits.append(HitNames(hit.id, document or hit.id))
        excluded.append(names)
        rankings.append(names_of_hits)
    of_all = find_excluded(rankings, excluded, ids)
    scored_records = list[Answered]()
    for row, record in enumerate(records):
        if record.ranking is not None and any(of_all.marks[row]):
            n_read = of_all.marks[row][: len(record.contexts or ())].count(False)
            hits_left = of_all.keep(row, record.ranking)
            record = replace(record, contexts=hits_left[:n_read], further=hits_left[n_read:])
        scored_records.append(record)
    return scored_records, [*of_all.notes(), *of_all.warnings()]
