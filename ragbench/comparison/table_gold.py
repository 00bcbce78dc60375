"""Gold of the questions of a table, and the ranks at which the passages of its rows meet it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from ragbench.comparison.cause_rules import CauseRules, RankingFacts
from ragbench.comparison.gold import GoldPiece, find_answer, gold_pieces, meet_pieces
from ragbench.comparison.hit_documents import document_resolver
from ragbench.comparison.passage_places import PlacedRankings, place_rankings
from ragbench.score.text.gold_words import GoldWords
from ragbench.types import Answered, Collection, Document, Query, ScoredDocument, Span
from ragbench.types.documents import record_ids


class TablePassages(NamedTuple):
    """Passages of the rows of a table as hits, and their places in the documents.

    Attributes:
        hits: Passages of each question, each once, in their order, with the documents they are of.
        placed: Places of the passages of questions with gold spans.
        has_unknown_ids: True if no passage is judged or of a document of the corpus.
    """

    hits: Sequence[Sequence[ScoredDocument]]
    placed: PlacedRankings
    has_unknown_ids: bool

    @classmethod
    def of(cls, collection: Collection, records: Sequence[Answered]) -> TablePassages:
        """Return the passages of the records of a table; a record without any has no passages."""
        corpus = collection.documents or []
        hits = _name_documents([_distinct_hits(record.ranking or ()) for record in records], corpus)
        gold = [collection.gold_spans.get(query.id, ()) for query in collection.queries]
        judged = set() if collection.qrels is None else {*collection.qrels.documents}
        names: set[str | None] = set()
        for row in hits:
            for hit in row:
                names.update((hit.id, hit.document))
        has_unknown_ids = bool(judged and names) and names.isdisjoint(
            {*judged, *record_ids(corpus)}
        )
        return cls(hits, place_rankings(hits, gold, collection.documents), has_unknown_ids)


def _distinct_hits(passages: Sequence[Document]) -> list[ScoredDocument]:
    """Return the passages as hits without repeated ones, which count once, as in a ranking."""
    first = dict[tuple[str, str], ScoredDocument]()
    for passage in passages:
        hit = ScoredDocument(
            passage.id, text=passage.text, title=passage.title, metadata=passage.metadata
        )
        # chunks may have the id of their document: their texts tell them apart
        first.setdefault((passage.id, passage.text), hit)
    return list(first.values())


def _name_documents(
    rankings: list[list[ScoredDocument]], corpus: Sequence[Document]
) -> list[list[ScoredDocument]]:
    """Return the hits with the documents that they are of, if the corpus lacks any of their ids."""
    # Documents are found by path, file name or title, as in a run.
    ids = frozenset(record_ids(corpus))
    if not corpus or all(hit.id in ids for hits in rankings for hit in hits):
        return rankings
    document_of_hit = document_resolver(corpus)
    renamed = []
    for hits in rankings:
        renamed.append([structs.replace(hit, document=document_of_hit(hit)) for hit in hits])
    return renamed


def table_facts(
    collection: Collection, passages: TablePassages, answerable: Sequence[bool | None]
) -> list[RankingFacts]:
    """Return the ranks at which the passages of each question meet its gold.

    `answerable` is False for a question without an answer, whose gold answer is not searched.
    """
    facts = judged_facts(collection, passages)
    for row, ranking in enumerate(facts):
        if ranking.gold is None and not ranking.ambiguous and answerable[row] is not False:
            facts[row] = _meet_answer(collection, collection.queries[row], passages.hits[row])
    return facts


def judged_facts(collection: Collection, passages: TablePassages) -> list[RankingFacts]:
    """Return the ranks at which the passages of each question meet its gold documents and spans.

    A question without judgements has no gold; its gold answer is not searched.
    """
    corpus = frozenset(record_ids(collection.documents or ()))
    facts = []
    for row, query in enumerate(collection.queries):
        ambiguous = tuple(collection.ambiguous_gold.get(query.id, ()))
        if ambiguous:
            facts.append(RankingFacts(ambiguous=ambiguous, retrieved=len(passages.hits[row])))
        else:
            facts.append(_meet_gold(collection, passages, row, corpus))
    return facts


def _meet_gold(
    collection: Collection, passages: TablePassages, row: int, corpus: Container[str]
) -> RankingFacts:
    """Return the facts of a question with judgements; those of one without have no gold."""
    query, hits = collection.queries[row].id, passages.hits[row]
    grades = None if collection.qrels is None else collection.qrels.by_query.get(query)
    if grades is None:
        return RankingFacts(retrieved=len(hits))
    pieces = gold_pieces(grades, collection.gold_spans.get(query, ()))
    places: list[tuple[str, Span | None]] = [(hit.document or hit.id, None) for hit in hits]
    is_placed = any(piece.span is not None for piece in pieces)
    if is_placed:
        spans = passages.placed.spans.passages[row]
        places = list(zip(passages.placed.documents[row], spans, strict=True))
    ranking = meet_pieces(_unmet(pieces), pieces, places, corpus)
    # judgements of other ids say nothing, unless all passages have places
    is_unknown = passages.has_unknown_ids and not (is_placed and not ranking.unplaced)
    return RankingFacts(retrieved=len(hits)) if is_unknown and ranking.gold else ranking


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
    collection: Collection, query: Query, hits: Sequence[ScoredDocument]
) -> RankingFacts:
    """Return the facts of a question without judgements: the rank of its gold answer."""
    answers, passages = collection.answers.get(query.id), [hit.to_document() for hit in hits]
    words = GoldWords(answers, query.text) if answers else None
    has_texts = any(passage.full_text for passage in passages)
    if words is None or not words.can_be_found or (passages and not has_texts):
        return RankingFacts(retrieved=len(passages))
    rank, how = find_answer(words, passages, CauseRules().words)
    return RankingFacts(answer_rank=rank, answer_how=how, retrieved=len(passages))
