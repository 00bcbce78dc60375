"""Hits that are excluded for their query, which are dropped before scoring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from msgspec import structs

from ragbench.comparison.excluded import ExcludedHits, HitNames, find_excluded
from ragbench.comparison.hit_documents import document_resolver
from ragbench.experiment.calls import Outcome
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.stages.matching import document_id_of_hit
from ragbench.types import Retrieved, ScoredDocument


def drop_excluded(
    outcomes: Sequence[Outcome[Retrieved]], plan: Plan
) -> tuple[Sequence[Outcome[Retrieved]], ExcludedHits | None]:
    """Return the outcomes without the hits that are excluded for their query, and these hits.

    Without excluded documents in the data set the outcomes are returned as they are, and None.
    """
    by_query = plan.collection.excluded
    if not by_query:
        return outcomes, None
    names_of = _hit_names(plan)
    excluded = [by_query.get(query, frozenset()) for query in plan.ids]
    hits = list[Sequence[ScoredDocument]]()
    for names, outcome in zip(excluded, outcomes, strict=True):
        hits.append(outcome.value.documents if names and outcome.value is not None else ())
    rankings = []
    for of_query in hits:
        rankings.append([names_of(hit) for hit in of_query])
    corpus = {} if plan.collection.documents is None else plan.corpus
    by_rule = plan.config.metrics.retrieval.match.level == "document"
    of_all = find_excluded(rankings, excluded, corpus, by_rule=by_rule)
    scored = list[Outcome[Retrieved]]()
    for row, outcome in enumerate(outcomes):
        if any(of_all.marks[row]) and outcome.value is not None:
            allowed = of_all.keep(row, hits[row])
            outcome = replace(outcome, value=structs.replace(outcome.value, documents=allowed))
        scored.append(outcome)
    return scored, of_all


def _hit_names(plan: Plan) -> Callable[[ScoredDocument], HitNames]:
    """Return a function from a hit to its id and the id of its document, as it is scored."""
    match, documents = plan.config.metrics.retrieval.match, plan.collection.documents or ()
    resolve = cache(lambda: document_resolver(documents))

    def names_of(hit: ScoredDocument) -> HitNames:
        """Return the names of a hit; one without a document is its own."""
        if match.level == "document":
            return HitNames(hit.id, document_id_of_hit(hit, match, plan.corpus) or hit.id)
        if hit.document is not None or not documents or hit.id in plan.corpus:
            return HitNames(hit.id, hit.document or hit.id)
        return HitNames(hit.id, resolve()(hit) or hit.id)

    return names_of
