"""Passages of a ranking in the order in which it is scored, and those of a generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from ragbench.experiment.calls import Outcome
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import RetrieverRun
from ragbench.experiment.stages.matching import document_of, documents_of, passage_order
from ragbench.types import Document, Retrieved, ScoredDocument
from ragbench.types.lookups import index_by_id


def ranked_passages(
    outcome: Outcome[Retrieved], ranked: Sequence[str], corpus: Mapping[str, Document]
) -> list[Document | None]:
    """Return the documents with the ids `ranked`, in this order; None for one without text.

    The result is None too for an id that no hit has. Of a repeated hit the first one counts; a
    failed outcome has no hits.
    """
    documents = {}
    for hit in ranked_hits(outcome, ranked):
        documents[hit.id] = document_of(hit, corpus)
    return [documents.get(name) for name in ranked]


def ranked_hits(outcome: Outcome[Retrieved], ranked: Sequence[str]) -> list[ScoredDocument]:
    """Return the hits with the ids `ranked`, in this order; an id that no hit has is left out.

    Of a repeated hit the first one counts; a failed outcome has no hits.
    """
    hits = [] if outcome.value is None else outcome.value.documents
    by_id = index_by_id(reversed(hits))
    ordered = []
    for name in ranked:
        if name in by_id:
            ordered.append(by_id[name])
    return ordered


def hits_to_place(
    ranking: RetrieverRun, plan: Plan, depth: int | None = None
) -> list[list[ScoredDocument]]:
    """Return the hits of each query with gold spans, as `hits_of` does; other queries have []."""
    return hits_of(ranking, plan, plan.collection.gold_spans, depth)


def hits_of(
    ranking: RetrieverRun, plan: Plan, queries: Mapping[str, object], depth: int | None = None
) -> list[list[ScoredDocument]]:
    """Return the hits of some queries, best first, with the documents they are of.

    They are passages as they were retrieved, before they are folded or matched. A query without
    hits has [].

    Args:
        ranking: Ranking of the hits.
        plan: Plan with the queries and the rule that names documents.
        queries: Mapping with a true value for each query to read; other queries have [].
        depth: Largest number of hits of a query; None takes all.
    """
    by_key = plan.config.metrics.retrieval.match.level == "document"
    documents = dict(documents_of(ranking, plan)) if by_key else {}
    order, rows = passage_order(ranking, plan), []
    for query, outcome in zip(plan.ids, ranking.outcomes, strict=True):
        is_read, of_hit = queries.get(query), documents.get(query, {})
        hits = ranked_hits(outcome, order.get(query, ())[:depth]) if is_read else []
        rows.append([structs.replace(h, document=h.document or of_hit.get(h.id)) for h in hits])
    return rows


def passages_of(
    outcome: Outcome[Retrieved], corpus: Mapping[str, Document], passages: int
) -> list[Document] | None:
    """Return the first `passages` hits as documents with text; None if retrieval failed.

    A hit without a text of its own or in the corpus is left out. Hits are in their order; [] if
    none has a text.
    """
    if outcome.value is None:
        return None
    documents: list[Document] = []
    for hit in outcome.value.documents:
        if len(documents) == passages:
            break
        if (document := document_of(hit, corpus)) is not None:
            documents.append(document)
    return documents
