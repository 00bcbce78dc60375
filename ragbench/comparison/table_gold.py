"""Gold of the questions of a table, and the ranks at which the passages of its rows meet it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragbench.comparison.cause_rules import CauseRules, RankingFacts
from ragbench.comparison.gold import GoldPiece, find_answer, gold_pieces, meet_pieces
from ragbench.comparison.passage_places import PlacedRankings
from ragbench.score.text.gold_words import GoldWords
from ragbench.types import Collection, Document, Query, Span
from ragbench.types.documents import record_ids


def table_facts(
    collection: Collection, contexts: Sequence[Sequence[Document]], placed: PlacedRankings
) -> list[RankingFacts]:
    """Return the ranks at which the passages of each question meet its gold.

    Args:
        collection: Questions with their gold.
        contexts: Passages of each question, in their order.
        placed: Places of the passages of questions with gold spans.
    """
    corpus = frozenset(record_ids(collection.documents or ()))
    judged = {} if collection.qrels is None else collection.qrels.by_query
    facts = []
    for row, query in enumerate(collection.queries):
        passages = contexts[row]
        pieces = gold_pieces(judged.get(query.id, {}), collection.gold_spans.get(query.id, ()))
        ambiguous = tuple(collection.ambiguous_gold.get(query.id, ()))
        if ambiguous:
            facts.append(RankingFacts(ambiguous=ambiguous, retrieved=len(passages)))
        elif query.id not in judged:
            facts.append(_meet_answer(collection, query, passages))
        else:
            hits: list[tuple[str, Span | None]] = [(passage.id, None) for passage in passages]
            if any(piece.span is not None for piece in pieces):
                places = placed.spans.passages[row]
                hits = list(zip(placed.documents[row], places, strict=True))
            facts.append(meet_pieces(_unmet(pieces), pieces, hits, corpus))
    return facts


def table_parts(collection: Collection) -> dict[str, Any]:
    """Return the parts of a signature that tell which gold of a table is met."""
    judged = {} if collection.qrels is None else collection.qrels.by_query
    parts: dict[str, Any] = {
        "qrels": None if collection.qrels is None else collection.qrels.fingerprint()
    }
    if any(collection.gold_spans.values()) or collection.ambiguous_gold:
        parts["spans"] = collection.fingerprint("spans")
    if any(query not in judged for query in collection.answers):
        parts |= {"gold": collection.fingerprint("answers"), "words": CauseRules().words}
    return parts


def _unmet(pieces: Sequence[GoldPiece]) -> RankingFacts:
    """Return the facts of a judged question before any passage."""
    needs = {piece.need for piece in pieces}
    return RankingFacts(gold=len(needs), example=pieces[0].need if pieces else "")


def _meet_answer(
    collection: Collection, query: Query, passages: Sequence[Document]
) -> RankingFacts:
    """Return the facts of a question without judgements: the rank of its gold answer."""
    answers = collection.answers.get(query.id)
    words = GoldWords(answers, query.text) if answers else None
    if words is None or not words.can_be_found or (passages and not any(map(_has_text, passages))):
        return RankingFacts(retrieved=len(passages))
    rank, how = find_answer(words, passages, CauseRules().words)
    return RankingFacts(answer_rank=rank, answer_how=how, retrieved=len(passages))


def _has_text(passage: Document) -> bool:
    return bool(passage.full_text)
