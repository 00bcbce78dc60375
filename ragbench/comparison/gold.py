"""Gold of a query as pieces of evidence, and the ranks at which a ranking meets it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragbench.comparison.cause_rules import RankingFacts
from ragbench.records.causes import Loss
from ragbench.score.retrieval.found import MetGold
from ragbench.score.text.gold_words import GoldWords
from ragbench.types import Cause, Document, Span
from ragbench.types.spans import name_alternatives


@dataclass(frozen=True, slots=True)
class GoldPiece:
    """Piece of evidence for the answer to a query: a document as a whole, or a span of it.

    Attributes:
        document: Id of the document.
        grade: Grade of the document.
        span: Part of the document that has the evidence; None for the whole document.
        need: Name of what the piece provides. Pieces with one name are alternatives: a query that
            needs all of its gold needs one piece of each name.
    """

    document: str
    grade: int
    span: Span | None
    need: str

    def is_met_by(self, document: str | None, place: Span | None) -> bool:
        """Return True if a passage of a document, at a place in it, has any of the evidence."""
        if self.span is None:
            return document == self.document
        return place is not None and place.overlaps(self.span)


def gold_pieces(
    grades: Mapping[str, int], spans: Iterable[Span] = (), relevant: int = 1
) -> list[GoldPiece]:
    """Return the pieces of evidence of a query: its spans, and relevant documents without a span.

    Spans of documents that are not relevant are left out. Spans with one quote are alternatives, as
    where two relevant documents hold a sentence; their name has all of them, or the first two.

    Args:
        grades: Grade of each judged document.
        spans: Gold spans.
        relevant: Smallest grade of a relevant document.

    Example:
        >>> pieces = gold_pieces({"a": 1, "b": 2, "c": 0}, [Span("a", 0, 9, "Pay day.")])
        >>> [(piece.document, piece.need) for piece in pieces]
        [('a', 'a 0-9'), ('b', 'b')]
    """
    pieces, firsts = list[GoldPiece](), dict[str, str]()
    alternatives = dict[str, list[Span]]()
    for span in spans:
        if grades.get(span.document, relevant - 1) >= relevant:
            # white space may differ between two documents that hold a quote
            quote = " ".join(span.quote.split()) or span.label
            first = firsts.setdefault(quote, span.label)
            alternatives.setdefault(first, []).append(span)
    for group in alternatives.values():
        need = name_alternatives(group)
        for span in group:
            pieces.append(GoldPiece(span.document, grades[span.document], span, need))
    with_span = {piece.document for piece in pieces}
    for document, grade in grades.items():
        if grade >= relevant and document not in with_span:
            pieces.append(GoldPiece(document, grade, None, document))
    return pieces


def met_ranks(
    pieces: Sequence[GoldPiece], hits: Iterable[tuple[str | None, Span | None]]
) -> tuple[tuple[tuple[int, str], ...], tuple[int, ...]]:
    """Return (rank and name of each need that is met, best first; ranks of other passages).

    The latter are the ranks of passages of documents whose gold no hit meets, ascending.

    Args:
        pieces: Pieces of evidence of a query.
        hits: Document and place of each hit, best first; None where they are unknown.

    Example:
        >>> pieces = gold_pieces({"a": 1}, [Span("a", 0, 9)])
        >>> met_ranks(pieces, [("a", Span("a", 9, 20)), ("a", Span("a", 5, 20))])
        (((2, 'a 0-9'),), ())
        >>> met_ranks(pieces, [("b", None), ("a", Span("a", 9, 20))])
        ((), (2,))
    """
    first, document_ranks = dict[str, int](), dict[str, list[int]]()
    for rank, (document, place) in enumerate(hits, start=1):
        document_ranks.setdefault(document or "", []).append(rank)
        for piece in pieces:
            if piece.need not in first and piece.is_met_by(document, place):
                first[piece.need] = rank
    wrong_ranks = set[int]()
    for piece in pieces:
        if piece.need not in first:
            wrong_ranks.update(document_ranks.get(piece.document, ()))
    ranks = sorted((rank, need) for need, rank in first.items())
    return tuple(ranks), tuple(sorted(wrong_ranks))


def meet_pieces(
    facts: RankingFacts,
    pieces: Sequence[GoldPiece],
    hits: Sequence[tuple[str, Span | None]],
    corpus: Container[str] = (),
) -> RankingFacts:
    """Return the facts of a query with the ranks at which hits meet its pieces of evidence.

    A passage without a place may have a gold span, unless it is of a document of the corpus that
    is no gold document.

    Args:
        facts: Facts of the query without any hit.
        pieces: Pieces of evidence of the query, some of them spans.
        hits: Document and place of each hit, best first; the place is None where it is unknown.
        corpus: Ids of the documents of the corpus.
    """
    ranks, document_ranks = met_ranks(pieces, hits)
    gold = set()
    for piece in pieces:
        if piece.span is not None:
            gold.add(piece.document)
    unplaced = 0
    if gold:
        for rank, (document, place) in enumerate(hits, start=1):
            if place is None and (document in gold or document not in corpus):
                unplaced = rank
                break
    return facts._replace(
        ranks=ranks, document_ranks=document_ranks, retrieved=len(hits), unplaced=unplaced
    )


def find_answer(
    words: GoldWords, passages: Sequence[Document | None], least: float
) -> tuple[int, str]:
    """Return (rank of the first passage that has a gold answer, what it has of it).

    Ranks are from 1. If none has one, (0, the words that were looked for). `least` is the share of
    the words of a long gold answer that a passage has to have; None is a passage without text.
    """
    for rank, passage in enumerate(passages, start=1):
        how = "" if passage is None else words.find_in(passage.full_text, least)
        if how:
            return rank, how
    return 0, words.name_target(least)


def loss_of_answer(
    words: GoldWords,
    documents: Sequence[Document],
    passages: Sequence[Document],
    hits: Sequence[Document | None],
    least: float,
) -> Loss | None:
    """Return the loss of a gold answer that stands in a gold document, and in no passage of it.

    Only strong evidence counts: a short gold answer that stands in one of the documents word by
    word, and of which the passages have too few words. A single word and a digit stand in documents
    by chance, and sentences in other words: they are no evidence. None without evidence.

    Args:
        words: Gold answers of the query.
        documents: Gold documents of which a passage was read.
        passages: Passages that were read.
        hits: First hits of the ranking; None for a hit without text, or of another document.
        least: Share of the words of a gold answer that is enough.

    Example:
        >>> document = Document("leave.md", "You get 25 days. Leave expires in March.")
        >>> loss_of_answer(GoldWords(["25 days"], "How much leave?"), [document],
        ...     [Document("leave.md#1", "Leave expires in March.")], [], 0.5)[:2]
        ('wrong_passage', 'the gold answer stands in leave.md, in no passage that was read')
    """
    if not words.is_distinct:
        return None
    if words.share(" ".join(passage.full_text for passage in passages)).reaches(least):
        return None
    for document in documents:
        if words.stand_in(document.full_text):
            break
    else:
        return None
    reason = f"the gold answer stands in {document.id}, in no passage that was read"
    for rank, hit in enumerate(hits, start=1):
        if hit is not None and words.stand_in(hit.full_text):
            return Loss("ranked_too_low", f"{reason}, and in the hit at rank {rank}")
    return Loss("wrong_passage", reason)


def met_gold(facts: Sequence[RankingFacts], unknown_ids: Container[int] = ()) -> MetGold:
    """Return the ranks at which the rankings of all queries meet their gold, for measures.

    `unknown_ids` are the rows of judged queries none of whose hits has an id that is known.
    """
    any_ranks, all_ranks, unplaced, causes = [], [], [], []
    for row, entry in enumerate(facts):
        any_ranks.append(entry.met_at("any"))
        all_ranks.append(entry.met_at("all"))
        unplaced.append(entry.unplaced)
        has_unknown = row in unknown_ids and entry.gold is None
        causes.append(Cause.UNKNOWN_IDS if has_unknown else _cause_of(entry))
    return MetGold(
        np.array(any_ranks, np.int64),
        np.array(all_ranks, np.int64),
        np.array(unplaced, np.int64),
        np.array(causes, np.uint8),
    )


def _cause_of(facts: RankingFacts) -> Cause:
    """Return `SCORED` for a query with gold that a ranking can meet, else the reason why not."""
    if facts.ambiguous:
        return Cause.AMBIGUOUS_QUOTE
    if facts.gold is None:
        return Cause.NO_JUDGEMENTS if facts.answer_rank is None else Cause.SCORED
    return Cause.SCORED if facts.gold else Cause.NO_RELEVANT
