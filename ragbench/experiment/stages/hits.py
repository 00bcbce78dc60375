"""Hits of a ranking as the run folder stores them: passages, their places, and their gold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from ragbench.comparison.cause_rules import RankingFacts
from ragbench.comparison.forbidden import forbidden_marks
from ragbench.comparison.passage_places import place_rankings
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Answers, RetrieverRun
from ragbench.experiment.stages.gold import GoldFacts
from ragbench.experiment.stages.matching import passage_order, scored_ids
from ragbench.experiment.stages.passages import ranked_hits
from ragbench.records.manifest import ANSWER, SHOWN_HITS, HitsRow, StoredHit
from ragbench.types import ScoredDocument, Span


def stored_hits(
    gold: GoldFacts, ranking: RetrieverRun, depth: int = SHOWN_HITS
) -> list[HitsRow] | None:
    """Return the hits of each query for `hits/`; None where the run file has all that is known.

    That is a ranking of documents whose gold is whole documents: its ranks are those of the gold.
    The first `depth` hits are stored, and all that meet gold.
    """
    facts = gold.facts(ranking)
    by_words = any(entry.gold is None and entry.answer_rank is not None for entry in facts)
    by_ids = ranking.unmatched is None and not ranking.has_unknown_ids
    forbidden = gold.plan.collection.forbidden
    if by_ids and not gold.pieces and not by_words and not forbidden:
        return None
    documents = scored_ids(ranking, gold.plan)
    first_hits = [list(hits) for hits in _first_hits(gold, ranking, facts, depth)]
    ranked = [[hit for _, hit in hits] for hits in first_hits]
    corpus = gold.plan.collection.documents
    placed = place_rankings(ranked, [()] * len(first_hits), corpus, all_queries=True)
    marks = [[False] * len(hits) for hits in ranked]
    if forbidden:
        marks = forbidden_marks(ranked, [*map(forbidden.get, gold.plan.ids)], corpus)
    rows = []
    for row, query in enumerate(gold.plan.ids):
        of_hit, hits = documents.get(query, {}), list[StoredHit]()
        for place, (rank, hit) in enumerate(first_hits[row]):
            span = placed.spans.passages[row][place]
            document = of_hit.get(hit.id) or placed.documents[row][place]
            names = _gold_names(gold, query, document, span)
            if rank == facts[row].answer_rank:
                names = (ANSWER,)
            has_document = document != hit.id or document in gold.plan.corpus
            stored = _stored_hit(rank, hit, document, has_document, span, names)
            hits.append(structs.replace(stored, forbidden=marks[row][place]))
        rows.append(_hits_row(gold, query, facts[row], hits))
    return rows


def read_depth(plan: Plan, answers: Mapping[str, Answers], ranking: str) -> int:
    """Return the number of first hits that pages show: 10, or as many as a system reads."""
    depths = [SHOWN_HITS]
    for name, of_system in answers.items():
        system = plan.system(name)
        if system.ranking_of == ranking and system.generator is not None:
            depths.append(plan.passages(system.generator))
        elif system.ranking_of == ranking:
            for outcome in of_system.outcomes:
                value = outcome.value
                if value is not None:
                    depths.append(len(value.contexts or ()))
    return max(depths)


def _first_hits(
    gold: GoldFacts, ranking: RetrieverRun, facts: Sequence[RankingFacts], depth: int
) -> Iterator[list[tuple[int, ScoredDocument]]]:
    """Yield (rank, hit) of the first hits of each query, and of those that meet its gold."""
    order = passage_order(ranking, gold.plan)
    for query, outcome, ranking_facts in zip(gold.plan.ids, ranking.outcomes, facts, strict=True):
        ids = order.get(query, ())
        ranks = {rank for rank, _ in ranking_facts.ranks} | {ranking_facts.answer_rank or 0}
        ranks |= set(range(1, min(len(ids), depth) + 1))
        rank_of = {}
        for rank in sorted(ranks - {0}):
            rank_of[ids[rank - 1]] = rank
        yield [(rank_of[hit.id], hit) for hit in ranked_hits(outcome, [*rank_of])]


def _gold_names(gold: GoldFacts, query: str, document: str, span: Span | None) -> tuple[str, ...]:
    """Return the names of the gold that a passage of a document, at its place, meets."""
    if query not in gold.pieces:
        return (document,) if document in gold.relevant.get(query, ()) else ()
    pieces = gold.pieces[query]
    needs: dict[str, None] = {}
    for piece in pieces:
        if piece.is_met_by(document, span):
            needs[piece.need] = None
    return tuple(needs)


def _stored_hit(
    rank: int,
    hit: ScoredDocument,
    document: str,
    has_document: bool,
    span: Span | None,
    names: tuple[str, ...],
) -> StoredHit:
    """Return the record of a hit; a hit without a text of its own has no place."""
    is_placed = span is not None and span.document == document and hit.text is not None
    return StoredHit(
        rank=rank,
        id=hit.id,
        document=document if has_document else None,
        start=span.start if span is not None and is_placed else None,
        end=span.end if span is not None and is_placed else None,
        gold=names,
    )


def _hits_row(gold: GoldFacts, query: str, facts: RankingFacts, hits: list[StoredHit]) -> HitsRow:
    """Return the row of a query, with the rank at which the needed gold is complete."""
    needs: tuple[str, ...] = ()
    if facts.gold is None:
        needs = () if facts.answer_rank is None else (ANSWER,)
    elif query in gold.pieces:
        needs = tuple(dict.fromkeys(piece.need for piece in gold.pieces[query]))
    else:
        needs = tuple(gold.relevant.get(query, ()))
    gold_rank = facts.met_at(gold.rules.need)
    is_unknown = facts.failed or not needs or (facts.unplaced and not gold_rank)
    return HitsRow(
        query_id=query,
        needs=needs,
        gold_rank=None if is_unknown else gold_rank,
        unplaced=facts.unplaced,
        hits=tuple(hits),
    )
